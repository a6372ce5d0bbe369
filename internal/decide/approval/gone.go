package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// maxLost is how many bytes of deleted directories a request reads, to count their lines.
const maxLost = 64 << 20

// maxYours is how many files that the user changed a request names.
const maxYours = 5

// goneDirectories describes the directories that changes delete, replace or move.
type goneDirectories struct {
	*changes.Losses
	t         *changes.Transaction
	onlyMoved map[string]bool // new names of files that are as they were
	bytes     int64           // how many more bytes golem reads
}

// findGone finds the directories that were moved.
func (l *ChangeSet) findGone() *goneDirectories {
	list := make([]changes.Change, len(l.entries))
	for i, e := range l.entries {
		list[i] = e.Change
	}
	lost := changes.NewLosses(l.t, maxShown)
	if lost.FindMoves(list); lost.Left <= 0 {
		lost = changes.NewLosses(l.t, maxShown) // a directory that was not read completely counts as deleted
	}
	return &goneDirectories{lost, l.t, make(map[string]bool), maxLost}
}

// addTree adds to the change of a directory that is gone the names in it, and how many files
// and lines are lost.
func (g *goneDirectories) addTree(e entry, c *tool.Change, r *review.FileChange, b *budget) {
	sum, names, lines, unread := sha256.New(), 0, 0, 0
	var yours []string // files that the user changed after the session deleted the directory
	err := g.t.Walk(e.Change, func(name string, d fs.DirEntry) bool {
		fmt.Fprintf(sum, "%q\n", name)
		if names++; b.addRow(name) {
			c.Tree = append(c.Tree, name)
		}
		if info, err := d.Info(); e.Since > 0 && !d.IsDir() && (err != nil || changes.IsChangedSince(info, e.Since)) {
			yours = append(yours, sandbox.Shown(name))
		}
		if g.Kept[name] || d.IsDir() {
			return true
		}
		if r.Files++; !d.Type().IsRegular() {
			return true
		}
		n, ok := g.countLines(e, strings.TrimPrefix(name, e.name+"/"), d)
		if lines += n; !ok {
			unread++
		}
		return true
	})
	if names > 0 {
		c.Base = hex.EncodeToString(sum.Sum(nil))
	}
	m, moved := g.Moved[e.name]
	added, _ := filecontent.CountDiffLines(c.Diff) // of a file in its place
	c.Counts = &tool.Counts{Files: r.Files, Added: added, Removed: lines, Unread: unread}
	if r.Files == 0 && !moved {
		c.Counts.Files = 1
	}
	lost := visible.Count(r.Files, "file") + ", -" + visible.Number(lines) + " lines"
	if unread > 0 {
		lost += " without " + visible.Count(unread, "file") + " that golem did not read"
	}
	switch {
	case !moved:
		c.About += " with " + lost
	case r.Files > 0:
		c.About += " that moved to " + sandbox.Shown(m.To) + ", without " + lost
	default:
		c.About += " that moved to " + sandbox.Shown(m.To)
	}
	switch {
	case len(yours) > maxYours:
		c.About += ", changed in your directory since: " + strings.Join(yours[:maxYours], ", ") + " and " + visible.Count(len(yours)-maxYours, "more file")
	case len(yours) > 0:
		c.About += ", changed in your directory since: " + strings.Join(yours, ", ")
	case e.Forced:
		c.About += ", changed in your directory since; golem does not know which of its files"
	}
	switch more := names - len(c.Tree); {
	case err != nil:
		c.Omitted = "the directory cannot be read"
	case more > 0:
		c.Omitted = visible.Count(more, "name") + " of the directory, too many to list"
	}
}

// count counts the lines of a change that shows no diff, if it is small enough: a deleted
// or replaced file, or one whose diff the request cannot carry.
func (g *goneDirectories) count(e entry, c *tool.Change) {
	if c.Diff != "" || c.Counts != nil || e.Op == overlay.Mode || e.Kind != overlay.File && e.OldKind != overlay.File {
		return
	}
	c.Counts = &tool.Counts{Files: 1, Unread: 1}
	if e.Size > min(g.bytes, maxShown) {
		return
	}
	old, new, err := g.t.Content(e.Change, min(g.bytes, maxShown))
	if err != nil {
		return
	}
	g.bytes -= int64(len(old) + len(new))
	if c.Counts.Unread = 0; filecontent.IsText(old) && filecontent.IsText(new) {
		c.Counts.Added, c.Counts.Removed = filecontent.CountDiffLines(filecontent.Diff("a", "b", filecontent.Decode(old, false), filecontent.Decode(new, false)))
	}
}

// countLines counts the lines of a file in a directory that is gone. ok is false if golem does
// not read it.
func (g *goneDirectories) countLines(e entry, name string, d fs.DirEntry) (lines int, ok bool) {
	info, err := d.Info()
	if err != nil || info.Size() > min(g.bytes, maxShown) {
		return 0, false
	}
	g.bytes -= info.Size()
	return g.CountLines(changes.OldFile{Path: name, Kind: overlay.File, In: &e.Change})
}

// compare compares a new file with the file of a moved directory that it was. A file that
// becomes code at its new path counts as new.
func (g *goneDirectories) compare(e entry, c *tool.Change, r *review.FileChange) {
	f, ok := g.Was[e.name]
	if !ok || f.Kind != overlay.File || e.Kind != overlay.File || r.Cut {
		return
	}
	from := f.Name()
	_, code := review.MovedCode(from, e.name)
	old := g.Read(f)
	if old == nil || code {
		return
	}
	c.Counts = &tool.Counts{Files: 1}
	if g.onlyMoved[e.name] = bytes.Equal(old, r.New) && f.Mode == e.Mode; g.onlyMoved[e.name] {
		c.About = join(c.About, "only moved from "+sandbox.Shown(from))
		return
	}
	added, removed := filecontent.CountDiffLines(filecontent.Diff(from, e.name, filecontent.Decode(old, false), filecontent.Decode(r.New, false)))
	c.Counts.Added, c.Counts.Removed = added, removed
	c.About = join(c.About, "moved from "+sandbox.Shown(from)+" and edited, "+visible.LineCounts(added, removed))
}

// join joins two notes about a change.
func join(a, b string) string { return strings.TrimPrefix(a+", "+b, ", ") }

// priority puts files that were only moved, and directories that are only gone from their
// old place, behind all others.
func (g *goneDirectories) priority(c tool.Change) int {
	if g.onlyMoved[c.Path] || g.isWhollyMoved(c.Path) {
		return 0
	}
	return 1
}

// isWhollyMoved reports whether all files of a directory that is gone are in another one.
func (g *goneDirectories) isWhollyMoved(name string) bool {
	m, ok := g.Moved[name]
	return ok && m.Missing == 0
}
