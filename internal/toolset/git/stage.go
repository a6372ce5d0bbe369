package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

type stageArgs struct {
	Files   []string `json:"files,omitempty" jsonschema:"files, and folders with all that is in them; what is gone is staged as deleted"`
	Message string   `json:"message,omitempty" jsonschema:"what was done, and why"`
	Target  string   `json:"target,omitempty" jsonschema:"the name of a configured repository"`
	Branch  string   `json:"branch,omitempty" jsonschema:"the branch; otherwise the one of the configuration"`
	Again   string   `json:"again,omitempty" jsonschema:"in place of all else, the id of a staged commit whose branch has moved: stage the same once more, on the branch as it is now"`
}

// A stagedFile is a file of a staged commit as programs read it.
type stagedFile struct {
	Path      string              `json:"path"`
	Operation clearance.Operation `json:"operation"`
}

// maxStaged is how many files one call stages where the project sets no limit.
const maxStaged = 100_000

// stage returns the tool by which results are handed over.
func (s Set) stage() tool.Tool {
	const op = "git_stage"
	t := about(op, "Hand files over for the user's review: they are kept as a commit exactly as they are now, and wait. Only the user can push it. "+
		"Returns commitId; git_diff shows what was staged.")
	t.Verbs, t.Keeps = []policy.Verb{policy.Read}, true
	return tool.New(t, func(ctx context.Context, names tool.Names, a stageArgs) (tool.Plan, error) {
		desk, err := s.desk(ctx, op)
		if err != nil {
			return tool.Plan{}, err
		}
		if a.Again != "" {
			return s.again(desk, names, a)
		}
		var missing []string
		if len(a.Files) == 0 {
			missing = append(missing, "files: name at least one")
		}
		if strings.TrimSpace(a.Message) == "" {
			missing = append(missing, "message: say what was done")
		}
		if len(missing) > 0 {
			return tool.Plan{}, &sandbox.Error{Op: op, Code: "invalid_args", Hint: strings.Join(missing, "; ")}
		}
		target, err := s.target(op, a.Target)
		if err != nil {
			return tool.Plan{}, err
		}
		var effects, besides []policy.Effect
		for i, name := range a.Files {
			at, err := names.Locate("stage", name, sandbox.ReadOnly, true)
			if err != nil {
				return tool.Plan{}, err
			}
			if _, err := target.inside("stage", at); err != nil && !above(at, target.At) {
				return tool.Plan{}, err
			}
			if above(at, target.At) {
				at = target.At
			}
			a.Files[i] = at
			effects = append(effects, names.ReadsBelow(at)...)
			besides = append(besides, ignores(names, target.At, at)...)
			// Where a link leads is told only of what may be read.
			if to, err := names.Locate("stage", name, sandbox.ReadOnly, false); err == nil && to != at {
				effects = append(effects, names.Reads(to)...)
			}
		}
		run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
			return s.stages(ctx, target, files, a)
		}
		plan := tool.Reading(run, append(besides, effects...)...)
		plan.Args, plan.Shows = a, effects
		return plan, nil
	})
}

// above reports whether a folder holds another.
func above(folder, name string) bool {
	return name != folder && strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/")
}

// ignores returns the effects of reading the .gitignore files of the folders above a name,
// up to the root of the repository: they speak of what is below it too. As with git one
// that is a link does not count, nor does one that would have to be asked about.
func ignores(names tool.Names, top, at string) (effects []policy.Effect) {
	for dir := at; dir != top && dir != "/"; {
		dir = path.Dir(dir)
		name := path.Join(dir, ignoreName)
		if to, err := names.Locate("stage", name, sandbox.ReadOnly, false); err == nil && to == name && names.Shows(name) {
			effects = append(effects, names.Reads(name)...)
		}
	}
	return effects
}

