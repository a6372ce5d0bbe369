// Package choice holds the choice of a user among the changes of a session: hunks,
// permission bits and whole files. It makes the arguments of apply_changes from it, and
// tells which contents of a request the user has seen before. Every front that lets the
// user choose uses it.
package choice

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

// MaxRead is the size of the largest content that a front shows hunk by hunk.
const MaxRead = filecontent.MaxCompared / 2

// A File is a changed file whose parts the user chooses.
type File struct {
	session.FileChange
	Real, Own []byte // the contents; nil if they are not shown
	Flags     []review.Flag
}

// An Item is one thing to choose: a hunk of a file, its permission bits, or all of its
// change.
type Item struct {
	File   *File
	Hunk   *patch.Hunk // nil for another kind of item
	Mode   bool        // the permission bits of a file that also has hunks
	Edited bool
	Chosen bool
	Seen   bool // all of it was on screen
	Drawn  int  // lines that a front had printed before it
}

// FlagsOf returns the warnings of a review by path.
func FlagsOf(r *session.Review) map[string][]review.Flag {
	flags := make(map[string][]review.Flag)
	for _, f := range r.Flags {
		flags[f.Path] = append(flags[f.Path], f)
	}
	return flags
}

// NewFile returns the file of a change, with its warnings.
func NewFile(c session.FileChange, flags map[string][]review.Flag) *File {
	return &File{FileChange: c, Flags: flags[c.Path]}
}

// Read reads the contents of a file.
func (f *File) Read(c *session.Contents) (err error) {
	f.Real, f.Own, err = c.Read(f.Path, MaxRead)
	return err
}

// ReadFiles reads the changed files with some names, by name. Files that the session does not
// change are not among them. With diffs, each has its diff.
func ReadFiles(look *session.ChangeList, names []string, diffs bool) (map[string]*File, Paths, error) {
	found := make(map[string]*File)
	if len(names) == 0 {
		return found, nil, nil
	}
	r, err := look.Review(names, diffs)
	if err != nil {
		return nil, nil, err
	}
	contents, flags := look.Contents(), FlagsOf(r)
	for _, c := range r.Files {
		if !slices.Contains(names, c.Path) {
			continue
		}
		f := NewFile(c, flags)
		if c.Kind == overlay.File || c.OldKind == overlay.File {
			if err := f.Read(contents); err != nil {
				return nil, nil, err
			}
		}
		found[c.Path] = f
	}
	return found, PathsOf(r), nil
}

// Items returns what can be chosen of a file that was read.
func (f *File) Items() (list []*Item) {
	if f.Op != overlay.Modify || f.Kind != overlay.File || f.OldKind != overlay.File || !settle.HasHunks(f.Real, f.Own) {
		return []*Item{{File: f}}
	}
	hunks := patch.Hunks(string(f.Real), string(f.Own))
	if len(hunks) == 0 {
		return []*Item{{File: f}}
	}
	if f.OldMode != "" {
		list = append(list, &Item{File: f, Mode: true})
	}
	for i := range hunks {
		list = append(list, &Item{File: f, Hunk: &hunks[i]})
	}
	return list
}

// Split returns the item as smaller hunks. An item that cannot be split has no parts.
func (it *Item) Split() (list []*Item) {
	if it.Hunk == nil {
		return nil
	}
	for _, h := range it.Hunk.Split() {
		list = append(list, &Item{File: it.File, Hunk: &h, Edited: it.Edited})
	}
	if len(list) < 2 {
		return nil
	}
	return list
}

// Edit returns the item with the hunk that the user edited. failed is the error of the
// editor. If the item stays as it was, why is what to say.
func (it *Item) Edit(text string, failed error) (edited *Item, why string) {
	if failed != nil {
		return nil, visible.Line(failed.Error(), maxError) + "; the hunk is as it was"
	}
	hunk, err := it.Hunk.Edit(text, string(it.File.Real))
	switch {
	case err != nil:
		return nil, "the edited hunk does not fit: " + visible.Line(err.Error(), maxError) + "; the hunk is as it was"
	case len(hunk.Lines) == 0:
		return nil, "the edited hunk changes nothing; the hunk is as it was"
	}
	return &Item{File: it.File, Hunk: &hunk, Edited: true}, ""
}

