package session

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/sandbox"
)

// Contents reads both versions of files that a session has changed.
type Contents struct {
	overlays *changes.Overlays
	changes  map[string]changes.Change // by name
}

// OpenContents opens the changed files of a session.
func (s Sessions) OpenContents(one *Session) (*Contents, error) {
	l, err := s.ListChanges(one)
	if err != nil {
		return nil, err
	}
	return l.Contents(), nil
}

// Contents returns the contents of the listed files. They are open until one of the two is
// closed.
func (l *ChangeList) Contents() *Contents {
	c := &Contents{l.overlays, make(map[string]changes.Change, len(l.changes))}
	for _, change := range l.changes {
		c.changes[change.Name()] = change
	}
	return c
}

// isPartial reports whether the session has also changed directories that are not mounted
// now.
func (c *Contents) isPartial() bool { return len(c.overlays.OtherTargets()) > 0 }

// Has reports whether the session has changed a file, symlink or directory, or something
// in the directory.
func (c *Contents) Has(name string) bool {
	if _, ok := c.changes[name]; ok {
		return true
	}
	for changed := range c.changes {
		if strings.HasPrefix(changed, name+"/") {
			return true
		}
	}
	return false
}

// Read returns the content of a file in the user's directory and in the session. A
// content is nil if there is no file, or if it has more than most bytes.
func (c *Contents) Read(name string, most int64) (real, own []byte, err error) {
	change, ok := c.changes[name]
	if !ok {
		return nil, nil, &sandbox.Error{Op: "read", Path: name, Code: sandbox.ErrNotFound, Hint: "the session has not changed it; golem diff --stat lists its changes"}
	}
	real, own = c.overlays.Texts(change, most)
	return real, own, nil
}

// OldLink returns the target of a symlink in the user's directory.
func (c *Contents) OldLink(name string) (string, error) {
	_, real, err := c.overlays.States(c.changes[name])
	return real.LinkTarget, err
}

// Close closes the files.
func (c *Contents) Close() { c.overlays.Close() }

// HaveLost reports whether every session lacks a change at one of these paths. A session that
// cannot be read has lost nothing.
func (s Sessions) HaveLost(paths []string) bool {
	list, err := s.List()
	if err != nil {
		return false
	}
	for _, one := range list {
		contents, err := s.OpenContents(one)
		if err != nil {
			return false
		}
		gone := !contents.isPartial() && slices.ContainsFunc(paths, func(path string) bool { return !contents.Has(path) })
		if contents.Close(); !gone {
			return false
		}
	}
	return true
}
