package project

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// An entry is one directory in one of the spellings.
type entry struct {
	label  string          // its name in messages
	key    string          // the key of its directory
	at     strictyaml.Node // where it is written
	name   string
	target string
	source strictyaml.Node // the directory, as written
	folder string          // the directory on the host, absolute
	base   string          // if set, an existing directory; the entry may be missing in it
	ok     bool            // whether directory and target are known
	node   strictyaml.Node // the map with its other keys
	whole  bool            // node is the sandbox itself, and its approvals apply to the whole
	mode   string          // the default mode
}

// addMount adds an entry to the table of mounts. It returns the entry's map with the
// effective mode.
func (l *loader) addMount(e entry) strictyaml.Node {
	m := Mount{Target: e.target, From: e.at.Place, Name: e.name}
	m.Mode = l.readMode(e)
	if n, ok := e.node.At("mode"); ok {
		m.ModeFrom = n.Place
	}
	if n, ok := e.node.At("suffixes"); ok && l.isValid(n) {
		m.Suffixes = l.readSuffixes(e, n)
	}
	if n, ok := e.node.At("max_file_bytes"); ok && l.isValid(n) {
		m.MaxFileBytes, _ = n.Bytes()
		if what, hint := bytesFrom1(noLimit)(n); what != "" {
			l.problems.Add(n, e.label+".max_file_bytes: "+what, hint)
		}
	}
	if n, ok := e.node.At("trust"); ok && l.isValid(n) {
		m.trust = n.Text
	}
	if e.ok {
		m.Source, m.Base, m.real, e.ok = l.resolveSource(e)
	}
	if !e.ok {
		l.unclear = true
		return e.node
	}
	if i := slices.IndexFunc(l.project.Mounts, func(o Mount) bool { return o.Target == m.Target }); i >= 0 {
		l.problems.Add(e.at, fmt.Sprintf("%s: two mounts at %s, the other is at %s", e.label, m.Target, l.project.Mounts[i].From),
			"give each a target of its own")
		return e.node
	}
	if !e.whole {
		l.readRules(e.node, e.target)
	}
	l.project.Mounts = append(l.project.Mounts, m)
	return withEffectiveMode(e.node, m.Mode)
}

// readMode returns the access of an entry.
func (l *loader) readMode(e entry) string {
	mode, hasMode := e.node.At("mode")
	readonly, hasReadonly := e.node.At("readonly")
	hasMode, hasReadonly = hasMode && l.isValid(mode), hasReadonly && l.isValid(readonly)
	switch {
	case hasMode && hasReadonly && readonly.Bool() != (mode.Text == "ro"):
		l.problems.Add(mode, fmt.Sprintf("%s.mode: %s contradicts readonly: %s (%s)", e.label, mode.Text, readonly.Text, readonly.Place),
			"keep one of the two")
	}
	switch {
	case hasMode:
		return mode.Text
	case hasReadonly && readonly.Bool():
		return "ro"
	}
	return e.mode
}

// withEffectiveMode returns the map of an entry in which mode and readonly agree: each as
// written, or derived from the other.
func withEffectiveMode(n strictyaml.Node, mode string) strictyaml.Node {
	hasMode, hasReadonly := n.Has("mode"), n.Has("readonly")
	if !hasMode {
		place := strictyaml.Default
		if r, ok := n.At("readonly"); ok {
			place = r.Place
		}
		n = n.Set([]string{"mode"}, scalarNode(place, mode))
	}
	if hasMode && !hasReadonly && mode == "ro" {
		m, _ := n.At("mode")
		n = n.Set([]string{"readonly"}, scalarNode(m.Place, "true"))
	}
	return n
}

func (l *loader) readSuffixes(e entry, n strictyaml.Node) []string {
	for _, item := range n.Items {
		if s := item.Text; len(s) < 2 || s[0] != '.' || strings.ContainsAny(s, "/*?") {
			l.problems.Add(item, e.label+".suffixes: "+sandbox.Shown(s)+" is no suffix", "a suffix starts with a dot, such as .md")
		}
	}
	return n.Texts()
}

const targetHint = "a target is a path of its own, such as /cache"

// canonicalTarget returns the canonical form of a target, or why it is not valid.
func canonicalTarget(target string) (string, string) {
	switch {
	case !strings.HasPrefix(target, "/"):
		return "", " does not start with /"
	case slices.Contains(strings.Split(target, "/"), ".."):
		return "", " has a .. in it"
	case !sandbox.ValidPath(target):
		return "", " is not a usable name"
	}
	target = path.Clean(target)
	if why := checkMisread(target); why != "" {
		return "", ": " + why
	}
	top, _, _ := strings.Cut(target[1:], "/")
	if slices.Contains(system, top) {
		return "", " is in /" + top + ", which commands have already"
	}
	return target, ""
}

// system are the top directories that every command has: those of the system, and /work,
// where the root is.
var system = []string{"work", "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec",
	"etc", "dev", "proc", "sys", "tmp", "run", "var", "boot"}

// checkName returns why a name is not valid for a zone, a path or a target, "" if it is.
func checkName(name string) string {
	const most = 64
	if name == "" || len(name) > most {
		return fmt.Sprintf("a name has 1 to %d bytes", most)
	}
	for i, r := range name {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || i > 0 && (unicode.IsMark(r) || r == '-' || r == '.') {
			continue
		}
		return "a name has letters, digits and _, and after the first character also - and ."
	}
	return checkMisread(name)
}

// checkMisread returns why a person or another system may mistake a name or path for another
// one, "" if they do not. It shows the code points of look-alikes.
func checkMisread(name string) string {
	for trick := range visible.NameAlikes(name) {
		return trick.Says
	}
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if why := sandbox.NotOnWindows(part); why != "" {
			return sandbox.Shown(part) + " is not usable on Windows: " + why
		}
	}
	return ""
}
