package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"time"
)

// A Backend keeps the files of one mount. Names are relative and clean, as
// io/fs has them: "." is the mount's own directory, "a/b" a file in a directory.
//
// The one rule that everything rests on: no method follows a symbolic link. A
// link among the directories of a name is ErrLink, and what a method then did is
// nothing. The last part of a name may be a link for Lstat, Rename and Remove,
// which act on the link itself; for Open and Write it is ErrLink. The check
// and the act are one step, whoever changes the tree at that moment.
//
// Errors are a [Code], an error of io/fs or of the system, or ErrLink. Methods
// may be called from many goroutines at once. Package sandboxtest holds the
// suite that a backend must pass.
type Backend interface {
	// Open opens a regular file or a directory for reading. Anything else is
	// ErrNotRegular, at once.
	Open(name string) (File, error)

	// Lstat tells about name, and of a link where it leads.
	Lstat(name string) (Attr, error)

	// Write makes name a regular file with the content, in one step: a reader
	// finds the old file or the new one. Nothing is read from content before
	// name was found fit for it, and an error from content leaves all as it was.
	Write(name string, content io.Reader, how How) (Attr, error)

	// Mkdir makes one directory; "." makes the mount's own where it is missing.
	Mkdir(name string) error

	// Rename moves a file, directory or link. Where to exists, it is ErrExists.
	Rename(from, to string) error

	// Remove removes a file, a link or an empty directory.
	Remove(name string) error

	// Traits tells what does not change about the backend.
	Traits() Traits
}

// ErrLink is what a backend returns when it meets a symbolic link.
var ErrLink = errors.New("symbolic link")

// A File is an open file or directory of a backend.
type File interface {
	io.ReaderAt
	io.Closer
	// Attr tells about the file as it was when it was opened.
	Attr() Attr
	// ReadDir returns all entries of a directory, in no order.
	ReadDir() ([]Entry, error)
}

// An Entry is a name in a directory and the type bits of what it names.
type Entry struct {
	Name string
	Type fs.FileMode
}

// IsDir reports whether the entry is a directory.
func (e Entry) IsDir() bool { return e.Type.IsDir() }

// Attr is what a backend knows about a file.
type Attr struct {
	Size    int64
	Mode    fs.FileMode // type and permission bits
	ModTime time.Time
	Links   uint64 // how many names it has; 0 where that is not known
	ID      uint64 // tells it from other files that exist at the same time
	Changed int64  // grows with every change
	Target  string // where a link leads, with slashes
	UID     uint32 // its owner and group; 0 where that is not known
	GID     uint32
}

// version returns the version that attr shows without a look at the content.
func (a Attr) version() Version { return Version{id: a.ID, size: a.Size, changed: a.Changed} }

// fit reports whether a file with these attributes may be replaced as how has
// it: by what is there, not by what the policy allows.
func (a Attr) checkReplace(how How) error {
	switch {
	case a.Mode&fs.ModeSymlink != 0:
		return ErrLink
	case a.Mode.IsDir():
		return ErrIsDir
	case !a.Mode.IsRegular():
		return ErrNotRegular
	case how.New:
		return ErrExists
	case a.Mode.Perm()&0o222 == 0:
		return &Error{Code: ErrReadOnly, Hint: "its permission bits let nobody write it"}
	}
	return nil
}

// How says how a file is written.
type How struct {
	New  bool        // it must not exist yet
	If   Version     // it must exist and be the same as this one, unless zero
	Mode fs.FileMode // permission bits of a new file, before the umask; an old one keeps its own
}

// perm returns the permission bits that a new file is made with.
func (h How) perm() fs.FileMode {
	if h.Mode == 0 {
		return 0o666
	}
	return h.Mode.Perm()
}

// Traits are the lasting properties of a backend.
type Traits struct {
	// FoldsCase is true where "A" and "a" name one file.
	FoldsCase bool
	// Host is the directory on the host, "" where there is none.
	Host Host
	// Through, where set, is where commands find the directory: it is shown through a
	// layer that keeps what is changed, and Host is the directory below.
	Through Host
}

// A Place is a directory of the host: the name that it has now, and the numbers by which
// the kernel knows it.
type Place struct {
	Host          Host
	Device, Inode uint64 // 0 where the directory is missing
}

// A Placed backend knows where the directory is that it holds open. Somebody may have
// renamed it since, or put another one in its place. The backends of [Dir] and of a
// Mount with a Source are Placed on Linux.
type Placed interface {
	// Place returns where the directory is now. It is an error where no name leads to it
	// any more.
	Place() (Place, error)
}

// Info describes a file by its virtual name. It is an fs.FileInfo.
type Info struct {
	path string
	attr Attr
}

// Path returns the canonical virtual name.
func (i Info) Path() string { return i.path }

// Name returns the last part of the name; "." for the top directory, as io/fs has it.
func (i Info) Name() string {
	if i.path == "/" || i.path == "" {
		return "."
	}
	return path.Base(i.path)
}

// Size returns the length of a regular file in bytes.
func (i Info) Size() int64 { return i.attr.Size }

// Mode returns the type and permission bits.
func (i Info) Mode() fs.FileMode { return i.attr.Mode }

// ModTime returns the time of the last change of the content.
func (i Info) ModTime() time.Time { return i.attr.ModTime }

// IsDir reports whether it is a directory.
func (i Info) IsDir() bool { return i.attr.Mode.IsDir() }

// Sys returns nil: what the host knows stays there.
func (i Info) Sys() any { return nil }

// Links returns how many names the file has on the host; more than one means
// that it may also have a name outside the sandbox. 0 means that nobody knows.
func (i Info) Links() uint64 { return i.attr.Links }

// Version returns the version of the file, without a look at its content.
func (i Info) Version() Version { return i.attr.version() }
