package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	risk "github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
)

// A review shows the changes of a session, or a staged commit.
type review struct {
	session inbox.ProgramSession
	commit  *commit // nil for the changes of a session
	list    *session.Review
	holder  *changes.Holder // what worked in the session when golem read it; nil for nothing
	files   []*file
	first   int // how many of them belong to the first warnings
	tree    *node
	nodes   []*node // the rows of the tree that are shown
	at      int     // the row under the cursor; 0 is all files
	top     int     // the first row of the tree on the screen
	inDiff  bool    // j and k move in the diff
	about   *sheet  // the lines of the row for all files
	aboutAt int
	made    layout // of about
	found   string // the last search
}

// newReview returns the screen of a session. It keeps what the user saw and chose in old,
// as far as the contents are still the same; old may be nil.
func newReview(s inbox.ProgramSession, r *session.Review, path func(*program.Program, string) string, old *review) *review {
	v := &review{session: s, list: r}
	before := make(map[string]*file)
	if old != nil {
		v.inDiff, v.found = old.inDiff, old.found
		for _, f := range old.files {
			before[f.Path] = f
		}
	}
	flags, paths := choice.FlagsOf(r), choice.PathsOf(r)
	for i, c := range r.Files {
		if paths.ObstacleOf(c, true) == choice.Covered {
			continue
		}
		f := &file{File: choice.NewFile(c, flags), path: path(s.Program, c.Path), obstacle: paths.ObstacleOf(c, false), was: before[c.Path]}
		if f.was != nil && !f.was.loaded {
			f.was = nil
		}
		if v.files = append(v.files, f); i < r.First {
			v.first = len(v.files)
		}
	}
	v.makeTree()
	switch {
	case old != nil:
		was := old.currentPath()
		v.at = min(old.at, len(v.nodes))
		if i := slices.IndexFunc(v.nodes, func(n *node) bool { return n.path == was }); i >= 0 {
			v.at = i + 1
		}
	case len(v.files) > 0:
		v.at = 1 + slices.IndexFunc(v.nodes, func(n *node) bool { return n.file == 0 })
	}
	return v
}

// makeTree makes the tree of the files.
func (v *review) makeTree() {
	v.tree = newTree(visible.Each(v.files, func(f *file) string { return fixedText(plainText(f.path)) }), v.first)
	v.nodes = v.tree.rows()
}

// sessionID returns the session of the changes, "" for a commit.
func (v *review) sessionID() string {
	if v.commit != nil {
		return ""
	}
	return v.session.ID
}

// node returns the row of the tree under the cursor, nil for all files.
func (v *review) node() *node {
	if v.at == 0 || v.at > len(v.nodes) {
		return nil
	}
	return v.nodes[v.at-1]
}

func (v *review) currentPath() string {
	if n := v.node(); n != nil {
		return n.path
	}
	return ""
}

// file returns the file under the cursor, nil if there is none.
func (v *review) file() *file {
	if n := v.node(); n != nil && n.file >= 0 {
		return v.files[n.file]
	}
	return nil
}

// move moves the cursor in the tree.
func (v *review) move(by int) { v.at = min(max(0, v.at+by), len(v.nodes)) }

// moveToFile moves the cursor to the next file after it that fits, from the top if there is
// none below. It reports whether there is one.
func (v *review) moveToFile(fits func(*file) bool) bool {
	for i := range len(v.nodes) {
		at := (v.at + i) % len(v.nodes) // at is also the index of the next row
		if n := v.nodes[at]; n.file >= 0 && fits(v.files[n.file]) {
			v.at = at + 1
			return true
		}
	}
	return false
}

// toggle shows or hides what is in the directory under the cursor.
func (v *review) toggle() {
	if n := v.node(); n != nil && n.file < 0 {
		n.fold = !n.fold
		v.nodes = v.tree.rows()
	}
}

// total describes how much has changed.
func (v *review) total() string {
	if v.commit == nil {
		return v.list.Total().String()
	}
	added, removed := 0, 0
	for _, f := range v.files {
		added, removed = added+f.Added, removed+f.Removed
	}
	return visible.Count(len(v.files), "file") + " changed, " + visible.LineCounts(added, removed)
}

