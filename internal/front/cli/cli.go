// Package cli is the command line. It reads arguments, calls the packages below, and
// prints. Results go to standard output. Errors go to standard error, in one line that
// says what failed and then what to do.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/detached"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/version"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// These are the exit codes of the commands.
const (
	exitDone      = 0
	exitFailed    = 1
	exitUsage     = 2
	exitDenied    = 3
	exitBudget    = 4
	exitNoSandbox = 5
	exitSignal    = 128 // plus the number of the signal
)

// An exit ends a command with a code, after the command has printed all messages.
type exit int

func (e exit) Error() string { return "exit code " + strconv.Itoa(int(e)) }

// A usageError describes what is wrong with the arguments.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// A Server serves a program to other agents until ctx ends or they disconnect. It is
// another front, which this package does not import.
type Server func(ctx context.Context, p *program.Program, v program.WorkerOptions, o program.ServeOptions) error

// A Desk serves the pages of golem desk until ctx ends. It is another front, which this
// package does not import.
type Desk func(ctx context.Context, o inbox.DeskOptions) error

// Fronts are the other ways in that commands start.
type Fronts struct {
	MCP     Server
	Desk    Desk
	Explore Explorer
	Proxy   NewProxy
}

// Main runs the command line of this process and returns the exit code.
func Main(serve Server, desk Desk, explore Explorer, proxy NewProxy) int {
	return runArgs(os.Args[1:], os.Stdout, os.Stderr, Fronts{serve, desk, explore, proxy})
}

// runArgs runs a command line and returns the exit code.
func runArgs(args []string, stdout, stderr io.Writer, fronts Fronts) int {
	if code, is := changes.Child(args, stderr); is {
		return code
	}
	args, host, err := enterBackground(args)
	if err != nil {
		fmt.Fprintln(stderr, "golem:", err)
		return exitFailed
	}
	code := runCommand(args, stdout, stderr, fronts, host)
	if host == nil {
		return code
	}
	if err := host.Close(code); err != nil {
		return cmp.Or(code, exitFailed)
	}
	return code
}

// runCommand runs the command line, perhaps in the background, and returns the exit code.
func runCommand(args []string, stdout, stderr io.Writer, fronts Fronts, host *detached.Host) int {
	// File names reach both streams and may hold any bytes. Only plain text reaches the
	// terminal, no matter which code prints it.
	terminal := newConsole(stdout, stderr)
	defer terminal.close()
	out, errs := visible.NewWriter(terminal.out), visible.NewWriter(terminal.errs)
	defer errs.Close()
	root := newRoot(fronts, args...)
	args, all := asksAll(root, args)
	if all {
		showAllFlags(root)
	}
	terminal.color = root.PersistentFlags().Lookup("color").Value.(*colorFlag)
	root.SetArgs(append([]string{}, args...))
	root.SetOut(out)
	root.SetErr(errs)
	cmd, err := root.ExecuteContextC(context.WithValue(context.Background(), hostKey{}, host))
	var code exit
	if problem := out.Close(); problem != nil {
		fmt.Fprintf(errs, "golem: standard output: %v\n", problem)
		if errors.As(err, &code) && code > exitSignal { // the signal may mean that the terminal is gone
			return int(code)
		}
		return exitFailed
	}
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &code):
		return int(code)
	}
	if name, ok := unknownCommand(err); ok {
		err = usageError(noCommand(root, name))
	}
	asJSON := wantsJSON(cmd) || slices.Contains(args, "--json")
	if problems, is := errors.AsType[strictyaml.Problems](err); is {
		printProblems(errs, problems)
		if asJSON && printJSON(out, lintDocument(problems, nil)) != nil {
			return exitFailed
		}
		return exitUsage
	}
	columns, _ := newScreen(errs).size()
	fmt.Fprintln(errs, wrapClauses("golem: "+err.Error(), columns))
	said, status := classify(err)
	if asJSON && printJSON(out, map[string]any{"ok": false, "error": said}) != nil {
		return exitFailed
	}
	return status
}

// withLate joins the error of a command with the error of closing its records. If err is
// an exit code, withLate keeps it and prints late.
func withLate(cmd *cobra.Command, err, late error) error {
	if _, is := errors.AsType[exit](err); late != nil && is {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem:", late)
		return err
	}
	return errors.Join(err, late)
}

