package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// A Keeper reads, takes and discards the changes of a session. See changes.Overlays.
type Keeper interface {
	Contents
	Changes() (list []changes.Change, unfit string, err error)
	Begin(picks []changes.Pick) (*changes.Transaction, error)
	PlanDiscard(names []string) (list []changes.Change, unfit string, err error)
	Discard(names []string, check func([]changes.Change) error) error
}

// Contents reads both versions of a changed file: that of the session and that of the
// directory.
type Contents interface {
	Base(c changes.Change) []byte
	Texts(c changes.Change, most int64) (real, own []byte)
	States(c changes.Change) (own, real overlay.State, err error)
}

// ApplyArgs are the arguments of apply_changes.
type ApplyArgs struct {
	Paths     []string `json:"paths,omitempty" jsonschema:"files and directories; default: all changes"`
	Hunks     []string `json:"hunks,omitempty" jsonschema:"hunks of a file, by their numbers in golem diff: /a.txt:1,3"`
	Parts     []Part   `json:"parts,omitempty" jsonschema:"exactly these changes, and nothing below them"`
	Commits   bool     `json:"commits,omitempty" jsonschema:"take the commits that the session made, as references below refs/golem; no other change"`
	Branch    string   `json:"branch,omitempty" jsonschema:"with commits: also make this new branch"`
	Merge     bool     `json:"merge,omitempty" jsonschema:"if a file was changed in the directory too, merge both versions"`
	Ignored   bool     `json:"ignored,omitempty" jsonschema:"also apply new files that git ignores, such as node_modules"`
	Overwrite bool     `json:"overwrite,omitempty" jsonschema:"if a file was changed in the directory too, replace it with the version of the session"`
}

// ToolName implements tool.Arguments.
func (ApplyArgs) ToolName() string { return "apply_changes" }

// A Part is a change of one file, or some of it.
type Part struct {
	Path  string `json:"path" jsonschema:"the file"`
	Whole bool   `json:"whole,omitempty" jsonschema:"apply all of the change"`
	Patch string `json:"patch,omitempty" jsonschema:"apply these hunks to the file in the directory; in the unified format, without file names"`
	Mode  bool   `json:"mode,omitempty" jsonschema:"apply the permission bits"`
}

// Tools returns the tools. Without a keeper, an undoer or a publisher they can be listed
// but not called.
func Tools(k Keeper, u Undoer, p Publisher) []tool.Tool {
	about := tool.Tool{Name: "apply_changes", Toolset: "changes", Mode: policy.Manual, AlwaysAsk: true, Verbs: []policy.Verb{policy.Write, policy.Delete}, Private: []string{"parts"},
		Description: "Apply the changes of a session to the real directories: all changes, some paths, or some hunks of a file. " +
			"It always asks, with the diff. If a file has changed in the directory since, nothing is applied unless merge or overwrite is set."}
	apply := tool.New(about, func(_ context.Context, names tool.Names, a ApplyArgs) (tool.Plan, error) {
		if k == nil {
			return tool.Plan{}, noSession("apply_changes")
		}
		if a.Merge && a.Overwrite {
			return tool.Plan{}, &sandbox.Error{Op: "apply_changes", Code: "invalid_args", Hint: "merge and overwrite contradict each other; choose one"}
		}
		if a.Branch != "" && !a.Commits || a.Commits && (len(a.Paths)+len(a.Hunks)+len(a.Parts) > 0 || a.Merge || a.Overwrite) {
			return tool.Plan{}, &sandbox.Error{Op: "apply_changes", Code: "invalid_args", Hint: "commits takes all commits of the session; only branch goes with it"}
		}
		if a.Commits {
			return applyCommits(p.Committer, a.Branch)
		}
		for i := range a.Paths {
			name, err := names.Canonical(a.Paths[i])
			if err != nil {
				return tool.Plan{}, err
			}
			a.Paths[i] = name
		}
		for i := range a.Parts {
			name, err := names.Canonical(a.Parts[i].Path)
			if err != nil {
				return tool.Plan{}, err
			}
			a.Parts[i].Path = name
		}
		run := func(_ context.Context, files *sandbox.Sandbox) (tool.Result, error) {
			return application{k, names, files, a}.run()
		}
		plan := tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
			return tool.NewPreparation(run), nil
		}, names.CommandEffects()...)
		plan.Deferred = true
		return plan, nil
	})
	return []tool.Tool{apply, discardTool(k), undoTool(u), pullRequestTool(p)}
}

