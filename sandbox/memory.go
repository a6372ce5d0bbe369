package sandbox

import (
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Memory is a backend that keeps its files in memory, for tests and for runs that must
// leave nothing behind. It holds one immutable tree. A change makes a new tree, which
// shares the unchanged parts, and replaces the old one.
type Memory struct {
	root  atomic.Pointer[node]
	ids   atomic.Uint64
	now   func() time.Time
	folds bool
}

// An Object is a file, symlink or directory that a Memory starts with. The content of a
// symlink, which has fs.ModeSymlink, is its target.
type Object struct {
	Content string
	Mode    fs.FileMode // 0 means a regular file with mode 0644
}

// A MemoryOption changes how a Memory behaves.
type MemoryOption func(*Memory)

// FoldCase makes "A" and "a" the same name, as on Windows and on most Macs.
func FoldCase(m *Memory) { m.folds = true }

// Clock sets the clock for modification times. Without it they are zero.
func Clock(now func() time.Time) MemoryOption { return func(m *Memory) { m.now = now } }

// NewMemory returns a Memory that holds the objects. The keys are paths from the top,
// such as "a/b.txt". It makes the directories above an object.
func NewMemory(objects map[string]Object, options ...MemoryOption) *Memory {
	m := &Memory{now: func() time.Time { return time.Time{} }}
	for _, option := range options {
		option(m)
	}
	m.Reset(objects)
	return m
}

// Reset replaces all files by the objects.
func (m *Memory) Reset(objects map[string]Object) {
	root := m.newNode(fs.ModeDir|0o755, "")
	names := make([]string, 0, len(objects))
	for name := range objects {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		o := objects[name]
		if o.Mode == 0 {
			o.Mode = 0o644
		}
		root = m.plant(root, strings.Split(strings.Trim(name, "/"), "/"), m.newNode(o.Mode, o.Content))
	}
	m.root.Store(root)
}

// plant returns dir with n below it. It makes missing directories.
func (m *Memory) plant(dir *node, parts []string, n *node) *node {
	if len(parts) > 1 {
		sub, ok := dir.child(parts[0], m.folds)
		if !ok {
			sub = m.newNode(fs.ModeDir|0o755, "")
		}
		n = m.plant(sub, parts[1:], n)
	}
	return dir.with(parts[0], n, m.folds)
}

// Files returns the content of every regular file by its path from the top.
func (m *Memory) Files() map[string]string {
	files := map[string]string{}
	var visit func(n *node, at string)
	visit = func(n *node, at string) {
		if n.mode.IsRegular() {
			files[at] = n.content
		}
		for _, e := range n.entries {
			visit(e.node, path.Join(at, e.name))
		}
	}
	visit(m.root.Load(), "")
	return files
}

// A node is a file, symlink or directory. It never changes.
type node struct {
	id      uint64
	mode    fs.FileMode
	modTime time.Time
	content string
	entries []entry // entries of a directory, ordered by key
}

type entry struct {
	name string // as it was first written
	key  string // name for lookups, caseless if the Memory folds case
	node *node
}

func (m *Memory) newNode(mode fs.FileMode, content string) *node {
	return &node{id: m.ids.Add(1), mode: mode, modTime: m.now(), content: content}
}

func (n *node) find(name string, folds bool) (int, bool) {
	return slices.BinarySearchFunc(n.entries, key(name, folds), func(e entry, k string) int { return cmp.Compare(e.key, k) })
}

func key(name string, folds bool) string {
	if folds {
		return caseless(name)
	}
	return name
}

func (n *node) child(name string, folds bool) (*node, bool) {
	i, ok := n.find(name, folds)
	if !ok {
		return nil, false
	}
	return n.entries[i].node, true
}

// with returns a copy of the directory with child under name. If child is nil, it removes
// the name.
func (n *node) with(name string, child *node, folds bool) *node {
	changed := *n
	i, ok := n.find(name, folds)
	changed.entries = make([]entry, 0, len(n.entries)+1)
	changed.entries = append(changed.entries, n.entries[:i]...)
	if child != nil {
		e := entry{name, key(name, folds), child}
		if ok {
			e.name = n.entries[i].name
		}
		changed.entries = append(changed.entries, e)
	}
	if ok {
		i++
	}
	changed.entries = append(changed.entries, n.entries[i:]...)
	return &changed
}

func (n *node) attr() Attr {
	a := Attr{Size: int64(len(n.content)), Mode: n.mode, ModTime: n.modTime, Links: 1, ID: n.id, Changed: int64(n.id)}
	if n.mode&fs.ModeSymlink != 0 {
		a.Target = n.content
	}
	return a
}

// walk returns the node at name. It returns ErrLink if a part before the last is a
// symlink.
func (m *Memory) walk(root *node, name string) (*node, error) {
	at := root
	if name == "." {
		return at, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if err := checkDir(at); err != nil {
			return nil, err
		}
		next, ok := at.child(part, m.folds)
		if !ok {
			return nil, ErrNotFound
		}
		at = next
	}
	return at, nil
}

// checkDir returns an error if n is not a directory.
func checkDir(n *node) error {
	switch {
	case n.mode.IsDir():
		return nil
	case n.mode&fs.ModeSymlink != 0:
		return ErrLink
	}
	return ErrNotDir
}

// change replaces the tree by an edited one. It edits again if another goroutine changed
// the tree in between.
func (m *Memory) change(edit func(root *node) (*node, error)) error {
	for {
		old := m.root.Load()
		changed, err := edit(old)
		if err != nil {
			return err
		}
		if m.root.CompareAndSwap(old, changed) {
			return nil
		}
	}
}

// put returns the tree with n at name, whose directory exists. If n is nil, it removes
// the name.
func (m *Memory) put(dir *node, parts []string, n *node) *node {
	if len(parts) > 1 {
		sub, _ := dir.child(parts[0], m.folds)
		n = m.put(sub, parts[1:], n)
	}
	return dir.with(parts[0], n, m.folds)
}

// Open implements [Backend].
func (m *Memory) Open(name string) (File, error) {
	n, err := m.walk(m.root.Load(), name)
	switch {
	case err != nil:
		return nil, err
	case n.mode&fs.ModeSymlink != 0:
		return nil, ErrLink
	case !n.mode.IsRegular() && !n.mode.IsDir():
		return nil, ErrNotRegular
	}
	return memoryFile{strings.NewReader(n.content), n}, nil
}

// Lstat implements [Backend].
func (m *Memory) Lstat(name string) (Attr, error) {
	n, err := m.walk(m.root.Load(), name)
	if err != nil {
		return Attr{}, err
	}
	return n.attr(), nil
}

// Write implements [Backend].
func (m *Memory) Write(name string, content io.Reader, how How) (attr Attr, err error) {
	if name == "." {
		return Attr{}, ErrIsDir
	}
	var text *string
	err = m.change(func(root *node) (*node, error) {
		old, err := m.findReplaced(root, name, how)
		if err != nil {
			return nil, err
		}
		if text == nil {
			data, err := io.ReadAll(content)
			if err != nil {
				return nil, err
			}
			text = new(string)
			*text = string(data)
		}
		mode := how.perm() &^ 0o022
		if old != nil {
			mode = old.mode.Perm()
		}
		n := m.newNode(mode, *text)
		attr = n.attr()
		return m.put(root, strings.Split(name, "/"), n), nil
	})
	return attr, err
}

// findReplaced returns the node that a write would replace, nil if there is none. It
// returns an error if the write may not replace it.
func (m *Memory) findReplaced(root *node, name string, how How) (*node, error) {
	dir, err := m.walk(root, path.Dir(name))
	if err == nil {
		err = checkDir(dir)
	}
	if err != nil {
		return nil, err
	}
	old, ok := dir.child(path.Base(name), m.folds)
	switch {
	case !ok && how.If.IsZero():
		return nil, nil
	case !ok:
		return nil, ErrConflict
	}
	if err := old.attr().checkReplace(how); err != nil {
		return nil, err
	}
	if how.If.IsZero() {
		return old, nil
	}
	content := func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader([]byte(old.content))), nil
	}
	return old, how.If.check(old.attr(), content)
}

