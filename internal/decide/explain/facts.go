package explain

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// The reasons why a symlink cannot be followed.
const (
	linkLeaves    = "leaves the mounted directories"
	linkToNothing = "points to a name that does not exist"
)

// links returns a fact for each symlink in a name, and the name after all symlinks.
func (q question) links(name string) (facts []Fact, end string) {
	const most = 40
	at := "/"
	rest := strings.Split(strings.Trim(name, "/"), "/")
	for len(rest) > 0 && rest[0] != "" && len(facts) < most {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		whole := path.Join(append([]string{next}, rest...)...)
		info, err := q.s.Lstat(next[1:])
		if err != nil {
			return facts, whole
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		l := Fact{Kind: "symlink", Path: sandbox.Shown(next)}
		if q.op == "delete" && len(rest) == 0 {
			l.Is = "is deleted itself; its target stays"
			return append(facts, l), whole
		}
		to, err := q.s.Stat(next)
		if err == nil {
			l.Is = "points to " + sandbox.Shown(to.Path())
			facts = append(facts, l)
			at = to.Path()
			continue
		}
		switch sandbox.CodeOf(err) {
		case sandbox.ErrNotFound:
			l.Is = linkToNothing
		case sandbox.ErrOutside:
			l.Is = linkLeaves
		default:
			l.Is = clause(err)
		}
		return append(facts, l), whole
	}
	return facts, path.Join(append([]string{at}, rest...)...)
}

// mountFacts returns the mount that holds a name, and the mounts that restrict its
// access.
func (q question) mountFacts(name string) []Fact {
	m, ok := q.s.MountOf(name)
	if !ok {
		none := Fact{Kind: "mount", Path: "none", Is: "holds " + sandbox.Shown(name)}
		if _, err := q.s.Stat(name); err == nil {
			none.Is += ", but there are mounts below it"
		}
		return []Fact{none}
	}
	var own, shared []Fact
	file, err := q.s.Resolve(name)
	for _, g := range q.given {
		switch {
		case sandbox.Backend(g.probe) == m.Backend:
			own = []Fact{{"mount", sandbox.Shown(m.Target), g.Mode(), g.From}}
			if g.Access == m.Access {
				return own
			}
		case g.Access == m.Access && err == nil && g.holds(file):
			shared = append(shared, Fact{"shared", sandbox.Shown(g.Target), g.Mode(), g.From})
		}
	}
	return append(own, shared...)
}

// fileFacts describes the file at a name.
func (q question) fileFacts(name string, o outcome) []Fact {
	if q.op == "delete" && q.isLink(name) {
		return nil // links has reported it
	}
	f := Fact{Kind: "file", Path: sandbox.Shown(name)}
	info, err := q.s.Stat(name)
	_, mounted := q.s.MountOf(name)
	switch {
	case err != nil && (!mounted || !errors.Is(err, sandbox.ErrNotFound)):
		return nil
	case err != nil && q.op == "write" && o.err == nil:
		f.Is = "not there; a write makes it"
	case err != nil:
		f.Is = "not there"
	case o.whole:
		f.Is = "directory, not empty: only together with its contents"
	default:
		f.Is = kind(info) + q.names(info)
	}
	return []Fact{f}
}

func (q question) isLink(name string) bool {
	info, err := q.s.Lstat(strings.TrimPrefix(name, "/"))
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// names describes the size limit and the hard links of a file, if they matter.
func (q question) names(info sandbox.Info) (text string) {
	if !info.Mode().IsRegular() {
		return ""
	}
	if q.op == "read" && info.Size() > sandbox.MaxRead {
		text = fmt.Sprintf(", in parts of at most %d", sandbox.MaxRead)
	}
	switch {
	case info.Links() <= 1:
	case q.op == "read":
		text += fmt.Sprintf(", one of %d names: the others may be outside", info.Links())
	default:
		text += fmt.Sprintf(", one of %d names: the others keep the content", info.Links())
	}
	return text
}

func kind(info sandbox.Info) string {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return "directory"
	case mode.IsRegular() && info.Size() == 1:
		return "1 byte"
	case mode.IsRegular():
		return fmt.Sprintf("%d bytes", info.Size())
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "neither file nor directory"
}
