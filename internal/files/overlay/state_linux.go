package overlay

import (
	"errors"
	"io"
	"strconv"

	"golang.org/x/sys/unix"
)

// stateAt returns the state of a name below a directory. path is the path that the caller
// knows it by.
func stateAt(dir, name, path string) (State, error) {
	t, err := openTree(dir)
	if err != nil {
		return State{}, err
	}
	defer t.close()
	return t.state(dir, name, path)
}

// state is stateAt for an open tree.
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

// visitBelow calls visit for everything in a directory, each directory before its
// content. A directory that cannot be listed is visited once more, as unknown.
func (t *tree) visitBelow(dir, name, at string, visit func(State) error) error {
	names, err := t.list(name)
	if errors.Is(err, unix.EACCES) {
		return visit(State{Path: at, Unknown: true})
	}
	if err != nil {
		return err
	}
	for _, base := range names {
		s, err := t.state(dir, joinName(name, base), joinName(at, base))
		if err != nil {
			return err
		}
		if err := visit(s); err != nil {
			return err
		}
		if s.Kind == Dir {
			if err := t.visitBelow(dir, joinName(name, base), s.Path, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// PreviewUndo calls visit for each path that Undo would change, with its state now and
// its state after the undo.
func (o Overlay) PreviewUndo(changes []PathChange, visit func(now, then State) error) error {
	if o.IsFinal() {
		return ErrCannotUndo
	}
	moves, err := readMoves(o.Store, movesName)
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

// States returns the session's state of a changed path, and that of the real directory.
func (o Overlay) States(c PathChange) (own, real State, err error) {
	own, real = State{Path: c.Path}, State{Path: c.Path}
	if c.Op != Delete {
		own, err = stateAt(o.UpperOrCopy(), c.Path, c.Path)
	}
	if err == nil && c.OldKind != Nothing {
		real, err = stateAt(o.Dir, c.Path, c.Path)
	}
	return own, real, err
}

// AddDigests sets the digest of the session's version in each change of a file.
func AddDigests(o Overlay, changes []PathChange) {
	for i, c := range changes {
		if c.Op != Delete && c.Kind == File {
			f, err := OpenFile(o.UpperOrCopy(), c.Path)
			changes[i].Digest = Digest(f, err)
		}
	}
}
