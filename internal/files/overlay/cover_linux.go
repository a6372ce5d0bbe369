package overlay

import (
	"errors"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// A covering shows the real files in a session whose layers a service has mounted, so that
// golem cannot fold them. It puts copies of the real files into the upperdir, above the
// layers. They are no changes, and the next fold removes them.
type covering struct {
	*walk
	to *tree // for the copies, and for what they replace
	n  int   // the number of names in to
}

// coverPaths covers everything that the session has at and below paths.
func (c *covering) coverPaths(list []string) (err error) {
	if c.now, err = markNow(c.Store); err != nil {
		return err
	}
	return c.withDropped(func(to *tree) error {
		c.to = to
		for _, name := range list {
			if err := c.cover(name); err != nil && !c.canIgnore(err) { // it went with its directory
				return err
			}
		}
		return c.bases.flush()
	})
}

// find looks for a path in the upperdir and the layers. It makes a whiteout for a real file that a
// layer hides with its directory.
func (c *covering) find(name string) error {
	_, err := c.upper.stat(name)
	if c.upper.stack == nil || !errors.Is(err, unix.ENOENT) || !c.isBelowOpaque(name) {
		return err
	}
	if _, was, e := c.statReal(name); e != nil || was == Nothing {
		return err
	}
	if err := c.upper.stack.makeParents(name); err != nil {
		return err
	}
	c.upper.closeLast()
	return c.upper.makeWhiteout(name)
}

// cover makes a path show what the real directory has there.
func (c *covering) cover(name string) error {
	c.upper.closeLast()
	st, err := c.upper.stat(name)
	if err != nil {
		return err
	}
	low, was, err := c.statReal(name)
	if err != nil {
		return err
	}
	if kindOf(st) == Dir && was == Dir {
		return c.coverDir(name, permissions(low))
	}
	c.n++
	at := strconv.Itoa(c.n)
	if !c.upper.stack.hasFrozen(name) && !c.isBelowOpaque(name) { // the real file shows through
		return c.move(name, at, false)
	}
	if err := c.copyReal(name, at, low); err != nil {
		return err
	}
	if err := c.upper.stack.makeParents(name); err != nil {
		return err
	}
	if err := c.move(name, at, true); err != nil {
		return err
	}
	c.bases.forgetBelow(name)
	c.bases.put(c.deriveVersion(entry{name: name, lower: low, realKind: was}, baseSource{from: fromReal, since: c.now}))
	return nil
}

// coverDir covers everything in a directory that the real directory has too.
func (c *covering) coverDir(name string, mode uint32) error {
	names, err := c.upper.list(name)
	if err != nil {
		return err
	}
	if c.isOpaque(name) {
		below, err := c.lower.list(name)
		if err != nil {
			return err
		}
		for _, base := range below {
			if _, found := slices.BinarySearch(names, base); found {
				continue
			}
			if err := c.find(joinName(name, base)); err != nil && !c.canIgnore(err) {
				return err
			}
			names = append(names, base)
		}
	}
	for _, base := range names {
		if err := c.cover(joinName(name, base)); err != nil && !c.canIgnore(err) {
			return err
		}
	}
	c.upper.closeLast()
	if st, err := c.upper.stat(name); err != nil || permissions(st) == mode {
		return err
	}
	if err := c.upper.stack.makeParents(name + "/"); err != nil {
		return err
	}
	return c.upper.setMode(name, mode)
}

// isBelowOpaque reports whether a directory above a path hides the real one.
func (c *covering) isBelowOpaque(name string) bool {
	return slices.ContainsFunc(parents(name), c.isOpaque)
}

// move moves the entry of a path out of the upperdir, and a copy to its place if there is one.
func (c *covering) move(name, at string, hasCopy bool) error {
	defer c.upper.closeLast()
	return c.upper.withParent(name, func(dir int, base string) error {
		if !hasCopy {
			return unix.Renameat(dir, base, c.to.fd, at)
		}
		err := unix.Renameat2(c.to.fd, at, dir, base, unix.RENAME_EXCHANGE)
		if err == unix.ENOENT {
			err = unix.Renameat2(c.to.fd, at, dir, base, unix.RENAME_NOREPLACE)
		}
		return err
	})
}

// copyReal copies what the real directory has at a path, with everything in it. A whiteout
// stands for nothing.
func (c *covering) copyReal(name, at string, st unix.Stat_t) error {
	to := func(do func(dir int, base string) error) error { return c.to.withParent(at, do) }
	_, was, err := c.statReal(name)
	if err != nil {
		return err
	}
	switch was {
	case Nothing:
		return c.to.makeWhiteout(at)
	case Symlink:
		target, err := c.lower.readLink(name)
		if err != nil {
			return err
		}
		return to(func(dir int, base string) error { return unix.Symlinkat(target, dir, base) })
	case File:
		return c.lower.withParent(name, func(from int, old string) error {
			return to(func(dir int, base string) error { return copyFileAt(from, old, dir, base, st) })
		})
	case Special:
		return errServed
	}
	if err := to(func(dir int, base string) error { return unix.Mkdirat(dir, base, 0o700) }); err != nil {
		return err
	}
	names, err := c.lower.list(name)
	if err != nil {
		return err
	}
	for _, base := range names {
		in := joinName(name, base)
		st, err := c.lower.stat(in)
		if err == nil {
			err = c.copyReal(in, joinName(at, base), st)
		}
		if err != nil {
			return err
		}
	}
	if err := c.to.setOpaque(at); err != nil {
		return err
	}
	return c.to.setMode(at, permissions(st))
}

// makeParents makes the directories above a path in the upperdir that only layers have.
func (s *stack) makeParents(name string) error {
	if s == nil {
		return nil
	}
	own := s.trees[0]
	for _, dir := range parents(name) {
		if _, err := own.stat(dir); !errors.Is(err, unix.ENOENT) {
			if err != nil {
				return err
			}
			continue
		}
		_, st, err := s.find(dir)
		if err != nil {
			return err
		}
		err = own.withParent(dir, func(fd int, base string) error { return unix.Mkdirat(fd, base, 0o700) })
		if err == nil {
			err = own.markOrigin(dir)
		}
		if err == nil {
			err = own.setMode(dir, permissions(st))
		}
		if err != nil {
			return err
		}
		clear(s.levels)
	}
	return nil
}
