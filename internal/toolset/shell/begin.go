package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// A beginning is where a command begins.
type beginning struct {
	Standing        // the place at that moment
	dir      string // a canonical name; "" where a command sees no directory at all
	top      string // where the first command begins
	asked    bool   // the call says where
	gone     string // where it would have begun, if that were still there
}

// begin returns where a command begins: in the directory that was asked for, or where the
// last one ended, if commands still see that, or at the top.
func begin(names tool.Names, effects []policy.Effect, asked string, at *Place) (*beginning, error) {
	b := &beginning{Standing: at.here(), top: top(effects)}
	b.dir = b.top
	switch {
	case asked != "":
		dir, err := names.Locate("run", asked, sandbox.ReadOnly, false)
		if err == nil && !names.IsVisibleToCommands(dir) {
			same := func(name string) string { return name }
			err = &sandbox.Error{Op: "run", Path: dir, Code: sandbox.ErrNotFound,
				Hint: "commands see what may be read without a question: " + listed(effects, policy.Read, same)}
		}
		if err != nil {
			return nil, err
		}
		b.dir, b.asked = dir, true
	case b.Dir == "":
	case names.IsVisibleToCommands(b.Dir):
		b.dir = b.Dir
	default:
		b.gone = b.Dir
	}
	return b, nil
}

// top is where the first command begins: the top of the tree, else the first directory that
// may be written, else the first. It is "" where a command sees no directory at all.
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

// enter lets a command begin there, with the variables that stay. A directory that the last
// one ended in may be gone; one that was asked for must be there.
func (b *beginning) enter(files *sandbox.Sandbox, c *jail.Command) error {
	c.Env = b.env()
	if b.dir == "" {
		return nil
	}
	info, err := files.Stat(b.dir)
	if err == nil && !info.IsDir() {
		err = &sandbox.Error{Op: "run", Path: b.dir, Code: sandbox.ErrNotDir, Hint: "a command begins in a folder"}
	}
	if err != nil && !b.asked && b.dir != b.top {
		b.dir, b.gone = b.top, b.dir
		_, err = files.Stat(b.dir)
	}
	if err != nil {
		return err
	}
	c.Dir = jail.Inside(files, b.dir)
	return nil
}

// named returns the canonical name of a directory that commands call so, "" where it is none
// that they were given.
func named(files *sandbox.Sandbox, inside string) string {
	name := jail.Outside(inside)
	if !path.IsAbs(inside) || name == inside && jail.Inside(files, name) != inside || !files.CanRead(name) {
		return ""
	}
	return name
}

// end keeps what a command has left for the next one, and returns where it has ended,
// "" where that is not known or was not to be kept, and what there is to say about it.
func (v view) end() (dir string, notes []string) {
	b := v.from
	if b.gone != "" {
		notes = append(notes, sandbox.Shown(b.gone)+", where the last command ended, is gone: it began in "+sandbox.Shown(b.dir))
	}
	if v.at == nil || v.Late || v.Stopped || v.Signal != "" {
		return "", notes
	}
	if v.Left == nil {
		return "", append(notes, "where it ended is not known (exec, or exit with a trap of its own on EXIT): the next command begins as this one did")
	}
	if dir = named(v.files, v.Left.Dir); dir == "" && b.dir != "" {
		notes = append(notes, "it ended in no folder of the tree: the next command begins as this one did")
	}
	left := *v.Left
	if v.Level == jail.Landlock { // where these are never what was given
		left.Set = slices.DeleteFunc(slices.Clone(left.Set), func(e string) bool { return strings.HasPrefix(e, "HOME=") || strings.HasPrefix(e, "TMPDIR=") })
	}
	return dir, append(notes, v.at.leave(b.Standing, dir, &left)...)
}
