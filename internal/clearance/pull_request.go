package clearance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// pullRequestOp is the operation in errors about pull requests.
const pullRequestOp = "pr"

// A PullRequest asks to merge a branch of a repository on GitHub into another.
type PullRequest struct {
	Server string   `json:"server"` // https://github.com, or a GitHub Enterprise
	Repo   string   `json:"repo"`   // owner/name
	Branch string   `json:"branch"`
	Commit git.Hash `json:"commit"` // to which the branch is set
	Base   string   `json:"base"`   // the branch to merge into
	Title  string   `json:"title"`
	Body   string   `json:"body"`
	Draft  bool     `json:"draft,omitempty"`
	URL    string   `json:"url,omitempty"` // "" until it is open
}

// A GitHub is a repository on a GitHub server in which golem opens pull requests.
type GitHub struct{ hub }

// OpenGitHub opens a repository on a GitHub server for pull requests. The target needs no name,
// type or branch.
func OpenGitHub(store *git.ObjectStore, t Target, proof git.Credentials) (*GitHub, error) {
	t.Name, t.Type = "", "github"
	if t.Off != "" {
		return nil, &sandbox.Error{Op: pullRequestOp, Path: t.Repo, Code: "blocked", Hint: t.Off + " does not allow its host; golem apply --commits --branch NAME takes the commits"}
	}
	at, err := store.Hub(t.server(), t.Repo, proof)
	if err != nil {
		return nil, &sandbox.Error{Op: pullRequestOp, Path: t.Repo, Code: "invalid_args", Hint: "it is no repository on a GitHub server; owner/name and github.example.com/owner/name are"}
	}
	at.Name = t.Repo
	return &GitHub{hub{network{at}, store, t}}, nil
}

// HasToken reports whether there is a token for the server.
func (g *GitHub) HasToken(ctx context.Context) bool { return g.Token(ctx) != "" }

// DefaultBranch asks for the branch that pull requests are merged into.
func (g *GitHub) DefaultBranch(ctx context.Context) (branch string, err error) {
	var got struct {
		Branch string `json:"default_branch"`
	}
	err = g.ask(ctx, func(ctx context.Context, a *api) error {
		return a.send(ctx, http.MethodGet, "", nil, 0, &got)
	})
	if err == nil && git.BadBranch(got.Branch) != "" {
		err = &sandbox.Error{Op: pullRequestOp, Path: g.target.Repo, Code: git.ErrUnreachable, Hint: "GitHub does not say which branch is the default; name one with --base"}
	}
	return got.Branch, err
}

// ask makes one request to the API, and repeats it if it may be repeated.
func (g *GitHub) ask(ctx context.Context, do func(context.Context, *api) error) error {
	a, err := g.dial(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	return a.call(ctx, func(ctx context.Context) error { return do(ctx, a) })
}

// PushImport sets a branch to the commits of an import, if the branch is still at base: see
// Remote.Push. If it fails, it asks the server whether the push happened.
func (g *GitHub) PushImport(ctx context.Context, im *git.Import, branch string, base, commit git.Hash) error {
	err := im.Push(ctx, g.Remote, branch, base)
	if err == nil {
		return nil
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	switch now, unknown := g.Now(look, branch); {
	case unknown != nil:
		return errors.Join(err, unknown)
	case now == commit:
		return nil
	case now != base:
		return BranchMoved(branch)
	}
	return err
}

// BranchMoved returns the error for a branch that is elsewhere on GitHub than golem expects.
func BranchMoved(branch string) error {
	return &sandbox.Error{Op: pullRequestOp, Path: branch, Code: sandbox.ErrConflict,
		Hint: "GitHub has this branch with other commits, and golem never replaces them; golem pr --branch NAME makes another branch"}
}

// request is a pull request as the API has it.
type request struct {
	Number int64  `json:"number"`
	State  string `json:"state"`
	Head   struct {
		Ref string `json:"ref"`
		SHA string `json:"sha"`
	} `json:"head"`
}

// Find returns the address of the open pull request of a branch, or of one with the commit that
// was closed or merged. It returns "" for none.
func (g *GitHub) Find(ctx context.Context, branch string, commit git.Hash) (address string, err error) {
	var list []request
	owner, _, _ := strings.Cut(g.target.Repo, "/")
	query := url.Values{"state": {"all"}, "head": {owner + ":" + branch}, "per_page": {"100"}}
	err = g.ask(ctx, func(ctx context.Context, a *api) error {
		list = nil
		return a.send(ctx, http.MethodGet, "/pulls?"+query.Encode(), nil, 0, &list)
	})
	for _, r := range list {
		if r.Head.Ref == branch && r.Number > 0 && (r.State == "open" || address == "" && r.Head.SHA == string(commit)) {
			address = g.address(r)
		}
	}
	return address, err
}

// address returns the address of a pull request. It does not depend on texts of the server.
func (g *GitHub) address(r request) string {
	return fmt.Sprintf("%s/%s/pull/%d", g.target.server(), g.target.Repo, r.Number)
}

// Create opens a pull request for a branch that was pushed, and returns its address. If there is
// one already, for example because golem was killed before it got the answer, Create returns that
// one.
func (g *GitHub) Create(ctx context.Context, p PullRequest) (address string, err error) {
	if address, err = g.Find(ctx, p.Branch, p.Commit); err != nil || address != "" {
		return address, err
	}
	var got request
	exists := false
	err = g.ask(ctx, func(ctx context.Context, a *api) error {
		err := a.sendJSON(ctx, http.MethodPost, "/pulls", map[string]any{"title": p.Title, "body": p.Body, "head": p.Branch, "base": p.Base, "draft": p.Draft}, &got)
		var r *refusal
		if errors.As(err, &r) && r.status == http.StatusUnprocessableEntity && strings.Contains(strings.ToLower(r.says), "already exists") {
			exists = true // a request whose answer was lost has opened it
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return "", err
	case exists:
		address, err = g.Find(ctx, p.Branch, p.Commit)
	case got.Number > 0:
		return g.address(got), nil
	}
	if err == nil && address == "" {
		err = &sandbox.Error{Op: pullRequestOp, Path: p.Branch, Code: git.ErrUnreachable, Hint: "GitHub does not say which pull request it has opened; type the command again to find out"}
	}
	return address, err
}

// FormURL returns the address of the form with which a person opens the pull request.
func (p PullRequest) FormURL() string {
	return p.Server + "/" + p.Repo + "/compare/" + escapePath(p.Base) + "..." + escapePath(p.Branch) + "?expand=1"
}

// SplitHub returns the server and the repository, owner/name, of an address in any form of git, and
// of owner/name alone, which is on github.com. The server of an address by SSH is the one by https.
// It returns no user, and no secret of an address. Only for github.com it is known that the server
// is one of GitHub.
func SplitHub(address string) (server, repo string, ok bool) {
	host, path, scp := strings.Cut(address, ":")
	server = "https://" + host[strings.LastIndexByte(host, '@')+1:]
	if u, err := url.Parse(address); err == nil && strings.Contains(address, "://") {
		path, server = u.Path, "https://"+u.Hostname()
		if u.Scheme == "https" || u.Scheme == "http" {
			server = u.Scheme + "://" + u.Host
		}
	} else if !scp {
		if path = address; strings.Count(path, "/") == 2 { // host/owner/name
			host, path, _ = strings.Cut(address, "/")
			server = "https://" + host
		} else {
			server = git.GitHub
		}
	}
	repo = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	return server, repo, git.BadServer(server) == "" && git.BadRepo(repo) == ""
}
