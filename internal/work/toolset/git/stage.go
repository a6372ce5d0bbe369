package git

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

type stageArgs struct {
	Files   []string `json:"files,omitempty" jsonschema:"files, and directories with their contents; missing files are staged as deleted"`
	Message string   `json:"message,omitempty" jsonschema:"what was done, and why"`
	Target  string   `json:"target,omitempty" jsonschema:"the name of a configured repository"`
	Branch  string   `json:"branch,omitempty" jsonschema:"the branch; otherwise the one of the configuration"`
	Again   string   `json:"again,omitempty" jsonschema:"instead of other arguments, the id of a staged commit whose branch has moved: stage the same files again, on the current branch"`
}

// A stagedFile is a file of a staged commit in JSON.
type stagedFile struct {
	Path      string              `json:"path"`
	Operation clearance.Operation `json:"operation"`
}

// stage returns the tool with which workers stage results.
func (s Set) stage() tool.Tool {
	const op = "git_stage"
	t := newTool(op, "Stage files for the user's review. golem keeps them as a commit, exactly as they are now. Only the user can push it. "+
		"Returns commitId; git_diff shows what was staged.")
	t.Verbs, t.ChangesState = []policy.Verb{policy.Read}, true
	return tool.New(t, s.planStage)
}

// planStage plans to stage files.
func (s Set) planStage(ctx context.Context, names tool.Names, a stageArgs) (tool.Plan, error) {
	const op = "git_stage"
	commits, err := s.openCommits(ctx, op)
	if err != nil {
		return tool.Plan{}, err
	}
	if a.Again != "" {
		return s.planAgain(commits, names, a)
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
	target, err := s.findTarget(op, a.Target)
	if err != nil {
		return tool.Plan{}, err
	}
	if err := checkBranch(op, a.Branch); err != nil {
		return tool.Plan{}, err
	}
	var effects, besides []policy.Effect
	for i, name := range a.Files {
		at, err := names.Locate("stage", name, sandbox.ReadOnly, true)
		if err != nil {
			return tool.Plan{}, err
		}
		if _, err := target.pathInside("stage", at); err != nil && !isAbove(at, target.At) {
			return tool.Plan{}, err
		}
		if isAbove(at, target.At) {
			at = target.At
		}
		a.Files[i] = at
		effects = append(effects, names.ReadTreeEffects(at)...)
		for _, e := range ignoreEffects(names, target.At, at) {
			if !slices.Contains(besides, e) {
				besides = append(besides, e)
			}
		}
		// Reveal the target of a symlink only if the caller may read it.
		if to, err := names.Locate("stage", name, sandbox.ReadOnly, false); err == nil && to != at {
			effects = append(effects, names.ReadEffects(to)...)
		}
	}
	run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
		return s.commit(ctx, target, files, a)
	}
	plan := tool.NewReadPlan(run, append(besides, effects...)...)
	plan.Args, plan.Visible = a, effects
	return plan, nil
}

// isAbove reports whether a directory contains a name.
func isAbove(folder, name string) bool {
	return name != folder && strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/")
}

// ignoreEffects returns the effects of reading the .gitignore files of the directories above a
// name, up to the root of the repository, because they apply below too. As in git, a
// .gitignore that is a symlink does not count. One that needs approval does not count
// either.
func ignoreEffects(names tool.Names, top, at string) (effects []policy.Effect) {
	for dir := at; dir != top && dir != "/"; {
		dir = path.Dir(dir)
		name := path.Join(dir, ignoreName)
		if to, err := names.Locate("stage", name, sandbox.ReadOnly, false); err == nil && to == name && names.IsVisibleToCommands(name) {
			effects = append(effects, names.ReadEffects(name)...)
		}
	}
	return effects
}

// planAgain plans to stage a commit once more.
func (s Set) planAgain(commits *clearance.Commits, names tool.Names, a stageArgs) (tool.Plan, error) {
	if len(a.Files) > 0 || a.Message+a.Target+a.Branch != "" {
		return tool.Plan{}, &sandbox.Error{Op: "git_stage", Code: "invalid_args", Hint: "again: use it without other arguments; it takes the files and the message of the commit"}
	}
	c, err := s.findByID("git_stage", commits, names, a.Again)
	if err != nil {
		return tool.Plan{}, err
	}
	plan := tool.NewReadPlan(func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) {
		r, err := s.Request(ctx)
		if err != nil {
			return tool.Result{}, err
		}
		again, err := commits.Again(ctx, c.ID, r)
		if err != nil {
			return tool.Result{}, err
		}
		return s.newResult(again, []string{"it replaces " + shortID(c.ID)}), nil
	}, s.effectsOfClosed(names, c)...)
	plan.Args, plan.TaintedBy, plan.Reveals = stageArgs{Again: c.ID}, c.Untrusted, s.names(c)
	return plan, nil
}

