// Package overlay lists, applies and undoes the changes that were made over a directory.
//
// A command works on an overlay mount: the kernel collects its changes in a directory of
// their own, and the real directory stays as it is. A Layer is that directory of changes
// with the real one below it. Changes lists them. Land applies them to the real
// directory, all or none, and keeps the old content, so that Undo can restore it. Recover
// completes or reverts what a crash interrupted.
//
// A session keeps its layer while the user continues to change the real directory. Record,
// Standing, Pick, Settle and Discard are for such layers.
//
// The package knows files and no policy: its callers decide which changes to apply.
package overlay

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// A Layer is a place of work: the real folder, and a folder of golem's own that
// holds what was changed and, later, what was there before.
type Layer struct {
	Folder string // the real one
	Store  string

	// Device and Inode are the kernel's numbers of the folder, 0 where any will do. One
	// with others is not touched: it was put in the place of the real one.
	Device, Inode uint64 `json:",omitempty"`

	// Copied says that the store holds a copy of the folder, which is worked on in
	// place of an overlay. It is for sessions, where there are no overlays.
	Copied bool `json:",omitempty"`
}

// What is in a store.
const (
	upperName   = "upper" // what was changed, as overlayfs keeps it
	workName    = "work"  // overlayfs's own
	oldName     = "old"   // what was deleted, numbered as in the list of moves
	droppedName = "dropped"
	clockName   = "clock" // a file that tells time as files have it
	movesName   = "moves" // the list of moves, once it is decided to make them
	landedName  = "landed"
	undoneName  = "undone"
	seenName    = "seen" // where the overlay of a kept layer is mounted
	copyName    = "copy" // a copy of the folder, where that is kept
	coveredName = "covered"
	textsName   = "base" // contents that files were changed from, numbered
	basesName   = "bases"
	picksName   = "picked"
	lockName    = "lock"
)

// Upper and Work are the folders that an overlay is mounted with.
func (l Layer) Upper() string { return l.Store + "/" + upperName }

// Work is described with Upper.
func (l Layer) Work() string { return l.Store + "/" + workName }

// Seen is the folder that a session works in: where the overlay of a kept layer is
// mounted, or the copy.
func (l Layer) Seen() string {
	if l.Copied {
		return l.Store + "/" + copyName
	}
	return l.Store + "/" + seenName
}

// Own is the folder that holds what a session has made of things: what was changed,
// or the copy.
func (l Layer) Own() string {
	if l.Copied {
		return l.Seen()
	}
	return l.Upper()
}

// A Progress tells how far a copy is.
type Progress struct {
	Files, AllFiles int
	Bytes, AllBytes int64 // without holes
	Size            int64 // of all files, with their holes: not every file system keeps those
}

// Plus returns the sum of two.
func (p Progress) Plus(q Progress) Progress {
	return Progress{p.Files + q.Files, p.AllFiles + q.AllFiles, p.Bytes + q.Bytes, p.AllBytes + q.AllBytes, p.Size + q.Size}
}

// A Left is something that is not copied.
type Left struct {
	Path string
	Why  string
}

// NoRoom is the error of a copy that does not fit where the store is.
type NoRoom struct{ Needs, Free int64 }

// Error implements error.
func (n *NoRoom) Error() string {
	return fmt.Sprintf("a copy needs %d bytes, and %d are free", n.Needs, n.Free)
}

// A Change is one thing that was done. Paths are those below the real folder.
type Change struct {
	Path string
	Op   Op
	Kind Kind
	Mode uint32 // permission bits, of what is there now
	Size int64  // of a file
	To   string // what a link says
	In   string // the new folder that it comes with, "" where it comes alone
	Was  Kind   // what was there before
	Had  uint32 `json:",omitempty"` // its permission bits

	// Clash says of a kept layer that the real folder is not any more what this was
	// changed from.
	Clash bool `json:",omitempty"`

	// Sum is a digest of what a kept layer has of a file, where Sum has noted it.
	Sum string `json:",omitempty"`
}

// Within returns the changes at and below paths; "." is all.
func Within(changes []Change, paths []string) []Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool {
		return !slices.ContainsFunc(paths, func(p string) bool { return p == "." || c.Path == p || strings.HasPrefix(c.Path, p+"/") })
	})
}

// A State is what stands at a path, or stood there. The zero Kind is nothing.
type State struct {
	Path string
	Kind Kind
	Mode uint32 // permission bits
	Size int64  // of a file
	To   string // what a link says

	// Unknown is true where permission bits hide what is there, or what is in a directory.
	Unknown bool

	// Content opens what a file holds.
	Content func() (io.ReadCloser, error)
}

// Open opens the content of a file.
func (s State) Open() (io.ReadCloser, error) {
	if s.Content == nil {
		return nil, fs.ErrNotExist
	}
	return s.Content()
}

// SumOf returns a digest of what a file holds, and closes it: "" where it cannot be read.
func SumOf(f io.ReadCloser, err error) string {
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// A Pick is a change of a kept layer that is to land.
type Pick struct {
	Path  string
	Given string // where set, the name of a file with what lands instead of the layer's content: some of it, or a merge
	Whole bool   // what is given stands for all that the layer has of it
	Over  bool   // it lands whatever became of what it was changed from: the user has seen that
}

// brings reports whether the change brings a file, a directory or a symlink along. The
// mode of a file comes with a new file: the old one may have other names, by hard links,
// outside the real directory too.
func (c Change) brings() bool { return c.Op != Delete && (c.Op != Mode || c.Kind == File) }

// An Op is what was done.
type Op string

// What can be done.
const (
	Create Op = "create"
	Modify Op = "change"
	Delete Op = "delete"
	Mode   Op = "mode" // and nothing else
)

// A Kind is what something is.
type Kind string

// The kinds.
const (
	Nothing Kind = ""
	File    Kind = "file"
	Folder  Kind = "folder"
	Link    Kind = "link"
	Special Kind = "special" // a pipe, socket or device: it never lands
)

// A Conflict is an error that says that the real folder is not as it was when the
// work began. Nothing was moved.
type Conflict struct{ Paths []string }

// Error implements error.
func (c *Conflict) Error() string {
	return fmt.Sprintf("changed meanwhile: %s", strings.Join(c.Paths, ", "))
}

// ErrFinal says that a landing cannot be undone.
var ErrFinal = errors.New("what was there before is not kept, because the state folder is on another file system")

// maxPath is the longest path that is brought in, and maxName the longest part of
// one, as sandboxes have them.
const (
	maxPath = 4096
	maxName = 255
)
