package changes

import (
	"bytes"
	"path"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// Losses finds the files that are lost with directories that changes delete or replace, and
// the directories that were only moved. An overlay lists such a directory without its files.
type Losses struct {
	Left int // how many more names golem looks at

	// FindMoves sets these.
	Moves []Move
	Moved map[string]Move    // by old name of the directory
	Was   map[string]OldFile // the old file of each new one in a moved directory, by new name
	Kept  map[string]bool    // the old names of these files

	files  contentReader
	most   int64                // bytes of a file; golem does not read larger ones
	listed map[string][]OldFile // by name of the directory
}

// A contentReader lists and reads the files of changes: see Transaction and Texts.
type contentReader interface {
	oldFiles(c *Change, left *int) []OldFile
	Content(c Change, most int64) (old, new []byte, err error)
}

// maxOldNames is how many names in directories that are gone golem looks at, in all.
const maxOldNames = 100_000

// NewLosses returns a Losses without moves. It reads no file with more than most bytes.
func NewLosses(files contentReader, most int64) *Losses {
	return &Losses{Left: maxOldNames, files: files, most: most, listed: make(map[string][]OldFile)}
}

// List returns the files in a directory that is gone.
func (l *Losses) List(c Change) []OldFile {
	name := c.Name()
	if _, ok := l.listed[name]; !ok && l.Left > 0 {
		l.listed[name] = l.files.oldFiles(&c, &l.Left)
	}
	return l.listed[name]
}

// Read returns the content of an old file, nil if golem cannot read it.
func (l *Losses) Read(f OldFile) []byte {
	old, _, _ := l.files.Content(f.change(), l.most)
	return old
}

// CountLines returns how many lines an old file has, 0 if it is not a text. ok is false if golem
// cannot read it.
func (l *Losses) CountLines(f OldFile) (lines int, ok bool) {
	text := l.Read(f)
	if bytes.IndexByte(text, 0) >= 0 {
		return 0, true
	}
	lines = bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		lines++
	}
	return lines, text != nil
}

// An OldFile is a file or symlink in a directory that a change deletes or replaces.
type OldFile struct {
	Path string // relative to the directory
	Kind overlay.Kind
	Mode uint32
	Size int64
	In   *Change // the change of the directory
}

// Name returns the old name of the file.
func (f OldFile) Name() string { return f.In.Name() + "/" + f.Path }

// change returns a change with which the content of the file can be read.
func (f OldFile) change() Change {
	return Change{PathChange: overlay.PathChange{Path: path.Join(f.In.Path, f.Path), OldKind: f.Kind}, Target: f.In.Target, layer: f.In.layer}
}