// again plans to stage a commit once more.
func (s Set) again(desk *clearance.Desk, names tool.Names, a stageArgs) (tool.Plan, error) {
	if len(a.Files) > 0 || a.Message+a.Target+a.Branch != "" {
		return tool.Plan{}, &sandbox.Error{Op: "git_stage", Code: "invalid_args", Hint: "again: stands alone; the files and the message are those of the commit"}
	}
	c, err := s.get("git_stage", desk, names, a.Again)
	if err != nil {
		return tool.Plan{}, err
	}
	plan := tool.Reading(func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) {
		r, err := s.Request(ctx)
		if err != nil {
			return tool.Result{}, err
		}
		again, err := desk.Again(ctx, c.ID, r)
		if err != nil {
			return tool.Result{}, err
		}
		return s.told(again, []string{"it takes the place of " + short(c.ID)}), nil
	}, s.closed(names, c)...)
	plan.Args, plan.Untrusted, plan.Tells = stageArgs{Again: c.ID}, c.Untrusted, s.names(c)
	return plan, nil
}

// stages makes the commit.
func (s Set) stages(ctx context.Context, target Target, files *sandbox.Sandbox, a stageArgs) (tool.Result, error) {
	desk, err := s.desk(ctx, "git_stage")
	if err != nil {
		return tool.Result{}, err
	}
	g := gathering{Set: s, target: target, files: files, found: make(map[string]git.File), links: make(map[string]uint64)}
	g.onBranch = func(inside string) ([]string, error) { return desk.Names(ctx, target.Name, a.Branch, inside) }
	for _, name := range a.Files {
		if err := g.add(ctx, name); err != nil {
			return tool.Result{}, err
		}
	}
	if len(g.found) == 0 {
		hint := append([]string{"no file is in it that could be staged"}, g.notes()...)
		return tool.Result{}, &sandbox.Error{Op: "stage", Path: a.Files[0], Code: sandbox.ErrNotFound, Hint: strings.Join(hint, "; ")}
	}
	r, err := s.Request(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	r.Target, r.Branch, r.Message = target.Name, a.Branch, a.Message
	r.Links = func(path string) uint64 { return g.links[path] }
	for _, f := range g.found {
		r.Files = append(r.Files, f)
	}
	slices.SortFunc(r.Files, func(a, b git.File) int { return strings.Compare(a.Path, b.Path) })
	c, err := desk.Stage(ctx, r)
	if err != nil {
		return tool.Result{}, err
	}
	waiting, err := desk.List()
	if err != nil {
		return tool.Result{}, err
	}
	return s.told(c, append(g.notes(), surprises(target, c, s.files(c), a.Files, waiting)...)), nil
}

// told tells of a commit that was staged.
func (s Set) told(c *clearance.StagedCommit, notes []string) tool.Result {
	data := struct {
		CommitID string       `json:"commitId"`
		Target   string       `json:"target"`
		Branch   string       `json:"branch"`
		Files    []stagedFile `json:"files"`
	}{c.ID, c.Target, c.Branch, s.files(c)}
	text := fmt.Sprintf("staged %s for %s %s: %s\n", short(c.ID), c.Target, c.Branch, counted(len(c.Files), "file"))
	for i, f := range data.Files {
		if i == 20 {
			text += fmt.Sprintf("  and %d more\n", len(data.Files)-i)
			break
		}
		text += "  " + letter(f.Operation) + " " + visible.Name(f.Path) + "\n"
	}
	return tool.Result{Text: text + "it waits for the user's review; git_diff shows it", Data: data, Notes: notes, Record: "staged " + short(c.ID) + " for " + c.Target + " " + c.Branch}
}

// files returns the files of a commit by their virtual names.
func (s Set) files(c *clearance.StagedCommit) []stagedFile {
	list := make([]stagedFile, len(c.Files))
	for i, f := range c.Files {
		list[i] = stagedFile{s.of(c).name(f.Path), f.Operation}
	}
	return list
}

// A gathering finds the files that are staged.
type gathering struct {
	Set
	target   Target
	files    *sandbox.Sandbox
	onBranch func(inside string) ([]string, error)
	found    map[string]git.File // by their names in the repository
	links    map[string]uint64
	bytes    int64
	left     []string // what git keeps for itself, and is left out
	other    []string // folders of the host that stand elsewhere, and are left out
	ignored  []string // what .gitignore leaves out
	nested   []string // repositories of their own
	kept     []string // what no worker can have deleted, and stays on the branch
	away     []string // links that lead out of the folder that is staged
}

// add adds what is at a name: a file, a link, all that is in a folder, or what is on
// the branch and no longer here.
func (g *gathering) add(ctx context.Context, name string) error {
	inside, err := g.target.inside("stage", name)
	if err != nil {
		return err
	}
	info, err := g.files.Lstat(fsName(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return g.gone(name, inside)
	case err != nil:
		return err
	case info.IsDir():
		return g.folder(ctx, name, inside)
	}
	return g.file(name, inside, info)
}

// fsName is a virtual name as io/fs writes it.
func fsName(name string) string {
	if name == "/" {
		return "."
	}
	return strings.TrimPrefix(name, "/")
}

// gone adds deletions of what the branch has at a name.
func (g *gathering) gone(name, inside string) error {
	there, err := g.onBranch(inside)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrNotFound, Hint: "it is neither here nor on the branch; name files that are on one of the two"}
	}
	for _, one := range there {
		g.found[one] = git.File{Path: one, Mode: git.None}
	}
	return nil
}

