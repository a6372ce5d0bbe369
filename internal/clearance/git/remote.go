package git

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// Credentials are what a git may use to authenticate to a remote. The zero value holds
// none.
type Credentials struct {
	inherit bool
	env     []string
}

// inherited are the variables of the user's environment that go into the user's
// credentials. Other variables could make git run a program, or read a configuration that
// somebody other than the user wrote.
var inherited = []string{
	"HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "USER", "LOGNAME", "PATH", "GNUPGHOME",
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_HOST", "GH_CONFIG_DIR",
	"http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY",
}

// tokens are the variables with a token for a GitHub server. No git gets them, because it
// would pass them to every program that it starts, for every host. The server gets its
// token in a header.
var tokens = []string{"GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"}

// gitVariables returns the variables that a git gets.
func (c Credentials) gitVariables() []string {
	return slices.DeleteFunc(slices.Clone(c.env), func(one string) bool {
		name, _, _ := strings.Cut(one, "=")
		return slices.Contains(tokens, name)
	})
}

// Inherit returns the user's own credentials, as the user's git has them: the SSH agent,
// keys, credential helpers in the user's configuration, and tokens.
func Inherit(environment []string) Credentials {
	c := Credentials{inherit: true}
	for _, one := range environment {
		if name, _, _ := strings.Cut(one, "="); slices.Contains(inherited, name) {
			c.env = append(c.env, one)
		}
	}
	return c
}

// Explicit returns credentials with only the given variables.
func Explicit(variables []string) Credentials {
	return Credentials{env: slices.Clone(variables)}
}

// A Remote is a repository that git reaches over the network.
type Remote struct {
	Name string // the user's name for it, for errors

	store       *ObjectStore
	url         string
	credentials Credentials
	server      string // GitHub server, "" for another kind of remote
	token       string // token for the server, "" for none
	asked       bool   // whether token was looked up
}

// protocols are those that git may use to reach a remote.
var protocols = []string{"https", "http", "ssh"}

// Remote returns the remote at an address from the user's configuration.
func (s *ObjectStore) Remote(address string, c Credentials) (*Remote, error) {
	if why := BadURL(address); why != "" || strings.HasPrefix(address, "file:") {
		return nil, refusal("remote", "", sandbox.ErrInvalid, AddressHint)
	}
	return &Remote{store: s, url: address, credentials: c}, nil
}

// The time limits for a remote.
const (
	maxAnswer   = time.Minute      // to list its branches
	maxTransfer = 30 * time.Minute // to send or receive objects
)

// errLate is the cause when golem stops a git because the remote did not answer.
var errLate = errors.New("no answer in time")

// command returns a git command that may reach the remote. The directory is the
// repository of what was pulled or of what was staged. With the user's credentials, git
// reads the user's configuration.
func (r *Remote) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	var all []string
	for _, way := range protocols {
		all = append(all, "-c", "protocol."+way+".allow=always")
	}
	cmd := r.store.command(ctx, place{dir: dir}, append(all, args...)...)
	if r.credentials.inherit {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(one string) bool {
			return strings.HasPrefix(one, "GIT_CONFIG_") || strings.HasPrefix(one, "XDG_CONFIG_HOME=")
		})
	} else {
		// ssh finds its files without HOME.
		cmd.Env = append(cmd.Env, "GIT_SSH_COMMAND=ssh -F none -o BatchMode=yes -o IdentityFile=none")
	}
	cmd.Env = append(cmd.Env, r.credentials.gitVariables()...)
	cmd.Env = append(cmd.Env, r.tokenConfig(ctx)...)
	return cmd
}

// tokenConfig returns the variables that give a git a token. Only GitHub servers get one.
func (r *Remote) tokenConfig(ctx context.Context) []string {
	if r.server != "" {
		return header(r.server, r.Token(ctx))
	}
	if !strings.HasPrefix(r.url, GitHub+"/") {
		return nil
	}
	return header(GitHub, cmp.Or(r.credentials.value("GITHUB_TOKEN"), r.credentials.value("GH_TOKEN")))
}

