package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// The limits of a comparison of the tree with a branch.
const (
	maxHashed  = 256 << 20 // bytes that are read to find changes
	maxChanged = 1000      // changed files in a result
	maxNamed   = 50        // changed files that git_status lists
	maxDiffed  = 200       // files that git_diff compares line by line
	maxContent = 1 << 20   // bytes of a file that are compared line by line
)

// An Unstaged holds the files of the tree that differ from the branch of a target, and
// that no waiting commit has as they are.
type Unstaged struct {
	Target string         `json:"target"`
	Branch string         `json:"branch"`
	Files  []unstagedFile `json:"unstaged"`
	More   int            `json:"more,omitempty"` // changed files that Files does not have

	all   bool
	notes []string
	err   error
}

// An unstagedFile is a file of an Unstaged.
type unstagedFile struct {
	Path      string              `json:"path"`
	Operation clearance.Operation `json:"operation"`
	Diff      string              `json:"diff,omitempty"`

	file   clearance.File
	open   func() (io.ReadCloser, error)
	change review.FileChange
}

// A comparison says what of the tree to compare.
type comparison struct {
	at   string                // the file or directory
	skip func(dir string) bool // directories to leave out; nil for none
	diff bool                  // compare line by line
}

// effectsOfOpen returns the effects of reading a tree as far as that needs no approval.
func effectsOfOpen(names tool.Names, at string) []policy.Effect {
	if at == "" {
		return nil
	}
	return slices.DeleteFunc(names.ReadTreeEffects(at), func(e policy.Effect) bool { return !names.IsVisibleToCommands(e.Target) })
}

// planUnstaged plans to show the changes that are not staged.
func (s Set) planUnstaged(names tool.Names, a DiffArgs) (tool.Plan, error) {
	const op = "git_diff"
	if a.CommitID != "" {
		return tool.Plan{}, &sandbox.Error{Op: op, Code: "invalid_args", Hint: "commitId is for a staged commit, unstaged and path are for other changes; write one of them"}
	}
	target, err := s.findTarget(op, "")
	if err != nil {
		return tool.Plan{}, err
	}
	at := target.At
	if a.Path != "" {
		if at, err = names.Locate(op, a.Path, sandbox.ReadOnly, true); err != nil {
			return tool.Plan{}, err
		}
	}
	if isAbove(at, target.At) {
		at = target.At
	}
	if _, err := target.pathInside(op, at); err != nil {
		return tool.Plan{}, err
	}
	a.Unstaged, a.Path = true, at
	plan := tool.NewReadPlan(func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
		u := s.unstaged(ctx, target, files, comparison{at: at, diff: true})
		if u.err != nil {
			return tool.Result{}, u.err
		}
		u.all = a.All
		var b strings.Builder
		err := u.Show(&b, visible.Page{})
		return tool.Result{Text: b.String(), Data: u}, err
	}, effectsOfOpen(names, at)...)
	plan.Args = a
	return plan, nil
}

// unstaged compares the tree with the branch of a target. It opens no repository of the
// tree: it reads the files through the sandbox, and the branch through git. If the
// tree cannot be compared, a note says why.
func (s Set) unstaged(ctx context.Context, target Target, files *sandbox.Sandbox, c comparison) *Unstaged {
	u := &Unstaged{Target: target.Name, Files: []unstagedFile{}}
	if target.Name == "" {
		u.notes = []string{"not compared with a branch: several targets are named, and none is origin; default_target in the worker's file chooses one"}
		return u
	}
	err := s.compare(ctx, target, files, c, u)
	var known *sandbox.Error
	switch {
	case ctx.Err() != nil:
		u.err = ctx.Err()
	case errors.As(err, &known) && (known.Code == sandbox.ErrLimit || known.Code == sandbox.ErrTooLarge || known.Code == sandbox.ErrInvalid || known.Code == sandbox.ErrNotRegular):
		u.Files = []unstagedFile{}
		u.notes = append(u.notes, "not compared with "+sandbox.Shown(target.Name)+": "+known.Error())
	default:
		u.err = err
	}
	return u
}

