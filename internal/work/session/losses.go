package session

import (
	"bytes"
	"fmt"
	"path"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// losses counts what is lost with directories that a session has deleted or replaced, and
// finds those that it has only moved. An overlay lists such a directory without its contents.
type losses struct {
	names int // how many more names golem looks at
	reading

	protectedBy func(name string) string // set when it is first needed

	listed map[string][]changes.OldFile // by name of the directory
	moved  map[string]changes.Move      // by old name of the directory
	old    map[string]oldFile           // files of moved directories, by their old names
	kept   map[string]bool              // old names of files that are in the new directory
}

type oldFile struct {
	changes.OldFile
	change changes.Change // to read its content
}

func newLosses() *losses {
	return &losses{names: changes.MaxOldFiles, reading: newReading(), listed: make(map[string][]changes.OldFile)}
}

// isDirectoryGone reports whether a change deletes a directory, or puts something else in its
// place.
func isDirectoryGone(c changes.Change) bool {
	return c.OldKind == overlay.Dir && c.Kind != overlay.Dir
}

// list returns the files in a directory that is gone.
func (l *losses) list(from *changes.Texts, c changes.Change) []changes.OldFile {
	name := c.Name()
	if _, ok := l.listed[name]; !ok && l.names > 0 {
		l.listed[name] = from.OldFiles(c, l.names)
		l.names -= len(l.listed[name])
	}
	return l.listed[name]
}

// protected returns the pattern of a protected file in a directory that is gone, "" for none. golem
// does not apply such a change.
func (l *losses) protected(from *changes.Texts, c changes.Change, files *sandbox.Sandbox) string {
	if l.protectedBy == nil {
		l.protectedBy = files.Protection()
	}
	for _, f := range l.list(from, c) {
		name := c.Name() + "/" + f.Path
		if pattern := l.protectedBy(name); pattern != "" {
			return pattern
		}
		if !files.CanWrite(name) {
			return sandbox.Shown(name)
		}
	}
	return ""
}

// findMoves finds the directories that were moved, and returns the old name of each new file
// in them.
func (l *losses) findMoves(texts *changes.Texts, standing []changes.Change) (moves []changes.Move, from map[string]string) {
	names, list := make([]string, len(standing)), make([]overlay.PathChange, len(standing))
	gone, made := make(map[string]changes.Change), make(map[string]changes.Change)
	for i, c := range standing {
		names[i], list[i] = c.Name(), c.PathChange
		if c.Op == overlay.Create {
			made[names[i]] = c
		}
		if isDirectoryGone(c) && c.Op == overlay.Delete {
			l.list(texts, c)
			gone[names[i]] = c
		}
	}
	moves, from = changes.FindMoves(names, list, l.listed, func(dir string, old changes.OldFile, now string) bool {
		if old.Kind != overlay.File || old.Size > maxRead {
			return true // golem does not compare it
		}
		c := gone[dir]
		real, _ := texts.Read(changes.Change{PathChange: overlay.PathChange{Path: path.Join(c.Path, old.Path), OldKind: old.Kind}, Target: c.Target}, maxRead)
		_, own := texts.Read(made[now], maxRead)
		return real != nil && own != nil && bytes.Equal(real, own)
	})
	l.moved, l.old, l.kept = make(map[string]changes.Move), make(map[string]oldFile), make(map[string]bool)
	for _, old := range from {
		l.kept[old] = true
	}
	for _, m := range moves {
		l.moved[m.From] = m
		c := gone[m.From]
		for _, f := range l.listed[m.From] {
			one := changes.Change{PathChange: overlay.PathChange{Path: path.Join(c.Path, f.Path), OldKind: f.Kind}, Target: c.Target}
			l.old[one.Name()] = oldFile{f, one}
		}
	}
	return moves, from
}

// compare compares a new file with the file of a moved directory that it was, and describes
// the difference. It returns the change from the old file, or the given one if golem cannot
// tell that they belong together.
func (l *losses) compare(from *changes.Texts, c changes.Change, old string, d *FileChange, t *texts, diffs bool) overlay.PathChange {
	f := l.old[old]
	_, code := review.MovedCode(old, c.Name()) // a file that becomes code at its new path counts as new
	if f.Kind != overlay.File || t.own == nil || d.Unread || code {
		return c.PathChange
	}
	real, _ := from.Read(f.change, maxRead)
	if real == nil {
		return c.PathChange
	}
	isSame := bytes.Equal(real, t.own)
	d.From, d.Edited, d.UnusualMode = old, !isSame || f.Mode != c.Mode, false
	if f.Mode != c.Mode {
		d.OldMode = fmt.Sprintf("%04o", f.Mode)
	}
	t.real, t.diff = real, ""
	if d.Binary = !tool.IsText(real) || !tool.IsText(t.own); !d.Binary && !isSame {
		t.diff = tool.UnifiedDiff(old, c.Name(), tool.DecodeText(real, false), tool.DecodeText(t.own, false))
	}
	if d.Added, d.Removed = tool.CountDiffLines(t.diff); diffs {
		d.Diff = t.diff
	}
	was := c.PathChange
	was.Op, was.OldKind, was.OldMode = overlay.Modify, overlay.File, f.Mode
	return was
}

// add adds to the change of a directory that is gone how many files and lines are lost.
func (l *losses) add(from *changes.Texts, c changes.Change, d *FileChange) {
	list := l.list(from, c)
	if l.names <= 0 {
		d.Unread = true
	}
	m, moved := l.moved[c.Name()]
	if d.MovedTo = m.To; moved && m.Missing == 0 {
		return
	}
	for _, f := range list {
		one := changes.Change{PathChange: overlay.PathChange{Path: path.Join(c.Path, f.Path), OldKind: f.Kind}, Target: c.Target}
		if l.kept[one.Name()] {
			continue
		}
		d.Files++
		if f.Kind != overlay.File {
			continue
		}
		if !l.take(f.Size) {
			d.Unread = true
			continue
		}
		text, _ := from.Read(one, maxRead)
		if text == nil && f.Size > 0 {
			d.Unread = true
		}
		if tool.IsText(text) {
			d.Removed += bytes.Count(text, []byte("\n"))
			if len(text) > 0 && text[len(text)-1] != '\n' {
				d.Removed++
			}
		}
	}
}