// maxError is how many characters of an error Edit returns.
const maxError = 500

// Skipped says which changes are not among the files of a review. commits, if not "", says how to take
// the commits of the session.
func Skipped(r *session.Review, commits string, shown func(path string) string) (lines []string) {
	for i, f := range r.Ignored {
		if i == maxIgnored && len(r.Ignored) > maxIgnored+1 {
			lines = append(lines, "… and "+visible.Count(len(r.Ignored)-i, "more place")+" with ignored files; golem diff --stat --all lists every file")
			break
		}
		lines = append(lines, shown(f.Path)+"  "+f.Describe(shown))
	}
	if r.Git > 0 {
		lines = append(lines, "skipped "+visible.Count(r.Git, "file")+" in .git (golem never applies changes there)")
	}
	if r.Refs && commits != "" {
		lines = append(lines, commits)
	}
	if r.Unfit != "" {
		lines = append(lines, "skipped: "+r.Unfit+"; golem discard without a path removes it, with all other changes")
	}
	for _, target := range r.Others {
		lines = append(lines, "skipped: changes in a directory that was mounted at "+visible.Name(target)+"; mount it again to see them")
	}
	return lines
}

// maxIgnored is how many places with ignored files Skipped lists.
const maxIgnored = 10

// maxFlagName limits the length of a name in Warnings.
const maxFlagName = 60

// Warnings summarises the warnings of a review: files that become code, a deleted directory, the
// number of the others, and ignored files that become code.
func Warnings(r *session.Review, shown func(path string) string) (parts []string) {
	short := func(path string) string { return visible.Cut(shown(path), maxFlagName) }
	code, installed, others := make(map[string]bool), make(map[string]bool), 0
	for _, f := range r.Flags {
		switch {
		case !f.BecomesCode():
			others++
		case f.Installed:
			installed[f.Path] = true
		default:
			code[f.Path] = true
		}
	}
	// One file for each reason, so that many of one kind hide no other.
	var names []string
	for _, f := range review.FirstOfEach(r.Flags) {
		if name := short(f.Path); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) < len(code) {
		names = append(names, "…")
	}
	if n := len(code); n > 0 {
		parts = append(parts, visible.Count(n, "file")+" "+visible.Verb(n, "becomes", "become")+" code ("+strings.Join(names, ", ")+")")
	}
	if len(installed) > 0 {
		parts = append(parts, visible.Count(len(installed), "file")+" of packages that become code")
	}
	for _, f := range r.Flags {
		if f.Kind == review.DeleteMany && f.Path != "" {
			parts = append(parts, "deletes "+short(f.Path)+"/")
			others--
			break
		}
	}
	if others > 0 {
		parts = append(parts, visible.Count(others, "warning"))
	}
	for _, f := range r.Ignored {
		if f.Codes > 0 {
			parts = append(parts, visible.Count(f.Codes, "ignored file")+" "+visible.Verb(f.Codes, "becomes", "become")+" code ("+short(f.Code[0])+")")
		}
	}
	return parts
}

// EditHelp is below a hunk in the editor.
const EditHelp = `# To keep a line that begins with -, make the - a space.
# To leave out a line that begins with +, delete it.
# golem ignores lines that begin with #. If no + or - line is left, the hunk stays as it was.
`

// An Obstacle is the reason why a change is not applied with the others.
type Obstacle int

// The obstacles.
const (
	None      Obstacle = iota
	Conflict           // the file changed in the user's directory too
	Protected          // golem applies it only if the user names it
	Holds              // a directory that golem never deletes or replaces, because protected files are in it
	Special            // a pipe, socket or device, which golem never applies
	Covered            // a new directory, which is applied with the files in it
)

// Stays says why golem never deletes or replaces a directory, "" if it does.
func Stays(c session.FileChange) string {
	if c.OldKind != overlay.Dir || c.Kind == overlay.Dir || !c.Inside || c.Protected == "" {
		return ""
	}
	return "protected files are in it (" + c.Protected + "), so golem leaves it"
}

// Paths are the sorted paths of the changes in a review.
type Paths []string

