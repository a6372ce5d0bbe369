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

// AddressHint says how the address of a repository is written.
const AddressHint = "https://host/path, ssh://host/path, user@host:path and file:///path are addresses; http://localhost/path is one on this machine only"

// late makes a pattern when it is first asked for: most programs that start here
// never are.
func late(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

var (
	userForm = late(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	hostForm = late(`^(?:[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$`)
	scpForm  = late(`^(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9_][A-Za-z0-9._-]*:[^:\s-][^\s]*$`)
	repoForm = late(`^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._][A-Za-z0-9._-]{0,99}$`)
)

// BadURL says why a text is not the address of a repository, "" if it is one.
// Git takes some addresses for programs to run (ext::) and hands others to a
// program that takes them for options (a host or user that begins with -); and
// an address with a secret in it ends up in logs, so it is never told here.
func BadURL(text string) string {
	shown := sandbox.Shown(text)
	if strings.Contains(text, "@") && strings.Contains(text, "://") {
		shown = "it" // what stands before the @ may be a secret
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !sandbox.Plain(r) || r == ' ' }) {
		return shown + " has a space or a character in it that is not seen"
	}
	scheme, _, isURL := strings.Cut(text, "://")
	if !isURL {
		if !scpForm().MatchString(text) {
			return shown + " is no address of a repository"
		}
		return ""
	}
	if scheme != "file" && !slices.Contains(ways, scheme) {
		return sandbox.Shown(scheme) + " is no way to a repository"
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
		return shown + " names no folder of this machine"
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

// BadBranch returns why a name cannot be that of a branch, "" if it can. It refuses names
// that git refuses, and names that git reads as something else than a branch of that
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

// BadRepo says why a text is not the owner and name of a repository on GitHub,
// "" if it is.
func BadRepo(text string) string {
	if _, name, _ := strings.Cut(text, "/"); !repoForm().MatchString(text) || name == "." || name == ".." {
		return sandbox.Shown(text) + " is no repository"
	}
	return ""
}

// BadServer says why a text is not the address of a GitHub Enterprise, "" if it
// is: of its root, by https, or by http on this machine.
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