func (s Set) compare(ctx context.Context, target Target, files *sandbox.Sandbox, c comparison, u *Unstaged) error {
	commits, err := s.openCommits(ctx, "git_status")
	if err != nil {
		return err
	}
	branch, err := clearance.OpenBranchFiles(ctx, commits, target.Name)
	if err != nil {
		return err
	}
	if branch.Commit == "" && target.isRemote() {
		u.notes = append(u.notes, "not compared with "+sandbox.Shown(target.Name)+": nothing of "+sandbox.Shown(branch.Name)+" was pulled yet; git_pull pulls it")
		return nil
	}
	g, err := s.gather(ctx, commits, target, files, branch, c)
	if err != nil {
		return err
	}
	staged, err := stagedContents(commits, target.Name)
	if err != nil {
		return err
	}
	base := make(map[string]git.Entry, len(branch.Files))
	for _, e := range branch.Files {
		base[e.Path] = e
	}
	reader := hasher{left: maxHashed}
	for inside, f := range g.found {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		file, changed, err := reader.compare(base[inside], f)
		if err != nil {
			return err
		}
		if changed && !slices.Contains(staged[inside], file.New) {
			u.Files = append(u.Files, unstagedFile{Path: target.virtualName(inside), Operation: file.Operation, file: file, open: f.Open})
		}
	}
	if reader.unread > 0 {
		u.notes = append(u.notes, visible.Count(reader.unread, "file")+" of the same size not compared: "+visible.Amount(maxHashed)+" at once is the limit")
	}
	if len(g.skipped) > 0 {
		slices.Sort(g.skipped)
		u.notes = append(u.notes, "not compared, untrusted: "+sandbox.Shown(g.skipped[0])+countMore(len(g.skipped)-1)+"; git_diff with a path shows it")
	}
	u.Branch = branch.Name
	slices.SortFunc(u.Files, func(a, b unstagedFile) int { return strings.Compare(a.Path, b.Path) })
	if u.More = max(0, len(u.Files)-maxChanged); u.More > 0 {
		u.Files = u.Files[:maxChanged]
	}
	if c.diff {
		return u.addDiffs(ctx, branch)
	}
	return nil
}

// gather lists the files of the tree, and those that the branch has and the tree not.
func (s Set) gather(ctx context.Context, commits *clearance.Commits, target Target, files *sandbox.Sandbox, branch *clearance.BranchFiles, c comparison) (*gatherer, error) {
	s.Limits = Limits{} // they are for staging
	g := &gatherer{Set: s, target: target, files: files, skip: c.skip, found: make(map[string]git.File), links: make(map[string]uint64)}
	g.onBranch = func(inside string) (list []string, err error) {
		for _, e := range branch.Files {
			if inside == "" || e.Path == inside || strings.HasPrefix(e.Path, inside+"/") {
				list = append(list, e.Path)
			}
		}
		return list, nil
	}
	var err error
	if g.had, err = commits.Had(target.Name); err != nil {
		return nil, err
	}
	if c.skip != nil && c.skip(c.at) {
		g.skipped = append(g.skipped, c.at)
		return g, nil
	}
	if _, err := files.Lstat(fsName(c.at)); c.at == target.At && errors.Is(err, fs.ErrNotExist) {
		return g, nil // nothing was pulled or written yet
	}
	return g, g.add(ctx, c.at)
}

// stagedContents returns the contents that waiting commits for a target have, by path in
// the repository.
func stagedContents(commits *clearance.Commits, target string) (map[string][]git.Hash, error) {
	waiting, err := commits.List()
	if err != nil {
		return nil, err
	}
	staged := make(map[string][]git.Hash)
	for _, c := range waiting {
		for _, f := range c.Files {
			if c.Target == target {
				staged[f.Path] = append(staged[f.Path], f.New)
			}
		}
	}
	return staged, nil
}

