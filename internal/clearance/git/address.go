package git

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/sandbox"
)

// AddressHint lists the forms that the address of a repository may have.
const AddressHint = "https://host/path, ssh://host/path, user@host:path and file:///path are addresses; http://localhost/path is one on this machine only"

// lazyPattern returns a function that compiles a pattern on its first call. Most runs of
// golem never need one.
func lazyPattern(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

var (
	userForm = lazyPattern(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	hostForm = lazyPattern(`^(?:[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$`)
	scpForm  = lazyPattern(`^(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9_][A-Za-z0-9._-]*:[^:\s-][^\s]*$`)
	repoForm = lazyPattern(`^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._][A-Za-z0-9._-]{0,99}$`)
)

// BadURL returns why a text is not the address of a repository, or "" if it is one. Git
// runs some addresses as programs (ext::), and passes others to a program that could read
// them as options (a host or user that begins with -). The result never quotes an address
// that may hold a secret, because errors end up in logs.
func BadURL(text string) string {
	shown := sandbox.Shown(text)
	if strings.Contains(text, "@") && strings.Contains(text, "://") {
		shown = "it" // the part before the @ may be a secret
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !sandbox.Plain(r) || r == ' ' }) {
		return shown + " has a space or an invisible character"
	}
	scheme, _, isURL := strings.Cut(text, "://")
	if !isURL {
		if !scpForm().MatchString(text) {
			return shown + " is no address of a repository"
		}
		return ""
	}
	if scheme != "file" && !slices.Contains(protocols, scheme) {
		return sandbox.Shown(scheme) + " is not a supported protocol"
	}
	u, err := url.Parse(text)
	if err != nil {
		return shown + " is no address"
	}
	_, secret := u.User.Password()
	switch {
	case secret || scheme != "ssh" && u.User != nil:
		return "a secret or a user in the address; credentials come from the host or the worker's git settings"
	case u.User != nil && !userForm().MatchString(u.User.Username()):
		return shown + " names no user"
	case scheme == "file" && (u.Host != "" || len(u.Path) < 2):
		return shown + " names no directory of this machine"
	case scheme != "file" && !hostForm().MatchString(u.Hostname()):
		return shown + " names no host"
	case u.RawQuery != "" || u.Fragment != "":
		return shown + " has more than a path behind its host"
	case scheme == "http" && !isLoopback(u.Hostname()):
		return "with plain http anybody on the way can read and change what is pushed and pulled; use https or ssh"
	}
	return ""
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// BadBranch returns why a name cannot be the name of a branch, or "" if it can. It
// refuses names that git refuses, and names that git does not read as a branch of that
// name: HEAD, a full reference, a commit.
func BadBranch(name string) string {
	const most = 200
	bad := sandbox.Shown(name) + " is no name of a branch"
	if name == "" || len(name) > most || name == "@" || strings.EqualFold(name, "HEAD") || name[0] == '-' || Hash(strings.ToLower(name)).Valid() ||
		strings.ContainsAny(name, " ~^:?*[\\+") || strings.Contains(name, "..") || strings.Contains(name, "@{") ||
		strings.HasSuffix(name, ".") || strings.ContainsFunc(name, func(r rune) bool { return !sandbox.Plain(r) }) {
		return bad
	}
	for i, part := range strings.Split(name, "/") {
		full := i == 0 && (strings.EqualFold(part, "refs") || strings.EqualFold(part, "heads"))
		if full || part == "" || part[0] == '.' || strings.HasSuffix(strings.ToLower(part), ".lock") {
			return bad
		}
	}
	return ""
}

// BadRepo returns why a text is not the owner and name of a repository on GitHub, or ""
// if it is.
func BadRepo(text string) string {
	if _, name, _ := strings.Cut(text, "/"); !repoForm().MatchString(text) || name == "." || name == ".." {
		return sandbox.Shown(text) + " is no repository"
	}
	return ""
}

// BadServer returns why a text is not the address of a GitHub Enterprise server, or "" if
// it is. It accepts only the root of the server, by https, or by http on this machine.
func BadServer(text string) string {
	if why := BadURL(text); why != "" {
		return why
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" {
		return sandbox.Shown(text) + " is no server"
	}
	return ""
}
