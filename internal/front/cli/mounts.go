package cli

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/sandbox"
)

// A given is one mount as the user asked for it.
type given struct {
	said   string // the flag, word for word
	source sandbox.Host
	target string
	access sandbox.Access
	look   *look // what is mounted: the folder, to look at
}

// A mountFlag collects --root and --mount, in Docker's spelling. What is given
// twice is there twice, and refused when the sandbox is made: no flag silently
// replaces another.
type mountFlag struct {
	name string
	list *[]*given
}

// Set implements the flag package's Value.
func (f mountFlag) Set(text string) error {
	g := &given{said: "--" + f.name + " " + sandbox.Shown(text), target: "/", access: sandbox.ReadWrite}
	rest, last, found := cutLast(text, ":")
	switch {
	case found && strings.HasPrefix(last, "/") && f.name == "mount":
		rest, last = text, "" // no mode: this is the target
	case found && !strings.ContainsAny(last, `/\`):
		access, err := parseMode(last)
		if err != nil {
			return usagef("%s: %s", g.said, err)
		}
		g.access = access
	default:
		rest = text
	}
	if f.name == "mount" {
		var ok bool
		if rest, g.target, ok = cutLast(rest, ":"); !ok || !strings.HasPrefix(g.target, "/") {
			return usagef("%s: no target; write SRC:DST[:ro|rw], such as ./papers:/in:ro", g.said)
		}
	}
	if rest == "" {
		return usagef("%s: no folder", g.said)
	}
	g.source = sandbox.Host(rest)
	*f.list = append(*f.list, g)
	return nil
}

// String implements the flag package's Value: there is no default to show.
func (f mountFlag) String() string { return "" }

// Type names the value in a help text.
func (f mountFlag) Type() string {
	if f.name == "root" {
		return "DIR[:ro|rw]"
	}
	return "SRC:DST[:ro|rw]"
}

func parseMode(word string) (sandbox.Access, error) {
	switch word {
	case "ro":
		return sandbox.ReadOnly, nil
	case "rw":
		return sandbox.ReadWrite, nil
	case "overlay":
		return sandbox.None, errors.New("overlay needs the jail, which this version does not have; use ro or rw")
	}
	return sandbox.None, errors.New(sandbox.Shown(word) + " is no mode; use ro or rw")
}

func cutLast(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}

// addMountFlags gives a command --root and --mount.
func addMountFlags(cmd *cobra.Command) *[]*given {
	list := new([]*given)
	cmd.Flags().Var(mountFlag{"root", list}, "root", "the folder at /; rw unless it says ro")
	cmd.Flags().Var(mountFlag{"mount", list}, "mount", "a folder at another path; may be given again")
	return list
}

// newSandbox makes the sandbox that the flags describe, of backends that only
// look. Without flags it is the current folder, read-only.
func newSandbox(list []*given) (*sandbox.Sandbox, []*given, error) {
	if len(list) == 0 {
		list = []*given{{said: "the current folder", source: ".", target: "/", access: sandbox.ReadOnly}}
	}
	var c sandbox.Config
	for _, g := range list {
		dir, err := sandbox.Dir(g.source)
		if err != nil {
			return nil, nil, mountProblem(g, err)
		}
		g.look = &look{Backend: dir}
		c.Mounts = append(c.Mounts, sandbox.Mount{Target: g.target, Backend: g.look, Access: g.access})
	}
	s, err := sandbox.New(c)
	if err != nil {
		return nil, nil, usagef("%v", err)
	}
	return s, list, nil
}

// mountProblem says of a flag what the sandbox said of its folder.
func mountProblem(g *given, err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) && e.Hint != "" {
		return usagef("%s: %s; %s", g.said, e.Code, e.Hint)
	}
	return usagef("%s: %s", g.said, sandbox.CodeOf(err))
}

// holds reports whether the host folder of g holds the file.
func (g *given) holds(file sandbox.Host) bool {
	rel, err := filepath.Rel(string(g.look.Traits().Host), string(file))
	return err == nil && filepath.IsLocal(rel)
}
