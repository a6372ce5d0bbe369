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

// Credentials are what a git that reaches a remote may use to prove who is
// pushing. The zero value is none.
type Credentials struct {
	inherit bool
	env     []string
}

// inherited are the variables of the user's environment that a git which may use
// the user's credentials gets. Others would have git run a program or read a
// configuration that somebody other than the user may have put there.
var inherited = []string{
	"HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "USER", "LOGNAME", "PATH", "GNUPGHOME",
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_CONFIG_DIR",
	"http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY",
}

// tokens are the variables with a token for a GitHub server. No git gets them: it would
// hand them to every program that it starts, whichever host it reaches. Its own server
// gets the token in a header.
var tokens = []string{"GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"}

// forGit returns the variables that a git gets.
func (c Credentials) forGit() []string {
	return slices.DeleteFunc(slices.Clone(c.env), func(one string) bool {
		name, _, _ := strings.Cut(one, "=")
		return slices.Contains(tokens, name)
	})
}

// Inherit gives the user's own credentials, as the user's git has them: the SSH
// agent, keys, credential helpers of the user's configuration, and tokens.
func Inherit(environment []string) Credentials {
	c := Credentials{inherit: true}
	for _, one := range environment {
		if name, _, _ := strings.Cut(one, "="); slices.Contains(inherited, name) {
			c.env = append(c.env, one)
		}
	}
	return c
}

// Explicit gives the variables that are named and nothing else of the user's.
func Explicit(variables []string) Credentials {
	return Credentials{env: slices.Clone(variables)}
}

// A Remote is a repository that git reaches over the network.
type Remote struct {
	Name string // what the user calls it, for errors

	store       *Store
	url         string
	credentials Credentials
	server      string // of GitHub's, "" for another
	token       string // for the server, "" for none
	asked       bool   // for the token
}

// ways are the protocols by which a remote is reached.
var ways = []string{"https", "http", "ssh"}

// Remote returns the one at an address, which is the user's configuration's.
func (s *Store) Remote(address string, c Credentials) (*Remote, error) {
	if why := BadURL(address); why != "" || strings.HasPrefix(address, "file:") {
		return nil, refusal("remote", "", sandbox.ErrInvalid, AddressHint)
	}
	return &Remote{store: s, url: address, credentials: c}, nil
}

// How long a remote may take.
const (
	maxAnswer   = time.Minute      // to say which branches it has
	maxTransfer = 30 * time.Minute // to give or take objects
)

// errLate ends a git that waits for a remote.
var errLate = errors.New("no answer in time")

// command makes a git that may reach the remote, in the repository of what was
// pulled or in that of what was staged. Only here does a git see a configuration
// of the user's, and only with their credentials.
func (r *Remote) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	var all []string
	for _, way := range ways {
		all = append(all, "-c", "protocol."+way+".allow=always")
	}
	cmd := r.store.command(ctx, place{dir: dir}, append(all, args...)...)
	if r.credentials.inherit {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(one string) bool {
			return strings.HasPrefix(one, "GIT_CONFIG_") || strings.HasPrefix(one, "XDG_CONFIG_HOME=")
		})
	} else {
		// The files of ssh are found without HOME.
		cmd.Env = append(cmd.Env, "GIT_SSH_COMMAND=ssh -F none -o BatchMode=yes -o IdentityFile=none")
	}
	cmd.Env = append(cmd.Env, r.credentials.forGit()...)
	cmd.Env = append(cmd.Env, r.proof(ctx)...)
	return cmd
}

// proof returns what a git gets of a token: one for a server of GitHub's, and for
// no other.
func (r *Remote) proof(ctx context.Context) []string {
	if r.server != "" {
		return header(r.server, r.Token(ctx))
	}
	if !strings.HasPrefix(r.url, GitHub+"/") {
		return nil
	}
	return header(GitHub, cmp.Or(r.credentials.value("GITHUB_TOKEN"), r.credentials.value("GH_TOKEN")))
}

