package opfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall/js"

	"github.com/golem-forge/golem/sandbox"
)

// A backend shows a directory of a workspace.
type backend struct {
	*Workspace
	dir string
}

// Traits implements [sandbox.Backend].
func (b *backend) Traits() sandbox.Traits { return sandbox.Traits{} }

// at returns a name of the backend as one of the workspace.
func (b *backend) at(name string) string { return path.Join(b.dir, name) }

// Open implements [sandbox.Backend].
func (b *backend) Open(name string) (sandbox.File, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.find(b.at(name))
	switch {
	case err != nil:
		return nil, err
	case n.mode&fs.ModeSymlink != 0:
		return nil, sandbox.ErrLink
	case n.mode.IsDir():
		err = b.read(n)
	default:
		err = n.measure()
	}
	if err != nil {
		return nil, err
	}
	f := &file{workspace: b.Workspace, node: n, attr: n.attr()}
	if n.readers == nil {
		n.readers = map[*file]bool{}
	}
	n.readers[f] = true
	return f, nil
}

// Lstat implements [sandbox.Backend].
func (b *backend) Lstat(name string) (sandbox.Attr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.find(b.at(name))
	if err == nil {
		err = n.measure()
	}
	if err != nil {
		return sandbox.Attr{}, err
	}
	return n.attr(), nil
}

// Write implements [sandbox.Backend]. The browser moves the finished file over the old one in
// one step.
func (b *backend) Write(name string, content io.Reader, how sandbox.How) (sandbox.Attr, error) {
	if name == "." {
		return sandbox.Attr{}, sandbox.ErrIsDir
	}
	name = b.at(name)
	if err := b.mayWrite(name, how); err != nil {
		return sandbox.Attr{}, err
	}
	d, err := b.takeDraft()
	if err != nil {
		return sandbox.Attr{}, err
	}
	size, err := fill(d.access, content)
	if err == nil {
		var attr sandbox.Attr
		if attr, err = b.install(name, d.handle, size, how); err == nil {
			return attr, nil
		}
	}
	b.drop(d)
	return sandbox.Attr{}, err
}

// mayWrite returns an error if a write of name would fail now.
func (b *backend) mayWrite(name string, how sandbox.How) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _, err := b.replaced(name, how)
	return err
}

// replaced returns the directory of a name and the file that a write would replace, nil if
// there is none. It returns an error if the write may not replace it.
func (w *Workspace) replaced(name string, how sandbox.How) (dir, old *node, err error) {
	dir, old, err = w.findIn(name)
	switch {
	case err != nil:
		return nil, nil, err
	case old == nil && !how.If.IsZero():
		return nil, nil, sandbox.ErrConflict
	case old == nil:
		return dir, nil, nil
	case old.mode&fs.ModeSymlink != 0:
		return nil, nil, sandbox.ErrLink
	case old.mode.IsDir():
		return nil, nil, sandbox.ErrIsDir
	case how.New:
		return nil, nil, sandbox.ErrExists
	case old.mode.Perm()&0o222 == 0:
		return nil, nil, &sandbox.Error{Code: sandbox.ErrReadOnly, Hint: "its permission bits let nobody write it"}
	}
	if err := old.measure(); err != nil || how.If.IsZero() {
		return dir, old, err
	}
	return dir, old, w.check(old, how.If)
}

// check returns ErrConflict unless the file has a version.
func (w *Workspace) check(n *node, v sandbox.Version) error {
	now, err := sandbox.ParseVersion(fmt.Sprintf("%x-%x-%x", n.id, n.size, n.changed))
	if err != nil || v.Same(now) {
		return err
	}
	if n.size > sandbox.MaxRead {
		return sandbox.ErrConflict // nobody can have read all of it
	}
	content := make([]byte, n.size)
	if _, err := w.readAt(n, content, 0); err != nil && err != io.EOF {
		return err
	}
	if !v.Same(now.With(content)) {
		return sandbox.ErrConflict
	}
	return nil
}

// fill writes a content into a new file, waits until it is on the disk, and closes the file.
func fill(access js.Value, content io.Reader) (size int64, err error) {
	defer access.Call("close")
	size, err = io.Copy(writer{access}, content)
	if err == nil {
		_, err = call(access, "flush")
	}
	return size, err
}

// A writer appends to a file.
type writer struct{ access js.Value }

