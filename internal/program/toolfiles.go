package program

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// Where the files of a foreign program stand inside, and the variable that says so.
const (
	foreignDir = jail.Tools + "/tool"
	foreignVar = "GOLEM_TOOL"
)

// writeToolFiles puts the files of a foreign program where commands can be shown them, and returns
// the mount; none for one that has no files.
func (x foreignTools) writeFiles(f worker.Foreign) ([]jail.Mount, error) {
	names := x.files.NamesOf(f)
	if len(names) == 0 {
		return nil, nil
	}
	all := filepath.Join(x.state, "programs")
	dir := filepath.Join(all, x.files.Hash(names))
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
		if err := os.WriteFile(file, x.files[name], 0o755); err != nil {
			return nil, visible.FileError("the programs of tools", err)
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return nil, visible.FileError("the programs of tools", err)
	}
	if err := durable.SyncTree(temp); err != nil { // its name promises its content
		return nil, visible.FileError("the programs of tools", err)
	}
	if err := durable.Rename(temp, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return nil, visible.FileError("the programs of tools", err)
		}
	}
	return mount, nil
}

// commandOf is what a foreign program is run by: a shell finds a program of the system
// as it does for users, and files of the program where they stand inside.
func commandOf(f worker.Foreign) jail.Command {
	line := "exec"
	for _, word := range f.Command {
		if worker.IsFile(word.Text) {
			line += ` "$` + foreignVar + `"/` + quotedWord(worker.FileOf(word.Text))
			continue
		}
		line += " " + quotedWord(word.Text)
	}
	return jail.Command{Path: "/bin/sh", Args: []string{"sh", "-c", line}, Env: []string{foreignVar + "=" + foreignDir}, Dir: jail.Work}
}

// quotedWord returns a word as a shell reads it back.
func quotedWord(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
