package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/detached"
	"github.com/golem-forge/golem/internal/people/terminal"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// exitNotFound is the exit code of a shell that does not find a program.
const exitNotFound = 127

// searchPath returns the directories in which the jail looks for a program: those of the
// user's PATH and its own.
func searchPath() []string {
	return filepath.SplitList(os.Getenv("PATH") + string(os.PathListSeparator) + jail.Path)
}

// inPath reports whether the jail may find a program of this name, or the name is a path.
func inPath(name string) bool {
	return strings.Contains(name, "/") || slices.ContainsFunc(searchPath(), func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && !info.IsDir()
	})
}

// shellCommands are commands that a shell runs itself. No program has their name, or the
// program has no effect on the command that comes next.
const shellCommands = "cd export source alias unalias set unset eval umask ulimit pushd popd . : shopt declare typeset local read exec exit return"

// whyMissing says why the jail cannot find the program of a new session, and what to type.
// It returns "" if the jail may find it. A session that continues may have programs of its
// own, and so may a PATH that the user sets.
func (f *execFlags) whyMissing(args []string) string {
	name := args[0]
	if name == "" {
		return "the first word names the program, and it is empty; type a command such as golem exec bash"
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		return "no program " + sandbox.Shown(name) + ": your shell does not replace a ~ in quotes; type golem exec " + visible.CommandLine(append([]string{filepath.Join(home, rest)}, args[1:]...)...)
	}
	ownPath := slices.ContainsFunc(f.env, func(e string) bool { return e == "PATH" || strings.HasPrefix(e, "PATH=") })
	if own := f.whyNotFile(name, args); own != "" {
		return own
	}
	if inPath(name) || f.goesOn || !f.startsNew() || ownPath || f.profile != "" {
		return ""
	}
	missing := "no program " + sandbox.Shown(name) + " in your PATH; "
	switch words := strings.Fields(name); {
	case slices.Contains(strings.Fields(shellCommands), name):
		hint := "; type golem exec sh -c " + visible.CommandLine(strings.Join(args, " "))
		if name == "cd" {
			hint = "; go to the directory first, and then type golem exec CMD there"
		}
		return sandbox.Shown(name) + " is a command of the shell and no program" + hint
	case slices.Contains(strings.Fields("sudo doas su"), name):
		hint := "type the command without " + name
		if len(args) > 1 && !strings.HasPrefix(args[1], "-") && name != "su" {
			hint = "type golem exec " + visible.CommandLine(args[1:]...)
		}
		return missing + "a command in the jail never becomes another user; " + hint
	case len(args) == 1 && len(words) > 1:
		return missing + "a program and its arguments are single words: golem exec " + visible.CommandLine(words...) + "; a line for a shell: golem exec sh -c " + visible.CommandLine(name)
	case slices.Contains(strings.Fields(agentPrograms), name):
		return missing + "install it first, outside golem"
	}
	if variable, _, ok := strings.Cut(name, "="); ok && len(args) > 1 && !strings.ContainsAny(variable, "/ ") {
		return missing + "a variable comes with --env: golem exec --env " + visible.CommandLine(args...)
	}
	if c, _, err := newRoot(Fronts{}).Find([]string{name}); err == nil && c.HasParent() {
		return missing + "it is a command of golem: " + c.CommandPath()
	}
	if near := sandbox.Nearest(name, programs()); len(near) > 0 {
		return missing + "did you mean golem exec " + visible.CommandLine(append([]string{near[0]}, args[1:]...)...) + "?"
	}
	return missing + "check the name"
}

// whyNotFile says why a file of the directory here is no program, or returns "".
func (f *execFlags) whyNotFile(name string, args []string) string {
	if !strings.Contains(name, "/") || filepath.IsAbs(name) || f.goesOn || !f.startsNew() || len(*f.given) > 0 {
		return ""
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "no file " + sandbox.Shown(name) + " here; check the name"
	case err == nil && info.IsDir():
		return sandbox.Shown(name) + " is a directory and no program"
	case err == nil && info.Mode()&0o111 == 0:
		return sandbox.Shown(name) + " is not executable; chmod +x " + visible.CommandLine(name) + " makes it a program, and golem exec sh " + visible.CommandLine(args...) + " runs a script"
	}
	return ""
}

// programs returns the names of the programs in PATH.
func programs() []string {
	var names []string
	for _, dir := range searchPath() {
		entries, _ := os.ReadDir(dir) // a directory of PATH may be missing
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// takenAsValue says that a flag took the command as its value, or returns "".
func takenAsValue(cmd *cobra.Command) (text string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if value := f.Value.String(); f.Value.Type() == "string" && value != "" && inPath(value) {
			text = fmt.Sprintf("; --%s took %s as its value: golem exec --%s VALUE %s", f.Name, sandbox.Shown(value), f.Name, visible.CommandLine(value))
		}
	})
	return text
}

// systemPrograms change the system, which no command in the jail can.
var systemPrograms = []string{"apt", "apt-get", "dpkg", "dnf", "yum", "rpm", "pacman", "zypper", "apk", "snap", "systemctl", "service", "mount", "umount", "useradd", "usermod"}

