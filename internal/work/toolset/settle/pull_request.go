package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/clearance/scan"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/sandbox"
)

// A Publisher pushes the commits of a session, and opens pull requests for them.
type Publisher struct {
	Committer
	// GitHub opens a repository on a GitHub server.
	GitHub func(ctx context.Context, server, repo string) (*clearance.GitHub, error)
	// Scanners returns the scanners for results.
	Scanners func() (*scan.Set, error)
	// Persons returns the author and the committer of commits of the user.
	Persons func(context.Context) (author, committer git.Person, err error)
}

// prOp is the operation in errors about pull requests, as the user types it.
const prOp = "pr"

// PullRequestArgs are the arguments of pull_request.
type PullRequestArgs struct {
	Branch   string   `json:"branch,omitempty" jsonschema:"the branch to push; default: the name of the session"`
	Base     string   `json:"base,omitempty" jsonschema:"the branch to merge into; default: the default branch of the repository"`
	Title    string   `json:"title,omitempty" jsonschema:"default: the first line of the first commit"`
	Repo     string   `json:"repo,omitempty" jsonschema:"owner/name, or server/owner/name; default: the remote origin"`
	Draft    bool     `json:"draft,omitempty" jsonschema:"open it as a draft"`
	Override []string `json:"override,omitempty" jsonschema:"push a file that a scanner holds back: PATH=REASON; the journal records the reason"`
	Unseen   bool     `json:"unseen,omitempty" jsonschema:"the user does not look at the commits; the pull request says so"`
}

// ToolName implements tool.Arguments.
func (PullRequestArgs) ToolName() string { return "pull_request" }

// pullRequestTool returns the tool with which the user opens a pull request.
func pullRequestTool(p Publisher) tool.Tool {
	about := tool.Tool{Name: "pull_request", Toolset: "changes", Mode: policy.Manual, AlwaysAsk: true, UsesNetwork: true,
		Description: "Push the commits of a session as a new branch of a repository on GitHub, and open a pull request. It always asks, with every commit, and never forces."}
	return tool.New(about, func(ctx context.Context, _ tool.Names, a PullRequestArgs) (tool.Plan, error) {
		if p.Committer == nil {
			return tool.Plan{}, noSession(prOp)
		}
		a.Branch = cmp.Or(a.Branch, naming.Label(p))
		for _, one := range []struct{ flag, name string }{{"--branch", a.Branch}, {"--base", a.Base}} {
			if why := git.BadBranch(one.name); one.name != "" && why != "" {
				return tool.Plan{}, &sandbox.Error{Op: one.flag, Code: "invalid_args", Hint: why}
			}
		}
		plan := tool.NewChangePlan(func(ctx context.Context, _ *sandbox.Sandbox) (tool.Preparation, error) {
			return (&publication{Publisher: p, args: a}).prepare(ctx)
		}) // no effects: no file of a mount changes
		plan.Args = a
		return plan, nil
	})
}

// A publication is a call of pull_request.
type publication struct {
	Publisher
	args   PullRequestArgs
	found  map[string]*destination // by the sandbox's names of the work trees
	manual string                  // why the user pushes and opens the pull request, not golem; "" if golem can
	form   string                  // where the user opens it then
}

// A destination is the repository on GitHub that a repository of the user belongs to.
type destination struct {
	*clearance.GitHub
	server, repo string
	base         string
	branches     map[string]git.Hash // as they are now
}