// PathsOf returns the paths of a review.
func PathsOf(r *session.Review) Paths {
	paths := make(Paths, len(r.Files))
	for i, c := range r.Files {
		paths[i] = c.Path
	}
	slices.Sort(paths)
	return paths
}

// hasBelow reports whether there is a change below a directory.
func (p Paths) hasBelow(dir string) bool {
	i, _ := slices.BinarySearch(p, dir+"/")
	return i < len(p) && strings.HasPrefix(p[i], dir+"/")
}

// ObstacleOf returns the obstacle of a change in a review with these paths. named is true if the
// user has named the file.
func (p Paths) ObstacleOf(c session.FileChange, named bool) Obstacle {
	switch {
	case c.Conflict:
		return Conflict
	case Stays(c) != "":
		return Holds
	case c.Protected != "" && !named:
		return Protected
	case c.Kind == overlay.Special:
		return Special
	case c.Kind == overlay.Dir && c.Op == overlay.Create && p.hasBelow(c.Path):
		return Covered
	}
	return None
}

// Shown are the changes of contents that were on screen, by path.
type Shown map[string]tool.Change

// Parts returns what the user chose, and which contents were shown completely. The items of
// a file are next to each other.
func Parts(items []*Item) (parts []settle.Part, shown Shown, err error) {
	shown = make(Shown)
	for len(items) > 0 {
		file := items[0].File
		n := slices.IndexFunc(items, func(it *Item) bool { return it.File != file })
		if n < 0 {
			n = len(items)
		}
		part, seen, text := settle.Part{Path: file.Path, Whole: true}, true, file.Own
		var hunks []patch.Hunk
		chosen := 0
		for _, it := range items[:n] {
			part.Whole = part.Whole && it.Chosen && !it.Edited
			if !it.Chosen {
				continue
			}
			chosen++
			seen = seen && it.Seen
			part.Mode = part.Mode || it.Mode
			if it.Hunk != nil {
				hunks = append(hunks, *it.Hunk)
				part.Patch += it.Hunk.String()
			}
		}
		items = items[n:]
		if chosen == 0 {
			continue
		}
		if part.Whole {
			part.Patch, part.Mode = "", false
		} else {
			after, err := patch.Apply(string(file.Real), hunks)
			if err != nil {
				return nil, nil, &sandbox.Error{Op: "apply", Path: file.Path, Code: sandbox.ErrInvalid, Hint: "the hunks that you chose do not fit together: " + err.Error() + "; nothing was applied"}
			}
			text = []byte(after)
		}
		parts = append(parts, part)
		if seen && (file.Real != nil || file.Own != nil) && file.Kind == overlay.File {
			shown[file.Path] = file.describe(text)
		}
	}
	return parts, shown, nil
}

// describe describes how the content of the file becomes a text.
func (f *File) describe(text []byte) tool.Change {
	base := sandbox.Version{}
	if f.OldKind == overlay.File {
		base = base.With(f.Real)
	}
	return tool.DescribeChange(f.Path, base, f.Real, text)
}

// WholeDiff returns the difference of the contents, as a request has it; "" if there is none to
// show.
func (f *File) WholeDiff() string {
	switch {
	case f.Real == nil && f.Own == nil:
		return ""
	case f.Op == overlay.Delete:
		return filecontent.Diff(f.Path, "", filecontent.Decode(f.Real, false), "")
	}
	return f.describe(f.Own).Diff
}

// Items returns the items of a request that were shown: contents whose old and new versions
// are exactly those that were on screen.
func (s Shown) Items(r tool.Request) (items []string) {
	for i, c := range r.Changes {
		if was, ok := s[c.Path]; ok && c.Op == was.Op && c.Base == was.Base && c.Becomes == was.Becomes {
			items = append(items, tool.ItemContent(i))
		}
	}
	return items
}

// Changed returns the paths of a request whose contents were shown in another version.
func (s Shown) Changed(r tool.Request) (paths []string) {
	for _, c := range r.Changes {
		if was, ok := s[c.Path]; ok && (c.Base != was.Base || c.Becomes != was.Becomes) {
			paths = append(paths, c.Path)
		}
	}
	return paths
}
