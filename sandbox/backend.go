package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"time"
)

// A Backend stores the files of one mount. Names are relative and clean, as in io/fs: "."
// is the mount's own directory, "a/b" a file in a directory.
//
// Everything depends on one rule: no method follows a symlink. If a directory in a name
// is a symlink, the method does nothing and returns ErrLink. If the last part of the name
// is a symlink, Lstat, Rename and Remove act on the symlink itself, and Open and Write
// return ErrLink. The check and the action are one step, even if another process changes
// the tree at the same moment.
//
// Errors are a [Code], an error of io/fs or of the system, or ErrLink. Many goroutines
// may call the methods at once. Package sandboxtest has the test suite that a backend
// must pass.
type Backend interface {
	// Open opens a regular file or a directory for reading. For anything else it returns
	// ErrNotRegular without blocking.
	Open(name string) (File, error)

	// Lstat describes the file at name. For a symlink, it also returns the target.
	Lstat(name string) (Attr, error)

	// Write makes name a regular file with the content, in one step: a reader finds the
	// old file or the new one. It reads from content only after it has checked that name
	// can be written. If content returns an error, nothing changes.
	Write(name string, content io.Reader, how How) (Attr, error)

	// Mkdir makes one directory. "." makes the mount's own directory if it is missing.
	Mkdir(name string) error

	// Rename moves a file, directory or symlink. If to exists, it returns ErrExists.
	Rename(from, to string) error

	// Remove removes a file, a symlink or an empty directory.
	Remove(name string) error

	// Traits returns the properties of the backend that never change.
	Traits() Traits
}

// ErrLink is the error of a backend that meets a symlink.
var ErrLink = errors.New("symbolic link")

// A File is an open file or directory of a backend.
type File interface {
	io.ReaderAt
	io.Closer
	// Attr returns the attributes that the file had when it was opened.
	Attr() Attr
	// ReadDir returns all entries of a directory, in any order.
	ReadDir() ([]Entry, error)
}

// An Entry is a name in a directory, with the type bits of the file.
type Entry struct {
	Name string
	Type fs.FileMode
}

// IsDir reports whether the entry is a directory.
func (e Entry) IsDir() bool { return e.Type.IsDir() }

// Attr holds the attributes of a file.
type Attr struct {
	Size    int64
	Mode    fs.FileMode // type and permission bits
	ModTime time.Time
	Links   uint64 // number of hard links; 0 if unknown
	ID      uint64 // differs from the ID of every other file that exists at the same time
	Changed int64  // grows with every change
	Target  string // target of a symlink, with slashes
	UID     uint32 // owner and group; 0 if unknown
	GID     uint32
}

// version returns the version of the file without the hash of its content.
func (a Attr) version() Version { return Version{id: a.ID, size: a.Size, changed: a.Changed} }

// checkReplace returns an error if a file with these attributes cannot be replaced in the
// way that how asks for. It does not look at the policy.
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

// How says how to write a file.
type How struct {
	New  bool        // the file must not exist
	If   Version     // if not zero, the file must exist and have this version
	Mode fs.FileMode // permission bits of a new file, before the umask; an existing file keeps its own
}

// perm returns the permission bits for a new file.
func (h How) perm() fs.FileMode {
	if h.Mode == 0 {
		return 0o666
	}
	return h.Mode.Perm()
}

// Traits are the properties of a backend that never change.
type Traits struct {
	// FoldsCase is true if "A" and "a" name the same file.
	FoldsCase bool
	// Host is the directory on the host, "" if there is none.
	Host Host
	// Through is set if the directory is shown through an overlay, which keeps all
	// changes. Then commands find the overlay at Through, and Host is the directory below
	// it.
	Through Host
}

// A Place is a directory of the host: its current name, and the numbers by which the
// kernel identifies it.
type Place struct {
	Host          Host
	Device, Inode uint64 // 0 if the directory is missing
}

// A Placed backend can say where the directory is that it holds open. Somebody may have
// renamed the directory, or put another one in its place. The backends of [Dir] and of a
// Mount with a Source are Placed on Linux.
type Placed interface {
	// Place returns the current place of the directory. It returns an error if no name
	// leads to the directory any more.
	Place() (Place, error)
}

// Info describes a file by its virtual name. It is an fs.FileInfo.
type Info struct {
	path string
	attr Attr
}

// Path returns the canonical virtual name.
func (i Info) Path() string { return i.path }

// Name returns the last part of the name. For the top directory it is ".", as in io/fs.
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

// IsDir reports whether the file is a directory.
func (i Info) IsDir() bool { return i.attr.Mode.IsDir() }

// Sys returns nil, so that it cannot reveal details of the host.
func (i Info) Sys() any { return nil }

// Links returns the number of hard links that the file has on the host, 0 if unknown. If
// it is more than one, the file may also have a name outside the sandbox.
func (i Info) Links() uint64 { return i.attr.Links }

// Version returns the version of the file, without reading its content.
func (i Info) Version() Version { return i.attr.version() }