// folder adds all files below a folder, and deletions of what the branch has there and
// is gone. What git keeps for itself is left out, and so are other folders of the host,
// and what .gitignore names and the branch does not have.
func (g *gathering) folder(ctx context.Context, name, inside string) error {
	if g.isRepository(name) {
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrInvalid, Hint: "it is a repository of its own, with commits of its own; name files in it that are to be part of this one"}
	}
	there, err := g.onBranch(inside)
	if err != nil {
		return err
	}
	tracked := make(map[string]bool, len(there)) // with the folders above
	for _, one := range there {
		for at := g.target.name(one); !tracked[at] && at != "/"; at = path.Dir(at) {
			tracked[at] = true
		}
	}
	ignore := &ignoring{files: g.files, top: g.target.At, known: make(map[string][]ignoreRule)}
	var mu sync.Mutex
	leave := func(list *[]string, name string) {
		mu.Lock()
		defer mu.Unlock()
		*list = append(*list, name)
	}
	list, err := g.files.Walk(ctx, name, func(dir string, e sandbox.Entry) (keep, enter bool) {
		full := path.Join(dir, e.Name)
		switch {
		case git.BadName(e.Name, git.Plain) != "":
			leave(&g.left, full)
		case slices.Contains(g.Outside, full):
			leave(&g.other, full)
		case !tracked[full] && ignore.leaves(dir, e.Name, e.IsDir()):
			leave(&g.ignored, full)
		case e.IsDir() && g.isRepository(full):
			leave(&g.nested, full)
		default:
			return !e.IsDir(), true
		}
		return false, false
	}, sandbox.Budget{Results: maxStaged})
	if err != nil {
		return err
	}
	if list.Cut != "" {
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrLimit, Hint: fmt.Sprintf("it holds too many files (%s); name smaller folders", list.Cut)}
	}
	if list.Unread > 0 {
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrInvalid, Hint: fmt.Sprintf("%s in it cannot be read; name what is to be staged", counted(list.Unread, "folder"))}
	}
	here := make(map[string]bool, len(list.Found))
	for _, f := range list.Found {
		rel, err := g.target.inside("stage", f.Path)
		if err != nil {
			return err
		}
		info, err := g.files.Lstat(fsName(f.Path))
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since
		}
		if err == nil {
			err = g.file(f.Path, rel, info)
		}
		here[rel] = true
		switch {
		case err != nil && info != nil && info.Mode()&fs.ModeSymlink != 0 && errors.Is(err, sandbox.ErrOutside):
			g.away = append(g.away, f.Path)
		case err != nil:
			return err
		}
	}
	for _, one := range there {
		name := g.target.name(one)
		within := func(folder string) bool { return name == folder || above(folder, name) }
		switch {
		case here[one] || !g.files.CanRead(name) || slices.ContainsFunc(g.Outside, within) || slices.ContainsFunc(g.nested, within):
		case g.files.ProtectedBy(name) != "":
			g.kept = append(g.kept, name)
		default:
			g.found[one] = git.File{Path: one, Mode: git.None}
		}
	}
	return nil
}