func noSession(op string) error {
	return &sandbox.Error{Op: op, Code: sandbox.ErrNotFound, Hint: "there is no session with changes: no mount of this program has mode: overlay"}
}

// An application is a call of apply_changes.
type application struct {
	keeper Keeper
	names  tool.Names
	files  *sandbox.Sandbox
	ApplyArgs
}

// Limits of an apply whose result repeats the diffs. The result of a larger one has a line for each
// file: the question has shown the diffs.
const (
	maxDiffs    = 20
	maxDiffSize = 16 << 10
)

func (a application) run() (tool.Result, error) {
	list, unfit, err := a.keeper.Changes()
	if err != nil {
		return tool.Result{}, wrapError("apply_changes", err)
	}
	hunks := make(map[string]string)
	left := a.leftOut(list)
	picks, err := a.picks(list, left, hunks)
	if err != nil {
		return tool.Result{}, err
	}
	if len(picks) == 0 {
		return tool.Result{Text: "nothing to apply: " + cmp.Or(left.String(), "the session has changed nothing")}, nil
	}
	t, err := a.keeper.Begin(picks)
	if err != nil {
		return tool.Result{}, wrapError("apply_changes", err)
	}
	places, size := make(map[string]string), int64(0)
	for _, c := range list {
		places[c.Name()] = c.IgnoredIn
	}
	for i, c := range t.Changes {
		t.Changes[i].IgnoredIn = places[c.Name()]
		size += c.Size
	}
	named := slices.Clone(a.Paths)
	for _, p := range a.Parts {
		named = append(named, p.Path)
	}
	l := approval.Classify("apply_changes", a.files, t, named...)
	l.SetParts(hunks)
	l.SetLeft(left.String())
	r := tool.Result{Notes: l.Notes(), Deferred: l.Deferred(), Brief: len(t.Changes) > maxDiffs || size > maxDiffSize}
	if unfit != "" {
		r.Notes = append(r.Notes, "skipped: "+unfit)
	}
	if r.Deferred == nil {
		r.Text = "nothing to apply"
		return r, t.Discard()
	}
	return r, nil
}

func wrapError(op string, err error) error {
	var known *sandbox.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, changes.ErrBusy):
		return &sandbox.Error{Op: op, Code: sandbox.ErrConflict, Hint: "another golem process is using the session; try again when its call has ended"}
	}
	return &sandbox.Error{Op: op, Code: sandbox.ErrInternal, Hint: strings.TrimPrefix(jail.Plain(err), "jail: ") + "; nothing was done"}
}

