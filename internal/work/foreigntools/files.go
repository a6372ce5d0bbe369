package foreigntools

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// The directory of a foreign program's files in the jail, and the variable that names it.
const (
	foreignDir = jail.Tools + "/tool"
	foreignVar = "GOLEM_TOOL"
)

// WriteFiles writes the files of a foreign program into the state directory, and returns
// the mount that shows them to its commands; none if it has no files.
func (x Tools) WriteFiles(f worker.Foreign) ([]jail.Mount, error) {
	names := x.Files.NamesOf(f)
	if len(names) == 0 {
		return nil, nil
	}
	all := filepath.Join(x.State, "programs")
	dir := filepath.Join(all, x.Files.Hash(names))
	mount := []jail.Mount{{Source: sandbox.Host(dir), Target: foreignDir}}
	if _, err := os.Stat(dir); err == nil {
		return mount, nil
	}
	if err := os.MkdirAll(all, 0o700); err != nil {
		return nil, visible.FileError("the programs of tools", err)
	}
	temp, err := os.MkdirTemp(all, "new-")
	if err != nil {
		return nil, visible.FileError("the programs of tools", err)
	}
	defer os.RemoveAll(temp)
	for _, name := range names {
		file := filepath.Join(temp, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, visible.FileError("the programs of tools", err)
		}
		if err := os.WriteFile(file, x.Files[name], 0o755); err != nil {
			return nil, visible.FileError("the programs of tools", err)
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return nil, visible.FileError("the programs of tools", err)
	}
	if err := durable.SyncTree(temp); err != nil { // the name of the directory is the hash of its content
		return nil, visible.FileError("the programs of tools", err)
	}
	if err := durable.Rename(temp, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return nil, visible.FileError("the programs of tools", err)
		}
	}
	return mount, nil
}

// stateDir is the directory in the jail that a program keeps its files in.
const stateDir = jail.Tools + "/state"

// OpenState makes the directory in which a program of a worker keeps files between runs. It
// returns the mount and the variables with paths in it, none if the program keeps nothing.
func (x Tools) OpenState(f worker.Foreign, name string) (mounts []jail.Mount, env []string, err error) {
	if len(f.State) == 0 {
		return nil, nil, nil
	}
	dir := filepath.Join(x.State, "servers", name, f.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, visible.FileError("the directory of the server "+f.Name, err)
	}
	for _, word := range f.State {
		name, path, _ := strings.Cut(word.Text, "=")
		env = append(env, name+"="+stateDir+"/"+path)
	}
	return []jail.Mount{{Source: sandbox.Host(dir), Target: stateDir, Write: true}}, env, nil
}

// commandOf returns the command that runs a foreign program. The shell looks up programs
// of the system in PATH; files of the program are below foreignDir.
func commandOf(f worker.Foreign) jail.Command {
	line := "exec"
	for _, word := range f.Command {
		if worker.IsFile(word.Text) {
			line += ` "$` + foreignVar + `"/` + jail.QuoteWord(worker.FileOf(word.Text))
			continue
		}
		line += " " + jail.QuoteWord(word.Text)
	}
	return jail.Command{Path: "/bin/sh", Args: []string{"sh", "-c", line}, Env: []string{foreignVar + "=" + foreignDir}, Dir: jail.Work}
}