// printProblems prints one line for each problem. A problem in a file begins with its
// place, in the form that editors know. Problems with flags and variables begin like
// every other error.
func printProblems(w io.Writer, problems strictyaml.Problems) {
	columns, _ := newScreen(w).size()
	for _, p := range problems {
		text := p.Error()
		if p.Place.Line == 0 {
			text = "golem: " + text
		}
		fmt.Fprintln(w, wrapClauses(text, columns))
	}
}

// classify returns an error as --json prints it, and the exit code for it.
func classify(err error) (toolError, int) {
	said := toolError{Code: sandbox.CodeOf(err), Message: visible.Text(err.Error())}
	var usage usageError
	var wrong *sandbox.Error
	switch {
	case errors.As(err, &usage), errors.Is(err, tool.ErrNotText):
		said.Code = "invalid_args"
		return said, exitUsage
	case !errors.As(err, &wrong):
		return said, exitFailed
	}
	said.Hint = visible.Text(wrong.Hint)
	switch {
	case wrong.Op == "worker", wrong.Op == "session" && wrong.Code == "invalid_args":
		return said, exitUsage
	case wrong.Code == "untrusted", wrong.Code == "blocked":
		return said, exitDenied
	case strings.HasPrefix(wrong.Op, "--"): // a flag
		return said, exitUsage
	case wrong.Code == jail.ErrNoSandbox:
		return said, exitNoSandbox
	}
	return said, exitFailed
}

// A subcommand is created when it is needed. Creating all of them with their flags takes
// longer than most of them run.
type subcommand struct {
	name  string
	group string // the group in golem help; "" for a command that still works but is not listed
	make  func() *cobra.Command
}

// groups are the groups of golem help.
var groups = []*cobra.Group{
	{ID: "run", Title: "Run"}, {ID: "review", Title: "Review"}, {ID: "project", Title: "Project"}, {ID: "team", Title: "Team"}, {ID: "records", Title: "Records"}, {ID: "more", Title: "More"},
}

// subcommands lists the commands in the order of golem help.
func subcommands(fronts Fronts) []subcommand {
	return []subcommand{
		{"run", "run", newRun}, {"eval", "run", newEval}, {"exec", "run", newExec}, {"intake", "run", newIntake}, {"ps", "run", newPS}, {"attach", "run", newAttach}, {"ports", "run", newPorts}, {"mcp", "run", func() *cobra.Command { return newMCP(fronts.MCP) }},
		{"acp", "run", func() *cobra.Command { return newACP(fronts.Proxy) }},
		{"status", "review", func() *cobra.Command { return newStatus(fronts) }}, {"diff", "review", func() *cobra.Command { return newDiff(fronts.Explore) }}, {"apply", "review", newApply}, {"discard", "review", newDiscard}, {"pr", "review", newPR}, {"undo", "review", newUndo},
		{"review", "review", func() *cobra.Command { return newReview(fronts.Explore) }}, {"approve", "review", newApprove}, {"approvals", "review", newApprovals}, {"comments", "review", newComments}, {"desk", "review", func() *cobra.Command { return newDesk(fronts.Desk) }},
		{"init", "project", newInit}, {"trust", "project", newTrust}, {"lint", "project", newLint}, {"explain", "project", newExplain}, {"suggest", "project", newSuggest}, {"config", "project", newConfig},
		{"secret", "project", newSecret}, {"notify", "project", newNotify},
		{"workers", "project", newWorkers}, {"tools", "project", newTools}, {"schema", "project", newSchema},
		{"submit", "team", newSubmit}, {"jobs", "team", newJobs}, {"node", "team", newNode}, {"hub", "team", newHub},
		{"sessions", "records", newSessions}, {"audit", "records", newAudit}, {"doctor", "records", newDoctor},
		{"tool", "more", newTool}, {"scan", "more", newScan}, {"completion", "more", newCompletion}, {"man", "more", newMan}, {"version", "more", newVersion},
		{"changes", "", newChanges},
	}
}

