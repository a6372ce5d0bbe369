package file

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// The limits of lists.
const (
	maxEntries = 1000      // names of a page
	maxNames   = 512 << 10 // bytes of their text
)

type listArgs struct {
	Path    string `json:"path,omitempty" jsonschema:"virtual path such as /dir" default:"\"/\""`
	Pattern string `json:"pattern,omitempty" jsonschema:"only files that match, at any depth: *.md, src/**/*.go"`
	Depth   int64  `json:"depth,omitempty" jsonschema:"levels of directories; ignored with pattern" default:"1"`
	Cursor  string `json:"cursor,omitempty" jsonschema:"from an earlier answer, to continue there"`
}

// listData is a list of names for programs.
type listData struct {
	Path    string      `json:"path"`
	Entries []listEntry `json:"entries"`
	Cursor  string      `json:"cursor,omitempty"`  // set if there are more
	Cut     sandbox.Cut `json:"cut,omitempty"`     // why the list is not complete
	Unread  int         `json:"unread,omitempty"`  // files and directories that could not be read
	Unnamed int         `json:"unnamed,omitempty"` // names that no call could use
}

type listEntry struct {
	Name string `json:"name"` // relative to the path
	Type string `json:"type"` // file, directory, symlink or other
	To   string `json:"to,omitempty"`
}

func listFiles() tool.Tool {
	return tool.New(reader("list_files", "List a directory. Directories end in /, symlinks show their target. With a pattern: list the matching files below it."),
		func(_ context.Context, names tool.Names, a listArgs) (tool.Plan, error) {
			at, err := names.Locate("list", a.Path, sandbox.ReadOnly, false)
			if err == nil {
				a.Cursor, err = parseCursor("list", at, a.Cursor)
			}
			if err != nil {
				return tool.Plan{}, err
			}
			run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
				if a.Pattern != "" {
					return findPage(ctx, files, findArgs{at, a.Pattern, a.Cursor}, true)
				}
				return list(ctx, files, at, a.Depth, a.Cursor)
			}
			plan := tool.NewReadPlan(run, names.ReadTreeEffects(at)...)
			plan.Levels = math.MaxInt
			if a.Pattern == "" {
				plan.Levels = int(max(1, a.Depth))
			}
			if plan.Levels == 1 {
				plan.Visible = []policy.Effect{{Verb: policy.Read, Target: at}}
			}
			return plan, nil
		})
}

// list lists the directory at a located name.
func list(ctx context.Context, files *sandbox.Sandbox, at string, depth int64, cursor string) (tool.Result, error) {
	l := lister{ctx: ctx, files: files, data: listData{Path: at, Entries: []listEntry{}}}
	var after []string
	if cursor != "" {
		after = strings.Split(cursor, "/")
	}
	if err := l.listDir(at, "", after, max(1, depth)); err != nil {
		return tool.Result{}, err
	}
	d := &l.data
	var b strings.Builder
	for i, e := range d.Entries {
		if b.Len() > maxNames {
			l.more += len(d.Entries) - i
			d.Entries = d.Entries[:i]
			break
		}
		b.WriteString(e.line() + "\n")
	}
	if len(d.Entries)+d.Unnamed == 0 {
		fmt.Fprintf(&b, "%s: nothing here\n", sandbox.Shown(at))
	}
	if l.more > 0 {
		d.Cursor = quoteName(d.Entries[len(d.Entries)-1].Name)
		more := "more follow"
		if depth <= 1 {
			more = fmt.Sprintf("%d more", l.more)
		}
		fmt.Fprintf(&b, "[%s; continue with cursor %s]\n", more, d.Cursor)
	}
	if d.Unnamed > 0 {
		fmt.Fprintf(&b, "[%s not shown, not UTF-8 or too long; only the user can rename such files]\n", visible.Count(d.Unnamed, "name"))
	}
	b.WriteString(missedNote(d.Cut, d.Unread))
	return tool.Result{Text: b.String(), Data: d}, nil
}

// A lister lists nested directories in the order of their names. It opens only the
// directories that a page needs. So the cost of a page does not depend on the size of the
// tree.
type lister struct {
	ctx   context.Context
	files *sandbox.Sandbox
	data  listData
	more  int // names after the page in the directory in which it became full
}

// listDir lists dir. It puts prefix before the names of the entries. It starts after the
// name in after, which holds the parts of a cursor.
func (l *lister) listDir(dir, prefix string, after []string, depth int64) error {
	entries, unnamed, err := l.files.ListCount(dir)
	if err != nil {
		return err
	}
	l.data.Unnamed += unnamed
	start := 0
	if len(after) > 0 {
		var found bool
		start, found = slices.BinarySearchFunc(entries, after[0], func(e sandbox.Entry, name string) int { return strings.Compare(e.Name, name) })
		if found {
			l.listBelow(dir, prefix, entries[start], after[1:], depth)
			start++
		}
	}
	for i, e := range entries[start:] {
		if l.ctx.Err() != nil {
			l.data.Cut = sandbox.CutCancelled
		}
		if l.data.Cut != "" || l.more > 0 {
			return nil
		}
		if len(l.data.Entries) == maxEntries {
			l.more = len(entries) - start - i
			return nil
		}
		l.data.Entries = append(l.data.Entries, l.describeEntry(path.Join(dir, e.Name), prefix+e.Name, e.Type))
		l.listBelow(dir, prefix, e, nil, depth)
	}
	return nil
}

// listBelow lists an entry of dir, if it is a directory and not too deep. It counts a
// directory that it cannot read.
func (l *lister) listBelow(dir, prefix string, e sandbox.Entry, after []string, depth int64) {
	if !e.IsDir() || depth <= 1 {
		return
	}
	if err := l.listDir(path.Join(dir, e.Name), prefix+e.Name+"/", after, depth-1); err != nil {
		l.data.Unread++
	}
}

