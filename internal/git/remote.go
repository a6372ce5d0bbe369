package git

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strings"

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
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GITHUB_TOKEN", "GH_TOKEN",
	"http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY",
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
	store       *Store
	url         string
	credentials Credentials
}

// ways are the protocols by which a remote is reached.
var ways = []string{"https", "http", "ssh"}

// Remote returns the one at an address, which is the user's configuration's.
func (s *Store) Remote(address string, c Credentials) (*Remote, error) {
	scheme, _, isURL := strings.Cut(address, "://")
	if strings.HasPrefix(address, "-") || strings.Contains(address, "::") || isURL && !slices.Contains(ways, scheme) ||
		!isURL && !strings.Contains(address, ":") || strings.ContainsFunc(address, func(r rune) bool { return !sandbox.Plain(r) || r == ' ' }) {
		return nil, refusal("remote", "", sandbox.ErrInvalid, "https://host/path, ssh://host/path and user@host:path are addresses")
	}
	return &Remote{s, address, c}, nil
}

// command makes a git that may reach the remote. Only here does a git see a
// configuration of the user's, and only with their credentials.
func (r *Remote) command(ctx context.Context, args ...string) *exec.Cmd {
	var all []string
	for _, way := range ways {
		all = append(all, "-c", "protocol."+way+".allow=always")
	}
	cmd := r.store.command(ctx, r.store.here(), append(all, args...)...)
	if r.credentials.inherit {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(one string) bool {
			return strings.HasPrefix(one, "GIT_CONFIG_") || strings.HasPrefix(one, "XDG_CONFIG_HOME=")
		})
	} else {
		// The files of ssh are found without HOME.
		cmd.Env = append(cmd.Env, "GIT_SSH_COMMAND=ssh -F none -o BatchMode=yes -o IdentityFile=none")
	}
	cmd.Env = append(cmd.Env, r.credentials.env...)
	cmd.Env = append(cmd.Env, r.token()...)
	return cmd
}

// token hands a token for GitHub to git, for GitHub alone and by the environment
// alone, where no list of processes shows it.
func (r *Remote) token() []string {
	u, err := url.Parse(r.url)
	if err != nil || u.Scheme != "https" || u.Host != "github.com" {
		return nil
	}
	for _, one := range r.credentials.env {
		if name, token, _ := strings.Cut(one, "="); token != "" && (name == "GITHUB_TOKEN" || name == "GH_TOKEN") {
			basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
			return []string{
				"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.https://github.com/.extraHeader",
				"GIT_CONFIG_VALUE_0=Authorization: Basic " + basic,
			}
		}
	}
	return nil
}

// run runs a git that reaches the remote. What it says has no secret in it.
func (r *Remote) run(cmd *exec.Cmd) ([]byte, error) {
	out, err := r.store.run(cmd)
	var failure *Failure
	if !errors.As(err, &failure) {
		return out, err
	}
	for _, one := range cmd.Env {
		if name, secret, _ := strings.Cut(one, "="); strings.HasSuffix(name, "_TOKEN") || strings.HasPrefix(name, "GIT_CONFIG_VALUE") {
			failure.Said = hidden(failure.Said, secret)
		}
	}
	return nil, &unreachable{failure}
}

// An unreachable is the failure of a remote.
type unreachable struct{ *Failure }

func (u *unreachable) Error() string {
	return u.Failure.Error() + "; see that the remote can be reached, and by whom"
}
func (u *unreachable) Unwrap() []error { return []error{ErrUnreachable, u.Failure} }

// pulled returns the reference that keeps what was last pulled of a branch.
func (r *Remote) pulled(op, branch string) (ref, kept string, err error) {
	ref, err = branchRef(op, branch)
	sum := sha256.Sum256([]byte(r.url))
	return ref, "refs/remotes/" + hex.EncodeToString(sum[:16]) + "/" + branch, err
}

// Now asks the remote for the commit of a branch, "" if there is none.
func (r *Remote) Now(ctx context.Context, branch string) (Hash, error) {
	ref, _, err := r.pulled("branch", branch)
	if err != nil {
		return "", err
	}
	out, err := r.run(r.command(ctx, "ls-remote", "--heads", "--quiet", "--end-of-options", r.url, ref))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if hash, name, _ := strings.Cut(strings.TrimSpace(line), "\t"); name == ref && Hash(hash).Valid() {
			return Hash(hash), nil
		}
	}
	return "", nil
}

// Pull brings a branch of the remote into the store, and returns its commit.
func (r *Remote) Pull(ctx context.Context, branch string) (Hash, error) {
	ref, kept, err := r.pulled("pull", branch)
	if err != nil {
		return "", err
	}
	now, err := r.Now(ctx, branch)
	if err != nil || now == "" {
		return "", err
	}
	_, err = r.run(r.command(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
		"--no-auto-maintenance", "--end-of-options", r.url, "+"+ref+":"+kept))
	if err != nil {
		return "", err
	}
	return r.Last(ctx, branch)
}

// Last returns the commit of a branch when it was last pulled, "" if it was not.
func (r *Remote) Last(ctx context.Context, branch string) (Hash, error) {
	_, kept, err := r.pulled("branch", branch)
	if err != nil {
		return "", err
	}
	out, err := r.store.run(r.store.command(ctx, r.store.here(), "for-each-ref", "--format=%(refname) %(objectname)", "--", kept))
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
	ref, _, err := r.pulled("push", branch)
	if err != nil {
		return err
	}
	if !commit.Valid() || base != "" && !base.Valid() {
		return refusal("push", branch, sandbox.ErrInvalid, "there is no commit of that name")
	}
	// The lease compares and sets in one step. It forces nothing: the commit comes
	// after its base.
	_, err = r.run(r.command(ctx, "push", "--quiet", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no",
		fmt.Sprintf("--force-with-lease=%s:%s", ref, base), "--end-of-options", r.url, string(commit)+":"+ref))
	if err == nil {
		return nil
	}
	if now, look := r.Now(ctx, branch); look == nil && now != base && now != commit {
		return refusal("push", branch, sandbox.ErrConflict, "the branch has moved since this was staged; pull, and stage again")
	}
	return err
}

// Reached reports whether a branch of the remote has come to a commit, or beyond
// it.
func (r *Remote) Reached(ctx context.Context, branch string, commit Hash) (bool, error) {
	now, err := r.Now(ctx, branch)
	if err != nil || now == "" || now == commit {
		return now != "" && now == commit, err
	}
	if now, err = r.Pull(ctx, branch); err != nil || now == "" {
		return false, err
	}
	return r.store.follows(ctx, "", commit, now)
}