// run runs a git that reaches the remote, with a time limit. It hides secrets in the
// error.
func (r *Remote) run(ctx context.Context, limit time.Duration, dir string, args ...string) ([]byte, error) {
	if r.store.patience > 0 {
		limit = min(limit, r.store.patience)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	cmd := r.command(ctx, dir, args...)
	out, err := r.store.run(cmd)
	var failure *failure
	if !errors.As(err, &failure) {
		return out, err
	}
	if errors.Is(context.Cause(ctx), errLate) {
		return nil, refusal(subcommandOf(cmd), r.Name, ErrUnreachable, fmt.Sprintf("the remote did not answer within %v; see that it can be reached, and try again", limit))
	}
	for _, one := range cmd.Env {
		if name, secret, _ := strings.Cut(one, "="); strings.HasSuffix(name, "_TOKEN") || strings.HasPrefix(name, "GIT_CONFIG_VALUE") {
			failure.Said = hide(hide(failure.Said, secret), secret[strings.LastIndexByte(secret, ' ')+1:]) // in a header the secret is the last word
		}
	}
	failure.Said = hide(hide(failure.Said, r.token), strings.TrimPrefix(r.url, "file://"))
	return nil, &unreachable{failure, r.Name}
}

// An unreachable is the failure of a git that reaches a remote.
type unreachable struct {
	*failure
	name string
}

func (u *unreachable) Error() string      { return u.plain().Error() }
func (u *unreachable) As(target any) bool { return as(target, u.plain()) }

func (u *unreachable) plain() *sandbox.Error {
	e := u.failure.plain()
	e.Path, e.Code, e.Hint = u.name, ErrUnreachable, e.Hint+"; see that the remote can be reached, and that your credentials are good there"
	return e
}

func (u *unreachable) Unwrap() []error { return []error{ErrUnreachable, u.failure} }

// refs returns the reference of a branch at the remote, and the reference in the store
// that keeps what was last pulled of it.
func (r *Remote) refs(op, branch string) (ref, kept string, err error) {
	ref, err = branchRef(op, branch)
	sum := sha256.Sum256([]byte(r.url))
	return ref, "refs/remotes/" + hex.EncodeToString(sum[:16]) + "/" + branch, err
}

// Now asks the remote for the commit of a branch. It returns "" if the branch does not
// exist.
func (r *Remote) Now(ctx context.Context, branch string) (Hash, error) {
	ref, _, err := r.refs("branch", branch)
	if err != nil {
		return "", err
	}
	all, err := r.list(ctx, ref)
	return all[branch], err
}

// Branches asks the remote for its branches and their commits. It skips branches whose
// names BadBranch refuses.
func (r *Remote) Branches(ctx context.Context) (map[string]Hash, error) { return r.list(ctx) }

// list asks the remote for its branches, all of them or those that match a pattern.
func (r *Remote) list(ctx context.Context, patterns ...string) (map[string]Hash, error) {
	args := append([]string{"ls-remote", "--heads", "--quiet", "--end-of-options", r.url}, patterns...)
	out, err := r.run(ctx, maxAnswer, r.store.pulled(), args...)
	if err != nil {
		return nil, err
	}
	all := map[string]Hash{}
	for line := range strings.Lines(string(out)) {
		hash, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if len(hash) > hashLength {
			return nil, refusal("remote", "", ErrUnsupported, bySHA256)
		}
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok && BadBranch(name) == "" && Hash(hash).Valid() {
			all[name] = Hash(hash)
		}
	}
	return all, nil
}

// Pull copies a branch of the remote into the store and returns its commit. If the remote
// has no such branch, it returns "" and deletes the reference to what was pulled before.
func (r *Remote) Pull(ctx context.Context, branch string) (Hash, error) {
	ref, kept, err := r.refs("pull", branch)
	if err != nil {
		return "", err
	}
	now, err := r.Now(ctx, branch)
	if err == nil && now == "" {
		_, err = r.store.run(r.store.command(ctx, place{dir: r.store.pulled()}, "update-ref", "-d", kept))
	}
	if err != nil || now == "" {
		return "", err
	}
	_, err = r.run(ctx, maxTransfer, r.store.pulled(), "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
		"--no-auto-maintenance", "--end-of-options", r.url, "+"+ref+":"+kept)
	if err != nil {
		return "", err
	}
	return r.Last(ctx, branch)
}

// Last returns the commit of a branch as last pulled, or "" if it was never pulled.
func (r *Remote) Last(ctx context.Context, branch string) (Hash, error) {
	_, kept, err := r.refs("branch", branch)
	if err != nil {
		return "", err
	}
	out, err := r.store.run(r.store.command(ctx, place{dir: r.store.pulled()}, "for-each-ref", "--format=%(refname) %(objectname)", "--", kept))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if name, hash, _ := strings.Cut(strings.TrimSpace(line), " "); name == kept {
			return Hash(hash), nil
		}
	}
	return "", nil
}

// Push sets a branch of the remote to a commit of the store, if the branch is still at
// base. An empty base means that the branch must not exist. It is a conflict if the
// branch is elsewhere. After any other error the push may still have happened.
func (r *Remote) Push(ctx context.Context, branch string, base, commit Hash) error {
	return r.push(ctx, r.store.repository(), branch, base, commit)
}

// push pushes a commit of a repository as Push does.
func (r *Remote) push(ctx context.Context, dir, branch string, base, commit Hash) error {
	ref, _, err := r.refs("push", branch)
	if err != nil {
		return err
	}
	if !commit.Valid() || base != "" && !base.Valid() {
		return refusal("push", branch, sandbox.ErrInvalid, "there is no commit of that name")
	}
	// The lease compares and sets in one step. It overwrites no commits, because the
	// commit was made on its base.
	_, err = r.run(ctx, maxTransfer, dir, "push", "--quiet", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no",
		fmt.Sprintf("--force-with-lease=%s:%s", ref, base), "--end-of-options", r.url, string(commit)+":"+ref)
	if err == nil {
		return nil
	}
	if now, look := r.Now(ctx, branch); look == nil && now != base && now != commit {
		return refusal("push", branch, sandbox.ErrConflict, "the branch has moved since it was last pulled; stage it again, on the branch as it is now")
	}
	return err
}

// Reached reports whether a branch of the remote is at a commit or at a descendant of it.
func (r *Remote) Reached(ctx context.Context, branch string, commit Hash) (bool, error) {
	now, err := r.Now(ctx, branch)
	if err != nil || now == commit {
		return err == nil, err
	}
	if now, err = r.Pull(ctx, branch); err != nil || now == "" {
		return false, err
	}
	return r.store.isAncestor(ctx, "", commit, now)
}