// Mkdir implements [Backend].
func (m *Memory) Mkdir(name string) error {
	return m.change(func(root *node) (*node, error) {
		if name == "." {
			return nil, ErrExists
		}
		if err := m.checkFree(root, name); err != nil {
			return nil, err
		}
		return m.put(root, strings.Split(name, "/"), m.newNode(fs.ModeDir|0o755, "")), nil
	})
}

// checkFree returns nil if name does not exist and its directory does.
func (m *Memory) checkFree(root *node, name string) error {
	dir, err := m.walk(root, path.Dir(name))
	if err == nil {
		err = checkDir(dir)
	}
	if err != nil {
		return err
	}
	if _, ok := dir.child(path.Base(name), m.folds); ok {
		return ErrExists
	}
	return nil
}

// Rename implements [Backend].
func (m *Memory) Rename(from, to string) error {
	if from == "." || to == "." {
		return ErrInvalid
	}
	return m.change(func(root *node) (*node, error) {
		n, err := m.walk(root, from)
		if err != nil {
			return nil, err
		}
		if err := m.checkFree(root, to); err != nil {
			return nil, err
		}
		if strings.HasPrefix(key(to, m.folds), key(from, m.folds)+"/") {
			return nil, ErrInvalid
		}
		root = m.put(root, strings.Split(from, "/"), nil)
		return m.put(root, strings.Split(to, "/"), n), nil
	})
}

// Remove implements [Backend].
func (m *Memory) Remove(name string) error {
	if name == "." {
		return ErrInvalid
	}
	return m.change(func(root *node) (*node, error) {
		n, err := m.walk(root, name)
		if err != nil {
			return nil, err
		}
		if len(n.entries) > 0 {
			return nil, ErrNotEmpty
		}
		return m.put(root, strings.Split(name, "/"), nil), nil
	})
}

// Traits implements [Backend].
func (m *Memory) Traits() Traits { return Traits{FoldsCase: m.folds} }

// memoryFile is an open node.
type memoryFile struct {
	*strings.Reader
	node *node
}

func (f memoryFile) Attr() Attr   { return f.node.attr() }
func (f memoryFile) Close() error { return nil }

func (f memoryFile) ReadDir() ([]Entry, error) {
	if err := checkDir(f.node); err != nil {
		return nil, err
	}
	list := make([]Entry, len(f.node.entries))
	for i, e := range f.node.entries {
		list[i] = Entry{e.name, e.node.mode.Type()}
	}
	return list, nil
}
