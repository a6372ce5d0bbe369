package opfs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"syscall/js"

	"github.com/golem-forge/golem/sandbox"
)

// A move is the rename of a directory that is not complete. It names the stored names from the
// top directory.
type move struct {
	From []string `json:"from"`
	To   []string `json:"to"`
}

// moveName is the file that holds the move.
const moveName = "rename.json"

// moveDir moves a directory, entry by entry, because browsers do not move directories. First
// it notes that, so that the next Open can complete the move. It changes the handles of the
// nodes that were moved.
func (w *Workspace) moveDir(n, toDir *node, stored string) error {
	text, err := json.Marshal(move{n.path(), append(toDir.path(), stored)})
	if err != nil {
		return err
	}
	handle, err := ask(w.meta, "getFileHandle", moveName+".new", map[string]any{"create": true})
	if err != nil {
		return err
	}
	access, err := ask(handle, "createSyncAccessHandle")
	if err == nil {
		_, err = fill(access, bytes.NewReader(text))
	}
	if err != nil {
		return err
	}
	if _, err := ask(handle, "move", w.meta, moveName); err != nil {
		return err
	}
	w.releaseAll(n)
	moved, err := moveEntries(n.handle, toDir.handle, stored)
	if err == nil {
		_, err = ask(n.parent.handle, "removeEntry", n.stored)
	}
	if err == nil {
		_, err = ask(w.meta, "removeEntry", moveName)
	}
	if err == nil {
		n.handle = moved
		err = w.rehandle(n)
	}
	if err != nil { // half of it may be moved: nothing may change before the next Open completes it
		w.stuck = &sandbox.Error{Code: sandbox.CodeOf(err), Hint: "the rename of a directory was interrupted; open the workspace again, which completes it"}
		return w.stuck
	}
	return nil
}

// path returns the stored names that lead to a node.
func (n *node) path() []string {
	if n.parent == nil {
		return []string{}
	}
	return append(n.parent.path(), n.stored)
}

// releaseAll closes the access handles of all files in a directory.
func (w *Workspace) releaseAll(n *node) {
	w.release(n)
	for _, child := range n.entries {
		w.releaseAll(child)
	}
}

// rehandle gives the nodes in a directory their new handles.
func (w *Workspace) rehandle(n *node) error {
	if n.entries == nil {
		return nil
	}
	found, err := list(n.handle)
	if err != nil {
		return err
	}
	handles := make(map[string]js.Value, len(found))
	for _, e := range found {
		handles[e.name] = e.handle
	}
	for _, child := range n.entries {
		child.handle = handles[child.stored]
		if err := w.rehandle(child); err != nil {
			return err
		}
	}
	return nil
}

// moveEntries moves the entries of a directory into another one, which it makes, and returns
// that. It removes the directories that are empty then.
func moveEntries(from, toDir js.Value, stored string) (js.Value, error) {
	to, err := ask(toDir, "getDirectoryHandle", stored, map[string]any{"create": true})
	if err != nil {
		return to, err
	}
	entries, err := list(from)
	if err != nil {
		return to, err
	}
	for _, e := range entries {
		if !e.isDir {
			_, err = ask(e.handle, "move", to, e.name)
		} else if _, err = moveEntries(e.handle, to, e.name); err == nil {
			_, err = ask(from, "removeEntry", e.name)
		}
		if err != nil {
			return to, err
		}
	}
	return to, nil
}

// resume completes the move of a tab that was closed.
func (w *Workspace) resume() error {
	handle, err := ask(w.meta, "getFileHandle", moveName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var m move
	if err == nil {
		m, err = readMove(handle)
	}
	if err != nil || len(m.From) == 0 || len(m.To) == 0 {
		return err
	}
	dir := func(names []string) (at js.Value, err error) {
		at = w.top.handle
		for _, name := range names {
			if err == nil {
				at, err = ask(at, "getDirectoryHandle", name)
			}
		}
		return at, err
	}
	fromDir, err := dir(m.From[:len(m.From)-1])
	if err != nil {
		return err
	}
	last := m.From[len(m.From)-1]
	from, err := ask(fromDir, "getDirectoryHandle", last)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // only the note was left
	}
	toDir := js.Value{}
	if err == nil {
		toDir, err = dir(m.To[:len(m.To)-1])
	}
	if err == nil {
		_, err = moveEntries(from, toDir, m.To[len(m.To)-1])
	}
	if err == nil {
		_, err = ask(fromDir, "removeEntry", last)
	}
	return err
}

// readMove reads the note about a move.
func readMove(handle js.Value) (m move, err error) {
	file, err := ask(handle, "getFile")
	if err != nil {
		return m, err
	}
	text, err := ask(file, "text")
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal([]byte(text.String()), &m)
}