// prepare works out what to push and the pull request, and asks nothing.
func (p *publication) prepare(ctx context.Context) (tool.Preparation, error) {
	imports, skipped, err := p.read(ctx, p.beyond)
	if err != nil {
		return tool.Preparation{}, err
	}
	defer closeAll(imports)
	if p.manual != "" {
		return p.prepareManually(ctx)
	}
	im, to, err := p.only(ctx, imports, skipped)
	if err != nil {
		return tool.Preparation{}, err
	}
	if err := p.checkBranch(im, to); err != nil {
		return tool.Preparation{}, err
	}
	commits, err := ReadCommits(ctx, idOf(p), im)
	if err != nil {
		return tool.Preparation{}, err
	}
	found, err := p.scan(ctx, im, commits)
	if err != nil {
		return tool.Preparation{}, err
	}
	who, _, err := p.Persons(ctx)
	if err != nil {
		return tool.Preparation{}, err
	}
	if who.Email == "golem@localhost" { // git knows no name of the user
		who.Name = ""
	}
	pr := clearance.PullRequest{Server: to.server, Repo: to.repo, Branch: p.args.Branch, Commit: im.Branches[0].Commit, Base: to.base, Draft: p.args.Draft,
		Title: cmp.Or(p.args.Title, titleOf(commits.Commits)), Body: describePullRequest(commits.Commits, im.Name, who.Name, p.args.Unseen)}
	was := to.branches[pr.Branch]
	if was != "" {
		if pr.URL, err = to.Find(ctx, pr.Branch, pr.Commit); err != nil {
			return tool.Preparation{}, err
		}
	}
	if was == pr.Commit && pr.URL != "" {
		return tool.Preparation{}, &sandbox.Error{Op: prOp, Code: sandbox.ErrExists, Hint: "the pull request exists: " + pr.URL}
	}
	list := []CommitRepository{commits}
	changes := commitChanges(list)
	if pr.URL == "" {
		changes = append([]tool.Change{{Path: "pull request", Op: tool.Create, About: "to " + to.server + "/" + to.repo,
			Diff: filecontent.Diff("", "pull request", "", pr.Title+"\n\n"+pr.Body)}}, changes...)
	}
	ready := tool.NewPreparation(func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) {
		r, err := p.publish(ctx, to, pr, was, versionsIn(list))
		r.Notes = slices.Concat(skipped, r.Notes)
		return r, err
	}, changes...)
	ready.Summary = describePublication(pr, was, len(commits.Commits))
	_, ready.Warnings = describeCommits(list, "")
	ready.Warnings = slices.Concat(found, ready.Warnings, skipped)
	return ready, nil
}

// describePublication returns what a request for a pull request says first. was is the commit of
// the branch on GitHub.
func describePublication(pr clearance.PullRequest, was git.Hash, commits int) string {
	where := pr.Branch + " of " + pr.Repo + " on " + pr.Server
	open := "open a pull request"
	if pr.Draft {
		open = "open a draft pull request"
	}
	switch push := "push " + visible.Count(commits, "commit") + " to the "; {
	case was == pr.Commit:
		return open + " to merge the branch " + where + ", which is at " + string(pr.Commit[:12]) + " already, into " + pr.Base
	case pr.URL != "":
		return push + "branch " + where + ", and set it to " + string(pr.Commit[:12]) + "; its pull request is " + pr.URL
	case was != "":
		return push + "existing branch " + where + ", set it to " + string(pr.Commit[:12]) + ", and " + open + " to merge it into " + pr.Base
	default:
		return push + "new branch " + where + ", at " + string(pr.Commit[:12]) + ", and " + open + " to merge it into " + pr.Base
	}
}

// read returns the imports of the session's commits. If it has none, it returns that of one commit
// with the changes of the session. The caller closes them.
func (p *publication) read(ctx context.Context, beyond Beyond) (list []RepositoryImport, skipped []string, err error) {
	c := &git.Commit{Message: cmp.Or(p.args.Title, "Changes of session "+naming.Label(p)) + "\n"}
	if c.Author, c.Committer, err = p.Persons(ctx); err != nil {
		return nil, nil, err
	}
	return p.Imports(ctx, beyond, c)
}

// A withChanges reads the commits of a session, or one with its changes.
type withChanges struct{ *publication }

// Imports implements Committer.
func (w withChanges) Imports(ctx context.Context, beyond Beyond, _ *git.Commit) ([]RepositoryImport, []string, error) {
	return w.read(ctx, beyond)
}

// beyond returns the commits that the repository on GitHub has, except those of the branch to
// push.
func (p *publication) beyond(ctx context.Context, name string, t *git.Target) ([]git.Hash, error) {
	server, repo, ok := clearance.SplitHub(cmp.Or(p.args.Repo, t.RemoteURL("origin")))
	p.form = "git push prints its address"
	if ok {
		p.form = server + "/" + repo
	}
	switch {
	case p.args.Repo != "" && !ok:
		return nil, &sandbox.Error{Op: "--repo", Path: p.args.Repo, Code: "invalid_args", Hint: "it takes owner/name, or server/owner/name for a GitHub Enterprise"}
	case p.args.Repo == "" && t.RemoteURL("origin") == "":
		p.manual = "your repository has no remote origin; --repo owner/name names one on GitHub"
	case p.args.Repo == "" && server != git.GitHub: // its owner would get a token that is for another server
		p.manual = "the remote origin is not on github.com; --repo server/owner/name names a repository on a GitHub Enterprise"
	}
	if p.manual != "" {
		return nil, nil
	}
	hub, err := p.GitHub(ctx, server, repo)
	if err != nil {
		return nil, err
	}
	if !hub.HasToken(ctx) {
		variable := "GITHUB_TOKEN"
		if server != git.GitHub {
			variable = "GH_ENTERPRISE_TOKEN"
		}
		p.manual = "there is no token for " + server + "; set " + variable + ", or run gh auth login"
		p.form += "/pull/new/" + p.args.Branch
		return nil, nil
	}
	to := &destination{hub, server, repo, p.args.Base, nil}
	if to.branches, err = hub.Branches(ctx); err == nil && to.base == "" {
		to.base, err = hub.DefaultBranch(ctx)
	}
	if err != nil {
		return nil, err
	}
	if p.found == nil {
		p.found = make(map[string]*destination)
	}
	p.found[name] = to
	return p.known(to), nil
}