func (w writer) Write(p []byte) (int, error) {
	buffer := js.Global().Get("Uint8Array").New(len(p))
	js.CopyBytesToJS(buffer, p)
	count, err := call(w.access, "write", buffer)
	if err == nil && count.Int() < len(p) {
		err = errFull()
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// install gives a finished file its name.
func (b *backend) install(name string, handle js.Value, size int64, how sandbox.How) (sandbox.Attr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir, old, err := b.replaced(name, how)
	if err != nil {
		return sandbox.Attr{}, err
	}
	n := b.newNode(dir, "", newMode(how), handle)
	if old != nil {
		n.mode, n.stored = old.mode, old.stored
		if err := b.detach(old); err != nil {
			return sandbox.Attr{}, err
		}
	} else {
		n.stored = storedName(path.Base(name), n.mode)
	}
	if _, err := ask(handle, "move", dir.handle, n.stored); err != nil {
		return sandbox.Attr{}, err
	}
	n.size, n.time, n.measured = size, b.now(), true
	dir.entries[path.Base(name)] = n
	return n.attr(), nil
}

// newMode returns the mode of a new file.
func newMode(how sandbox.How) fs.FileMode {
	if how.Mode == 0 {
		return usualMode
	}
	return how.Mode.Perm() &^ 0o022
}

// Mkdir implements [sandbox.Backend].
func (b *backend) Mkdir(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name == "." {
		return b.makeTop()
	}
	return b.makeDir(b.at(name))
}

// makeTop makes the directory of the backend, and those above it.
func (b *backend) makeTop() error {
	for i, c := range b.dir {
		if c == '/' {
			if err := b.makeDir(b.dir[:i]); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	if b.dir == "." {
		return sandbox.ErrExists
	}
	return b.makeDir(b.dir)
}

// makeDir makes one directory.
func (w *Workspace) makeDir(name string) error {
	dir, old, err := w.findIn(name)
	if err == nil && old != nil {
		err = sandbox.ErrExists
	}
	if err != nil {
		return err
	}
	stored := storedName(path.Base(name), fs.ModeDir)
	handle, err := ask(dir.handle, "getDirectoryHandle", stored, map[string]any{"create": true})
	if err == nil {
		n := w.newNode(dir, stored, fs.ModeDir|0o755, handle)
		n.entries = map[string]*node{}
		dir.entries[path.Base(name)] = n
	}
	return err
}

// Rename implements [sandbox.Backend].
func (b *backend) Rename(from, to string) error {
	if from == "." || to == "." {
		return sandbox.ErrInvalid
	}
	from, to = b.at(from), b.at(to)
	b.mu.Lock()
	defer b.mu.Unlock()
	fromDir, n, err := b.findIn(from)
	if err == nil && n == nil {
		err = sandbox.ErrNotFound
	}
	if err != nil {
		return err
	}
	toDir, there, err := b.findIn(to)
	switch {
	case err != nil:
		return err
	case there != nil:
		return sandbox.ErrExists
	case strings.HasPrefix(to, from+"/"):
		return sandbox.ErrInvalid
	}
	mode := n.mode
	if mode&fs.ModeSymlink != 0 {
		mode = fs.ModeSymlink
	}
	stored := storedName(path.Base(to), mode)
	if n.mode.IsDir() {
		err = b.moveDir(n, toDir, stored)
	} else {
		b.release(n)
		_, err = ask(n.handle, "move", toDir.handle, stored)
	}
	if err != nil {
		return err
	}
	delete(fromDir.entries, path.Base(from))
	n.parent, n.stored = toDir, stored
	toDir.entries[path.Base(to)] = n
	return nil
}

// Remove implements [sandbox.Backend].
func (b *backend) Remove(name string) error {
	if name == "." {
		return sandbox.ErrInvalid
	}
	name = b.at(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	dir, n, err := b.findIn(name)
	if err == nil && n == nil {
		err = sandbox.ErrNotFound
	}
	if err != nil {
		return err
	}
	if n.mode.IsDir() {
		if err = b.read(n); err == nil && len(n.entries) > 0 {
			err = sandbox.ErrNotEmpty
		}
	} else {
		err = b.detach(n)
	}
	if err == nil {
		_, err = ask(dir.handle, "removeEntry", n.stored)
	}
	if err == nil {
		delete(dir.entries, path.Base(name))
	}
	return err
}

// A file is an open file or directory.
type file struct {
	workspace *Workspace
	node      *node
	attr      sandbox.Attr

	detached bool // the file was replaced or removed
	content  []byte
	lost     bool // and was too large to keep its content
}

// Attr implements [sandbox.File].
func (f *file) Attr() sandbox.Attr { return f.attr }

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.workspace.mu.Lock()
	defer f.workspace.mu.Unlock()
	switch {
	case f.attr.Mode.IsDir():
		return 0, sandbox.ErrIsDir
	case f.lost:
		return 0, sandbox.ErrConflict
	case off < 0:
		return 0, sandbox.ErrInvalid
	case !f.detached:
		n, err := f.workspace.readAt(f.node, p, off)
		if err == nil && n < len(p) {
			err = io.EOF
		}
		return n, err
	case off >= int64(len(f.content)):
		return 0, io.EOF
	}
	n := copy(p, f.content[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// ReadDir implements [sandbox.File].
func (f *file) ReadDir() ([]sandbox.Entry, error) {
	f.workspace.mu.Lock()
	defer f.workspace.mu.Unlock()
	if !f.attr.Mode.IsDir() {
		return nil, sandbox.ErrNotDir
	}
	var entries []sandbox.Entry
	for name, n := range f.node.entries {
		entries = append(entries, sandbox.Entry{Name: name, Type: n.mode.Type()})
	}
	return entries, nil
}

// Close implements io.Closer.
func (f *file) Close() error {
	f.workspace.mu.Lock()
	defer f.workspace.mu.Unlock()
	delete(f.node.readers, f)
	return nil
}
