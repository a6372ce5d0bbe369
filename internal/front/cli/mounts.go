package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/sandbox"
)

// A mountFlag collects --root and --mount, in Docker's syntax. It keeps duplicates, and
// creating the sandbox refuses them, so no flag silently replaces another.
type mountFlag struct {
	name string
	list *[]*explain.Mount
}

// Set implements pflag.Value.
func (f mountFlag) Set(text string) error {
	g := &explain.Mount{From: "--" + f.name + " " + sandbox.Shown(text), Target: "/", Access: sandbox.ReadWrite}
	rest, last, found := cutLast(text, ":")
	switch {
	case found && strings.HasPrefix(last, "/") && f.name == "mount":
		rest, last = text, "" // last is the target, and there is no mode
	case found && !strings.ContainsAny(last, `/\`):
		access, layer, err := parseMode(last)
		if err != nil && f.name == "mount" && strings.Count(text, ":") == 1 {
			return usagef("%s: %s is no target; a target begins with /, such as ./papers:/in:ro", g.From, sandbox.Shown(last))
		}
		if err != nil {
			return usagef("%s: %s", g.From, err)
		}
		g.Access, g.Overlay = access, layer
	default:
		rest = text
	}
	if f.name == "mount" {
		var ok bool
		if rest, g.Target, ok = cutLast(rest, ":"); !ok || !strings.HasPrefix(g.Target, "/") {
			return usagef("%s: no target; write SRC:DST[:ro|rw|overlay], such as ./papers:/in:ro", g.From)
		}
	}
	if rest == "" {
		return usagef("%s: no directory; write %s", g.From, f.Type())
	}
	g.Source = sandbox.Host(rest)
	*f.list = append(*f.list, g)
	return nil
}

// String implements pflag.Value. There is no default to show.
func (f mountFlag) String() string { return "" }

// Type implements pflag.Value.
func (f mountFlag) Type() string {
	if f.name == "root" {
		return "DIR[:ro|rw|overlay]"
	}
	return "SRC:DST[:ro|rw|overlay]"
}

func parseMode(word string) (access sandbox.Access, layer bool, err error) {
	switch word {
	case "ro":
		return sandbox.ReadOnly, false, nil
	case "rw":
		return sandbox.ReadWrite, false, nil
	case "overlay":
		return sandbox.ReadWrite, true, nil
	}
	return sandbox.None, false, errors.New(sandbox.Shown(word) + " is no mode; use ro, rw or overlay")
}

func cutLast(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}

// addMountFlags adds --root and --mount to a command.
func addMountFlags(cmd *cobra.Command) *[]*explain.Mount {
	list := new([]*explain.Mount)
	cmd.Flags().Var(mountFlag{"root", list}, "root", "show the directory DIR as /: ro is read-only, rw (the default) changes your files directly, overlay keeps the changes in a session")
	cmd.Flags().Var(mountFlag{"mount", list}, "mount", "show your directory SRC as the path DST, with a mode as for --root; may be given again")
	return list
}
