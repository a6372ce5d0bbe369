package program

import (
	"github.com/golem-forge/golem/internal/lint"
	"github.com/golem-forge/golem/internal/strictyaml"
)

// Respellings returns the keys in the files of the program that are not written in
// snake_case.
func Respellings(p *Program) []strictyaml.Respelling { return lint.Respellings(linted(p)) }

// Respell writes these keys in snake_case, and changes nothing else in the files. It
// returns the keys that it could not change.
func Respell(p *Program) (skipped []strictyaml.Respelling, err error) { return lint.Respell(linted(p)) }

func linted(p *Program) lint.Program {
	return lint.Program{Root: p.root, Project: p.Project, Workers: p.Workers, Content: p.Content}
}
