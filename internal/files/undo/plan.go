package undo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// A Plan lists what the undo of a step changes, for the files as they are now.
type Plan struct {
	Step       *Step
	Conflicts  []string // names that have changed since; if there are any, nothing is undone
	Remove     []Entry  // created by the call; directories before their content
	Restore    []Entry  // replaced or deleted by the call; directories before their content
	Modes      []Entry  // restored by an interrupted undo, but with other permission bits
	MoveBack   bool     // the moved file or directory goes back
	DeleteCopy bool     // the original is still there, so the copy is deleted
	// Elsewhere is a name that is in another directory of the host now, "" for none.
	Elsewhere string
	nonEmpty  []string // directories that the call created and that have other content now
}

// IsEmpty reports whether there is nothing to undo: the call never ran, or it is undone.
func (p Plan) IsEmpty() bool {
	return len(p.Conflicts)+len(p.Remove)+len(p.Restore)+len(p.Modes) == 0 && !p.MoveBack && !p.DeleteCopy && p.Elsewhere == "" && p.Step.Impossible == ""
}

// isNothingThere reports whether no name is in the state that the call gives to it.
func (p Plan) isNothingThere() bool {
	p.Conflicts = nil
	return p.IsEmpty() && len(p.nonEmpty) == 0
}

// Plan compares the files with a step.
func (st *Step) Plan(files *sandbox.Sandbox) Plan {
	p := Plan{Step: st}
	if st.Impossible != "" {
		return p
	}
	if p.Elsewhere = st.findElsewhere(files); p.Elsewhere != "" {
		return p
	}
	if st.Rename != nil {
		p.compareMove(files)
	}
	undoing := st.slot.isUndoing()
	for _, e := range st.Entries {
		now, err := readNode(files, e.Path)
		switch {
		case err != nil:
			p.Conflicts = append(p.Conflicts, e.Path)
		case now.isSame(e.Before):
			if undoing && e.After.Kind == overlay.Nothing && e.Before.Kind != overlay.Symlink && now.Mode.Perm() != e.Before.Mode.Perm() {
				p.Modes = append(p.Modes, e)
			}
		case !now.isSame(e.After) && e.After.Kind == overlay.Dir && now.Kind == overlay.Nothing:
		case !now.isSame(e.After):
			p.Conflicts = append(p.Conflicts, e.Path)
		case e.Before.Kind == overlay.Nothing:
			p.Remove = append(p.Remove, e)
		default:
			p.Restore = append(p.Restore, e)
		}
	}
	p.keepNonEmpty(files)
	if last := len(st.Entries) - 1; p.IsEmpty() && len(p.nonEmpty) > 0 && st.Rename == nil && st.Entries[last].After.Kind == overlay.Dir {
		p.Conflicts = p.nonEmpty // the call has only created a directory
	}
	return p
}

// findElsewhere returns a name of the step at which another directory of the host is
// mounted now, "" for none.
func (st *Step) findElsewhere(files *sandbox.Sandbox) string {
	for _, name := range st.Names() {
		m, shown := files.MountOf(name)
		if !shown || m.Backend == nil || !slices.Contains(st.Mounts, Mount{m.Target, string(m.Backend.Traits().Host)}) {
			return name
		}
	}
	return ""
}

// Names returns the names that the call changed.
func (st *Step) Names() (names []string) {
	if st.Rename != nil {
		names = append(names, st.Rename.From, st.Rename.To)
	}
	return append(names, Names(st.Entries)...)
}

// Names returns the names of entries.
func Names(list []Entry) (names []string) {
	for _, e := range list {
		names = append(names, e.Path)
	}
	return names
}

// Topmost returns the names that are below none of the others, sorted.
func Topmost(names []string) []string {
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[name] = true
	}
	isKnown := overlay.AtOrBelow(func(name string) bool { return known[name] })
	top := []string{}
	for name := range known {
		if dir := path.Dir(name); dir == name || !isKnown(dir) {
			top = append(top, name)
		}
	}
	slices.Sort(top)
	return top
}

// compareMove compares both names of a move.
func (p *Plan) compareMove(files *sandbox.Sandbox) {
	m := p.Step.Rename
	a, _ := files.MountOf(m.From)
	b, _ := files.MountOf(m.To)
	copied := a.Target != b.Target
	from, err := readMovedNode(files, m.From, copied)
	to, other := readMovedNode(files, m.To, copied)
	is := func(n Node) bool { return n.isSame(m.Node) && n.Sum == m.Node.Sum }
	switch {
	case err != nil:
		p.Conflicts = append(p.Conflicts, m.From)
	case other != nil:
		p.Conflicts = append(p.Conflicts, m.To)
	case from.Kind == overlay.Nothing && is(to):
		p.MoveBack = true
	case is(from) && to.Kind == overlay.Nothing:
	case is(from) && is(to) && copied:
		p.DeleteCopy = true
	case from.Kind != overlay.Nothing:
		p.Conflicts = append(p.Conflicts, m.From)
	default:
		p.Conflicts = append(p.Conflicts, m.To)
	}
}