// newRoot returns the command line with the subcommand that args starts with. If args
// starts with no subcommand, it returns all of them.
func newRoot(fronts Fronts, args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "golem",
		Short: "Run AI workers and agents in a sandbox, and review what they change",
		Long: `Golem Forge runs AI workers and agents in a sandbox. They see only the files you give
them, their commands run in a jail, and their changes wait in a session until you
review and apply them.`,
		Example: `  golem exec bash
  golem diff
  golem apply`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	version := false
	root.Flags().BoolVarP(&version, "version", "v", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if version {
			return printVersion(cmd)
		}
		return cmd.Help()
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		return cmp.Or(refuseInside(cmd, args), refuseEmpty(cmd))
	}
	root.DisableSuggestions = true // noCommand suggests a command, in one line
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().Bool("json", false, "print JSON: one document, or JSON Lines if the help of the command says so")
	color := colorAuto
	root.PersistentFlags().Var(&color, "color", "when to print colours; auto means at a terminal (NO_COLOR, CLICOLOR_FORCE)")
	root.SetHelpFunc(printHelp)
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(printUsage)
	root.SetHelpCommand(newHelp())
	all := subcommands(fronts)
	if i := slices.IndexFunc(all, func(c subcommand) bool { return len(args) > 0 && c.name == args[0] }); i >= 0 {
		all = all[i : i+1]
	}
	root.AddGroup(groups...)
	root.SetHelpCommandGroupID("more")
	for _, c := range all {
		made := c.make()
		made.GroupID, made.Hidden = c.group, c.group == ""
		root.AddCommand(made)
	}
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		addCompletions(root)
	}
	return root
}

// refuseEmpty refuses a flag without a value, as of an empty variable: the command would
// otherwise use another session, or no limit. Only texts may be empty: an input, a reason, and
// the arguments of a tool.
func refuseEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		kind := f.Value.Type()
		empty := kind == "string" && f.Value.String() == "" || (kind == "stringSlice" || kind == "stringArray") && f.Value.String() == "[]"
		own := !strings.HasPrefix(cmd.CommandPath()+" ", "golem tool ") || slices.Contains([]string{"session", "approval", "trust", "state"}, f.Name)
		if empty && err == nil && own && f.Name != "input" && f.Name != "reason" {
			err = usagef("--%s is empty; %s", f.Name, cmp.Or(valueHints[f.Name], "omit it, or give it a value"))
		}
	})
	return err
}

// refuseInside refuses to act as the user if golem runs inside a command that it
// confines. The caller is not the user there.
func refuseInside(cmd *cobra.Command, _ []string) error {
	if cmd.Name() == "help" || cmd.Name() == "version" || !cmd.HasParent() || !jail.Confined() {
		return nil
	}
	return &sandbox.Error{Op: cmd.Name(), Code: "blocked", Hint: "golem runs inside one of its own commands here, and does not act as the user there"}
}

// wantsJSON reports whether the user asked for JSON.
func wantsJSON(cmd *cobra.Command) bool {
	asked, err := cmd.Flags().GetBool("json")
	return err == nil && asked
}

// takesArgs returns a check that a command gets at least and at most some arguments. The error
// is a text; %d in it is how many there are, and %s is the name of the command.
func takesArgs(least, most int, text string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		return usageError(strings.NewReplacer("%s", cmd.Name(), "%d", strconv.Itoa(len(args))).Replace(text))
	}
}

// noArgs refuses arguments, with the error messages of this package.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.HasSubCommands() {
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
			if slices.Contains(strings.Fields(subSynonyms[c.Name()]), args[0]) {
				return usagef("no %s %s; did you mean %s?", cmd.Name(), args[0], c.CommandPath())
			}
		}
		if slices.Contains(strings.Fields(subSynonyms[""]), args[0]) {
			return usagef("no %s %s; did you mean %s?", cmd.Name(), args[0], cmd.CommandPath())
		}
		if _, err := os.Lstat(args[0]); err == nil && cmd.Name() == "audit" {
			return usagef("no audit %s; golem audit show %s shows who decided about the file", sandbox.Shown(args[0]), visible.CommandLine(args[0]))
		}
		if cmd.Name() == "config" {
			return usagef("no config %s; golem config shows every value, golem config set KEY VALUE changes one, golem config edit --user removes one", sandbox.Shown(args[0]))
		}
		if cmd.Name() == "sessions" && slices.Contains([]string{"rename", "name", "mv"}, args[0]) {
			return usagef("no sessions %s; a session gets its name when it starts: golem exec --name NAME CMD", args[0])
		}
		if cmd.Name() == "workers" {
			return usagef("no workers %s; golem workers lists them all", sandbox.Shown(args[0]))
		}
		if cmd.Name() == "sessions" && naming.IsValid(strings.TrimPrefix(args[0], naming.Mark)) && nearest(args[0], names) == "" {
			return usagef("no sessions %s; golem sessions show %s describes a session of that name", sandbox.Shown(args[0]), visible.CommandLine(args[0]))
		}
		return usagef("no %s %s; %s", cmd.Name(), sandbox.Shown(args[0]), didYouMean(args[0], cmd.CommandPath()+" ", names))
	}
	if len(args) > 0 {
		hint := cmd.CommandPath() + " --help shows its flags"
		info, err := os.Stat(args[0])
		switch inProgram := cmd.Flags().Lookup("program") != nil; {
		case cmd.Flags().Lookup(args[0]) != nil:
			hint = "did you mean " + cmd.CommandPath() + " --" + args[0] + "?"
		case slices.Contains(strings.Fields(subSynonyms[""]), args[0]):
			hint = "did you mean " + cmd.CommandPath() + "?"
		case err == nil && info.IsDir() && inProgram:
			hint = "a directory is named with -C: " + cmd.CommandPath() + " -C " + visible.CommandLine(args[0])
		case strings.HasPrefix(args[0], naming.Mark):
			hint = "golem diff " + visible.CommandLine(args[0]) + " shows the changes of a session"
		case cmd.Name() == "lint" || cmd.Name() == "status":
			hint = cmd.CommandPath() + " is about all of this directory; -C DIR names another one"
		}
		return usagef("%s takes no argument, got %s; %s", cmd.Name(), sandbox.Shown(args[0]), hint)
	}
	return nil
}

