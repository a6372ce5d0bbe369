package git

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// GitHub is the server of repositories that name no other.
const GitHub = "https://github.com"

// Hub returns the remote of a repository, owner/name, on a GitHub server, whose
// token it uses if there is one.
func (s *Store) Hub(server, repo string, c Credentials) (*Remote, error) {
	if why := cmp.Or(BadServer(server), BadRepo(repo)); why != "" {
		return nil, refusal("target", "", sandbox.ErrInvalid, why+"; look at url and repo in clearance.targets")
	}
	r, err := s.Remote(server+"/"+repo+".git", c)
	if err == nil {
		r.server = server
	}
	return r, err
}

// Token returns what proves to a server of Hub's who is pushing, "" if there is
// nothing: one of the variables or, where all of the user's credentials may be
// used, what the user's gh says. A server that is not github.com gets none that
// the user has for github.com, unless it was named for this.
func (r *Remote) Token(ctx context.Context) string {
	if r.asked {
		return r.token
	}
	r.asked = true
	names := []string{"GITHUB_TOKEN", "GH_TOKEN"}
	if r.server != GitHub {
		others := []string{"GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"}
		if names = append(others, names...); r.credentials.inherit {
			names = others
		}
	}
	for _, name := range names {
		if r.token = r.credentials.value(name); r.token != "" {
			return r.token
		}
	}
	if r.credentials.inherit {
		r.token = r.credentials.ask(ctx, r.server)
	}
	return r.token
}

// value returns that of a variable. The last one of a name counts.
func (c Credentials) value(name string) (value string) {
	for _, one := range c.env {
		if key, text, _ := strings.Cut(one, "="); key == name {
			value = text
		}
	}
	return value
}

// ask has the user's gh tell the token for a server, "" if there is no gh or it
// knows none. It runs with what git gets of the user's environment.
func (c Credentials) ask(ctx context.Context, server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	const patience = 10 * time.Second // it may ask a keyring
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, dir := range filepath.SplitList(c.value("PATH")) {
		program, err := exec.LookPath(filepath.Join(dir, "gh"))
		if !filepath.IsAbs(dir) || err != nil {
			continue
		}
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, program, "auth", "token", "--hostname", u.Host)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.WaitDelay = os.TempDir(), c.env, &out, time.Second
		if cmd.Run() != nil {
			return ""
		}
		token := strings.TrimSpace(out.String())
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return ""
		}
		return token
	}
	return ""
}

// header hands a token to git, for its server alone and by the environment alone,
// where no list of processes shows it.
func header(server, token string) []string {
	if token == "" {
		return nil
	}
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
	return []string{
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http." + server + "/.extraHeader",
		"GIT_CONFIG_VALUE_0=Authorization: Basic " + basic,
	}
}
