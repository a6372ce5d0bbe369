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
	Step    *Step
	Clash   []string // names that have changed since: nothing is undone then
	Remove  []Entry  // what the call has made, directories before what is in them
	Restore []Entry  // what it has replaced or deleted, directories before what is in them
	Bits    []Entry  // what is back already, with other permission bits: an undo was cut off
	Back    bool     // what was moved goes back
	Drop    bool     // what was moved is still there: the copy goes
	// Elsewhere is a name that is in another directory of the host now, "" for none.
	Elsewhere string
	full      []string // directories that the call has made, and that hold something else now
}

// Empty reports whether there is nothing to undo: the call was never done, or is undone.
func (p Plan) Empty() bool {
	return len(p.Clash)+len(p.Remove)+len(p.Restore)+len(p.Bits) == 0 && !p.Back && !p.Drop && p.Elsewhere == "" && p.Step.Impossible == ""
}

// Plan compares the files with what a step has kept.
func (st *Step) Plan(files *sandbox.Sandbox) Plan {
	p := Plan{Step: st}
	if st.Impossible != "" {
		return p
	}
	if p.Elsewhere = st.elsewhere(files); p.Elsewhere != "" {
		return p
	}
	if st.Moved != nil {
		p.moved(files)
	}
	undoing := st.undoing()
	for _, e := range st.Entries {
		now, err := look(files, e.Path)
		switch {
		case err != nil:
			p.Clash = append(p.Clash, e.Path)
		case now.same(e.Before):
			if undoing && e.After.Kind == overlay.Nothing && e.Before.Kind != overlay.Symlink && now.Mode.Perm() != e.Before.Mode.Perm() {
				p.Bits = append(p.Bits, e)
			}
		case !now.same(e.After) && e.After.Kind == overlay.Dir && now.Kind == overlay.Nothing:
		case !now.same(e.After):
			p.Clash = append(p.Clash, e.Path)
		case e.Before.Kind == overlay.Nothing:
			p.Remove = append(p.Remove, e)
		default:
			p.Restore = append(p.Restore, e)
		}
	}
	p.keepFull(files)
	if last := len(st.Entries) - 1; p.Empty() && len(p.full) > 0 && st.Moved == nil && st.Entries[last].After.Kind == overlay.Dir {
		p.Clash = p.full // the call has made a directory, and nothing else
	}
	return p
}

// elsewhere returns a name of the step that another directory of the host is mounted at
// now, or none.
func (st *Step) elsewhere(files *sandbox.Sandbox) string {
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
	if st.Moved != nil {
		names = append(names, st.Moved.From, st.Moved.To)
	}
	for _, e := range st.Entries {
		names = append(names, e.Path)
	}
	return names
}

// moved compares both names of what was moved.
func (p *Plan) moved(files *sandbox.Sandbox) {
	m := p.Step.Moved
	a, _ := files.MountOf(m.From)
	b, _ := files.MountOf(m.To)
	copied := a.Target != b.Target
	from, err := lookMoved(files, m.From, copied)
	to, other := lookMoved(files, m.To, copied)
	is := func(n Node) bool { return n.same(m.Node) && n.Sum == m.Node.Sum }
	switch {
	case err != nil:
		p.Clash = append(p.Clash, m.From)
	case other != nil:
		p.Clash = append(p.Clash, m.To)
	case from.Kind == overlay.Nothing && is(to):
		p.Back = true
	case is(from) && to.Kind == overlay.Nothing:
	case is(from) && is(to) && copied:
		p.Drop = true
	case from.Kind != overlay.Nothing:
		p.Clash = append(p.Clash, m.From)
	default:
		p.Clash = append(p.Clash, m.To)
	}
}

