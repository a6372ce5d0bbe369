package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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

type pullArgs struct {
	Paths  []string `json:"paths" jsonschema:"files and directories of the repository"`
	Target string   `json:"target,omitempty" jsonschema:"the name of a configured repository"`
	Branch string   `json:"branch,omitempty" jsonschema:"the branch; otherwise the one of the configuration"`
}

// The maximum size of a pulled file, and of all changes together. Both versions stay in
// memory until somebody has decided, and a few objects of a repository can be any number
// of files.
const (
	maxPulled   = 16 << 20
	maxTogether = 256 << 20
)

// pull returns the tool that brings files of a branch into the tree.
func (s Set) pull() tool.Tool {
	const op = "git_pull"
	t := newTool(op, "Copy files from a repository's branch into the tree, as they are there now. If a file was changed here too, merge both versions, with markers where they conflict.")
	t.Verbs, t.UsesNetwork = []policy.Verb{policy.Write}, true
	return tool.New(t, s.planPull)
}

// planPull plans a pull.
func (s Set) planPull(ctx context.Context, names tool.Names, a pullArgs) (tool.Plan, error) {
	const op = "git_pull"
	commits, err := s.openCommits(ctx, op)
	if err != nil {
		return tool.Plan{}, err
	}
	target, err := s.findTarget(op, a.Target)
	if err != nil {
		return tool.Plan{}, err
	}
	if err := checkBranch(op, a.Branch); err != nil {
		return tool.Plan{}, err
	}
	if len(a.Paths) == 0 {
		return tool.Plan{}, &sandbox.Error{Op: op, Code: "invalid_args", Hint: "paths: name at least one; / is all"}
	}
	var inside []string
	var effects []policy.Effect
	for i, name := range a.Paths {
		if !strings.HasPrefix(name, "/") { // a path in the repository
			name = path.Join(target.At, name)
		}
		if all, err := names.Canonical(name); err == nil && isAbove(all, target.At) {
			name = target.At // a directory above the repository means all of it, as when staging
		}
		at, err := names.Locate("pull", name, sandbox.ReadWrite, true)
		if err != nil {
			return tool.Plan{}, err
		}
		rel, err := target.pathInside("pull", at)
		if err != nil {
			return tool.Plan{}, err
		}
		if rel != "" {
			inside = append(inside, rel)
		}
		a.Paths[i] = at
		effects = append(effects, policy.Effect{Verb: policy.Write, Target: at, Tree: true}, policy.Effect{Verb: policy.Read, Target: at, Tree: true})
	}
	if slices.Contains(a.Paths, target.At) {
		inside = nil // everything
	}
	plan := tool.NewChangePlan(func(ctx context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
		p := &puller{target: target, files: files, names: names}
		return p.prepare(ctx, commits, a.Branch, inside)
	}, effects...)
	plan.Args, plan.NetworkToPrepare = a, target.Address != ""
	return plan, nil
}

// A pulling is one call of git_pull.
type puller struct {
	target  Target
	names   tool.Names
	files   *sandbox.Sandbox
	changes []pulled
	same    []string // files that the tree has as the branch has them
	notes   []string
	bytes   int // size of all changes
	branch  string
	commit  git.Hash
}

// A pulled is a file to bring in.
type pulled struct {
	Path      string `json:"path"`
	Operation string `json:"operation"` // create, update, merge or conflict

	inside  string
	old     []byte
	content []byte
	version sandbox.Version
	there   bool
	program bool // it is executable on the branch
}

// prepare works out the changes of the tree.
func (p *puller) prepare(ctx context.Context, commits *clearance.Commits, branch string, inside []string) (tool.Preparation, error) {
	pull, err := commits.Pull(ctx, p.target.Name, branch, inside)
	if err != nil {
		return tool.Preparation{}, err
	}
	defer pull.Close()
	p.branch, p.commit = pull.Branch, pull.Commit
	for _, f := range pull.Files {
		if err := p.addFile(pull, f); err != nil {
			return tool.Preparation{}, err
		}
	}
	var list []tool.Change
	for _, c := range p.changes {
		change := tool.DescribeChange(c.Path, c.version, c.old, c.content)
		if c.program && !c.there {
			change.About = "a program, " + change.About
		}
		if c.Operation == "conflict" {
			change.About = "both have changed the same lines: see the markers"
		}
		list = append(list, change)
	}
	run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) { return p.run(pull, files) }
	return tool.NewPreparation(run, list...), nil
}

// addNote records why a file is skipped, or changed on the way.
func (p *puller) addNote(name, why string) { p.notes = append(p.notes, sandbox.Shown(name)+": "+why) }

