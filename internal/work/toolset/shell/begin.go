package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A startPoint is where a command starts.
type startPoint struct {
	Standing        // the Place when the call was planned
	dir      string // a canonical name; "" if commands see no directory at all
	top      string // the directory where the first command starts
	explicit bool   // the call names the directory
	missing  string // the directory where the last command ended, if it is gone
}

// findStart returns where a command starts: in the requested directory, else where the
// last command ended, if commands still see that, else in the first directory of the set.
func (s Set) findStart(names tool.Names, effects []policy.Effect, asked string) (*startPoint, error) {
	b := &startPoint{Standing: s.Place.here(), top: top(effects)}
	b.dir = b.top
	if asked == "" && b.Dir == "" {
		asked = s.Start
	}
	switch {
	case asked != "":
		dir, err := names.Locate("run", asked, sandbox.ReadOnly, false)
		if err == nil && !names.IsVisibleToCommands(dir) {
			same := func(name string) string { return name }
			err = &sandbox.Error{Op: "run", Path: dir, Code: sandbox.ErrNotFound,
				Hint: "commands see only what they may read without approval: " + listTargets(effects, policy.Read, same)}
		}
		if err != nil {
			return nil, err
		}
		b.dir, b.explicit = dir, true
	case b.Dir == "":
	case names.IsVisibleToCommands(b.Dir):
		b.dir = b.Dir
	default:
		b.missing = b.Dir
	}
	return b, nil
}

// top returns where the first command starts: the top of the tree, else the first
// directory that may be written, else the first. It returns "" if commands see no
// directory at all.
func top(effects []policy.Effect) string {
	first := ""
	for _, verb := range []policy.Verb{policy.Write, policy.Read} {
		for _, e := range effects {
			switch {
			case e.Verb == policy.Read && e.Target == "/":
				return "/"
			case e.Verb == verb && first == "":
				first = e.Target
			}
		}
	}
	return first
}

// enter sets the directory and the variables of a command. If the directory where the
// last command ended is gone, it uses the top. If a requested directory is gone, it
// fails.
func (b *startPoint) enter(files *sandbox.Sandbox, c *jail.Command) error {
	c.Env = b.env()
	if b.dir == "" {
		return nil
	}
	info, err := files.Stat(b.dir)
	if err == nil && !info.IsDir() {
		err = &sandbox.Error{Op: "run", Path: b.dir, Code: sandbox.ErrNotDir, Hint: "a command must start in a directory"}
	}
	if err != nil && !b.explicit && b.dir != b.top {
		b.dir, b.missing = b.top, b.dir
		_, err = files.Stat(b.dir)
	}
	if err != nil {
		return err
	}
	c.Dir = jail.Inside(files, b.dir)
	return nil
}

// canonicalName returns the canonical name of a directory that commands call inside. It
// returns "" if the directory is not one that the sandbox shows.
func canonicalName(files *sandbox.Sandbox, inside string) string {
	name := jail.Outside(inside)
	if !path.IsAbs(inside) || name == inside && jail.Inside(files, name) != inside || !files.CanRead(name) {
		return ""
	}
	return name
}

// finish saves the directory and variables that a command has left for the next one. It
// returns where the command ended, and notes for the result. Dir is "" if it is unknown
// or must not be kept.
func (v view) finish() (dir string, notes []string) {
	b := v.from
	if b.missing != "" {
		notes = append(notes, sandbox.Shown(b.missing)+", where the last command ended, is gone; this command started in "+sandbox.Shown(b.dir))
	}
	if v.at == nil || v.Late || v.Stopped || v.Signal != "" {
		return "", notes
	}
	if v.Left == nil {
		return "", append(notes, "golem does not know in which directory it ended (exec, or its own trap on EXIT); the next command starts in the same directory with the same variables as this one")
	}
	if dir = canonicalName(v.files, v.Left.Dir); dir == "" && b.dir != "" {
		notes = append(notes, "it ended outside the visible directories; the starting directory of the next command is unchanged")
	}
	left := *v.Left
	if v.Level == jail.Landlock { // at this level HOME and TMPDIR always differ from what golem set
		left.Set = slices.DeleteFunc(slices.Clone(left.Set), func(e string) bool { return strings.HasPrefix(e, "HOME=") || strings.HasPrefix(e, "TMPDIR=") })
	}
	return dir, append(notes, v.at.leave(b.Standing, dir, &left)...)
}
