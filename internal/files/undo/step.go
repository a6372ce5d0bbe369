package undo

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// Limits on what is saved: bytes of one file, bytes of all steps, and the number of
// steps. The oldest steps are removed first. A step that exceeds the limits is saved
// without content, with the reason.
const (
	MaxFile  = 16 << 20
	MaxTotal = 64 << 20
	MaxSteps = 50
)

// A Verb is what a call does.
type Verb uint8

// The verbs.
const (
	Write Verb = iota + 1
	MakeDir
	Delete
	Move
	Copy
)

// An Op is one operation that a call is about to do. Becomes is the version of the
// content that Write gives to a file.
type Op struct {
	Verb     Verb
	Path, To string
	Becomes  string
}

// A Step describes what one call changes.
type Step struct {
	Time    time.Time `json:"time"`
	Call    string    `json:"call"` // its ID in the journal
	Tool    string    `json:"tool"`
	Mounts  []Mount   `json:"mounts"`
	Entries []Entry   `json:"entries,omitempty"`
	Rename  *Rename   `json:"rename,omitempty"`
	// Impossible says why the call cannot be undone, "" if it can.
	Impossible string `json:"impossible,omitempty"`

	store *History
	slot  slot
	body  int64 // the offset of the saved content in its file
	saved time.Time
}

// A Mount is a directory of the host in which a step changes something.
type Mount struct {
	Target string `json:"target"`
	Dir    string `json:"dir"`
}

// An Entry is a name that a call changes.
type Entry struct {
	Path   string `json:"path"`
	Before Node   `json:"before"`
	After  Node   `json:"after"`
}

// A Rename is a file or directory that a call moves.
type Rename struct {
	From string `json:"from"`
	To   string `json:"to"`
	Node Node   `json:"node"`
}

// A Node is the state of a name. In the zero Node there is nothing.
type Node struct {
	Kind overlay.Kind `json:"kind,omitempty"`
	Mode fs.FileMode  `json:"mode,omitempty"`
	UID  uint32       `json:"uid,omitempty"`
	GID  uint32       `json:"gid,omitempty"`
	Size int64        `json:"size,omitempty"`
	Sum  string       `json:"sum,omitempty"` // digest of a file's content, or of everything in a directory that is moved
	To   string       `json:"to,omitempty"`  // target of a symlink
	At   int64        `json:"at,omitempty"`  // offset of its saved content
}

// isSame reports whether two nodes have the same content. It ignores permission bits.
func (n Node) isSame(m Node) bool {
	return n.Kind == m.Kind && (n.Kind != overlay.File || n.Sum == m.Sum) && (n.Kind != overlay.Symlink || n.To == m.To)
}

func (n Node) attr() sandbox.Attr {
	return sandbox.Attr{Mode: n.Mode, Target: n.To, UID: n.UID, GID: n.GID}
}

// An impossibleError says why a step cannot be undone.
type impossibleError string

// Error implements error.
func (i impossibleError) Error() string { return string(i) }

// A recorder collects the step of a call.
type recorder struct {
	files *sandbox.Sandbox
	step  *Step
	body  bytes.Buffer
}

// record returns the step of a call, and the content that it saves. It returns no step
// for a call that changes nothing in a directory that is written directly.
func record(files *sandbox.Sandbox, ops []Op) (*Step, []byte) {
	t := &recorder{files: files, step: &Step{}}
	for _, o := range ops {
		if err := t.add(o); err != nil {
			t.step.Impossible = err.Error()
			t.step.Entries, t.step.Rename = nil, nil
			for _, o := range ops {
				t.step.Entries = append(t.step.Entries, Entry{Path: o.Path})
				if t.isDirect(o.Path) {
					t.addMount(o.Path)
				}
			}
			return t.step, nil
		}
	}
	if len(t.step.Entries) == 0 && t.step.Rename == nil {
		return nil, nil
	}
	return t.step, t.body.Bytes()
}

