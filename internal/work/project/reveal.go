package project

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A hiddenDir directory is one that no mount may show.
type hidden struct {
	dir    string
	is     string // the reason, if a mount is this directory
	holds  string // the reason, if a mount contains it
	inside string // the reason, if a mount lies in it; "" allows that
	hint   string
}

// hiddenDirs returns the directories that no mount may show.
func (e Env) hiddenDirs() []hidden {
	const (
		state  = "shows golem's own state"
		config = "shows golem's own configuration"
		other  = "cd into a project directory, or name one: golem exec --root DIR, golem run ./DIR, or in the project file"
		home   = "golem shows agents single directories, and none of your keys and settings; " + other
	)
	list := []hidden{{dir: string(filepath.Separator), is: "is the whole host", hint: "golem shows agents single directories; " + other}}
	for _, dir := range e.Homes {
		if _, err := os.Stat(dir); err == nil { // golem ignores a home that does not exist
			list = append(list, hidden{dir: dir, is: "is your home directory", holds: "contains your home directory", hint: home})
		}
	}
	for _, dir := range append([]string{e.State}, e.States...) {
		list = append(list, hidden{dir, state, state, state, other + "; --state DIR keeps the state elsewhere"})
	}
	for _, dir := range e.Configs {
		list = append(list, hidden{dir, config, config, config, other})
	}
	return list
}

// Hides returns why no mount may show a directory, and what to do instead; "" if a mount
// may. The path has no symlinks.
func (e Env) Hides(real string) (why, hint string) { return (&loader{env: e}).checkHidden(real) }

// checkHidden returns why a mount may not show a directory: it is a hidden directory,
// contains one or lies in one. The path has no symlinks. It compares directories by path
// and by identity, so that it also finds a bind mount.
func (l *loader) checkHidden(real string) (what, hint string) {
	if l.host == nil {
		l.host = &hostView{make(statCache), mountTable(), make(map[string]devicePath)}
	}
	g := l.host.seen
	above, below := g.ancestors(real), g.mountsBelow(l.host.table, real)
	for _, h := range l.env.hiddenDirs() {
		if h.dir == "" {
			continue
		}
		dir := resolveLinks(h.dir)
		exists := g.stat(dir) != nil
		// Also compare the path as given: the directory of a symlink to it may hold more
		// state.
		line := append(g.ancestors(dir), g.ancestors(h.dir)...)
		switch {
		case real == dir || exists && g.isOneOf(real, line[:1]):
			return h.is, h.hint
		case h.holds != "" && (g.contains(real, dir) || g.contains(real, filepath.Clean(h.dir)) || g.isOneOf(real, line)):
			return h.holds, h.hint
		case h.inside != "" && (g.contains(dir, real) || exists && g.isOneOf(dir, above) || l.host.isPartOf(real, dir)):
			return h.inside, h.hint
		case h.holds != "" && slices.ContainsFunc(below, func(at string) bool { return g.isOneOf(at, line) }):
			return h.holds + ", which is mounted in it", h.hint
		}
	}
	return "", ""
}

// A statCache caches the result of os.Stat for each name. Comparing a mount with the hidden
// directories and the mount table needs the same few names thousands of times.
type statCache map[string]fs.FileInfo

// stat returns the file information of a name, nil if os.Stat fails.
func (g statCache) stat(name string) fs.FileInfo {
	info, known := g[name]
	if !known {
		if got, err := os.Stat(name); err == nil {
			info = got
		}
		g[name] = info
	}
	return info
}

// contains reports whether outer is inner or lies above it.
func (g statCache) contains(outer, inner string) bool {
	top := g.stat(outer)
	for at := inner; ; {
		if at == outer {
			return true
		}
		if info := g.stat(at); top != nil && info != nil && os.SameFile(top, info) {
			return true
		}
		up := filepath.Dir(at)
		if up == at {
			return false
		}
		at = up
	}
}

// ancestors returns a directory and its parents, as far as they exist.
func (g statCache) ancestors(dir string) (list []fs.FileInfo) {
	for {
		if info := g.stat(dir); info != nil {
			list = append(list, info)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return list
		}
		dir = up
	}
}

// isOneOf reports whether a directory is one of the others.
func (g statCache) isOneOf(dir string, others []fs.FileInfo) bool {
	info := g.stat(dir)
	return info != nil && slices.ContainsFunc(others, func(o fs.FileInfo) bool { return os.SameFile(info, o) })
}

// A mountEntry is an entry of the mount table of Linux.
type mountEntry struct{ device, root, at string }

// mountTable returns the mounts that this process sees, none on other systems.
func mountTable() (table []mountEntry) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 {
			table = append(table, mountEntry{f[2], unescape(f[3]), unescape(f[4])})
		}
	}
	return table
}

// unescape decodes a path of the mount table, which writes blanks and backslashes as
// octal numbers.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}

// mountsBelow returns where something is mounted inside a directory.
func (g statCache) mountsBelow(table []mountEntry, dir string) (list []string) {
	for _, m := range table {
		if m.at != dir && g.contains(dir, m.at) {
			list = append(list, m.at)
		}
	}
	return list
}

// deviceAndPath returns the device of a directory and its path in that file system, wherever
// it is mounted.
func (g statCache) deviceAndPath(table []mountEntry, dir string) (device, name string) {
	var in mountEntry
	for _, m := range table { // the last of two mounts at one place is visible
		if g.contains(m.at, dir) && len(m.at) >= len(in.at) {
			in = m
		}
	}
	rel, err := filepath.Rel(in.at, dir)
	if in.at == "" || err != nil {
		return "", ""
	}
	return in.device, filepath.Join(in.root, rel)
}

// A hostView caches what checkHidden has read from the host.
type hostView struct {
	seen   statCache
	table  []mountEntry
	places map[string]devicePath // of directories that were compared
}

// isPartOf reports whether a directory is part of another one, through any mount of its
// file system.
func (v *hostView) isPartOf(dir, whole string) bool {
	a, b := v.placeOf(dir), v.placeOf(whole)
	return a.device != "" && a.device == b.device && v.seen.contains(b.name, a.name)
}

// A devicePath is the device of a directory and its path in that file system.
type devicePath struct{ device, name string }

// placeOf returns the device path of a directory, and remembers it.
func (v *hostView) placeOf(dir string) devicePath {
	p, known := v.places[dir]
	if !known {
		p.device, p.name = v.seen.deviceAndPath(v.table, dir)
		v.places[dir] = p
	}
	return p
}
