package session

import (
	"bytes"
	"fmt"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// losses counts what is lost with directories that a session has deleted or replaced.
type losses struct {
	*changes.Losses
	reading
	protectedBy func(name string) string // set when it is first needed
}

func newLosses(from *changes.Texts) *losses {
	return &losses{Losses: changes.NewLosses(from, maxRead), reading: newReading()}
}

// isDirectoryGone reports whether a change deletes a directory, or puts something else in its
// place.
func isDirectoryGone(c changes.Change) bool {
	return c.OldKind == overlay.Dir && c.Kind != overlay.Dir
}

// protected returns the pattern of a protected file in a directory that is gone, "" for none. golem
// does not apply such a change.
func (l *losses) protected(c changes.Change, files *sandbox.Sandbox) string {
	if l.protectedBy == nil {
		l.protectedBy = files.Protection()
	}
	for _, f := range l.List(c) {
		name := f.Name()
		if pattern := l.protectedBy(name); pattern != "" {
			return pattern
		}
		if !files.CanWrite(name) {
			return sandbox.Shown(name)
		}
	}
	return ""
}

// compare compares a new file with the file of a moved directory that it was, and describes
// the difference. It returns the change from the old file, or the given one if golem cannot
// tell that they belong together.
func (l *losses) compare(c changes.Change, f changes.OldFile, d *FileChange, t *texts, diffs bool) overlay.PathChange {
	old := f.Name()
	_, code := review.MovedCode(old, c.Name()) // a file that becomes code at its new path counts as new
	if f.Kind != overlay.File || t.own == nil || d.Unread || code {
		return c.PathChange
	}
	real := l.Read(f)
	if real == nil {
		return c.PathChange
	}
	isSame := bytes.Equal(real, t.own)
	d.From, d.Edited, d.UnusualMode = old, !isSame || f.Mode != c.Mode, false
	if f.Mode != c.Mode {
		d.OldMode = fmt.Sprintf("%04o", f.Mode)
	}
	t.real, t.diff = real, ""
	if d.Binary = !filecontent.IsText(real) || !filecontent.IsText(t.own); !d.Binary && !isSame {
		t.diff = filecontent.Diff(old, c.Name(), filecontent.Decode(real, false), filecontent.Decode(t.own, false))
	}
	if d.Added, d.Removed = filecontent.CountDiffLines(t.diff); diffs {
		d.Diff = t.diff
	}
	was := c.PathChange
	was.Op, was.OldKind, was.OldMode = overlay.Modify, overlay.File, f.Mode
	return was
}

// add adds to the change of a directory that is gone how many files and lines are lost, and
// whether a file in it is protected. It adds nothing to other changes.
func (l *losses) add(c changes.Change, d *FileChange, files *sandbox.Sandbox) {
	if !isDirectoryGone(c) {
		return
	}
	if pattern := l.protected(c, files); d.Protected == "" && pattern != "" {
		d.Protected, d.Inside = pattern, true
	}
	list := l.List(c)
	if l.Left <= 0 {
		d.Unread = true
	}
	m, moved := l.Moved[c.Name()]
	if d.MovedTo = m.To; moved && m.Missing == 0 {
		return
	}
	for _, f := range list {
		if l.Kept[f.Name()] {
			continue
		}
		if d.Files++; f.Kind != overlay.File {
			continue
		}
		lines, ok := 0, l.take(f.Size)
		if ok {
			lines, ok = l.CountLines(f)
		}
		if d.Removed += lines; !ok {
			d.Unread = true
		}
	}
}