func (t *recorder) add(o Op) error {
	from, to := t.isDirect(o.Path), o.To != "" && t.isDirect(o.To)
	switch {
	case o.Verb == Write && from:
		before, err := t.saveContent(o.Path)
		if err != nil {
			return err
		}
		after := Node{Kind: overlay.File, Sum: o.Becomes}
		if before.isSame(after) {
			return nil
		}
		t.addParents(o.Path)
		t.addEntry(o.Path, before, after)
	case o.Verb == MakeDir && from:
		t.addParents(o.Path)
		t.addEntry(o.Path, Node{}, Node{Kind: overlay.Dir})
	case o.Verb == Delete && from, o.Verb == Move && from && !to:
		return t.addTree(o.Path)
	case o.Verb == Copy && to:
		node, err := readNode(t.files, o.Path)
		if err != nil {
			return unreadable(o.Path)
		}
		t.addParents(o.To)
		t.addEntry(o.To, Node{}, Node{Kind: overlay.File, Sum: node.Sum})
	case o.Verb == Move && from && to:
		node, err := t.lookMove(o)
		if err != nil {
			return err
		}
		t.addParents(o.To)
		t.addMount(o.Path)
		t.addMount(o.To)
		t.step.Rename = &Rename{From: o.Path, To: o.To, Node: node}
	case o.Verb == Move && to:
		return impossibleError(sandbox.Shown(o.To) + " was moved there out of a session")
	}
	return nil
}

// isDirect reports whether a name is in a directory of the host that is written directly.
func (t *recorder) isDirect(name string) bool {
	m, shown := t.files.MountOf(name)
	return shown && m.Backend != nil && m.Backend.Traits().Through == "" && m.Backend.Traits().Host != ""
}

// addMount adds the mount of a name to the step.
func (t *recorder) addMount(name string) {
	m, _ := t.files.MountOf(name)
	here := Mount{m.Target, string(m.Backend.Traits().Host)}
	if !slices.Contains(t.step.Mounts, here) {
		t.step.Mounts = append(t.step.Mounts, here)
	}
}

func (t *recorder) addEntry(name string, before, after Node) {
	t.addMount(name)
	t.step.Entries = append(t.step.Entries, Entry{name, before, after})
}

// addParents adds the directories above a name that do not exist yet.
func (t *recorder) addParents(name string) {
	m, _ := t.files.MountOf(name)
	var missing []string
	for dir := path.Dir(name); dir != m.Target && dir != "/"; dir = path.Dir(dir) {
		if node, err := readNode(t.files, dir); err != nil || node.Kind != overlay.Nothing {
			break
		}
		missing = append(missing, dir)
	}
	for _, dir := range slices.Backward(missing) {
		t.addEntry(dir, Node{}, Node{Kind: overlay.Dir})
	}
}

// saveContent returns the node at a name, and saves the content if it is a file.
func (t *recorder) saveContent(name string) (Node, error) {
	b, rel, err := backendOf(t.files, name)
	if err != nil {
		return Node{}, unreadable(name)
	}
	node, err := nodeAt(b, rel)
	switch {
	case err != nil:
		return Node{}, unreadable(name)
	case node.Kind == overlay.Special:
		return Node{}, impossibleError(sandbox.Shown(name) + " is a pipe, socket or device")
	case node.Kind != overlay.File:
		return node, nil
	case node.Size > MaxFile:
		return Node{}, impossibleError(fmt.Sprintf("%s is larger than %d MiB", sandbox.Shown(name), MaxFile>>20))
	case int64(t.body.Len())+node.Size > MaxTotal:
		return Node{}, impossibleError(fmt.Sprintf("it is more than %d MiB", MaxTotal>>20))
	}
	f, err := b.Open(rel)
	if err != nil {
		return Node{}, unreadable(name)
	}
	defer f.Close()
	node.At = int64(t.body.Len())
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(&t.body, h), io.NewSectionReader(f, 0, node.Size))
	if err != nil || n != node.Size {
		return Node{}, unreadable(name)
	}
	node.Sum = sumOf(h.Sum(nil))
	return node, nil
}

func unreadable(name string) error { return impossibleError(sandbox.Shown(name) + " cannot be read") }

// addTree adds everything at and below a name that the call deletes.
func (t *recorder) addTree(name string) error {
	node, err := t.saveContent(name)
	if err != nil {
		return err
	}
	t.addEntry(name, node, Node{})
	if node.Kind != overlay.Dir {
		return nil
	}
	names, err := children(t.files, name)
	if err != nil {
		return unreadable(name)
	}
	for _, base := range names {
		if err := t.addTree(path.Join(name, base)); err != nil {
			return err
		}
	}
	return nil
}

// lookMove returns the node that a call moves.
func (t *recorder) lookMove(o Op) (Node, error) {
	a, _ := t.files.MountOf(o.Path)
	b, _ := t.files.MountOf(o.To)
	node, err := readMovedNode(t.files, o.Path, a.Target != b.Target)
	if err != nil {
		return node, unreadable(o.Path)
	}
	return node, nil
}

// maxHashed is the largest file that is read to check that a moved file is still the
// same. A larger one is identified by its inode, its size and its time.
const maxHashed = 64 << 20