// keepFull takes directories out of what is removed that hold something else.
func (p *Plan) keepFull(files *sandbox.Sandbox) {
	gone := make(map[string]bool)
	for _, e := range p.Remove {
		gone[e.Path] = true
	}
	if p.Back || p.Drop {
		gone[p.Step.Moved.To] = true
	}
	for _, e := range slices.Backward(p.Remove) {
		if e.After.Kind != overlay.Dir {
			continue
		}
		names, err := children(files, e.Path)
		if err != nil || slices.ContainsFunc(names, func(base string) bool { return !gone[path.Join(e.Path, base)] }) {
			delete(gone, e.Path)
			p.full = append(p.full, e.Path)
		}
	}
	p.Remove = slices.DeleteFunc(p.Remove, func(e Entry) bool { return !gone[e.Path] })
}

// Each calls visit for all that the plan changes, but for what moves: what stands there
// now, and what was there before.
func (p Plan) Each(files *sandbox.Sandbox, visit func(name string, now, then overlay.State)) {
	for _, e := range slices.Concat(p.Remove, p.Restore, p.Bits) {
		now, err := look(files, e.Path)
		state := p.kept(Node{}, e.Path)
		if err != nil {
			state.Unknown = true
		} else if now.Kind != overlay.Nothing {
			state = standing(files, e.Path, now)
		}
		visit(e.Path, state, p.kept(e.Before, e.Path))
	}
}

// Kept calls visit for all whose content the step keeps.
func (p Plan) Kept(visit func(name string, then overlay.State)) {
	for _, e := range p.Step.Entries {
		if e.Before.Kind != overlay.Nothing {
			visit(e.Path, p.kept(e.Before, e.Path))
		}
	}
}

// kept returns a node that is kept as a state.
func (p Plan) kept(n Node, name string) overlay.State {
	s := overlay.State{Path: name, Kind: n.Kind, Mode: uint32(n.Mode.Perm()), Size: n.Size, LinkTarget: n.To}
	s.Content = func() (io.ReadCloser, error) {
		data, err := p.Step.content(n)
		return io.NopCloser(bytes.NewReader(data)), err
	}
	return s
}

// standing returns what stands at a name as a state.
func standing(files *sandbox.Sandbox, name string, n Node) overlay.State {
	s := overlay.State{Path: name, Kind: n.Kind, Mode: uint32(n.Mode.Perm()), Size: n.Size, LinkTarget: n.To}
	s.Content = func() (io.ReadCloser, error) {
		b, rel, err := at(files, name)
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
	if now := p.Step.Plan(files); !p.same(now) {
		return changedMeanwhile(append(now.Clash, p.names()...))
	}
	if err := p.Step.begin(); err != nil {
		return err
	}
	m := p.Step.Moved
	if p.Back {
		if err := files.Move(m.To, m.From); err != nil {
			return err
		}
	}
	if p.Drop {
		if err := files.Delete(m.To); err != nil {
			return err
		}
	}
	for _, e := range slices.Backward(p.Remove) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if now, err := look(files, e.Path); err != nil || !now.same(e.After) {
			return changedMeanwhile([]string{e.Path})
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
	for _, e := range slices.Backward(slices.Concat(p.Restore, p.Bits)) {
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

// same reports whether two plans come to the same.
func (p Plan) same(q Plan) bool {
	return len(q.Clash) == 0 && q.Elsewhere == "" && p.Back == q.Back && p.Drop == q.Drop && slices.Equal(p.Remove, q.Remove) && slices.Equal(p.Restore, q.Restore) && slices.Equal(p.Bits, q.Bits)
}

// names returns what the plan changes.
func (p Plan) names() (names []string) {
	for _, e := range slices.Concat(p.Remove, p.Restore) {
		names = append(names, e.Path)
	}
	if m := p.Step.Moved; m != nil {
		names = append(names, m.To)
	}
	return names
}

func changedMeanwhile(names []string) error {
	hint := "it has changed since this was shown"
	if len(names) > 0 {
		hint = fmt.Sprintf("%s has changed since this was shown", sandbox.Shown(names[0]))
	}
	return &sandbox.Error{Op: "undo", Code: sandbox.ErrConflict, Hint: hint + "; look at it, and undo again"}
}