// picks selects the changes that the call names, and decides how each conflict is
// resolved. It adds the names of the hunks that it selects, by file.
func (a application) picks(list []changes.Change, left leftOut, names map[string]string) ([]changes.Pick, error) {
	parts, err := a.parseHunks()
	if err != nil {
		return nil, err
	}
	var picks []changes.Pick
	var conflicts []string
	found, picked := make(map[string]bool), make(map[string]bool)
	isPicked := overlay.AtOrBelow(func(name string) bool { return picked[name] }) // the list has a directory before its content
	for _, c := range list {
		name := c.Name()
		wanted := len(a.Paths) == 0 && len(parts) == 0 && len(a.Parts) == 0
		for _, p := range a.Paths {
			if Within(p, name) {
				wanted, found[p] = true, true
			}
		}
		if left.has(c) {
			continue
		}
		numbers, hunks := parts[name]
		i := slices.IndexFunc(a.Parts, func(p Part) bool { return p.Path == name })
		if hunks || i >= 0 {
			found[name] = true
		}
		if !wanted && !hunks && i < 0 || c.NewDir != "" && isPicked(path.Dir(name)) {
			continue // the content of a new directory is applied with the directory
		}
		picked[name] = true
		pick := changes.Pick{Name: name}
		switch {
		case (hunks || i >= 0) && c.Conflict:
			conflicts = append(conflicts, sandbox.Shown(name)) // the hunks also hold the change of somebody else
		case hunks:
			if pick.Text, names[name], err = a.applyHunks(c, numbers); err != nil {
				return nil, err
			}
		case i >= 0 && !a.Parts[i].Whole:
			if pick.Text, names[name], err = a.applyPart(c, a.Parts[i]); err != nil {
				return nil, err
			}
			pick.Mode = a.Parts[i].Mode
		case c.Conflict && a.Merge:
			if pick.Text, err = a.merge(c); err != nil {
				return nil, err
			}
			pick.Over, pick.Whole = true, true
		case c.Conflict && a.Overwrite:
			pick.Over = true
		case c.Conflict:
			conflicts = append(conflicts, sandbox.Shown(name))
		}
		picks = append(picks, pick)
	}
	asked := append(slices.Sorted(maps.Keys(parts)), a.Paths...)
	for _, p := range a.Parts {
		asked = append(asked, p.Path)
	}
	for _, name := range asked {
		if !found[name] {
			return nil, &sandbox.Error{Op: "apply_changes", Path: name, Code: sandbox.ErrNotFound, Hint: "the session has not changed it; golem diff --stat lists its changes"}
		}
	}
	if len(conflicts) > 0 {
		return nil, &sandbox.Error{Op: "apply_changes", Code: sandbox.ErrConflict, Hint: "changed in your directory since the session first changed it: " + strings.Join(conflicts, ", ") +
			"; nothing was applied; --merge combines both versions, --overwrite takes the session's, golem discard deletes the session's"}
	}
	return picks, nil
}

// parseHunks returns the hunk numbers that the call names, by file.
func (a application) parseHunks() (map[string][]int, error) {
	parts := make(map[string][]int)
	for _, h := range a.Hunks {
		i := strings.LastIndex(h, ":")
		wrong := &sandbox.Error{Op: "apply_changes", Code: "invalid_args", Hint: "hunks: " + sandbox.Shown(h) + " is not PATH:NUMBERS, such as /a.txt:1,3"}
		if i < 0 {
			return nil, wrong
		}
		name, err := a.names.Canonical(h[:i])
		if err != nil {
			return nil, err
		}
		for word := range strings.SplitSeq(h[i+1:], ",") {
			n, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil || n < 1 {
				return nil, wrong
			}
			parts[name] = append(parts[name], n)
		}
	}
	return parts, nil
}

// applyHunks returns the content of a file in the directory with some of the session's
// hunks applied, and names these hunks.
func (a application) applyHunks(c changes.Change, numbers []int) ([]byte, string, error) {
	real, own := a.keeper.Texts(c, filecontent.MaxCompared)
	no := func(why string) error {
		return &sandbox.Error{Op: "apply_changes", Path: c.Name(), Code: sandbox.ErrInvalid, Hint: why + "; the path without hunks applies the whole file"}
	}
	if c.Op != overlay.Modify || c.Kind != overlay.File || c.OldKind != overlay.File || !HasHunks(real, own) {
		return nil, "", no("it has no hunks: only changed text files in UTF-8 have hunks")
	}
	text, name, count, err := withHunks(string(real), string(own), numbers)
	if err != nil {
		return nil, "", no("golem cannot split its diff into hunks")
	}
	if most := slices.Max(numbers); most > count {
		return nil, "", no(fmt.Sprintf("it has %s, and no hunk %d", visible.Count(count, "hunk"), most))
	}
	return []byte(text), name, nil
}

