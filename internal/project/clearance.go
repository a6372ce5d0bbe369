package project

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/conf"
	"github.com/golem-forge/golem/sandbox"
)

// scanners are what looks at results, in the order in which they look.
func scanners() []string { return []string{"format", "size", "content", "secrets", "malware"} }

// clearance reads where results go and what they pass on the way.
func (l *loader) clearance() {
	p := l.project
	targets, _ := l.tree.At("clearance", "targets")
	for _, f := range targets.Fields {
		if !l.wrong[targets.Place] && l.fits(f.Key) && l.fits(f.Value) {
			l.target(f)
		}
	}
	slices.SortFunc(p.Targets, func(a, b Target) int { return strings.Compare(a.Name, b.Name) })
	p.Scanners = scanners()
	if n, ok := l.at("clearance", "scanners"); ok {
		p.Scanners = l.scanners(n)
	}
	p.ClearanceLimits.MaxFiles = l.count(1_000_000_000, "clearance", "limits", "max_files")
	p.ClearanceLimits.MaxBytes = l.bytes("clearance", "limits", "max_bytes")
}

func (l *loader) scanners(n conf.Node) []string {
	var list []string
	for _, item := range n.Items {
		switch {
		case !slices.Contains(scanners(), item.Text):
			l.problems.Add(item, "clearance.scanners: unknown scanner "+sandbox.Shown(item.Text), nearest(item.Text, scanners()))
		case slices.Contains(list, item.Text):
			l.problems.Add(item, "clearance.scanners: "+item.Text+" twice", "keep one")
		default:
			list = append(list, item.Text)
		}
	}
	return list
}

// address is the key that says where a target of each type is.
var address = map[string]string{"local": "path", "bare": "path", "remote": "url", "github": "repo"}

// target reads one repository.
func (l *loader) target(f conf.Field) {
	label := "clearance.targets." + sandbox.Shown(f.Key.Text)
	t := Target{Name: f.Key.Text, Branch: "main", From: f.Key.Place}
	if why := badName(t.Name); why != "" {
		l.problems.Add(f.Key, label+": "+why, "choose another name, such as origin")
		return
	}
	kind, ok := f.Value.At("type")
	if !ok {
		l.problems.Add(f.Key, label+" has no type", "write type: local, bare, remote or github")
		return
	}
	t.Type = kind.Text
	for _, key := range []string{"path", "url", "repo"} {
		n, has := field(f.Value, key)
		switch needed := key == address[t.Type]; {
		case needed && !has:
			l.problems.Add(f.Key, label+" has no "+key, fmt.Sprintf("a target of type %s needs one", t.Type))
		case !needed && has:
			l.problems.Add(written(n), fmt.Sprintf("%s.%s has no meaning with type: %s (%s)", label, key, t.Type, kind.Place),
				fmt.Sprintf("a target of type %s has a %s; remove one of the two", t.Type, address[t.Type]))
		case has:
			l.address(&t, label+"."+key, n.Value)
		}
	}
	if n, ok := f.Value.At("branch"); ok {
		t.Branch = n.Text
		if !isBranch(n.Text) {
			l.problems.Add(n, label+".branch: "+sandbox.Shown(n.Text)+" is no name of a branch", "main and drafts/notes are")
		}
	}
	l.standsAt(&t, label, f)
	l.project.Targets = append(l.project.Targets, t)
}

// address reads the path, url or repo of a target.
func (l *loader) address(t *Target, label string, n conf.Node) {
	switch t.Type {
	case "local", "bare":
		folder, ok := l.path(label, n)
		if kernel := kernelFolder(folder); ok && kernel != "" {
			l.problems.Add(n, label+": "+sandbox.Shown(n.Text)+" is under "+kernel, "there are no repositories there")
		}
		t.Path = sandbox.Host(folder)
	case "remote":
		t.URL = n.Text
		if why := badURL(n.Text); why != "" {
			l.problems.Add(n, label+": "+why, "https://host/path, ssh://host/path and user@host:path are addresses")
		}
	case "github":
		t.Repo = n.Text
		if !isRepo.MatchString(n.Text) {
			l.problems.Add(n, label+": "+sandbox.Shown(n.Text)+" is no repository", "write owner/name")
		}
	}
}

// standsAt reads where the root of a target stands in the sandbox: on a mount,
// or above one.
func (l *loader) standsAt(t *Target, label string, f conf.Field) {
	shown := func(name string) bool {
		return slices.ContainsFunc(l.project.Mounts, func(m Mount) bool { return above(m.Target, name) || above(name, m.Target) })
	}
	at, written := f.Value.At("at")
	if !written {
		at = word(conf.Default, "/workspace")
		if slices.ContainsFunc(l.project.Mounts, func(m Mount) bool { return m.Target == "/" }) {
			at.Text = "/"
		}
		if !l.unclear && !shown(at.Text) {
			l.problems.Add(f.Key, label+": no mount is at /workspace, where its root would stand", "write at: with the path of a mount")
			return
		}
		t.At = at.Text
		l.assume(conf.Default, at.Text, "clearance", "targets", t.Name, "at")
		return
	}
	var why string
	if t.At, why = canonical(at.Text); why == "" && !l.unclear && !shown(t.At) {
		why = " is on no mount"
	}
	if why != "" {
		l.problems.Add(at, label+".at: "+sandbox.Shown(at.Text)+why, "write the path of a mount, or of a folder in one")
	}
}

// above reports whether name is dir or lies below it; both are canonical.
func above(dir, name string) bool {
	return dir == "/" || name == dir || strings.HasPrefix(name, dir+"/")
}

var (
	isRepo = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)
	isSCP  = regexp.MustCompile(`^(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:[^:\s-][^\s]*$`)
)

// badURL says why a text is not the address of a repository. Git takes some
// addresses for programs to run (ext::, a host that looks like an option), and
// an address with a secret in it ends up in logs.
func badURL(text string) string {
	if !strings.Contains(text, "://") {
		if !isSCP.MatchString(text) {
			return sandbox.Shown(text) + " is no address of a repository"
		}
		return ""
	}
	u, err := url.Parse(text)
	if err != nil {
		return sandbox.Shown(text) + " is no address"
	}
	_, secret := u.User.Password()
	switch {
	case !slices.Contains([]string{"https", "http", "ssh"}, u.Scheme):
		return sandbox.Shown(u.Scheme) + " is no way to a repository"
	case secret || u.Scheme != "ssh" && u.User != nil:
		return "a secret or a user in the address; credentials come from the host or the worker's git settings"
	case u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-"):
		return sandbox.Shown(text) + " names no host"
	case strings.ContainsAny(text, " \t"):
		return sandbox.Shown(text) + " has a space in it"
	}
	return ""
}

// isBranch reports whether git would take a name for a branch's.
func isBranch(name string) bool {
	if name == "" || len(name) > 200 || name == "@" || name == "HEAD" || strings.HasPrefix(name, "-") ||
		strings.ContainsAny(name, " ~^:?*[\\\x7f") || strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, ".") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