// isRepository reports whether a folder is the work tree of a repository of its own.
func (g *gathering) isRepository(name string) bool {
	if name == g.target.At {
		return false
	}
	_, err := g.files.Lstat(fsName(path.Join(name, ".git")))
	return err == nil
}

// file adds one file or link.
func (g *gathering) file(name, inside string, info fs.FileInfo) error {
	f := git.File{Path: inside, Mode: git.Plain, Size: info.Size()}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := g.files.ReadLink(fsName(name))
		if err != nil {
			return err
		}
		f.Mode, f.Size = git.Link, int64(len(to))
		f.Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(to)), nil }
	case !info.Mode().IsRegular():
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrNotRegular, Hint: "files, folders and links can be staged"}
	default:
		if info.Mode()&0o111 != 0 {
			f.Mode = git.Executable
		}
		f.Open = func() (io.ReadCloser, error) { return g.files.Open(fsName(name)) }
		if known, ok := info.(sandbox.Info); ok {
			g.links[inside] = known.Links()
		}
	}
	if _, twice := g.found[inside]; !twice {
		g.bytes += f.Size
	}
	g.found[inside] = f
	if g.Limits.Files > 0 && int64(len(g.found)) > g.Limits.Files {
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrLimit, Hint: fmt.Sprintf("%d files at once are the most (clearance.limits.max_files); stage fewer", g.Limits.Files)}
	}
	// A file of holes is as large as it says.
	if most := cmp.Or(g.Limits.Bytes, sandbox.MaxCopy); g.bytes > most {
		return &sandbox.Error{Op: "stage", Path: name, Code: sandbox.ErrTooLarge, Hint: fmt.Sprintf("%s at once are the most (clearance.limits.max_bytes); stage less", tool.Amount(most))}
	}
	return nil
}

// notes tells what was left out.
func (g *gathering) notes() (notes []string) {
	for _, n := range []struct {
		list []string
		why  string
	}{
		{g.nested, "left out, repositories of their own: "},
		{g.kept, "not here, but left on the branch, for workers cannot delete it; name what is meant to go: "},
		{g.left, "left out, for git keeps its own files there: "},
		{g.other, "left out, for another folder stands there: "},
		{g.ignored, "left out by .gitignore; name what is meant all the same: "},
		{g.away, "left out, links that lead out of the folder; name those that stay in the tree: "},
	} {
		if len(n.list) > 0 {
			slices.Sort(n.list)
			notes = append(notes, n.why+sandbox.Shown(n.list[0])+more(len(n.list)-1))
		}
	}
	return notes
}

// surprises tells what a commit does that who staged it may not have meant.
func surprises(target Target, c *clearance.StagedCommit, files []stagedFile, named []string, waiting []*clearance.StagedCommit) (notes []string) {
	if c.Base == "" && target.far() {
		notes = append(notes, "nothing of "+sandbox.Shown(c.Branch)+" was pulled yet, so all of this counts as new; if the branch is there already, the first push stages it on that, to be reviewed again")
	}
	gone := 0
	for _, f := range files {
		if f.Operation == clearance.Delete && !slices.Contains(named, f.Path) {
			gone++
		}
	}
	if gone > 0 {
		notes = append(notes, counted(gone, "file")+" of the branch not here, staged as deleted; where that is not meant discard this, and name files in place of a folder")
	}
	if slices.ContainsFunc(waiting, func(w *clearance.StagedCommit) bool {
		return w.ID != c.ID && w.Target == c.Target && w.Branch == c.Branch
	}) {
		notes = append(notes, "other commits wait for "+sandbox.Shown(c.Target+" "+c.Branch)+": once one of them is pushed, the others are staged again before they are: git_stage --again ID")
	}
	return notes
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