// only returns the only import, and the repository that it goes to.
func (p *publication) only(ctx context.Context, imports []RepositoryImport, skipped []string) (im RepositoryImport, to *destination, err error) {
	var names []string
	for _, im := range imports {
		for _, b := range im.Branches {
			names = append(names, visible.Line(b.Name, 100)+" in "+visible.Name(im.Name))
		}
	}
	switch len(names) {
	case 1:
		return imports[0], p.found[imports[0].Name], nil
	case 0:
		hint := "the session has nothing that the repository on GitHub lacks"
		if len(skipped) > 0 {
			hint += "; " + strings.Join(skipped, "; ")
		}
		return im, nil, &sandbox.Error{Op: prOp, Code: sandbox.ErrNotFound, Hint: hint}
	}
	return im, nil, &sandbox.Error{Op: prOp, Code: sandbox.ErrConflict, Hint: "the session has commits on several branches: " + strings.Join(names, ", ") +
		"; golem apply --commits takes them all, and git push pushes those that you choose"}
}

// checkBranch refuses a branch that golem cannot set to the commits, and a base that does not
// exist.
func (p *publication) checkBranch(im RepositoryImport, to *destination) error {
	refuse := func(name string, code sandbox.Code, hint string) error {
		return &sandbox.Error{Op: prOp, Path: name, Code: code, Hint: hint}
	}
	if _, is := to.branches[to.base]; !is {
		return refuse(to.base, sandbox.ErrNotFound, "the repository "+to.repo+" has no such branch to merge into; --base NAME names another")
	}
	if p.args.Branch == to.base {
		return refuse(p.args.Branch, "invalid_args", "a pull request merges a branch into another; --branch NAME names a new one")
	}
	if now := to.branches[p.args.Branch]; now != "" && !slices.Contains(im.Commits, now) {
		return clearance.BranchMoved(p.args.Branch)
	}
	return nil
}

// scan runs the scanners on everything that the commits hold, also on what a later commit removes.
// It returns what they report, and an error if they hold something back.
func (p *publication) scan(ctx context.Context, im RepositoryImport, commits CommitRepository) (found []string, err error) {
	scanners, err := p.Scanners()
	if err != nil {
		return nil, &sandbox.Error{Op: prOp, Code: "scan", Hint: "golem cannot start the scanners, and pushes nothing without them: " + err.Error()}
	}
	ctx, cancel := scanners.Together(ctx)
	defer cancel()
	held, done, paths := make(map[string]bool), make(map[string]bool), make(map[string]string)
	var reasons []string
	report := func(name string, findings []scan.Finding, holds bool) {
		for _, f := range findings {
			text := fmt.Sprintf("%s: %s: %s", visible.Name(name), f.Scanner, visible.Line(f.What, 300))
			if found = append(found, text); f.Hold || holds {
				reasons = append(reasons, text)
			}
		}
	}
	for _, c := range commits.Commits {
		name := "commit " + c.Short()
		if findings := scan.Message(ctx, c.persons+c.Text()); len(findings) > 0 {
			held[name] = held[name] || slices.ContainsFunc(findings, func(f scan.Finding) bool { return f.Hold })
			report(name, findings, false)
		}
		for _, f := range c.Files {
			if f.Becomes == "" || done[f.Path+"\x00"+f.Becomes] {
				continue
			}
			done[f.Path+"\x00"+f.Becomes] = true
			content, err := contentOf(ctx, im, f)
			if err != nil {
				return nil, err
			}
			if content == nil {
				continue
			}
			name := scan.ShownName(f.Path)
			if other, is := paths[name]; is && other != f.Path {
				name += "#" + f.Becomes[:12] // two names that differ only in what is hidden
			}
			paths[name] = f.Path
			v := scanners.Scan(ctx, *content)
			held[name] = held[name] || v.Held
			report(name, v.Findings, v.Held)
		}
	}
	given, err := clearance.ParseOverrides(prOp, p.args.Override, func(name string) bool { return held[name] })
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		if held[name] && !given[name] {
			return nil, &sandbox.Error{Op: prOp, Path: name, Code: "scan", Hint: "a scanner holds it back: " + strings.Join(reasons[:min(len(reasons), 5)], "; ") +
				"; nothing was pushed; change the commit, or say why it may pass: " + clearance.OverrideFlag(name)}
		}
	}
	return found, nil
}