// explainFailure prints what may have made the command fail, if it is something that is
// different in the jail.
func (f *execFlags) explainFailure(cmd *cobra.Command, p *program.Program, gate *program.OpenWorker, args []string, ran jail.Result) {
	defer f.explainRefused(cmd.ErrOrStderr(), gate.Hosts(), args, ran)
	shown := sandbox.Shown(args[0])
	if ran.Code == exitNotFound && !inPath(args[0]) {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: no program %s in your PATH; check the name\n", shown)
	}
	if name := ownFlag(cmd, args[1:]); name != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: %s got %s; flags of golem come before the command: golem exec %s … %s\n", shown, name, name, visible.CommandLine(args[0]))
	}
	if slices.Contains([]string{"docker", "docker-compose", "podman", "nerdctl"}, filepath.Base(args[0])) {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: the jail has no container engine; run %s outside golem\n", shown)
	}
	if slices.Contains(systemPrograms, filepath.Base(args[0])) {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: no command in the jail changes the system; run %s outside golem, or install into the project or the home directory\n", shown)
	}
	if line := f.hosts.line.Load(); line != nil && line.SawReadOnly() {
		f.explainReadOnly(cmd.ErrOrStderr(), args)
	}
	if words := args[1:]; slices.ContainsFunc(words, func(w string) bool { return slices.Contains(strings.Fields("&& || | ; > >> <"), w) }) {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: only a shell knows what && and | mean: golem exec sh -c %s\n", visible.CommandLine(strings.Join(args, " ")))
	}
	for _, arg := range args {
		if inside := insideName(p, gate, arg); inside != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "golem: %s is %s in the jail\n", visible.Text(arg), visible.Text(inside))
			return
		}
	}
	home, _ := os.UserHomeDir()
	for _, arg := range args[1:] {
		if dir := notShown(gate, home, arg); dir != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "golem: %s is not in the jail; golem exec --root .:overlay --mount %s -- … shows its directory\n", visible.Text(arg), visible.Text(jail.QuoteWord(dir+":"+dir+":ro")))
			return
		}
	}
}

// notShown returns the directory of a file in the user's home directory that the command cannot
// see, "" if it is another file. golem does not suggest to show hidden files, which may be secrets.
func notShown(gate *program.OpenWorker, home, file string) string {
	rel, err := filepath.Rel(home, file)
	info, missing := os.Stat(file)
	if !filepath.IsAbs(file) || home == "" || err != nil || !filepath.IsLocal(rel) || rel == "." || missing != nil || strings.Contains("/"+rel, "/.") {
		return ""
	}
	if _, ok := jail.NameOf(gate.Files, file); ok {
		return ""
	}
	if info.IsDir() {
		return file
	}
	return filepath.Dir(file)
}

// insideName returns the path in the jail of a file that the user named by its path on the
// host, or "".
func insideName(p *program.Program, gate *program.OpenWorker, file string) string {
	if !filepath.IsAbs(file) {
		return ""
	}
	name, ok := nameIn(newPaths(p, "").mounts, realPath(file))
	if inside := jail.Inside(gate.Files, name); ok && inside != file {
		return inside
	}
	return ""
}

// ownFlag returns the first of a program's arguments that is a flag of golem exec, and that
// other programs rarely have; "" for none.
func ownFlag(cmd *cobra.Command, args []string) string {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if slices.Contains([]string{"--net", "--root", "--mount", "--session", "--apply", "--publish", "--jail", "--profile"}, name) && cmd.Flags().Lookup(name[2:]) != nil {
			return name
		}
	}
	return ""
}

// maxHostWait is how long a question about a host covers the screen of a command. Then
// the request waits for golem approve.
const maxHostWait = time.Minute

// An execTerminal connects the command of golem exec with the streams of this process. It
// asks about hosts while the command has the terminal.
type execTerminal struct {
	asker *asker        // nil if nobody can be asked
	turn  chan struct{} // holds one element while a question is open
	line  atomic.Pointer[terminal.Line]
	host  *detached.Host // nil if this golem does not run in the background
}

// newExecTerminal returns an execTerminal that asks as another asker does.
func newExecTerminal(like approval.Asker) *execTerminal {
	t := &execTerminal{turn: make(chan struct{}, 1)}
	if a, ok := like.(*asker); ok && a != nil {
		t.asker = &asker{keys: a.keys, screen: a.screen, wait: min(a.wait, maxHostWait), settle: a.settle, turn: make(chan struct{}, 1), front: a.front, untilEnd: true}
	}
	return t
}

// attach runs a command on the streams of this process. If these are a terminal, the
// command gets a terminal of its own, connected to it.
func (t *execTerminal) attach(ctx context.Context, s *jail.Jail, c jail.Command) (r jail.Result, err error) {
	if t.host != nil {
		if err := t.host.TakeTerminal(); err != nil {
			return r, err
		}
		defer t.host.End() // after the line is closed
	}
	line, err := terminal.Open(os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, line.Close()) }()
	at := jail.Attached{Stdin: line.Stdin, Stdout: line.Stdout, Stderr: line.Stderr, Signals: line.Signals, Stopped: line.Suspend}
	if line.Wanted {
		if at.Terminal, err = s.Terminal(); err != nil {
			return r, err
		}
		defer at.Terminal.Close()
		if err := line.Connect(at.Terminal.Person); err != nil {
			return r, err
		}
		defer line.Close() // close it before the command's terminal
		t.line.Store(line)
	}
	if t.host != nil {
		signals, limited, stop := endOnSecond(ctx, line.Signals)
		defer stop()
		at.Signals, ctx = signals, limited
		t.host.Begin()
	}
	return s.Attach(ctx, c, at)
}

// why returns why golem could not ask, if the user can fix it.
func (t *execTerminal) why() error {
	if t.asker == nil {
		return nil
	}
	return t.asker.why
}

// Ask implements approval.Asker. Without a terminal nobody answers, and the request waits.
// So does a question that ctx ends before its turn.
func (t *execTerminal) Ask(ctx context.Context, r tool.Request) approval.Reply {
	reply := approval.Reply{Answer: tool.Answer{By: "nobody", Note: errNobody.Error(), Unattended: true}}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
	}
	if line := t.line.Load(); line != nil && t.asker != nil && ctx.Err() == nil {
		line.Lend(func() { reply = t.asker.Ask(ctx, r) })
	}
	return reply
}
