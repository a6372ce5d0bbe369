package opfs

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall/js"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// A node is a file, symlink or directory that the workspace knows. It knows the entries of a
// directory once it has read them: no other tab changes them.
type node struct {
	parent  *node
	stored  string // the name that the browser keeps
	mode    fs.FileMode
	handle  js.Value
	entries map[string]*node // of a directory, by their names; nil if it was not read

	id, changed uint64
	measured    bool // size, time and target are known
	size        int64
	time        time.Time
	target      string // of a symlink

	readers map[*file]bool
	access  js.Value // the access handle for reading; undefined if there is none
}

func (w *Workspace) newNode(parent *node, stored string, mode fs.FileMode, handle js.Value) *node {
	w.next++
	return &node{parent: parent, stored: stored, mode: mode, handle: handle, id: w.next, changed: w.next}
}

// An entry is a name in a directory of the browser.
type entry struct {
	name   string
	handle js.Value
	isDir  bool
}

// list returns the entries of a directory.
func list(dir js.Value) ([]entry, error) {
	iterator, err := call(dir, "entries")
	if err != nil {
		return nil, err
	}
	pairs, err := ask(js.Global().Get("Array"), "fromAsync", iterator)
	if err != nil {
		return nil, err
	}
	entries := make([]entry, pairs.Length())
	for i := range entries {
		pair := pairs.Index(i)
		handle := pair.Index(1)
		entries[i] = entry{pair.Index(0).String(), handle, handle.Get("kind").String() == "directory"}
	}
	return entries, nil
}

// read reads the entries of a directory unless they are known.
func (w *Workspace) read(n *node) error {
	if n.entries != nil {
		return nil
	}
	found, err := list(n.handle)
	if err != nil {
		return err
	}
	entries := make(map[string]*node, len(found))
	for _, e := range found {
		name, mode, ok := parseStored(e.name, e.isDir)
		// If two stored names have one name, the first in their order is it.
		if other := entries[name]; ok && (other == nil || e.name < other.stored) {
			entries[name] = w.newNode(n, e.name, mode, e.handle)
		}
	}
	n.entries = entries
	return nil
}

// child returns the entry of a directory, nil if there is none.
func (w *Workspace) child(n *node, name string) (*node, error) {
	switch {
	case n.mode&fs.ModeSymlink != 0:
		return nil, sandbox.ErrLink
	case !n.mode.IsDir():
		return nil, sandbox.ErrNotDir
	}
	err := w.read(n)
	return n.entries[name], err
}

// find returns the node of a name.
func (w *Workspace) find(name string) (*node, error) {
	at := w.top
	if w.stuck != nil {
		return nil, w.stuck
	}
	if name == "." {
		return at, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		next, err := w.child(at, part)
		if err != nil {
			return nil, err
		}
		if next == nil {
			return nil, sandbox.ErrNotFound
		}
		at = next
	}
	return at, nil
}

// findIn returns the directory of a name, and its entry, nil if there is none.
func (w *Workspace) findIn(name string) (dir, n *node, err error) {
	if dir, err = w.find(path.Dir(name)); err == nil {
		n, err = w.child(dir, path.Base(name))
	}
	return dir, n, err
}

// measure finds the size and time of a file, and the target of a symlink.
func (n *node) measure() error {
	if n.measured || n.mode.IsDir() {
		return nil
	}
	file, err := ask(n.handle, "getFile")
	if err != nil {
		return err
	}
	if n.mode&fs.ModeSymlink != 0 {
		text, err := ask(file, "text")
		if err != nil {
			return err
		}
		n.target = text.String()
	}
	n.size, n.time, n.measured = int64(file.Get("size").Float()), time.UnixMilli(int64(file.Get("lastModified").Float())), true
	return nil
}

// attr returns the attributes of a measured node.
func (n *node) attr() sandbox.Attr {
	a := sandbox.Attr{Mode: n.mode, ModTime: n.time, ID: n.id, Changed: int64(n.changed), Target: n.target}
	if !n.mode.IsDir() {
		a.Size, a.Links = n.size, 1
	}
	return a
}

// maxHeld is how many files keep their access handle after they were read. To open one takes
// much longer than to read, and a call reads its files several times.
const maxHeld = 32

// readAt reads from a file.
func (w *Workspace) readAt(n *node, p []byte, off int64) (int, error) {
	if off >= n.size {
		return 0, io.EOF
	}
	if n.access.IsUndefined() {
		var err error
		if n.access, err = ask(n.handle, "createSyncAccessHandle"); err != nil {
			n.access = js.Undefined()
			return 0, err
		}
		if len(w.held) == maxHeld {
			w.release(w.held[0])
		}
		w.held = append(w.held, n)
	}
	p = p[:min(int64(len(p)), n.size-off)]
	buffer := js.Global().Get("Uint8Array").New(len(p))
	count, err := call(n.access, "read", buffer, map[string]any{"at": float64(off)})
	if err != nil {
		return 0, err
	}
	read := js.CopyBytesToGo(p, buffer.Call("subarray", 0, count))
	if read < len(p) {
		return read, io.ErrUnexpectedEOF
	}
	return read, nil
}

// release closes the access handle, so that the file can be moved or removed.
func (w *Workspace) release(n *node) {
	if !n.access.IsUndefined() {
		n.access.Call("close")
		n.access = js.Undefined()
		w.held = slices.DeleteFunc(w.held, func(other *node) bool { return other == n })
	}
}

// detach gives the readers of a file its content, before the file is replaced or removed. For
// a file that is too large they get an error when they read on.
func (w *Workspace) detach(n *node) error {
	var content []byte
	fits := n.size <= sandbox.MaxRead
	if fits && len(n.readers) > 0 {
		content = make([]byte, n.size)
		if _, err := w.readAt(n, content, 0); err != nil && err != io.EOF {
			return err
		}
	}
	for f := range n.readers {
		f.detached, f.content, f.lost = true, content, !fits
	}
	n.readers = nil
	w.release(n)
	return nil
}
