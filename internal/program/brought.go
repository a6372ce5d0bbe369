package program

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// brought are the files that a program brings for its foreign tools, by their names in
// its folder, as they were when it was loaded. They are part of what is trusted, and
// these bytes are what runs: whatever a worker writes to the files is nothing but a
// change that asks for trust again.
type toolFiles map[string][]byte

// The most that a program may bring.
const (
	maxToolFile  = 32 << 20 // of a file
	maxToolBytes = 64 << 20
	maxToolFiles = 2000
)

// readToolFiles reads all that foreign tools name.
func (p *Program) readToolFiles() (all toolFiles, problems strictyaml.Problems) {
	all = make(toolFiles)
	for _, w := range p.Workers {
		for _, c := range w.Custom {
			p.readProgramFiles(all, c.Foreign, &problems)
			p.readToolFile(all, c.Schema, worker.MaxDescription, &problems)
		}
		for _, s := range w.Servers {
			p.readProgramFiles(all, s.Foreign, &problems)
		}
	}
	return all, problems
}

func (p *Program) readProgramFiles(all toolFiles, f worker.Foreign, problems *strictyaml.Problems) {
	for i, word := range f.Command {
		switch info, err := os.Lstat(filepath.Join(p.root, word.Text)); {
		case worker.IsFile(word.Text):
			p.readToolFile(all, word, maxToolFile, problems)
		case i > 0 && filepath.IsLocal(word.Text) && err == nil && info.Mode().IsRegular():
			problems.Add(word, "the word "+sandbox.Shown(word.Text)+" is a file of the program, which the tool would not see", "write ./"+sandbox.Shown(word.Text))
		}
	}
	for _, word := range f.With {
		info, err := os.Lstat(filepath.Join(p.root, worker.FileOf(word.Text)))
		if err != nil || !info.IsDir() {
			p.readToolFile(all, word, maxToolFile, problems)
			continue
		}
		p.readToolDir(all, word, problems)
	}
}

// readToolFile reads one file. A name that no file can have was told before.
func (p *Program) readToolFile(all toolFiles, at strictyaml.Node, most int64, problems *strictyaml.Problems) {
	name := worker.FileOf(at.Text)
	if at.Kind != strictyaml.Scalar || !filepath.IsLocal(name) || all[name] != nil {
		return
	}
	data, err := readFile(p.root, name, most)
	sum := len(data)
	for _, other := range all {
		sum += len(other)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		problems.Add(at, "no file "+sandbox.Shown(name), "it is looked for in the program's folder")
	case err != nil:
		problems.Add(at, "the file "+sandbox.Shown(name)+": "+causeOf(err), "it must be a regular file that you can read")
	case int64(len(data)) > most:
		problems.Add(at, "the file "+sandbox.Shown(name)+" is too large", fmt.Sprintf("%d bytes are the most", most))
	case sum > maxToolBytes || len(all) >= maxToolFiles:
		problems.Add(at, "the files of foreign tools are too many or too large in all", fmt.Sprintf("%d files, and %d bytes in sum, are the most", maxToolFiles, maxToolBytes))
	default:
		all[name] = append([]byte{}, data...) // an empty one is there, too
	}
}

func causeOf(err error) string {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return err.Error()
}

// readToolDir reads what is in a folder. Links in it are left alone: they are not seen.
func (p *Program) readToolDir(all toolFiles, at strictyaml.Node, problems *strictyaml.Problems) {
	root, err := os.OpenRoot(p.root)
	if err != nil {
		problems.Add(at, causeOf(err), "")
		return
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), worker.FileOf(at.Text), func(name string, d fs.DirEntry, err error) error {
		before := len(*problems)
		if err == nil && d.Type().IsRegular() {
			p.readToolFile(all, strictyaml.Node{Place: at.Place, Kind: strictyaml.Scalar, Text: name}, maxToolFile, problems)
		}
		if len(*problems) > before {
			return fs.SkipAll
		}
		return err
	})
	if err != nil {
		problems.Add(at, "the folder "+sandbox.Shown(at.Text)+": "+causeOf(err), "it must be a folder that you can read")
	}
}

// maxTrustedText is the longest file that is kept as it is, to show what has changed.
const maxTrustedText = 256 << 10

// recordedText is what is kept of a file that was brought: a text, or its hash behind what no
// text has.
func recordedText(data []byte) string {
	if len(data) <= maxTrustedText && utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		return string(data)
	}
	return fmt.Sprintf("\x00%x, %d bytes\n", sha256.Sum256(data), len(data))
}

// of returns the names of those files that a foreign program sees.
func (b toolFiles) of(f worker.Foreign) []string {
	var names []string
	for _, word := range f.Command {
		if name := worker.FileOf(word.Text); worker.IsFile(word.Text) && b[name] != nil {
			names = append(names, name)
		}
	}
	for _, word := range f.With {
		for name := range b {
			if top := worker.FileOf(word.Text); isUnder(name, top) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// hash is of these files.
func (b toolFiles) hash(names []string) string {
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%d %s %d ", len(name), name, len(b[name]))
		h.Write(b[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Where the files of a foreign program stand inside, and the variable that says so.
const (
	foreignDir = jail.Tools + "/tool"
	foreignVar = "GOLEM_TOOL"
)

// writeToolFiles puts the files of a foreign program where commands can be shown them, and returns
// the mount; none for one that has no files.
func (p *Program) writeToolFiles(f worker.Foreign) ([]jail.Mount, error) {
	names := p.toolFiles.of(f)
	if len(names) == 0 {
		return nil, nil
	}
	all := filepath.Join(p.state, "programs")
	dir := filepath.Join(all, p.toolFiles.hash(names))
	mount := []jail.Mount{{Source: sandbox.Host(dir), Target: foreignDir}}
	if _, err := os.Stat(dir); err == nil {
		return mount, nil
	}
	if err := os.MkdirAll(all, 0o700); err != nil {
		return nil, plainError("the programs of tools", err)
	}
	temp, err := os.MkdirTemp(all, "new-")
	if err != nil {
		return nil, plainError("the programs of tools", err)
	}
	defer os.RemoveAll(temp)
	for _, name := range names {
		file := filepath.Join(temp, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, plainError("the programs of tools", err)
		}
		if err := os.WriteFile(file, p.toolFiles[name], 0o755); err != nil {
			return nil, plainError("the programs of tools", err)
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return nil, plainError("the programs of tools", err)
	}
	if err := durable.SyncTree(temp); err != nil { // its name promises its content
		return nil, plainError("the programs of tools", err)
	}
	if err := durable.Rename(temp, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return nil, plainError("the programs of tools", err)
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