// flagError describes what is wrong with a flag of a command.
func flagError(cmd *cobra.Command, err error) error { return flagErrorOf(cmd, cmd.CommandPath(), err) }

// flagErrorOf describes what is wrong with a flag, which values it takes, or which flag
// was probably meant. path is the command whose --help lists the flags.
func flagErrorOf(cmd *cobra.Command, path string, err error) error {
	var ours usageError
	var empty *pflag.ValueRequiredError
	var wrong *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &empty):
		if hint := valueHints[empty.GetSpecifiedName()]; hint != "" {
			return usagef("%s needs a value: %s", dashed(empty.GetSpecifiedName()), hint)
		}
		return usagef("%s needs a value; %s --help lists the flags", dashed(empty.GetSpecifiedName()), path)
	case errors.As(err, &wrong):
		return usagef("--%s %s: %s", wrong.GetFlag().Name, sandbox.Shown(wrong.GetValue()), takes(wrong))
	case !errors.As(err, &unknown):
		return usagef("%v; %s --help lists the flags", err, path)
	}
	name := unknown.GetSpecifiedName()
	if hint := flagHints[cmd.Name()+" "+dashed(name)]; hint != "" {
		return usagef("unknown flag %s; %s", dashed(name), hint)
	}
	if cmd.Name() == "explain" && len(name) == 1 {
		return usagef("unknown flag %s; a command comes after --: golem explain -- ls %s", sandbox.Shown(dashed(name)), visible.CommandLine(dashed(name)))
	}
	if c, _, err := newRoot(Fronts{}).Find([]string{name}); err == nil && c.HasParent() {
		return usagef("unknown flag --%s; it is a command: %s", name, c.CommandPath())
	}
	if other := flagSynonyms[name]; other != "" && cmd.Flags().Lookup(other) != nil {
		return usagef("unknown flag %s; did you mean --%s?", sandbox.Shown(dashed(name)), other)
	}
	return usagef("unknown flag %s; %s", sandbox.Shown(dashed(name)), didYouMean(name, "--", flagNames(cmd)))
}

// dashed returns the name of a flag as the user types it.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// takes describes the values that a flag takes, after a wrong value.
func takes(wrong *pflag.InvalidValueError) string {
	switch wrong.GetFlag().Value.Type() {
	case "int":
		return "it is a whole number"
	case "bool":
		return "it is true or false"
	case "duration":
		if _, ok := wrong.GetFlag().Value.(*days); ok {
			return "it is a time such as 12h or 30d"
		}
		return "it is a time such as 30s, 5m or 720h"
	}
	return wrong.Unwrap().Error()
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Print the version and commit that golem was built from, the Go that built it, and the system it is for.",
		Example: "  golem version\n  golem --version\n  golem version --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return printVersion(cmd) },
	}
}

func printVersion(cmd *cobra.Command) error {
	b := version.Current()
	return printLineOr(cmd, b, "%s", b.Text("golem"))
}
