// Package overlay lists, applies and undoes the changes that were made over a directory.
//
// A command works on an overlay mount: the kernel collects its changes in a directory of
// their own, and the real directory stays as it is. An Overlay is that directory of
// changes with the real one below it. Changes lists them. PrepareApply and FinishApply apply
// them to the real directory, all or none, and keep the old content, so that UndoApply can
// restore it. Recover completes what a crash interrupted.
//
// A session keeps its overlay while the user continues to change the real directory.
// RecordBases, SessionChanges, Pick, Transfer, MarkApplied and Discard are for the overlays
// of sessions. On machines without overlay mounts a session works on a copy of the
// directory instead (InitCopy).
//
// The package works on one directory and knows no policy: package changes applies the
// changes of all mounts of a command together, and the gate decides which ones.
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

// An Overlay is a real directory and the store of golem with its changes. The store
// holds the changed files and, after they were applied, the old ones.
type Overlay struct {
	Dir   string // the real directory
	Store string

	// Device and Inode are the kernel's numbers of the real directory, 0 if any directory
	// will do. golem does not touch a directory with other numbers: somebody replaced the
	// real one.
	Device, Inode uint64 `json:",omitempty"`

	// IsCopy is true if the store holds a copy of the directory, on which a session works
	// if the machine has no overlay mounts.
	IsCopy bool `json:",omitempty"`
}

// The names in a store.
const (
	upperName    = "upper"   // the changed files, as overlayfs keeps them
	workName     = "work"    // used by overlayfs
	oldName      = "old"     // deleted files, by their number in the list of moves
	droppedName  = "dropped" // skipped files of new directories, and discarded files
	clockName    = "clock"   // its ctime is the start of the work
	movesName    = "moves"   // the list of moves
	appliedName  = "applied"
	unmadeName   = "unmade"   // moves that Recover did not make, which are no longer in the list
	revertedName = "reverted" // all moves of which UndoApply has reverted some
	mountName    = "mount"    // the mount point of a session's overlay
	copyName     = "copy"     // the copy of a session without overlay mounts
	coveredName  = "covered"
	contentsName = "contents" // kept contents of bases, by number
	basesName    = "bases"
	picksName    = "picked"
	lockName     = "lock"
)

// UpperDir is the upperdir of the overlay mount: it holds the changed files.
func (o Overlay) UpperDir() string { return o.Store + "/" + upperName }

// WorkDir is the workdir of the overlay mount, which only the kernel uses.
func (o Overlay) WorkDir() string { return o.Store + "/" + workName }

// SessionDir is the directory that the commands of a session work in: the mount point of
// its overlay, or the copy.
func (o Overlay) SessionDir() string {
	if o.IsCopy {
		return o.Store + "/" + copyName
	}
	return o.Store + "/" + mountName
}

// UpperOrCopy is the directory that holds the session's version of changed files: the
// upperdir, or the copy.
func (o Overlay) UpperOrCopy() string {
	if o.IsCopy {
		return o.SessionDir()
	}
	return o.UpperDir()
}

// A Progress says how much of a copy is done.
type Progress struct {
	Files, TotalFiles int
	Bytes, TotalBytes int64 // without holes
	Size              int64 // the size of all files with their holes, which some file systems do not keep
}

// Add returns the sum of p and q.
func (p Progress) Add(q Progress) Progress {
	return Progress{p.Files + q.Files, p.TotalFiles + q.TotalFiles, p.Bytes + q.Bytes, p.TotalBytes + q.TotalBytes, p.Size + q.Size}
}

// A SkippedPath is a path that InitCopy did not copy, with the reason.
type SkippedPath struct {
	Path   string
	Reason string
}

// A NoSpaceError is the error of a copy that does not fit on the file system of the store.
type NoSpaceError struct{ Needed, Free int64 }

// Error implements error.
func (n *NoSpaceError) Error() string {
	return fmt.Sprintf("a copy needs %d bytes, and %d are free", n.Needed, n.Free)
}

// A PathChange is one change to the real directory. Paths are relative to it.
type PathChange struct {
	Path       string
	Op         Op
	Kind       Kind
	Mode       uint32 // new permission bits
	Size       int64  // the size of a file
	LinkTarget string // the target of a symlink
	NewDir     string // the new directory that contains it and is applied with it, "" for none
	OldKind    Kind   // before the change
	OldMode    uint32 `json:",omitempty"` // before the change

	// Conflict is true for a change of a session if the real directory no longer has the
	// version that the session changed.
	Conflict bool `json:",omitempty"`

	// Forced is true for a picked change that was a conflict.
	Forced bool `json:",omitempty"`

	// Since is when the session deleted or replaced a directory, in nanoseconds, if that is a
	// conflict. It is 0 if it is not known.
	Since int64 `json:",omitempty"`

	// Digest is the digest of the session's version of a file, if AddDigests added it.
	Digest string `json:",omitempty"`

	// Stamp changes when the file changes, in the session or in the real directory. It is 0
	// if it is not known. Changed is when one of the two was changed last, in nanoseconds. A
	// second change within the same tick of the clock does not change the stamp.
	Stamp   uint64 `json:"-"`
	Changed int64  `json:"-"`

	// Ctime is when the session's version was last changed, in nanoseconds. It is 0 for a
	// deletion.
	Ctime int64 `json:"-"`
}

