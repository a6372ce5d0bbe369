package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Move moves a file, directory or symlink to a name that must not exist. It makes the
// directories above that name. Between mounts it moves only files. If the policy forbids
// changing anything in a directory, Move does not move the directory.
func (s *Sandbox) Move(from, to string) error {
	away := request{op: "move", access: ReadWrite, noFollow: true, removes: true}
	here := request{op: "move", access: ReadWrite, noFollow: true}
	return s.do(away, from, func(f location) error {
		attr, err := s.lstatMovable(f)
		if err != nil {
			return err
		}
		if err := s.checkRemoveTree(context.Background(), f, attr); err != nil {
			return err
		}
		return s.do(here, to, func(t location) error {
			if err := s.checkMoveTo(f, t, attr); err != nil {
				return err
			}
			if f.rule.mount == t.rule.mount {
				return rename(f, t)
			}
			return s.moveBetweenMounts(f, t, attr)
		})
	})
}

// rename moves a file, directory or symlink inside one mount.
func rename(f, t location) error {
	b := f.rule.mount.Backend
	err := b.Rename(f.rel, t.rel)
	if isMissing(err) {
		if err := makeDirs(b, path.Dir(t.rel)); err != nil {
			return err
		}
		err = b.Rename(f.rel, t.rel)
	}
	return err
}

// moveBetweenMounts copies a file to another mount and then removes the old name. If the
// old name cannot be removed, or its file has changed since the copy, it removes the copy
// again. It does not notice a change between that last check and the removal.
func (s *Sandbox) moveBetweenMounts(f, t location, attr Attr) error {
	if !attr.Mode.IsRegular() {
		return &Error{Code: ErrInvalid, Hint: "only files move between mounts; make the directory there and move its files"}
	}
	file, err := s.open(f)
	if err != nil {
		return err
	}
	defer file.Close()
	was := file.Attr()
	made, err := s.put(t, io.NewSectionReader(file, 0, was.Size), was.Size, How{New: true, Mode: attr.Mode.Perm()})
	if errors.Is(err, ErrLink) {
		if _, there := t.rule.mount.Backend.Lstat(t.rel); there == nil {
			err = ErrExists // the name itself is a symlink
		}
	}
	if err != nil {
		return err
	}
	now, err := f.rule.mount.Backend.Lstat(f.rel)
	if err == nil && !(now.sameFile(was) && now.Changed == was.Changed && now.Mode == was.Mode) {
		err = &Error{Op: "move", Path: f.name, Code: ErrConflict, Hint: "it changed while it was copied, and was not moved; try again"}
	}
	if err == nil {
		err = f.rule.mount.Backend.Remove(f.rel)
	}
	if err != nil {
		if copied, there := t.rule.mount.Backend.Lstat(t.rel); there == nil && copied.sameFile(made.attr) {
			t.rule.mount.Backend.Remove(t.rel)
		}
	}
	return err
}

// sameFile reports whether both describe the same file with the same content, as far as
// ID, size and modification time show.
func (a Attr) sameFile(b Attr) bool {
	return a.ID == b.ID && a.Size == b.Size && a.ModTime.Equal(b.ModTime)
}

// Delete removes a file, a symlink or an empty directory.
func (s *Sandbox) Delete(name string) error {
	return s.do(request{op: "delete", access: ReadWrite, noFollow: true, removes: true}, name, func(p location) error {
		attr, err := s.lstatMovable(p)
		if err != nil {
			return err
		}
		if err := s.checkRemove(p, attr); err != nil {
			return err
		}
		return p.rule.mount.Backend.Remove(p.rel)
	})
}

// DeleteAll removes a file or symlink, or a directory with everything in it. If the
// policy forbids deleting anything in the directory, it removes nothing. If the host fails or
// ctx ends midway, some files may already be deleted.
func (s *Sandbox) DeleteAll(ctx context.Context, name string) error {
	return s.do(request{op: "delete", access: ReadWrite, noFollow: true, removes: true}, name, func(p location) error {
		attr, err := s.lstatMovable(p)
		if err != nil {
			return err
		}
		if err := s.checkRemoveTree(ctx, p, attr); err != nil {
			return err
		}
		return s.removeTree(ctx, p, Entry{Type: attr.Mode.Type()})
	})
}

// removeTree removes the files in a directory before the directory. It checks the policy
// again for each name, because somebody may have put a protected file there in between.
func (s *Sandbox) removeTree(ctx context.Context, p location, e Entry) error {
	if err := ctx.Err(); err != nil {
		return &Error{Op: "delete", Path: p.name, Code: ErrLimit, Hint: "stopped here; a part is already deleted"}
	}
	if err := s.checkRemove(p, Attr{Mode: e.Type}); err != nil {
		return err
	}
	if p.rule.noDelete {
		return &Error{Code: ErrReadOnly, Hint: "a part of it may not be deleted"}
	}
	b := p.rule.mount.Backend
	if e.IsDir() {
		entries, err := s.readDir(p)
		if err != nil {
			return err
		}
		for _, child := range entries {
			if err := s.removeTree(ctx, s.childOf(p, child.Name), child); err != nil {
				return err
			}
		}
	}
	return b.Remove(p.rel)
}

