package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// MarkApplied records that the picked changes at and below paths were applied, except the
// skipped ones. It removes their files from the overlay. A file stays if the session
// changed it since, or if only part of it was applied: it is then a change of what the
// real directory has now. Nobody may write to the overlay meanwhile. Calling it again
// does no harm.
func (o Overlay) MarkApplied(paths, skipped []string) error {
	s, err := openSession(o, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	if o.IsCopy {
		return s.markCopyApplied(paths, skipped)
	}
	return s.markApplied(paths, skipped)
}

func (s *walk) markApplied(paths, skipped []string) (err error) {
	clock := s.Store + "/" + basesName + ".clock"
	if err := markTime(clock); err != nil {
		return err
	}
	if s.now, err = readTime(clock); err != nil {
		return err
	}
	s.tidy, s.applied = true, map[string]bool{}
	within, out := matchPaths(paths), matchPaths(skipped)
	tops := make(map[string]string) // the names that are done, with the top of their pick
	for name, p := range s.picks.all {
		if !within(name) || out(name) {
			continue
		}
		top := p.topPath()
		for s.applied[name] = true; name != top && tops[name] != top; s.applied[name] = true {
			tops[name] = top
			name = path.Dir(name) // a directory that it was picked with
		}
	}
	// A file that the session deleted later must not reappear because it was applied.
	for _, name := range slices.Sorted(maps.Keys(s.applied)) {
		if !s.picks.all[name].New {
			continue
		}
		if err := s.markDeleted(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return s.record()
}

// Unpick forgets that the changes at and below paths were picked.
func (o Overlay) Unpick(paths []string) error {
	s, err := openStore(o, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	return s.picks.remove(matchPaths(paths))
}

// matchPaths returns a function that reports whether a name is at or below one of the
// paths.
func matchPaths(paths []string) func(name string) bool {
	set := map[string]bool{}
	for _, p := range paths {
		set[path.Clean(p)] = true
	}
	if len(set) == 0 {
		return func(string) bool { return false }
	}
	return AtOrBelow(func(name string) bool { return set[name] })
}

// markDeleted makes a whiteout for an applied file that the session deleted after it was
// picked.
func (s *walk) markDeleted(name string) error {
	if _, err := s.upper.stat(name); err == nil {
		return nil // the session still has it
	}
	if _, was, err := s.statReal(name); err != nil || was == Nothing {
		return err
	}
	for _, name := range append(parents(name), name) {
		st, err := s.upper.stat(name)
		switch {
		case errors.Is(err, unix.ENOENT) && s.applied[name]:
			return s.upper.makeWhiteout(name)
		case errors.Is(err, unix.ENOENT):
			err = s.makeDirLike(name)
		case err == nil && kindOf(st) != Dir:
			return nil // the session has it, or deleted it with a directory above
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parents returns the directories above a name, from the top.
func parents(name string) []string {
	var list []string
	for i := range len(name) {
		if name[i] == '/' {
			list = append(list, name[:i])
		}
	}
	return list
}

// makeDirLike makes a directory in the upperdir with the permission bits of the real one.
func (s *walk) makeDirLike(name string) error {
	st, err := s.lower.stat(name)
	if err != nil {
		return err
	}
	err = s.upper.withParent(name, func(dir int, base string) error { return unix.Mkdirat(dir, base, 0o700) })
	if err != nil {
		return err
	}
	return s.upper.setMode(name, permissions(st))
}

// Discard removes the changes at and below paths from the overlay, so that the real
// directory shows there again. "." means all of them. Nobody may write to the overlay
// meanwhile. If there is no change at one of the paths, Discard returns an error and
// discards nothing.
func (o Overlay) Discard(paths []string) error {
	s, err := openSession(o, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	if o.IsCopy {
		return s.discardFromCopy(paths)
	}
	return s.discard(paths)
}

func (s *walk) discard(paths []string) (err error) {
	within := matchPaths(paths)
	var list []string
	if s.tidy = true; within(".") {
		if list, err = s.upper.list(""); err != nil {
			return err
		}
	} else {
		// Recording replaces opaque directories by whiteouts that can go one by one.
		if err := s.record(); err != nil {
			return err
		}
		for _, p := range paths {
			name := path.Clean(p)
			if _, err := s.upper.stat(name); !filepath.IsLocal(name) || s.canIgnore(err) {
				return fmt.Errorf("%q is not a change: %w", name, fs.ErrNotExist)
			} else if err != nil {
				return err
			}
			list = append(list, name)
		}
	}
	if err := s.picks.remove(within); err != nil {
		return err
	}
	if err := s.removePaths(list); err != nil {
		return err
	}
	return s.record()
}

// removePaths removes files and directories from the upperdir or the copy.
func (s *openedStore) removePaths(list []string) error {
	at := s.Store + "/" + droppedName
	if err := remove(at); err != nil { // leftovers of an interrupted call
		return err
	}
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	to, err := openTree(at)
	if err != nil {
		return err
	}
	defer to.close()
	for i, name := range list {
		err := s.upper.withParent(name, func(dir int, base string) error {
			return unix.Renameat(dir, base, to.fd, strconv.Itoa(i))
		})
		s.upper.closeLast()
		if err != nil && !s.canIgnore(err) { // it went with its directory
			return err
		}
	}
	return remove(at)
}
