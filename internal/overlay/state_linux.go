package overlay

import (
	"errors"
	"io"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// stateAt returns what stands at a name below a directory. The path is the one that the
// caller knows it by.
func stateAt(dir, name, path string) (State, error) {
	t, err := openTree(dir)
	if err != nil {
		return State{}, err
	}
	defer t.close()
	return t.state(dir, name, path)
}

// state is stateAt for a tree that is open.
func (t *tree) state(dir, name, path string) (State, error) {
	st, err := t.stat(name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return State{Path: path}, nil
	}
	if errors.Is(err, unix.EACCES) {
		return State{Path: path, Unknown: true}, nil
	}
	if err != nil {
		return State{}, err
	}
	s := State{Path: path, Kind: kindOf(st), Mode: permissions(st)}
	switch s.Kind {
	case File:
		s.Size = st.Size
		s.Content = func() (io.ReadCloser, error) { return OpenFile(dir, name) }
	case Symlink:
		s.LinkTarget, err = t.readLink(name)
	}
	return s, err
}

// visitBelow calls visit for all that is in a directory, each after the directory it is in. A
// directory that cannot be listed is visited once more, as unknown.
func (t *tree) visitBelow(dir, name, at string, visit func(State) error) error {
	names, err := t.list(name)
	if errors.Is(err, unix.EACCES) {
		return visit(State{Path: at, Unknown: true})
	}
	if err != nil {
		return err
	}
	for _, base := range names {
		s, err := t.state(dir, path.Join(name, base), path.Join(at, base))
		if err != nil {
			return err
		}
		if err := visit(s); err != nil {
			return err
		}
		if s.Kind == Dir {
			if err := t.visitBelow(dir, path.Join(name, base), s.Path, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// PreviewUndo calls visit for all that Undo would change of changes that have landed: what
// stands there now, and what was there before.
func (o Overlay) PreviewUndo(changes []Change, visit func(now, then State) error) error {
	if o.IsFinal() {
		return ErrCannotUndo
	}
	moves, err := readMoves(o.Store)
	if err != nil {
		return err
	}
	made := make(map[string]move, len(moves))
	for _, m := range moves {
		made[m.Path] = m
	}
	for _, c := range changes {
		now, err := stateAt(o.Dir, c.Path, c.Path)
		if err != nil {
			return err
		}
		m := made[c.Path]
		dir, name := o.UpperDir(), c.Path
		if m.Action == moveOut {
			dir, name = o.Store+"/"+oldName, strconv.Itoa(m.Number)
		}
		then := State{Path: c.Path}
		switch {
		case m.Action == changeMode:
			then = now
			then.Mode = m.OldMode & 0o777
		case m.Action == moveOut, m.Action == exchange && c.NewDir == "":
			if then, err = stateAt(dir, name, c.Path); err != nil {
				return err
			}
		}
		if err := visit(now, then); err != nil {
			return err
		}
		if then.Kind != Dir || m.Action == changeMode {
			continue
		}
		t, err := openTree(dir)
		if err != nil {
			return err
		}
		err = t.visitBelow(dir, name, c.Path, func(s State) error { return visit(State{Path: s.Path}, s) })
		t.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// States returns what a kept layer has at the path of a change, and what the real
// directory has there.
func (o Overlay) States(c Change) (own, real State, err error) {
	own, real = State{Path: c.Path}, State{Path: c.Path}
	if c.Op != Delete {
		own, err = stateAt(o.UpperOrCopy(), c.Path, c.Path)
	}
	if err == nil && c.OldKind != Nothing {
		real, err = stateAt(o.Dir, c.Path, c.Path)
	}
	return own, real, err
}

// AddDigests notes the digest of what a kept layer has of each file that was changed.
func AddDigests(o Overlay, changes []Change) {
	for i, c := range changes {
		if c.Op != Delete && c.Kind == File {
			f, err := OpenFile(o.UpperOrCopy(), c.Path)
			changes[i].Digest = Digest(f, err)
		}
	}
}
