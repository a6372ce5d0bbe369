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

// MarkApplied is for paths that were picked and have landed, and what was picked in them,
// but for what was left out and is still to land.
// What the layer has there is taken out of it, unless the session has changed it since
// or only some of it has landed: then it is a change of what is there now. Nobody may
// write to the layer meanwhile. It can be done again.
func (o Overlay) MarkApplied(paths, left []string) error {
	k, err := openSession(o, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer k.base().close()
	return k.markApplied(paths, left)
}

func (k *overlaySession) markApplied(paths, left []string) (err error) {
	clock := k.Store + "/" + basesName + ".clock"
	if err := markTime(clock); err != nil {
		return err
	}
	if k.now, err = readTime(clock); err != nil {
		return err
	}
	k.tidy, k.applied = true, map[string]bool{}
	within, out := matchPaths(paths), matchPaths(left)
	for name, p := range k.picks.all {
		if !within(name) || out(name) {
			continue
		}
		for k.applied[name] = true; name != p.topPath(); k.applied[name] = true {
			name = path.Dir(name) // a folder that it came with
		}
	}
	// What the session has deleted since must not come back by landing.
	for _, name := range slices.Sorted(maps.Keys(k.applied)) {
		if !k.picks.all[name].New {
			continue
		}
		if err := k.markDeleted(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return k.record()
}

// Unpick forgets that paths were picked: they do not land.
func (o Overlay) Unpick(paths []string) error {
	s, err := openStore(o, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer s.close()
	return s.picks.remove(matchPaths(paths))
}

// matchPaths returns a function that reports whether a name is one of several, or in one.
func matchPaths(paths []string) func(name string) bool {
	set := map[string]bool{}
	for _, p := range paths {
		set[path.Clean(p)] = true
	}
	return func(name string) bool {
		for ; name != "."; name = path.Dir(name) {
			if set[name] {
				return true
			}
		}
		return set["."]
	}
}

// markDeleted marks something as deleted that has landed, and that the session has
// markDeleted since it was picked.
func (k *overlaySession) markDeleted(name string) error {
	if _, was, err := k.statReal(name); err != nil || was == Nothing {
		return err
	}
	for _, name := range append(parents(name), name) {
		st, err := k.upper.stat(name)
		switch {
		case errors.Is(err, unix.ENOENT) && k.applied[name]:
			return k.makeWhiteout(name)
		case errors.Is(err, unix.ENOENT):
			err = k.makeDirLike(name)
		case err == nil && kindOf(st) != Dir:
			return nil // it is deleted with that, or there
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parents returns the folders above a name, from the top.
func parents(name string) []string {
	var list []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		list = append(list, dir)
	}
	slices.Reverse(list)
	return list
}

// makeDirLike makes a folder in the layer as it is in the real folder.
func (k *overlaySession) makeDirLike(name string) error {
	st, err := k.lower.stat(name)
	if err != nil {
		return err
	}
	err = k.upper.withParent(name, func(dir int, base string) error { return unix.Mkdirat(dir, base, 0o700) })
	if err != nil {
		return err
	}
	return k.setMode(name, permissions(st))
}

// Discard takes the changes at and below paths out of the layer, so that the real
// folder shows there again; "." is all of them. Nobody may write to the layer
// meanwhile. A path at which there is no change is an error, and then nothing is done.
func (o Overlay) Discard(paths []string) error {
	k, err := openSession(o, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer k.base().close()
	return k.discard(paths)
}

func (k *overlaySession) discard(paths []string) (err error) {
	within := matchPaths(paths)
	var list []string
	if k.tidy = true; within(".") {
		if list, err = k.upper.list(""); err != nil {
			return err
		}
	} else {
		// A folder that covers the real one becomes one of which each thing can go.
		if err := k.record(); err != nil {
			return err
		}
		for _, p := range paths {
			name := path.Clean(p)
			if _, err := k.upper.stat(name); !filepath.IsLocal(name) || k.canIgnore(err) {
				return fmt.Errorf("%q is no change: %w", name, fs.ErrNotExist)
			} else if err != nil {
				return err
			}
			list = append(list, name)
		}
	}
	if err := k.picks.remove(within); err != nil {
		return err
	}
	if err := k.removePaths(list); err != nil {
		return err
	}
	return k.record()
}

// removePaths removes things of the layer, whatever they are.
func (k *sessionStore) removePaths(list []string) error {
	at := k.Store + "/" + droppedName
	if err := remove(at); err != nil { // what was left there
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
		err := k.upper.withParent(name, func(dir int, base string) error {
			return unix.Renameat(dir, base, to.fd, strconv.Itoa(i))
		})
		k.upper.closeLast()
		if err != nil && !k.canIgnore(err) { // it has gone with another
			return err
		}
	}
	return remove(at)
}
