package trust

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

	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// ToolFiles are the files of a program's foreign tools, by their names in its directory,
// as they were when the program was loaded. They are part of the content that the user
// trusts, and golem runs these bytes: if a worker changes a file, golem asks for trust
// again.
type ToolFiles map[string][]byte

// The limits of tool files.
const (
	maxToolFile  = 32 << 20  // bytes of a file
	maxToolBytes = 128 << 20 // of all
	maxToolFiles = 20_000
)

// ReadToolFiles reads all files that the foreign tools of workers name.
func ReadToolFiles(root string, workers []*worker.Worker) (ToolFiles, strictyaml.Problems) {
	r := toolFileReader{root: root, files: make(ToolFiles)}
	for _, w := range workers {
		for _, c := range w.Custom {
			r.readProgram(c.Foreign)
			r.readFile(c.Schema, worker.MaxDescription)
		}
		for _, s := range w.Servers {
			r.readProgram(s.Foreign)
		}
		for _, h := range w.Hooks {
			r.readProgram(h.Foreign)
		}
	}
	return r.files, r.problems
}

// A toolFileReader collects tool files, and the problems with them.
type toolFileReader struct {
	root     string
	files    ToolFiles
	bytes    int // of files
	problems strictyaml.Problems
}

func (r *toolFileReader) readProgram(f worker.Foreign) {
	for i, word := range f.Command {
		switch info, err := os.Lstat(filepath.Join(r.root, word.Text)); {
		case worker.IsFile(word.Text):
			r.readFile(word, maxToolFile)
		case i > 0 && filepath.IsLocal(word.Text) && err == nil && info.Mode().IsRegular():
			r.problems.Add(word, "the word "+sandbox.Shown(word.Text)+" is a file of the program, which the tool would not see", "write ./"+sandbox.Shown(word.Text))
		}
	}
	for _, word := range f.With {
		info, err := os.Lstat(filepath.Join(r.root, worker.FileOf(word.Text)))
		if err != nil || !info.IsDir() {
			r.readFile(word, maxToolFile)
			continue
		}
		r.readDir(word)
	}
}

// readFile reads one file. It reports nothing about a name that no file can have: the
// worker's file was refused for it already.
func (r *toolFileReader) readFile(at strictyaml.Node, limit int64) {
	name := worker.FileOf(at.Text)
	if at.Kind == strictyaml.Scalar && filepath.IsLocal(name) && r.files[name] == nil {
		data, err := project.ReadFile(r.root, name, limit)
		r.add(at, name, limit, data, err)
	}
}

// add adds a file that was read. It reports whether there is no problem with it.
func (r *toolFileReader) add(at strictyaml.Node, name string, limit int64, data []byte, err error) bool {
	before := len(r.problems)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.problems.Add(at, "no file "+sandbox.Shown(name), "golem looks for it in the program's directory")
	case err != nil:
		r.problems.Add(at, "the file "+sandbox.Shown(name)+": "+causeOf(err), "it must be a regular file that you can read")
	case int64(len(data)) > limit:
		r.problems.Add(at, "the file "+sandbox.Shown(name)+" is too large", fmt.Sprintf("at most %d bytes are allowed", limit))
	case r.bytes+len(data) > maxToolBytes || len(r.files) >= maxToolFiles:
		r.problems.Add(at, "the files of foreign tools are too many or too large in all", fmt.Sprintf("at most %d files and %d bytes in all are allowed; leave out what the tools do not need, such as tests and sources of dependencies", maxToolFiles, maxToolBytes))
	default:
		r.files[name] = append([]byte{}, data...) // not nil, even if the file is empty
		r.bytes += len(data)
	}
	return len(r.problems) == before
}

// readDir reads the regular files in a directory. It skips symlinks: the tool does not see
// them either.
func (r *toolFileReader) readDir(at strictyaml.Node) {
	root, err := os.OpenRoot(r.root)
	if err != nil {
		r.problems.Add(at, causeOf(err), "")
		return
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), worker.FileOf(at.Text), func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || r.files[name] != nil {
			return err
		}
		data, err := project.ReadFileIn(root, name, maxToolFile)
		if !r.add(at, name, maxToolFile, data, err) {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		r.problems.Add(at, "the directory "+sandbox.Shown(at.Text)+": "+causeOf(err), "it must be a directory that you can read")
	}
}

func causeOf(err error) string {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return err.Error()
}

// The limits of tool files that a record holds in full, for later diffs.
const (
	maxRecordedText  = 256 << 10 // of a file
	maxRecordedTexts = 4 << 20   // of all; a record of more has none, but hashes
)

// holdsTexts reports whether a record holds the texts of the files.
func (t ToolFiles) holdsTexts() bool {
	sum := 0
	for _, data := range t {
		sum += min(len(data), maxRecordedText)
	}
	return sum <= maxRecordedTexts
}

// recordedText returns what a record holds of a tool file: its text, or its hash after a
// NUL, which no text has.
func recordedText(data []byte, full bool) string {
	if full && len(data) <= maxRecordedText && utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		return string(data)
	}
	return fmt.Sprintf("\x00%x, %d bytes\n", sha256.Sum256(data), len(data))
}

// NamesOf returns the names of the files that a foreign program sees, sorted.
func (t ToolFiles) NamesOf(f worker.Foreign) []string {
	var names []string
	for _, word := range f.Command {
		if name := worker.FileOf(word.Text); worker.IsFile(word.Text) && t[name] != nil {
			names = append(names, name)
		}
	}
	for _, word := range f.With {
		for name := range t {
			if top := worker.FileOf(word.Text); name == top || strings.HasPrefix(name, top+"/") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Hash returns a hash of the names and contents of some files.
func (t ToolFiles) Hash(names []string) string {
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%d %s %d ", len(name), name, len(t[name]))
		h.Write(t[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Describe returns the description of a custom tool from its schema file.
func (t ToolFiles) Describe(c worker.Custom) (worker.Description, error) {
	name := worker.FileOf(c.Schema.Text)
	return worker.Describe(name, t[name])
}