// describeEntry describes one name, and for a symlink also its target.
func (l *lister) describeEntry(at, name string, kind fs.FileMode) listEntry {
	e := listEntry{Name: name, Type: "other"}
	switch {
	case kind.IsDir():
		e.Type = "directory"
	case kind.IsRegular():
		e.Type = "file"
	case kind&fs.ModeSymlink != 0:
		e.Type = "symlink"
		e.To, _ = l.files.ReadLink(strings.TrimPrefix(at, "/")) // empty if the target is outside the sandbox
	}
	return e
}

// line returns the entry as a model reads it.
func (e listEntry) line() string {
	name := quoteName(e.Name)
	switch {
	case e.Type == "directory":
		return name + "/"
	case e.Type == "symlink" && e.To == "":
		return name + " -> (not followed: it points out of the mounts)"
	case e.Type == "symlink":
		return name + " -> " + quoteName(e.To)
	case e.Type == "other":
		return name + " (not a regular file)"
	}
	return name
}

type findArgs struct {
	Path    string `json:"path,omitempty" jsonschema:"virtual path such as /dir" default:"\"/\""`
	Pattern string `json:"pattern" jsonschema:"*.md at any depth, src/**/*.go, {a,b}.txt"`
	Cursor  string `json:"cursor,omitempty" jsonschema:"from an earlier answer, to continue there"`
}

func findFiles() tool.Tool {
	return tool.New(reader("find_files", "Find files by a glob pattern, sorted by name. Files only, no directories."),
		func(_ context.Context, names tool.Names, a findArgs) (plan tool.Plan, err error) {
			if a.Path, err = names.Locate("find", a.Path, sandbox.ReadOnly, false); err == nil {
				a.Cursor, err = parseCursor("find", a.Path, a.Cursor)
			}
			if err != nil {
				return plan, err
			}
			run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
				return findPage(ctx, files, a, false)
			}
			plan = tool.NewReadPlan(run, names.ReadTreeEffects(a.Path)...)
			plan.Levels = math.MaxInt
			return plan, nil
		})
}

// findPage finds the files below a located name that match the pattern. With relative, it
// lists their names relative to that name. A page begins after the last name of the page
// before.
func findPage(ctx context.Context, files *sandbox.Sandbox, a findArgs, relative bool) (tool.Result, error) {
	after := a.Cursor
	if relative && after != "" {
		after = path.Join(a.Path, after)
	}
	found, err := files.Find(ctx, a.Path, a.Pattern, sandbox.Budget{Results: maxEntries, After: after})
	if err != nil {
		return tool.Result{}, err
	}
	d := &listData{Path: a.Path, Entries: []listEntry{}, Cut: found.Cut, Unread: found.Unread}
	var b strings.Builder
	for _, f := range found.Found {
		if b.Len() > maxNames {
			break
		}
		name := f.Path
		if relative {
			name = strings.TrimPrefix(strings.TrimPrefix(name, a.Path), "/")
		}
		d.Entries = append(d.Entries, listEntry{Name: name, Type: "file"})
		b.WriteString(quoteName(name) + "\n")
	}
	if len(d.Entries) == 0 {
		fmt.Fprintf(&b, "no file below %s matches %s\n", sandbox.Shown(a.Path), sandbox.Shown(a.Pattern))
	}
	left := len(found.Found) - len(d.Entries)
	if d.Cut == sandbox.CutResults || d.Cut == "" && left > 0 {
		d.Cut, d.Cursor = "", quoteName(d.Entries[len(d.Entries)-1].Name)
	}
	b.WriteString(nextPageNote(d.Cursor, d.Cut, left) + missedNote(d.Cut, d.Unread))
	return tool.Result{Text: b.String(), Data: d}, nil
}

// nextPageNote says how to get the next page. An incomplete walk has no next page, because its
// results are not the start of the list.
func nextPageNote(cursor string, cut sandbox.Cut, left int) string {
	switch {
	case cursor != "":
		return "[more follow; continue with cursor " + cursor + "]\n"
	case cut != "" && left > 0:
		return "[" + strconv.Itoa(left) + " more were found and are not shown]\n"
	}
	return ""
}

// parseCursor parses a cursor as shown. A name with unusual characters is in quotes
// there.
func parseCursor(op, at, cursor string) (string, error) {
	if !strings.HasPrefix(cursor, `"`) {
		return cursor, nil
	}
	plain, err := strconv.Unquote(cursor)
	if err != nil {
		return "", &sandbox.Error{Op: op, Path: at, Code: sandbox.ErrInvalid, Hint: "a cursor is what an earlier answer gave, with its quotes if it has any"}
	}
	return plain, nil
}

// missedNote says what a walk did not see. It returns "" if the walk saw everything.
func missedNote(cut sandbox.Cut, unread int) string {
	const narrower = "; name a directory further down or a narrower pattern]\n"
	text := ""
	switch why := map[sandbox.Cut]string{
		sandbox.CutEntries:   "there are too many files",
		sandbox.CutBytes:     "there is too much to read",
		sandbox.CutTime:      "it took too long",
		sandbox.CutCancelled: "it was stopped",
	}[cut]; {
	case cut == sandbox.CutResults:
		text = "[these are only the first" + narrower
	case cut != "":
		text = "[golem did not look at everything, and other files may be anywhere: " + why + narrower
	}
	if unread > 0 {
		text += "[not read: " + strconv.Itoa(unread) + " of the files and directories]\n"
	}
	return text
}