// addFile works out the change of one file.
func (p *puller) addFile(pull *clearance.Pull, f clearance.Pulled) error {
	name := p.target.virtualName(f.Path)
	switch {
	case f.Mode == git.None:
		p.addNote(name, "the branch no longer has it; it stays here until it is deleted")
		return nil
	case f.Mode == git.Link || f.Mode == git.Submodule:
		p.addNote(name, "skipped, a symlink or a submodule")
		return nil
	case f.Size > maxPulled:
		p.addNote(name, fmt.Sprintf("skipped, %s are too large", visible.Amount(f.Size)))
		return nil
	case git.BadName(f.Path, f.Mode) != "" || p.files.Protection()(name) != "":
		p.addNote(name, "skipped, protected")
		return nil
	}
	theirs, err := pull.Read(f.Hash, maxPulled)
	if err != nil {
		return err
	}
	if p.files.ProtectedContent(name, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(theirs)), nil }) != "" {
		p.addNote(name, "skipped, protected")
		return nil
	}
	ours, version, err := p.files.ReadVersion(name)
	missing := errors.Is(err, fs.ErrNotExist)
	var known *sandbox.Error
	if errors.As(err, &known) && !missing { // one bad file does not stop the others
		p.addNote(name, "skipped, "+string(known.Code)+": "+known.Hint)
		return nil
	}
	if err != nil && !missing {
		return err
	}
	if !missing && bytes.Equal(ours, theirs) {
		p.same = append(p.same, f.Path)
		return nil
	}
	base, err := pull.Read(f.Base, maxPulled)
	if err != nil {
		base = nil // the base no longer exists, so both versions are all there is
	}
	c := pulled{Path: name, Operation: "update", inside: f.Path, old: ours, content: theirs, version: version, there: !missing, program: f.Mode == git.Executable}
	switch {
	case missing && f.BaseMode != git.None:
		p.addNote(name, "it was deleted here; write it again if you want it")
		return nil
	case missing:
		c.Operation = "create"
	case f.BaseMode != git.None && bytes.Equal(base, theirs):
		return nil // only changed here
	case f.BaseMode != git.None && bytes.Equal(base, ours), f.Elsewhere == git.BlobHash(int64(len(ours)), bytes.NewReader(ours)):
	case bytes.IndexByte(ours, 0) >= 0 || bytes.IndexByte(theirs, 0) >= 0:
		p.addNote(name, "it was changed here and on the branch, and is not text; it stays as it is here")
		return nil
	default:
		text, clean := clearance.Merge(string(base), string(ours), string(theirs))
		c.content, c.Operation = []byte(text), "merge"
		if !clean {
			c.Operation = "conflict"
			p.addNote(name, "both versions changed the same lines; resolve the conflict between the markers")
		}
	}
	p.changes = append(p.changes, c)
	if p.bytes += len(c.old) + len(c.content); p.bytes > maxTogether {
		return &sandbox.Error{Op: "pull", Path: name, Code: sandbox.ErrLimit, Hint: fmt.Sprintf("more than %s would change; nothing was pulled; name directories, and pull them one by one", visible.Amount(maxTogether))}
	}
	return nil
}

// run writes the changes. It is an error if a file has changed meanwhile.
func (p *puller) run(pull *clearance.Pull, files *sandbox.Sandbox) (tool.Result, error) {
	took := p.same
	counts := make(map[string]int)
	for _, c := range p.changes {
		var err error
		switch {
		case c.there:
			_, err = files.WriteIf(c.Path, c.content, c.version)
		case c.program:
			_, err = files.WriteProgram(c.Path, c.content)
		default:
			_, err = files.WriteNew(c.Path, c.content)
		}
		if err != nil {
			return tool.Result{}, errors.Join(err, pull.Took(took...))
		}
		took = append(took, c.inside)
		counts[c.Operation]++
	}
	if err := pull.Took(took...); err != nil {
		return tool.Result{}, err
	}
	text := fmt.Sprintf("pulled from %s %s (%s)", p.target.Name, p.branch, p.commit[:12])
	for _, op := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf(", %s %d", op, counts[op])
	}
	if len(p.changes) == 0 {
		text += ": nothing to change here"
	}
	list := p.changes
	if list == nil {
		list = []pulled{}
	}
	return tool.Result{Text: text, Brief: true, Notes: p.notes, Data: map[string]any{"commit": p.commit, "branch": p.branch, "files": list}}, nil
}

// branches returns the tool that lists branches.
func (s Set) branches() tool.Tool {
	const op = "git_branches"
	type branchArgs struct {
		Target string `json:"target,omitempty" jsonschema:"the name of a configured repository"`
	}
	t := newReadTool(op, "List the branches of a repository.")
	t.UsesNetwork = true
	return tool.New(t, func(ctx context.Context, _ tool.Names, a branchArgs) (tool.Plan, error) {
		commits, err := s.openCommits(ctx, op)
		if err != nil {
			return tool.Plan{}, err
		}
		target, err := s.findTarget(op, a.Target)
		if err != nil {
			return tool.Plan{}, err
		}
		return tool.NewReadPlan(func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) {
			all, err := commits.Branches(ctx, target.Name)
			if err != nil {
				return tool.Result{}, err
			}
			text := ""
			for _, name := range slices.Sorted(maps.Keys(all)) {
				text += string(all[name])[:12] + "  " + name + "\n"
			}
			if text == "" {
				text = target.Name + " has no branches yet"
			}
			return tool.Result{Text: text, Data: map[string]any{"target": target.Name, "branches": all}}, nil
		}), nil
	})
}

// merge returns the tool that merges texts. It changes no file.
func (s Set) merge() tool.Tool {
	const op = "git_merge"
	type mergeArgs struct {
		Base   string `json:"base,omitempty" jsonschema:"the text that both versions come from"`
		Ours   string `json:"ours" jsonschema:"one version"`
		Theirs string `json:"theirs" jsonschema:"the other version"`
	}
	t := newTool(op, "Merge two versions of a text. Changes nothing. If both versions changed the same lines, the result has both, between markers.")
	t.Private = []string{"base", "ours", "theirs"}
	return tool.New(t, func(_ context.Context, _ tool.Names, a mergeArgs) (tool.Plan, error) {
		return tool.NewReadPlan(func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
			text, clean := clearance.Merge(a.Base, a.Ours, a.Theirs)
			return tool.Result{Text: text, Data: map[string]any{"text": text, "conflicts": !clean}}, nil
		}), nil
	})
}