// A hasher hashes files up to a limit of bytes.
type hasher struct {
	left   int64
	unread int // files that were not compared
}

// compare compares a file of the tree with that of the branch.
func (h *hasher) compare(old git.Entry, f git.File) (file clearance.File, changed bool, err error) {
	file = clearance.File{Path: f.Path, Operation: clearance.Update, OldMode: old.Mode, Old: old.Hash, Mode: f.Mode, Size: f.Size}
	switch {
	case f.Mode == git.None:
		file.Operation = clearance.Delete
		return file, old.Mode != "", nil
	case old.Mode == "":
		file.Operation, file.OldMode = clearance.Create, git.None
	case old.Mode == f.Mode && old.Size == f.Size && f.Size > h.left:
		h.unread++
		return file, false, nil
	}
	if f.Size > h.left {
		return file, true, nil
	}
	h.left -= f.Size
	content, err := f.Open()
	if errors.Is(err, fs.ErrNotExist) {
		return file, false, nil // deleted since
	}
	if err != nil {
		return file, false, err
	}
	defer content.Close()
	file.New = git.BlobHash(f.Size, io.LimitReader(content, f.Size))
	return file, file.New != file.Old || file.Mode != file.OldMode, nil
}

// addDiffs compares the first files line by line.
func (u *Unstaged) addDiffs(ctx context.Context, branch *clearance.BranchFiles) error {
	r, err := branch.NewReader(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	room := maxCarried
	for i := range u.Files {
		f := &u.Files[i]
		if i >= maxDiffed || room < 0 {
			u.More += len(u.Files) - i
			u.Files = u.Files[:i]
			return nil
		}
		content, err := f.beginning()
		if err != nil {
			return err
		}
		if f.change, err = clearance.CompareFile(r, f.file, content, f.file.Size); err != nil {
			return err
		}
		f.change.Path, f.Diff = f.Path, f.change.Diff
		room -= len(f.Diff)
	}
	return nil
}

// beginning returns the first bytes of the content.
func (f unstagedFile) beginning() ([]byte, error) {
	if f.open == nil {
		return nil, nil
	}
	content, err := f.open()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	var b bytes.Buffer
	_, err = io.Copy(&b, io.LimitReader(content, maxContent))
	return b.Bytes(), err
}

// Show prints the changes for a person, safe for a terminal.
func (u *Unstaged) Show(w io.Writer, page visible.Page) error {
	for _, note := range u.notes {
		if err := page.Line(w, "note: "+note); err != nil {
			return err
		}
	}
	if len(u.Files) == 0 && u.Branch != "" {
		return page.Line(w, "nothing is unstaged")
	}
	how := review.How{Page: page, Most: maxLines, More: "git_diff with all shows all of it"}
	if u.all {
		how.Most = 0
	}
	for _, f := range u.Files {
		if err := review.Text(w, f.change, how); err != nil {
			return err
		}
	}
	if u.More > 0 {
		return page.Line(w, fmt.Sprintf("and %d more; git_diff with a path shows them", u.More))
	}
	return nil
}

// list returns the names of the files, for git_status.
func (u *Unstaged) list() string {
	if u.Branch == "" {
		return ""
	}
	count := len(u.Files) + u.More
	if count == 0 {
		return "nothing is unstaged\n"
	}
	text := fmt.Sprintf("%s unstaged, compared with %s %s; git_diff with unstaged shows the changes\n", visible.Count(count, "file"), u.Target, visible.Name(u.Branch))
	for i, f := range u.Files {
		if i == maxNamed {
			text += fmt.Sprintf("  and %d more\n", count-i)
			break
		}
		text += "  " + letter(f.Operation) + " " + visible.Name(f.Path) + "\n"
	}
	return text
}