// applyPart returns the content of a file in the directory with the hunks of a part
// applied, and names these hunks.
func (a application) applyPart(c changes.Change, p Part) ([]byte, string, error) {
	real, own := a.keeper.Texts(c, filecontent.MaxCompared)
	no := func(why string) error {
		return &sandbox.Error{Op: "apply_changes", Path: c.Name(), Code: sandbox.ErrInvalid, Hint: why + "; nothing was applied"}
	}
	if c.Kind != overlay.File || c.OldKind != overlay.File || real == nil || p.Patch != "" && !HasHunks(real, own) {
		return nil, "", no("it has no parts: only changed text files in UTF-8 have hunks; apply the whole file")
	}
	if p.Patch == "" && !p.Mode {
		return nil, "", &sandbox.Error{Op: "apply_changes", Path: c.Name(), Code: "invalid_args", Hint: "a part needs whole, patch or mode"}
	}
	hunks, err := patch.Parse(p.Patch)
	if err != nil {
		return nil, "", no("the patch cannot be read: " + err.Error())
	}
	text, err := patch.Apply(string(real), hunks)
	if err != nil {
		return nil, "", &sandbox.Error{Op: "apply_changes", Path: c.Name(), Code: sandbox.ErrConflict, Hint: "the hunks do not fit the file in your directory: " + err.Error() + "; nothing was applied"}
	}
	if p.Patch == "" {
		return []byte(text), "only the permission bits", nil
	}
	return []byte(text), patch.Name(patch.Hunks(string(real), string(own)), hunks), nil
}

// merge combines the versions of the session and of the directory. It fails if both changed
// the same lines.
func (a application) merge(c changes.Change) ([]byte, error) {
	base := a.keeper.Base(c)
	real, own := a.keeper.Texts(c, filecontent.MaxCompared)
	no := func(why string) *sandbox.Error {
		return &sandbox.Error{Op: "apply_changes", Path: c.Name(), Code: sandbox.ErrConflict,
			Hint: why + "; nothing was applied; " + afterMerge}
	}
	if base == nil || real == nil || own == nil || !filecontent.IsText(base) || !filecontent.IsText(real) || !filecontent.IsText(own) {
		return nil, no("golem cannot merge the two versions: the version from before both changes is not kept, or one version is deleted, too large or not text")
	}
	text, clean := patch.Merge(string(base), string(real), string(own), patch.Marks{Ours: "directory", Base: "before", Theirs: "session"})
	if !clean {
		e := no("both have changed the same lines")
		e.Hint += ":\n" + excerptConflicts(text)
		return nil, e
	}
	return []byte(text), nil
}

// afterMerge says what the user can do if golem cannot merge a file.
const afterMerge = "--overwrite takes the session's version, golem discard deletes it"

// WithCommands returns the error about a file that golem cannot merge with the commands to
// type. path and option are the file and the session in the form of the command line.
func WithCommands(e *sandbox.Error, path, option string) *sandbox.Error {
	file := path + option
	next := "golem apply --overwrite " + file + " takes the session's version, golem discard " + file + " deletes it"
	return &sandbox.Error{Op: "apply", Path: e.Path, Code: e.Code, Hint: strings.Replace(e.Hint, afterMerge, next, 1)}
}

// maxConflictLines is how many lines of conflicts an error has.
const maxConflictLines = 40

// excerptConflicts returns the conflicts of a merged text, without the rest.
func excerptConflicts(text string) string {
	var lines []string
	inside := false
	for line := range strings.Lines(text) {
		inside = inside || strings.HasPrefix(line, "<<<<<<< ")
		if inside {
			lines = append(lines, line)
		}
		if strings.HasPrefix(line, ">>>>>>> ") {
			inside = false
		}
	}
	if more := len(lines) - maxConflictLines; more > 0 {
		lines = append(lines[:maxConflictLines], "and "+visible.Count(more, "more line")+"\n")
	}
	return strings.TrimSuffix(strings.Join(lines, ""), "\n")
}

// Within reports whether a name is at or below another.
func Within(above, name string) bool {
	above = path.Clean(above)
	return above == "/" || name == above || strings.HasPrefix(name, above+"/")
}