// contentOf returns the new content of a file of a commit for the scanners, nil for a submodule.
func contentOf(ctx context.Context, im RepositoryImport, f tool.Change) (*scan.Content, error) {
	open := func() (io.Reader, int64, *git.Reader, error) {
		r, err := im.Store().Reader(ctx, im.Objects())
		if err != nil {
			return nil, 0, nil, err
		}
		content, size, err := r.Stream(git.Hash(f.Becomes))
		if err != nil {
			r.Close()
		}
		return content, size, r, err
	}
	if strings.HasSuffix(f.About, "mode "+string(git.Submodule)) {
		return nil, nil
	}
	_, size, r, err := open()
	if err != nil {
		return nil, err
	}
	r.Close()
	return &scan.Content{Path: strings.TrimPrefix(f.Path, "/"), Size: size, Hash: f.Becomes, Open: func() (io.ReadCloser, error) {
		content, _, r, err := open()
		if err != nil {
			return nil, err
		}
		return closer{content, r}, nil
	}}, nil
}

// A closer is a content that a git process of its own reads.
type closer struct {
	io.Reader
	git *git.Reader
}

func (c closer) Close() error {
	c.git.Close()
	return nil
}

// publish pushes exactly the commit that was shown, and opens the pull request. Both steps happen
// at most once: if golem is killed in between, the next call finds out what GitHub has.
func (p *publication) publish(ctx context.Context, to *destination, pr clearance.PullRequest, was git.Hash, versions map[string][]string) (r tool.Result, err error) {
	if was != pr.Commit {
		imports, _, err := p.read(ctx, func(context.Context, string, *git.Target) ([]git.Hash, error) {
			return p.known(to), nil
		})
		if err != nil {
			return r, err
		}
		defer closeAll(imports)
		if len(imports) != 1 || len(imports[0].Branches) != 1 || imports[0].Branches[0].Commit != pr.Commit {
			return r, &sandbox.Error{Op: prOp, Code: sandbox.ErrConflict, Hint: "the session has other commits or changes than those that were shown; nothing was pushed; golem pr shows them"}
		}
		if err := to.PushImport(ctx, imports[0].Import, pr.Branch, was, pr.Commit); err != nil {
			return r, err
		}
	}
	if pr.URL == "" {
		if pr.URL, err = to.Create(ctx, pr); err != nil {
			return r, notOpened(pr, err)
		}
	}
	pushed := "pushed " + pr.Branch + " of " + pr.Server + "/" + pr.Repo + " as " + string(pr.Commit)
	r = tool.Result{Text: pushed + "\npull request: " + pr.URL, Brief: true, Data: pr, Record: pushed + "; pull request " + pr.URL}
	if p.MarkTaken(versions) != nil {
		r.Notes = append(r.Notes, "golem could not record that the commits were pushed; golem status still lists the session")
	}
	r.Notes = append(r.Notes, "when it is merged, git pull brings the commits, and golem discard --session "+naming.Label(p)+" deletes the session")
	return r, nil
}

// known returns the commits of all branches except the one to push.
func (p *publication) known(to *destination) []git.Hash {
	list := []git.Hash{}
	for _, branch := range slices.Sorted(maps.Keys(to.branches)) {
		if branch != p.args.Branch {
			list = append(list, to.branches[branch])
		}
	}
	return list
}

// notOpened returns the error for a branch that was pushed, and a pull request that was not
// opened.
func notOpened(pr clearance.PullRequest, err error) error {
	e := &sandbox.Error{Op: prOp, Path: pr.Branch, Code: sandbox.ErrInternal, Hint: err.Error()}
	var known *sandbox.Error
	if errors.As(err, &known) {
		e.Code, e.Hint = known.Code, known.Hint
	}
	e.Hint = "the branch is pushed, at " + string(pr.Commit[:12]) + ", and the pull request is not open: " + e.Hint + "; type the command again, or open it yourself: " + pr.FormURL()
	return e
}

// prepareManually prepares to take the commits as a branch, which the user then pushes.
func (p *publication) prepareManually(ctx context.Context) (tool.Preparation, error) {
	ready, err := prepareCommits(ctx, withChanges{p}, p.args.Branch, "git push origin "+p.args.Branch+", then open the pull request: "+p.form+
		"\ngolem has not pushed it: "+p.manual)
	ready.Warnings = append([]string{"golem pushes nothing and opens no pull request: " + p.manual}, ready.Warnings...)
	return ready, err
}