// viewed counts the files that were on the screen completely.
func (v *review) viewed() (n int) {
	for _, f := range v.files {
		if f.isViewed() {
			n++
		}
	}
	return n
}

// title describes the session in a few words.
func (v *review) title() string {
	if v.commit != nil {
		return v.commit.title()
	}
	text := "session " + naming.Label(v.session)
	if what := v.session.What(); what != "" {
		text += " (" + what + ")"
	}
	return plainText(text)
}

// arrangeAbout makes the lines of the row for all files.
func (v *review) arrangeAbout(l layout) {
	if v.about != nil && v.made == l {
		return
	}
	rows := v.rowsAbout()
	var lines []line
	for i, r := range rows {
		lines = l.appendRow(lines, i, -1, painted{Row: r})
	}
	v.about, v.made = newSheet(lines), l
}

// rowsAbout returns the rows about all files: findings first, and who made the changes.
func (v *review) rowsAbout() (rows []visible.Row) {
	if v.commit != nil {
		return v.commit.rows()
	}
	say := func(mark, format string, args ...any) {
		rows = append(rows, visible.Row{Mark: mark, Text: fmt.Sprintf(format, args...)})
	}
	say(visible.About, "%s: %s", v.title(), v.total())
	if v.holder != nil {
		say(visible.Warning, "%s", v.stillRuns())
	}
	say(visible.About, "started %s, last used %s", v.session.Started.Local().Format("2006-01-02 15:04"), v.session.LastUsed.Local().Format("2006-01-02 15:04"))
	if v.session.Command != "" {
		say(visible.About, "made by the program %s, in the jail", visible.Name(v.session.Command))
	} else {
		say(visible.About, "made by workers of this program")
	}
	flags := risk.Shorten(v.list.Flags)
	for _, f := range flags {
		say(visible.Warning, "%s", f.String())
	}
	if all := len(v.list.Flags); len(flags) < all {
		say(visible.Warning, "%s of %s; each file shows its own", visible.Number(len(flags)), visible.Count(all, "warning"))
	}
	for _, text := range choice.Skipped(v.list, "", visible.Name) {
		say(visible.Hidden, "%s", text)
	}
	return rows
}

// findings returns the lines below a file: its warnings, and who made the changes.
func (v *review) findings(most, columns int, p paint) (lines []string) {
	made := ""
	if v.commit != nil {
		made = v.commit.made()
	} else {
		made = "made by " + v.title() + ", last used " + v.session.LastUsed.Local().Format("2006-01-02 15:04")
	}
	if v.holder != nil {
		made = plainText(v.stillRuns())
	}
	f := v.file()
	if f != nil {
		for i, flag := range f.Flags {
			if i == most-1 && len(f.Flags) > most {
				lines = append(lines, p.with(yellow, cutLine("! and "+visible.Count(len(f.Flags)-i, "more warning")+"; golem diff --stat --all lists all", columns)))
				break
			}
			lines = append(lines, p.with(yellow, cutLine("! "+plainText(flag.At("")), columns)))
		}
	}
	return append(lines, p.with(faint, cutLine(made, columns)))
}

// stillRuns says what works in the session now.
func (v *review) stillRuns() string {
	return visible.Line(v.holder.Command, maxNote) + fmt.Sprintf(" (process %d) still works in this session; r reads its changes again", v.holder.Process)
}

// pick returns the items to apply, and describes them.
func (v *review) pick() (items []*choice.Item, what string) {
	explicit := slices.ContainsFunc(v.files, func(f *file) bool { return slices.Contains(f.decided, chosen) })
	files := 0
	for _, f := range v.files {
		list := f.pick(explicit)
		if slices.ContainsFunc(list, func(it *choice.Item) bool { return it.Chosen }) {
			files++
			items = append(items, list...)
		}
	}
	return items, visible.Count(files, "file")
}

