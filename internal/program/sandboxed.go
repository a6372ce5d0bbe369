package program

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/foreigntools"
	"github.com/golem-forge/golem/internal/inventory"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/internal/trust"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// CopyTrust copies what the user trusts into another directory of golem's state: the
// program, its instructions, and the tools of its MCP servers. A run with that state
// changes nothing in the state of p.
func CopyTrust(p *Program, to string) error {
	for _, dir := range instructionDirs(p) {
		for _, name := range []string{inventory.StateName(dir), inventory.StateName(dir) + inventory.BareSuffix} {
			if err := copyTrust(filepath.Join(p.Storage.Base, name), filepath.Join(to, name), dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyTrust copies the records of what the user trusts from one state directory of a program
// into another one.
func copyTrust(from, to, root string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return visible.FileError("the state", err)
	}
	for _, e := range entries {
		if !trust.IsRecord(e.Name()) && !foreigntools.IsRecord(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return visible.FileError("the state", err)
		}
		dir, err := state.Open(to)
		if err != nil {
			return err
		}
		err = errors.Join(inventory.Describe(dir, to, root), dir.Update(e.Name(), func([]byte) ([]byte, error) { return data, nil }), dir.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckSandbox returns an error if a run cannot keep everything in dir: a worker would see
// it, or golem would have to make a directory of the program first.
func CheckSandbox(p *Program, dir string) error {
	fail := func(path, hint string) error {
		return &sandbox.Error{Op: "--sandbox", Path: path, Code: sandbox.ErrInvalid, Hint: hint}
	}
	for _, m := range p.Project.Mounts {
		host := m.RealHostDir()
		for _, pair := range [][2]string{{host, dir}, {dir, host}} {
			if rel, err := filepath.Rel(pair[0], pair[1]); err == nil && filepath.IsLocal(rel) {
				return fail(dir, "the worker would see it: "+m.Target+" is "+host+"; name a directory elsewhere, such as "+filepath.Join(os.TempDir(), "try"))
			}
		}
		if m.Access() < sandbox.ReadWrite && m.Mode != project.Overlay {
			continue
		}
		if _, err := os.Stat(host); err != nil {
			return fail(m.Target, "its directory "+strings.TrimPrefix(strings.TrimPrefix(host, p.root), string(filepath.Separator))+" does not exist, and this run makes none; make it with mkdir -p "+visible.CommandLine(host))
		}
	}
	return nil
}
