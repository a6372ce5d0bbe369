package lint

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/decide/trust"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
)

// A Program is what lint reads of a program.
type Program struct {
	Root    string           // its directory
	Project *project.Project // nil if the file could not be read
	Workers []*worker.Worker
	Content trust.Content
}

// Respellings returns the keys in the files of the program that are not written in
// snake_case.
func Respellings(p Program) []strictyaml.Respelling {
	var list []strictyaml.Respelling
	for _, name := range slices.Sorted(maps.Keys(p.Content.Files)) {
		list = append(list, respellingsIn(p, name)...)
	}
	return list
}

func respellingsIn(p Program, name string) []strictyaml.Respelling {
	data := []byte(p.Content.Files[name])
	if p.Project != nil && name == p.Project.File {
		return project.Respellings(name, data)
	}
	if slices.ContainsFunc(p.Workers, func(w *worker.Worker) bool { return w.File == name }) {
		return worker.Respellings(name, data)
	}
	return nil
}

// Respell writes these keys in snake_case, and changes nothing else in the files. It
// returns the keys that it could not change.
func Respell(p Program) (skipped []strictyaml.Respelling, err error) {
	for _, name := range slices.Sorted(maps.Keys(p.Content.Files)) {
		list := respellingsIn(p, name)
		if len(list) == 0 {
			continue
		}
		old := []byte(p.Content.Files[name])
		changed, not := strictyaml.ApplyRespellings(old, list)
		skipped = append(skipped, not...)
		if bytes.Equal(changed, old) {
			continue
		}
		if err := replaceUnchanged(filepath.Join(p.Root, filepath.FromSlash(name)), old, changed); err != nil {
			return skipped, err
		}
	}
	return skipped, nil
}

// replaceUnchanged replaces a file if it is a regular file with the old content.
func replaceUnchanged(file string, old, changed []byte) error {
	info, err := os.Lstat(file)
	if err != nil {
		return visible.FileError(file, err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s: it is a symlink; run golem lint --fix where its target is, or change the target yourself", visible.Text(file))
	}
	now, err := os.ReadFile(file)
	if err != nil {
		return visible.FileError(file, err)
	}
	if !bytes.Equal(now, old) {
		return fmt.Errorf("%s: it changed meanwhile and stays as it is; run golem lint --fix again", visible.Text(file))
	}
	if err := durable.WriteFile(file, changed, info.Mode().Perm()); err != nil {
		return visible.FileError(file, err)
	}
	return nil
}