// names returns the names of the files at and below the cursor; all changes if it is at the
// top.
func (v *review) names() (names []string, what string) {
	n := v.node()
	if n == nil {
		return []string{"/"}, "all changes"
	}
	for _, i := range n.files() {
		names = append(names, v.files[i].Path)
	}
	return names, visible.Count(len(names), "file")
}

// search moves to the next line or name with a text. It searches the contents of the files
// that were opened.
func (v *review) search(text string, room int) bool {
	want := strings.ToLower(text)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), want) }
	in := func(f *file, from int) bool {
		if f.sheet == nil {
			return false
		}
		for i := from; i < len(f.sheet.lines); i++ {
			if l := f.sheet.lines[i]; !l.head && has(l.find) {
				f.top = min(i, max(0, len(f.sheet.lines)-room))
				f.at = max(0, l.item)
				f.hit = i
				v.inDiff = true
				return true
			}
		}
		return false
	}
	if f := v.file(); f != nil && in(f, f.hit+1) {
		return true
	}
	return v.moveToFile(func(f *file) bool {
		if f == v.file() {
			return in(f, 0)
		}
		f.hit = -1
		return in(f, 0) || has(f.path)
	})
}

// A node is a row of the tree: a directory with changed files, or a changed file.
type node struct {
	name  string // the part of the path that the row shows
	path  string // the whole path, as the user types it
	depth int
	file  int // the index of the file; -1 for a directory
	rank  int // the smallest index of a file in it: files are sorted by their risk
	below []*node
	fold  bool // its rows are not shown
}

// newTree returns the tree of some paths: above, of the first of them, and below, of the others.
// So a directory with many others does not push the first paths off the screen. The first path
// of a directory decides its place. A directory with nothing but one directory shares its row
// with it.
func newTree(paths []string, first int) *node {
	root := newPart(paths[:first], 0)
	root.below = append(root.below, newPart(paths[first:], first).below...)
	return root
}

// newPart returns the tree of some paths. from is the index of the first file.
func newPart(paths []string, from int) *node {
	root := &node{file: -1}
	dirs := map[string]*node{"": root}
	var dirOf func(path string) *node
	dirOf = func(path string) *node {
		if d := dirs[path]; d != nil {
			return d
		}
		parent, name, ok := cutLast(path)
		if !ok {
			parent, name = "", path
		}
		if ok && parent == "" {
			name = path // a path that begins with /
		}
		above := dirOf(parent)
		d := &node{name: name, path: path, file: -1, rank: len(paths)}
		dirs[path], above.below = d, append(above.below, d)
		return d
	}
	for i, path := range paths {
		dir, name, ok := cutLast(path)
		if !ok || dir == "" {
			dir, name = "", path
		}
		above := dirOf(dir)
		above.below = append(above.below, &node{name: name, path: path, file: from + i, rank: i})
	}
	root.arrange(0)
	return root
}

// cutLast splits a path before its last slash.
func cutLast(path string) (dir, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// arrange sorts the rows below a node, and joins directories.
func (n *node) arrange(depth int) {
	for _, b := range n.below {
		for b.file < 0 && len(b.below) == 1 && b.below[0].file < 0 {
			only := b.below[0]
			b.name, b.path, b.below = b.name+"/"+only.name, only.path, only.below
		}
		b.depth = depth
		b.arrange(depth + 1)
	}
	for _, b := range n.below {
		n.rank = min(n.rank, b.rank)
	}
	slices.SortStableFunc(n.below, func(a, b *node) int { return cmp.Compare(a.rank, b.rank) })
}

// rows returns the rows of a tree that are shown, from top to bottom.
func (n *node) rows() (list []*node) {
	for _, b := range n.below {
		list = append(list, b)
		if !b.fold {
			list = append(list, b.rows()...)
		}
	}
	return list
}

// files returns the indexes of the files at and below a node.
func (n *node) files() (list []int) {
	if n.file >= 0 {
		return []int{n.file}
	}
	for _, b := range n.below {
		list = append(list, b.files()...)
	}
	return list
}