// run runs a git that reaches the remote, for so long at most. What it says has no
// secret in it.
func (r *Remote) run(ctx context.Context, limit time.Duration, dir string, args ...string) ([]byte, error) {
	if r.store.patience > 0 {
		limit = min(limit, r.store.patience)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	cmd := r.command(ctx, dir, args...)
	out, err := r.store.run(cmd)
	var failure *Failure
	if !errors.As(err, &failure) {
		return out, err
	}
	if errors.Is(context.Cause(ctx), errLate) {
		return nil, refusal(command(cmd), r.Name, ErrUnreachable, fmt.Sprintf("the remote did not answer within %v; see that it can be reached, and try again", limit))
	}
	for _, one := range cmd.Env {
		if name, secret, _ := strings.Cut(one, "="); strings.HasSuffix(name, "_TOKEN") || strings.HasPrefix(name, "GIT_CONFIG_VALUE") {
			failure.Said = hidden(hidden(failure.Said, secret), secret[strings.LastIndexByte(secret, ' ')+1:]) // a header's is its last word
		}
	}
	failure.Said = hidden(hidden(failure.Said, r.token), strings.TrimPrefix(r.url, "file://"))
	return nil, &unreachable{failure, r.Name}
}

// An unreachable is the failure of a remote.
type unreachable struct {
	*Failure
	name string
}

func (u *unreachable) Error() string      { return u.plain().Error() }
func (u *unreachable) As(target any) bool { return as(target, u.plain()) }

func (u *unreachable) plain() *sandbox.Error {
	e := u.Failure.plain()
	e.Path, e.Code, e.Hint = u.name, ErrUnreachable, e.Hint+"; see that the remote can be reached, and that your credentials are good there"
	return e
}

func (u *unreachable) Unwrap() []error { return []error{ErrUnreachable, u.Failure} }

// refs returns a branch's reference at the remote, and the one that keeps what
// was last pulled of it.
func (r *Remote) refs(op, branch string) (ref, kept string, err error) {
	ref, err = branchRef(op, branch)
	sum := sha256.Sum256([]byte(r.url))
	return ref, "refs/remotes/" + hex.EncodeToString(sum[:16]) + "/" + branch, err
}

// Now asks the remote for the commit of a branch, "" if there is none.
func (r *Remote) Now(ctx context.Context, branch string) (Hash, error) {
	ref, _, err := r.refs("branch", branch)
	if err != nil {
		return "", err
	}
	all, err := r.list(ctx, ref)
	return all[branch], err
}

// Branches asks the remote for its branches and their commits. Those whose names
// would be taken for more than a name are left out.
func (r *Remote) Branches(ctx context.Context) (map[string]Hash, error) { return r.list(ctx) }

// list asks the remote for branches, all of them or those that fit a pattern.
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

// Pull brings a branch of the remote into the store, and returns its commit, "" if the
// remote has none: then what was pulled of it before is forgotten.
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

// Last returns the commit of a branch when it was last pulled, "" if it was not.
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

// Push sets a branch of the remote to a commit of the store that was made from
// its base, if it still is there, "" for a branch that is not there. One that is
// elsewhere is a conflict. An error of another kind does not say that nothing
// was pushed.
func (r *Remote) Push(ctx context.Context, branch string, base, commit Hash) error {
	ref, _, err := r.refs("push", branch)
	if err != nil {
		return err
	}
	if !commit.Valid() || base != "" && !base.Valid() {
		return refusal("push", branch, sandbox.ErrInvalid, "there is no commit of that name")
	}
	// The lease compares and sets in one step. It forces nothing: the commit comes
	// after its base.
	_, err = r.run(ctx, maxTransfer, r.store.repository(), "push", "--quiet", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no",
		fmt.Sprintf("--force-with-lease=%s:%s", ref, base), "--end-of-options", r.url, string(commit)+":"+ref)
	if err == nil {
		return nil
	}
	if now, look := r.Now(ctx, branch); look == nil && now != base && now != commit {
		return refusal("push", branch, sandbox.ErrConflict, "the branch has moved since it was last pulled; stage it again, on the branch as it is now")
	}
	return err
}

// Reached reports whether a branch of the remote has come to a commit, or beyond
// it.
func (r *Remote) Reached(ctx context.Context, branch string, commit Hash) (bool, error) {
	now, err := r.Now(ctx, branch)
	if err != nil || now == commit {
		return err == nil, err
	}
	if now, err = r.Pull(ctx, branch); err != nil || now == "" {
		return false, err
	}
	return r.store.follows(ctx, "", commit, now)
}
