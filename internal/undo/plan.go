package undo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// A Plan is what the undo of a step comes to, as the files are now.
type Plan struct {
	Step       *Step
	Conflicts  []string // names that have changed since: nothing is undone then
	Remove     []Entry  // what the call has made, directories before what is in them
	Restore    []Entry  // what it has replaced or deleted, directories before what is in them
	Modes      []Entry  // what is back already, with other permission bits: an undo was cut off
	MoveBack   bool     // what was moved goes back
	DeleteCopy bool     // what was moved is still there: the copy goes
	// Elsewhere is a name that is in another directory of the host now, "" for none.
	Elsewhere string
	nonEmpty  []string // directories that the call has made, and that hold something else now
}

// IsEmpty reports whether there is nothing to undo: the call was never done, or is undone.
func (p Plan) IsEmpty() bool {
	return len(p.Conflicts)+len(p.Remove)+len(p.Restore)+len(p.Modes) == 0 && !p.MoveBack && !p.DeleteCopy && p.Elsewhere == "" && p.Step.Impossible == ""
}

// Plan compares the files with what a step has kept.
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
	undoing := st.isUndoing()
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
		p.Conflicts = p.nonEmpty // the call has made a directory, and nothing else
	}
	return p
}

// findElsewhere returns a name of the step that another directory of the host is mounted at
// now, or none.
func (st *Step) findElsewhere(files *sandbox.Sandbox) string {
	for _, name := range st.Names() {
		m, shown := files.MountOf(name)
		if !shown || m.Backend == nil || !slices.Contains(st.Mounts, Mount{m.Target, string(m.Backend.Traits().Host)}) {
			return name
		}
	}
	return ""
}

// Names returns all names that the step is about.
func (st *Step) Names() (names []string) {
	if st.Rename != nil {
		names = append(names, st.Rename.From, st.Rename.To)
	}
	for _, e := range st.Entries {
		names = append(names, e.Path)
	}
	return names
}

// compareMove compares both names of what was moved.
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

// keepNonEmpty takes directories out of what is removed that hold something else.
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

// Each calls visit for all that the plan changes, but for what moves: what stands there
// now, and what was there before.
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

// EachSaved calls visit for all whose content the step keeps.
func (p Plan) EachSaved(visit func(name string, then overlay.State)) {
	for _, e := range p.Step.Entries {
		if e.Before.Kind != overlay.Nothing {
			visit(e.Path, p.savedState(e.Before, e.Path))
		}
	}
}

// savedState returns a node that is kept as a state.
func (p Plan) savedState(n Node, name string) overlay.State {
	s := overlay.State{Path: name, Kind: n.Kind, Mode: uint32(n.Mode.Perm()), Size: n.Size, LinkTarget: n.To}
	s.Content = func() (io.ReadCloser, error) {
		data, err := p.Step.content(n)
		return io.NopCloser(bytes.NewReader(data)), err
	}
	return s
}

// currentState returns what stands at a name as a state.
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

// Run undoes the step, if the files are still as they were when the plan was made. Where
// it is cut off, it can be run again. The files must allow what the plan changes.
func (p Plan) Run(ctx context.Context, files *sandbox.Sandbox) error {
	if now := p.Step.Plan(files); !p.isSame(now) {
		return conflictError(append(now.Conflicts, p.names()...))
	}
	if err := p.Step.markUndoing(); err != nil {
		return err
	}
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
		if err := p.restore(files, e); err != nil {
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

func (p Plan) restore(files *sandbox.Sandbox, e Entry) error {
	var content []byte
	if e.Before.Kind == overlay.File {
		var err error
		if content, err = p.Step.content(e.Before); err != nil {
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

// isSame reports whether two plans come to the same.
func (p Plan) isSame(q Plan) bool {
	return len(q.Conflicts) == 0 && q.Elsewhere == "" && p.MoveBack == q.MoveBack && p.DeleteCopy == q.DeleteCopy && slices.Equal(p.Remove, q.Remove) && slices.Equal(p.Restore, q.Restore) && slices.Equal(p.Modes, q.Modes)
}

// names returns what the plan changes.
func (p Plan) names() (names []string) {
	for _, e := range slices.Concat(p.Remove, p.Restore) {
		names = append(names, e.Path)
	}
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