// childOf returns the location of a name in the directory at p. The child has the rule of
// p unless a name below p has its own rule.
func (s *Sandbox) childOf(p location, name string) location {
	child := location{name: join(p.name, name), rule: p.rule}
	if s.table.deeper[p.name] || p.rule.mount == nil {
		child.name = s.table.spellings.spell(child.name)
		child.rule = s.lookup(child.name)
	}
	if child.rule.mount != nil {
		child.rel = relative(child.rule.mount.Target, child.name)
	}
	return child
}

// lstatMovable describes the file or symlink at p. It refuses a mount and the directories
// above mounts, which cannot be moved or deleted.
func (s *Sandbox) lstatMovable(p location) (Attr, error) {
	if s.table.permanent[p.name] {
		return Attr{}, &Error{Code: ErrInvalid, Hint: "a mount is here or below, and cannot be moved or deleted"}
	}
	return p.rule.mount.Backend.Lstat(p.rel)
}

// checkRemove returns an error if the policy forbids removing the file or directory at p.
// It does not check the files in a directory.
func (s *Sandbox) checkRemove(p location, attr Attr) error {
	// If another mount shows this directory, moving it would move that mount's files to a
	// name where its limits do not apply.
	if slices.ContainsFunc(s.overlaps, func(o overlap) bool {
		return o.in == p.rule.mount && o.location != o.in.Target && within(p.name, o.location)
	}) {
		return &Error{Code: ErrReadOnly, Hint: "another mount shows it or a part of it, so it cannot be moved or deleted"}
	}
	if s.table.deeper[p.name] {
		for name, r := range s.table.rules {
			if r.access < ReadWrite && below(p.name, name) {
				return &Error{Code: ErrReadOnly, Hint: "a part of it may not be changed"}
			}
		}
	}
	if pattern := s.guard.match(p.name); pattern != "" {
		return &Error{Code: ErrProtected, Hint: "only clearance can change " + brief(p.name)}
	}
	if attr.Mode.IsRegular() && !isTemp(path.Base(p.name)) {
		return p.checkSuffix()
	}
	return nil
}

// checkRemoveTree returns an error if the policy forbids removing p or anything in it.
func (s *Sandbox) checkRemoveTree(ctx context.Context, p location, attr Attr) error {
	return s.visitTree(ctx, p, Entry{Type: attr.Mode.Type()}, func(p location, e Entry) error {
		if p.rule.noDelete {
			return &Error{Code: ErrReadOnly, Hint: "a part of it may not be deleted or moved away"}
		}
		return s.checkRemove(p, Attr{Mode: e.Type})
	})
}

// checkMoveTo returns an error if the policy forbids that f, with everything in it, moves
// to t.
func (s *Sandbox) checkMoveTo(f, t location, attr Attr) error {
	if s.table.permanent[t.name] {
		return ErrExists
	}
	if err := s.checkNewName(t); err != nil {
		return err
	}
	if within(f.name, t.name) && f.name != t.name {
		return &Error{Code: ErrInvalid, Hint: "a directory cannot move into itself"}
	}
	err := s.visitTree(context.Background(), f, Entry{Type: attr.Mode.Type()}, func(p location, e Entry) error {
		there := t
		if p.rel != f.rel {
			there = s.childOf(t, relative(f.name, p.name))
		}
		if there.rule.noWrite {
			return &Error{Code: ErrReadOnly, Hint: "a part of it may not be written there"}
		}
		if len(there.name) > maxName {
			return &Error{Code: ErrInvalid, Hint: "a name in it would be longer than 4096 bytes"}
		}
		if err := s.checkSize(p, there, e); err != nil {
			return err
		}
		if err := s.content.checkMoved(p, there, e); err != nil {
			return err
		}
		return s.checkRemove(there, Attr{Mode: e.Type})
	})
	if err != nil || !attr.Mode.IsDir() || f.rule.mount != t.rule.mount {
		return err
	}
	// Another call may add files to the directory during the move, under the rules of its
	// old name. So a directory moves only to a name where the same rules apply to
	// everything in it.
	if s.table.deeper[t.name] || s.guard.canMatchBelow(t.name) || !slices.Equal(f.rule.fileLimits, t.rule.fileLimits) {
		return &Error{Code: ErrInvalid, Hint: "other rules apply there; make the directory and move its files one by one"}
	}
	return nil
}

// checkSize returns an error if the file at p is over the size limit of the location
// there.
func (s *Sandbox) checkSize(p, there location, e Entry) error {
	most := there.rule.maxBytes()
	if most == 0 || most == p.rule.maxBytes() || !e.Type.IsRegular() {
		return nil
	}
	attr, err := p.rule.mount.Backend.Lstat(p.rel)
	if err == nil && attr.Size > most {
		err = tooLarge(attr.Size, most, "")
	}
	return err
}

// visitTree calls visit for p and for everything in it. It follows no symlinks.
func (s *Sandbox) visitTree(ctx context.Context, p location, e Entry, visit func(location, Entry) error) error {
	if err := visit(p, e); err != nil {
		return err
	}
	if e.Type&fs.ModeDir == 0 {
		return nil
	}
	entries, err := s.readDir(p)
	if err != nil {
		return err
	}
	// Visit in order, so that the same directory always leads to the same error.
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	for _, child := range entries {
		if ctx.Err() != nil {
			return &Error{Code: ErrLimit, Hint: "stopped before anything was done"}
		}
		if err := s.visitTree(ctx, s.childOf(p, child.Name), child, visit); err != nil {
			return err
		}
	}
	return nil
}