// keepNonEmpty removes from p.Remove the directories that have other content.
func (p *Plan) keepNonEmpty(files *sandbox.Sandbox) {
	gone := make(map[string]bool)
	for _, e := range p.Remove {
		gone[e.Path] = true
	}
	if p.MoveBack || p.DeleteCopy {
		gone[p.Step.Rename.To] = true
	}
	for _, e := range slices.Backward(p.Remove) {
		if e.After.Kind != overlay.Dir {
			continue
		}
		names, err := children(files, e.Path)
		if err != nil || slices.ContainsFunc(names, func(base string) bool { return !gone[path.Join(e.Path, base)] }) {
			delete(gone, e.Path)
			p.nonEmpty = append(p.nonEmpty, e.Path)
		}
	}
	p.Remove = slices.DeleteFunc(p.Remove, func(e Entry) bool { return !gone[e.Path] })
}

// Each calls visit with the current and the old state of every name that the plan
// changes, except for a move.
func (p Plan) Each(files *sandbox.Sandbox, visit func(name string, now, then overlay.State)) {
	for _, e := range slices.Concat(p.Remove, p.Restore, p.Modes) {
		now, err := readNode(files, e.Path)
		state := p.savedState(Node{}, e.Path)
		if err != nil {
			state.Unknown = true
		} else if now.Kind != overlay.Nothing {
			state = currentState(files, e.Path, now)
		}
		visit(e.Path, state, p.savedState(e.Before, e.Path))
	}
}

// EachSaved calls visit with the old state of every name that had one. The error is nil.
func (p Plan) EachSaved(visit func(name string, then overlay.State)) error {
	for _, e := range p.Step.Entries {
		if e.Before.Kind != overlay.Nothing {
			visit(e.Path, p.savedState(e.Before, e.Path))
		}
	}
	return nil
}

// savedState returns a saved node as a state.
func (p Plan) savedState(n Node, name string) overlay.State {
	s := overlay.State{Path: name, Kind: n.Kind, Mode: uint32(n.Mode.Perm()), Size: n.Size, LinkTarget: n.To}
	s.Content = func() (io.ReadCloser, error) {
		f, err := p.Step.open()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		data, err := p.Step.content(f, n)
		return io.NopCloser(bytes.NewReader(data)), err
	}
	return s
}

// currentState returns the node that is at a name now as a state.
func currentState(files *sandbox.Sandbox, name string, n Node) overlay.State {
	s := overlay.State{Path: name, Kind: n.Kind, Mode: uint32(n.Mode.Perm()), Size: n.Size, LinkTarget: n.To}
	s.Content = func() (io.ReadCloser, error) {
		b, rel, err := backendOf(files, name)
		if err != nil {
			return nil, err
		}
		f, err := b.Open(rel)
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{io.NewSectionReader(f, 0, f.Attr().Size), f}, nil
	}
	return s
}

// Run undoes the step, if the files are still as they were when the plan was made. If it
// is interrupted, it can be run again. The files must allow what the plan changes.
func (p Plan) Run(ctx context.Context, files *sandbox.Sandbox) error {
	if now := p.Step.Plan(files); !p.isSame(now) {
		return conflictError(append(now.Conflicts, p.names()...))
	}
	saved, err := p.Step.beginUndo()
	if err != nil {
		return err
	}
	defer saved.Close()
	m := p.Step.Rename
	if p.MoveBack {
		if err := files.Move(m.To, m.From); err != nil {
			return err
		}
	}
	if p.DeleteCopy {
		if err := files.Delete(m.To); err != nil {
			return err
		}
	}
	for _, e := range slices.Backward(p.Remove) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if now, err := readNode(files, e.Path); err != nil || !now.isSame(e.After) {
			return conflictError([]string{e.Path})
		}
		if err := files.Delete(e.Path); err != nil {
			return err
		}
	}
	for _, e := range p.Restore {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.restore(files, e, saved); err != nil {
			return err
		}
	}
	for _, e := range slices.Backward(slices.Concat(p.Restore, p.Modes)) {
		if e.After.Kind == overlay.Nothing && e.Before.Kind != overlay.Symlink {
			if err := files.RestoreAttr(e.Path, e.Before.attr()); err != nil {
				return err
			}
		}
	}
	return nil
}

// restore gives a name its old state. saved is the file of the step.
func (p Plan) restore(files *sandbox.Sandbox, e Entry, saved *os.File) error {
	var content []byte
	if e.Before.Kind == overlay.File {
		var err error
		if content, err = p.Step.content(saved, e.Before); err != nil {
			return err
		}
	}
	if e.After.Kind == overlay.Nothing {
		return files.Restore(e.Path, content, e.Before.attr())
	}
	v, err := sandbox.ParseVersion(e.After.Sum)
	if err == nil {
		_, err = files.WriteIf(e.Path, content, v)
	}
	return err
}

// isSame reports whether two plans change the same, and the second has no conflicts.
func (p Plan) isSame(q Plan) bool {
	return len(q.Conflicts) == 0 && q.Elsewhere == "" && p.MoveBack == q.MoveBack && p.DeleteCopy == q.DeleteCopy && slices.Equal(p.Remove, q.Remove) && slices.Equal(p.Restore, q.Restore) && slices.Equal(p.Modes, q.Modes)
}

// names returns the names that the plan changes.
func (p Plan) names() []string {
	names := Names(slices.Concat(p.Remove, p.Restore))
	if m := p.Step.Rename; m != nil {
		names = append(names, m.To)
	}
	return names
}

func conflictError(names []string) error {
	hint := "it has changed since this was shown"
	if len(names) > 0 {
		hint = fmt.Sprintf("%s has changed since this was shown", sandbox.Shown(names[0]))
	}
	return &sandbox.Error{Op: "undo", Code: sandbox.ErrConflict, Hint: hint + "; look at it, and undo again"}
}