// commit creates the commit.
func (s Set) commit(ctx context.Context, target Target, files *sandbox.Sandbox, a stageArgs) (tool.Result, error) {
	commits, err := s.openCommits(ctx, "git_stage")
	if err != nil {
		return tool.Result{}, err
	}
	g := gatherer{Set: s, target: target, files: files, found: make(map[string]git.File), links: make(map[string]uint64)}
	g.onBranch = func(inside string) ([]string, error) { return commits.Names(ctx, target.Name, a.Branch, inside) }
	if g.had, err = commits.Had(target.Name); err != nil {
		return tool.Result{}, err
	}
	for _, name := range a.Files {
		if err := g.add(ctx, name); err != nil {
			return tool.Result{}, err
		}
	}
	if len(g.found) == 0 {
		hint := append([]string{"it has no file that can be staged"}, g.describeSkipped()...)
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
	c, err := commits.Stage(ctx, r)
	if err != nil {
		return tool.Result{}, err
	}
	waiting, err := commits.List()
	if err != nil {
		return tool.Result{}, err
	}
	return s.newResult(c, append(g.describeSkipped(), noteSurprises(target, c, a.Files, waiting)...)), nil
}

// newResult returns the result for a staged commit.
func (s Set) newResult(c *clearance.StagedCommit, notes []string) tool.Result {
	data := struct {
		CommitID string       `json:"commitId"`
		Target   string       `json:"target"`
		Branch   string       `json:"branch"`
		Files    []stagedFile `json:"files"`
	}{c.ID, c.Target, c.Branch, s.files(c)}
	text := fmt.Sprintf("staged %s for %s %s: %s\n", shortID(c.ID), c.Target, c.Branch, visible.Count(len(c.Files), "file"))
	for i, f := range data.Files {
		if i == 20 {
			text += fmt.Sprintf("  and %d more\n", len(data.Files)-i)
			break
		}
		text += "  " + letter(f.Operation) + " " + visible.Name(f.Path) + "\n"
	}
	return tool.Result{Text: text + "it waits for the user's review; git_diff shows it", Data: data, Notes: notes, Record: "staged " + shortID(c.ID) + " for " + c.Target + " " + c.Branch}
}

// files returns the files of a commit by the names that answers show.
func (s Set) files(c *clearance.StagedCommit) []stagedFile {
	list, shown := make([]stagedFile, len(c.Files)), s.targetOf(c).shownNames(c)
	for i, f := range c.Files {
		list[i] = stagedFile{shown(f.Path), f.Operation}
	}
	return list
}

// noteSurprises returns notes on what a commit does that the caller may not have meant.
func noteSurprises(target Target, c *clearance.StagedCommit, named []string, waiting []*clearance.StagedCommit) (notes []string) {
	if c.Base == "" && target.isRemote() {
		notes = append(notes, "nothing of "+sandbox.Shown(c.Branch)+" was pulled yet, so all of this counts as new; if the branch is there already, the first push stages it on that, to be reviewed again")
	}
	gone := 0
	for _, f := range c.Files {
		if f.Operation == clearance.Delete && !slices.Contains(named, target.virtualName(f.Path)) {
			gone++
		}
	}
	if gone > 0 {
		notes = append(notes, visible.Count(gone, "file")+" of the branch not here, staged as deleted; if you do not want that, discard this, and name files instead of a directory")
	}
	if slices.ContainsFunc(waiting, func(w *clearance.StagedCommit) bool {
		return w.ID != c.ID && w.Target == c.Target && w.Branch == c.Branch
	}) {
		notes = append(notes, "other commits wait for "+sandbox.Shown(c.Target+" "+c.Branch)+": once one of them is pushed, the others are staged again before they are: git_stage --again ID")
	}
	return notes
}