// Within returns the changes at and below paths; "." is all.
func Within(changes []PathChange, paths []string) []PathChange {
	return slices.DeleteFunc(slices.Clone(changes), func(c PathChange) bool {
		return !slices.ContainsFunc(paths, func(p string) bool { return p == "." || c.Path == p || strings.HasPrefix(c.Path, p+"/") })
	})
}

// A State is what a path holds or held. The zero Kind is nothing.
type State struct {
	Path       string
	Kind       Kind
	Mode       uint32 // permission bits
	Size       int64  // the size of a file
	LinkTarget string // the target of a symlink

	// Unknown is true if permission bits hide what is there, or what is in a directory.
	Unknown bool

	// Content opens the content of a file.
	Content func() (io.ReadCloser, error)
}

// Open opens the content of a file.
func (s State) Open() (io.ReadCloser, error) {
	if s.Content == nil {
		return nil, fs.ErrNotExist
	}
	return s.Content()
}

// Digest returns the digest of a file's content and closes the file. It returns "" if the
// file cannot be read.
func Digest(f io.ReadCloser, err error) string {
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

// A Pick names a change of a session that Pick copies, so that it can be applied.
type Pick struct {
	Path        string
	ContentFile string // if set, the file whose content replaces the session's content: some hunks of it, or a merge
	Complete    bool   // ContentFile stands for all of the session's content
	NewMode     bool   // with ContentFile: take the session's permission bits too
	Force       bool   // apply it even if it is a conflict, because the user has seen that
}

// hasNewFile reports whether applying the change moves a new file, directory or symlink
// into place. A new mode of a file also does: the old file may have hard links outside
// the real directory, which must keep their mode.
func (c PathChange) hasNewFile() bool { return c.Op != Delete && (c.Op != Mode || c.Kind == File) }

// An Op is a kind of change.
type Op string

// The kinds of changes.
const (
	Create Op = "create"
	Modify Op = "change"
	Delete Op = "delete"
	Mode   Op = "mode" // only the permission bits
)

// A Kind is a type of file.
type Kind string

// The kinds of files.
const (
	Nothing Kind = ""
	File    Kind = "file"
	Dir     Kind = "folder"
	Symlink Kind = "link"
	Special Kind = "special" // a pipe, socket or device, which golem never applies
)

// Noun returns the kind in the words that a person reads.
func (k Kind) Noun() string {
	switch k {
	case Dir:
		return "directory"
	case Symlink:
		return "symlink"
	case Special:
		return "special file"
	}
	return string(k)
}

// A ConflictError lists paths of the real directory that changed meanwhile.
type ConflictError struct{ Paths []string }

// Error implements error.
func (c *ConflictError) Error() string {
	return fmt.Sprintf("changed meanwhile: %s", strings.Join(c.Paths, ", "))
}

// ErrCannotUndo is the error of an undo if golem did not keep the old content.
var ErrCannotUndo = errors.New("golem kept no old files, because the state directory is on another file system")

// The longest path and the longest name in it that can be applied, as in sandboxes.
const (
	maxPath = 4096
	maxName = 255
)

// joinName returns a name in a directory, "" or "." for the top. It is path.Join for clean names. It
// does not read the whole name, which costs too much in a deep tree.
func joinName(dir, base string) string {
	switch dir {
	case "", ".":
		return base
	case "/":
		return "/" + base
	}
	return dir + "/" + base
}

// parentName returns the directory of a clean name, as path.Dir does.
func parentName(name string) string {
	switch i := strings.LastIndexByte(name, '/'); i {
	case -1:
		return "."
	case 0:
		return "/"
	default:
		return name[:i]
	}
}

// AtOrBelow returns a function that reports whether is holds for a name or for a directory
// above it. It remembers the answers for directories, so that many names in a deep tree
// cost one call of is each.
func AtOrBelow(is func(name string) bool) func(name string) bool {
	known := make(map[string]bool)
	var within func(name string) bool
	within = func(name string) bool {
		if is(name) {
			return true
		}
		dir := parentName(name)
		if dir == name {
			return false
		}
		found, ok := known[dir]
		if !ok {
			found = within(dir)
			known[dir] = found
		}
		return found
	}
	return within
}