// readMovedNode returns the node at a name, with the Sum that identifies it after a move.
func readMovedNode(files *sandbox.Sandbox, name string, copied bool) (Node, error) {
	b, rel, err := backendOf(files, name)
	if err != nil {
		return Node{}, err
	}
	node, err := nodeAt(b, rel)
	if err != nil {
		return node, err
	}
	switch {
	case node.Kind == overlay.File && (copied || node.Size <= maxHashed):
		node.Sum, err = hash(b, rel)
	case node.Kind == overlay.File:
		a, e := b.Lstat(rel)
		node.Sum, err = fmt.Sprintf("%x-%x-%x", a.ID, a.Size, a.ModTime.UnixNano()), e
	case node.Kind == overlay.Dir:
		node.Sum, err = treeSum(files, name)
	}
	return node, err
}

// treeSum returns a digest of everything in a directory. It does not change when the
// directory is renamed. As in readMovedNode, at most maxHashed bytes are read.
func treeSum(files *sandbox.Sandbox, name string) (string, error) {
	var size int64
	err := walk(files, name, "", func(_ sandbox.Backend, _, _ string, a sandbox.Attr) error {
		if a.Mode.IsRegular() {
			size += a.Size
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = walk(files, name, "", func(b sandbox.Backend, rel, below string, a sandbox.Attr) (err error) {
		content := ""
		switch {
		case a.Mode.IsRegular() && size <= maxHashed:
			content, err = hash(b, rel)
		case a.Mode.IsRegular():
			content = fmt.Sprintf("%x-%x-%x", a.ID, a.Size, a.Changed)
		}
		fmt.Fprintf(sum, "%q %v %q %s\n", below, a.Mode, a.Target, content)
		return err
	})
	return sumOf(sum.Sum(nil)), err
}

// walk calls visit for everything in a directory, in order, with its path relative to the
// directory.
func walk(files *sandbox.Sandbox, name, below string, visit func(b sandbox.Backend, rel, below string, a sandbox.Attr) error) error {
	names, err := children(files, name)
	if err != nil {
		return err
	}
	for _, base := range names {
		b, rel, err := backendOf(files, path.Join(name, base))
		if err != nil {
			return err
		}
		a, err := b.Lstat(rel)
		if err == nil {
			err = visit(b, rel, path.Join(below, base), a)
		}
		if err == nil && a.Mode.IsDir() {
			err = walk(files, path.Join(name, base), path.Join(below, base), visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// backendOf returns the backend of a name, and the name in that backend.
func backendOf(files *sandbox.Sandbox, name string) (sandbox.Backend, string, error) {
	m, shown := files.MountOf(name)
	if !shown || m.Backend == nil {
		return nil, "", sandbox.ErrNotFound
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(name, m.Target), "/")
	if rel == "" {
		rel = "."
	}
	return m.Backend, rel, nil
}

// readNode returns the node at a name, with the digest of a file.
func readNode(files *sandbox.Sandbox, name string) (Node, error) {
	b, rel, err := backendOf(files, name)
	if err != nil {
		return Node{}, err
	}
	node, err := nodeAt(b, rel)
	if err == nil && node.Kind == overlay.File {
		node.Sum, err = hash(b, rel)
	}
	return node, err
}

func nodeAt(b sandbox.Backend, rel string) (Node, error) {
	a, err := b.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return Node{}, nil
	}
	if err != nil {
		return Node{}, err
	}
	n := Node{Kind: overlay.Special, Mode: a.Mode, UID: a.UID, GID: a.GID}
	switch {
	case a.Mode.IsRegular():
		n.Kind, n.Size = overlay.File, a.Size
	case a.Mode.IsDir():
		n.Kind = overlay.Dir
	case a.Mode&fs.ModeSymlink != 0:
		n.Kind, n.To = overlay.Symlink, a.Target
	}
	return n, nil
}

// hash returns the version of a file's content, as sandbox.Version prints it.
func hash(b sandbox.Backend, rel string) (string, error) {
	f, err := b.Open(rel)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, f.Attr().Size)); err != nil {
		return "", err
	}
	return sumOf(h.Sum(nil)), nil
}

// sumOf shortens a hash as sandbox.Version does.
func sumOf(full []byte) string { return hex.EncodeToString(full[:16]) }

// children returns the names in a directory, sorted.
func children(files *sandbox.Sandbox, name string) ([]string, error) {
	b, rel, err := backendOf(files, name)
	if err != nil {
		return nil, err
	}
	f, err := b.Open(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names, nil
}
