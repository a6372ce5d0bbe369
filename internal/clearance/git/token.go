package git

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// GitHub is the default GitHub server.
const GitHub = "https://github.com"

// Hub returns the remote of a repository, owner/name, on a GitHub server. It uses the
// token for that server, if there is one.
func (s *ObjectStore) Hub(server, repo string, c Credentials) (*Remote, error) {
	if why := cmp.Or(BadServer(server), BadRepo(repo)); why != "" {
		return nil, refusal("target", "", sandbox.ErrInvalid, why+"; look at url and repo in clearance.targets")
	}
	r, err := s.Remote(server+"/"+repo+".git", c)
	if err == nil {
		r.server = server
	}
	return r, err
}

// Token returns the token for a server of Hub, or "" if there is none. It reads variables
// and, with the user's inherited credentials, asks the user's gh. With inherited
// credentials, another server than github.com does not get a token from GITHUB_TOKEN or
// GH_TOKEN, and one from GH_ENTERPRISE_TOKEN only if the user named it: a project may name
// any server.
func (r *Remote) Token(ctx context.Context) string {
	if r.asked {
		return r.token
	}
	r.asked = true
	names := []string{"GITHUB_TOKEN", "GH_TOKEN"}
	if r.server != GitHub {
		others := []string{"GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"}
		switch {
		case !r.credentials.inherit:
			names = append(others, names...)
		case r.credentials.isUsersServer(r.server):
			names = others
		default:
			names = nil
		}
	}
	for _, name := range names {
		if r.token = r.credentials.value(name); r.token != "" {
			return r.token
		}
	}
	if r.credentials.inherit {
		r.token = r.credentials.askGH(ctx, r.server)
	}
	return r.token
}

// isUsersServer reports whether the user named a GitHub server in GH_HOST.
func (c Credentials) isUsersServer(server string) bool {
	u, err := url.Parse(server)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, c.value("GH_HOST"))
}

// value returns the value of a variable. For a repeated name the last value counts.
func (c Credentials) value(name string) (value string) {
	for _, one := range c.env {
		if key, text, _ := strings.Cut(one, "="); key == name {
			value = text
		}
	}
	return value
}

// askGH asks the user's gh for the token of a server. It returns "" if there is no gh or
// gh has no token. gh runs with the variables of the credentials, except for the tokens:
// gh would print one of them for any server.
func (c Credentials) askGH(ctx context.Context, server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	const patience = 10 * time.Second // gh may ask a keyring
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, dir := range filepath.SplitList(c.value("PATH")) {
		program, err := exec.LookPath(filepath.Join(dir, "gh"))
		if !filepath.IsAbs(dir) || err != nil {
			continue
		}
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, program, "auth", "token", "--hostname", u.Host)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.WaitDelay = "/", c.gitVariables(), &out, 10*time.Second
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

// header returns variables that give a token to git, only for its server. The list of
// processes does not show variables as it shows arguments.
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
