package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/toolset/shell"
	"github.com/golem-forge/golem/sandbox"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// gateFlags are the flags of commands that call tools through the gate.
type gateFlags struct {
	*programFlags
	worker string
	reads  bool
	wait   time.Duration

	session  string
	name     string // --name
	goesOn   bool   // --continue
	copy     bool
	exitCode bool // end with the exit code of a command
	commits  bool // the command is about commits
	// orChanges is true if the command is also about the changes of a session without commits.
	orChanges bool
}

func addGateFlags(cmd *cobra.Command) *gateFlags {
	f := addSessionFlags(cmd, "the last used one")
	f.addWorker(cmd)
	return f
}

func (f *gateFlags) addWorker(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.worker, "worker", "", "the worker; the entry worker if not given")
}

// addSessionFlags adds the flags of commands that work in a session. otherwise describes
// the session that golem uses if the user names none.
func addSessionFlags(cmd *cobra.Command, otherwise string) *gateFlags {
	f := &gateFlags{programFlags: addProgramFlags(cmd)}
	cmd.Flags().BoolVar(&f.reads, "approve-reads", false, "do not ask about calls that only read")
	cmd.Flags().StringVar(&f.session, "session", "", "the session to work in: its name, its id, the beginning of its id, last (the last used session) or new (a new session); "+otherwise+" if not given (GOLEM_SESSION)")
	cmd.Flags().BoolVar(&f.copy, "copy", false, "copy the directories with mode: overlay before the session starts, instead of mounting them copy-on-write (GOLEM_COPY=1)")
	cmd.Flags().DurationVar(&f.wait, "wait", patience, "how long to wait for an approval")
	return f
}

// addName adds the flag that names a new session.
func (f *gateFlags) addName(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "name", "", "the name of the new session, such as fix-login; without it golem makes one")
}

// checkName refuses a name that no session may have, that another session here has, or that a
// command cannot give because it continues a session. A command with a name starts a new
// session.
func (f *gateFlags) checkName() error {
	chosenBy := "GOLEM_SESSION"
	if f.session != "" {
		chosenBy = "--session " + sandbox.Shown(f.session)
	}
	switch {
	case f.name == "":
		return nil
	case f.goesOn:
		return usageError("--continue keeps the name of its session, and --name names a new one; use one of them")
	case !f.startsNew():
		return usagef("--name names a new session, and %s chooses another one; use --session new", chosenBy)
	}
	if err := naming.Check(f.name); err != nil {
		return err
	}
	f.session = naming.New
	all, err := f.sessionsHere()
	if err != nil {
		return err
	}
	for _, w := range all {
		if w.Name == f.name || w.ID == f.name {
			return naming.Taken(f.name)
		}
	}
	return nil
}

// program opens the program of a call, or the directories of its session.
func (f *gateFlags) program() (*program.Program, error) { return f.programOr(sessionMounts) }

func (f *gateFlags) programOr(otherwise fallback) (*program.Program, error) {
	return f.open(opening{session: f.sessionID(), otherwise: otherwise})
}

// sessionID returns the session of the flag or the environment, or "" if they name none.
func (f *gateFlags) sessionID() string {
	if f.goesOn { // it comes before the environment
		return f.session
	}
	return strings.TrimPrefix(cmp.Or(f.session, os.Getenv("GOLEM_SESSION")), naming.Mark)
}

func newTools() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools [NAME]",
		Short: "List the tools of a worker",
		Long: `List the tools that a worker of this program has: who may call each (llm is the model,
manual is you, also if the worker lacks the tool), the strictest approval that it needs,
and its effects on files. With NAME, show that tool and its arguments.

golem remembers the tools that an MCP server listed when golem first started it. If the
server lists other tools later, golem refuses its calls. --accept SERVER starts the
server, shows the differences, and accepts them if you answer yes.`,
		Example: "  golem tools\n  golem tools edit_file\n  golem tools --network",
		Args:    takesArgs(0, 1, "tools takes one name, got %d"),
	}
	flags := addProgramFlags(cmd)
	worker := ""
	cmd.Flags().StringVar(&worker, "worker", "", "the worker; the entry worker if not given")
	accept, yes := "", false
	cmd.Flags().StringVar(&accept, "accept", "", "show how the tools of this MCP server have changed, and ask whether to accept them")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --accept: accept without asking")
	network := false
	cmd.Flags().BoolVar(&network, "network", false, "list the presets for network.presets and --net +PRESET, and their hosts on this machine")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := flags.open(opening{otherwise: sessionOrDirectory})
		if err != nil {
			return err
		}
		if network {
			return printPresets(cmd, p)
		}
		if accept != "" {
			return acceptTools(cmd, p, worker, accept, yes)
		}
		gate, err := p.Tools(worker)
		if err != nil {
			return err
		}
		if len(args) == 1 {
			t, err := toolNamed(offered(gate), args[0])
			if err != nil {
				return err
			}
			return printOr(cmd, aboutTool(gate, t), func(w io.Writer) {
				printTool(w, t)
				fmt.Fprintf(w, "\napproval for %s: %s\n", strings.Join(gate.Workers, " → "), gate.HighestApproval(t))
			})
		}
		if trusted, err := p.IsTrusted(); err != nil {
			return err
		} else if !trusted {
			fmt.Fprintln(cmd.ErrOrStderr(), "not trusted yet: run golem trust before you use these tools")
		}
		notes, err := p.ServerNotes(worker)
		for _, note := range notes {
			fmt.Fprintln(cmd.ErrOrStderr(), note)
		}
		return errors.Join(listTools(cmd, gate), err)
	}
	return cmd
}

// acceptTools shows which tools an MCP server lists, and records them if the user
// accepts.
func acceptTools(cmd *cobra.Command, p *program.Program, worker, server string, yes bool) error {
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	gate, err := p.OpenWorker(program.WorkerOptions{Worker: worker, Secrets: secrets(os.Environ())})
	if err != nil {
		return err
	}
	offer, err := gate.Offer(ctx, server)
	if err := errors.Join(err, gate.Close()); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if len(offer.Differences) == 0 && offer.Known {
		fmt.Fprintln(out, "nothing has changed: it has the same tools")
		return nil
	}
	if err := checkUnseen("tools", p, yes); err != nil {
		return err
	}
	request, err := tool.NewCommandRequest("tools --accept", "accept these tools of "+server, nil, offer.Differences, nil, map[string]string{"server": server})
	if err != nil {
		return err
	}
	d := decision{cmd: cmd, program: p, terminal: findTerminal(false), out: out, yes: yes}
	if yes || d.terminal == nil { // otherwise the question shows it
		for _, line := range offer.Differences {
			fmt.Fprintln(out, line)
		}
	}
	switch ok, err := d.confirmed(request, "accepted", "golem tools --accept "+server+" --yes", offer.Accept); {
	case err != nil:
		return err
	case !ok:
		return exit(exitDenied)
	}
	fmt.Fprintln(out, "accepted, as they are now")
	return nil
}

// A toolDocument describes a tool.
type toolDocument struct {
	Name        string   `json:"name"`
	Toolset     string   `json:"toolset"`
	Mode        string   `json:"mode"`
	Approval    string   `json:"consent"`
	Effects     []string `json:"effects"`
	Label       string   `json:"label,omitempty"`
	Category    string   `json:"category,omitempty"`
	Description string   `json:"description"`
	Schema      any      `json:"schema"`
}

func aboutTool(g tool.Gate, t tool.Tool) toolDocument {
	mode := t.Mode
	if !slices.ContainsFunc(g.ToolsFor(policy.Model), func(other tool.Tool) bool { return other.Name == t.Name }) {
		mode = policy.Manual // the user has the tool, and the worker has not
	}
	return toolDocument{t.Name, t.Toolset, mode.String(), g.HighestApproval(t).String(), strings.Fields(verbs(t)), t.Label, t.Category, t.Description, t.Schema()}
}

func listTools(cmd *cobra.Command, g tool.Gate) error {
	list := []toolDocument{}
	rows := [][]string{{"tool", "for", "approval", "effects", "description"}}
	for _, t := range offered(g) {
		d := aboutTool(g, t)
		list = append(list, d)
		rows = append(rows, []string{d.Name, d.Mode, d.Approval, strings.Join(d.Effects, " "), firstSentence(d.Description)})
	}
	return printOr(cmd, map[string]any{"worker": strings.Join(g.Workers, " → "), "tools": list}, func(w io.Writer) {
		printColumns(w, rows)
		if len(list) == 0 {
			fmt.Fprintln(w, "this worker has no tools")
		}
	})
}

// offered returns the tools that the model of a worker or the user may call.
func offered(g tool.Gate) []tool.Tool {
	list := g.ToolsFor(policy.User)
	for _, t := range g.ToolsFor(policy.Model) {
		if t.Mode == policy.LLM {
			list = append(list, t)
		}
	}
	return list
}

func firstSentence(text string) string {
	first, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(first, ".")
}

// toolNamed returns the tool with a name, or with the current form of an older name.
func toolNamed(tools []tool.Tool, name string) (tool.Tool, error) {
	for _, spelling := range []string{name, policy.CurrentToolName(name)} {
		if i := slices.IndexFunc(tools, func(t tool.Tool) bool { return t.Name == spelling }); i >= 0 {
			return tools[i], nil
		}
	}
	var names []string
	for _, t := range tools {
		if !t.Unlisted {
			names = append(names, t.Name)
		}
	}
	return tool.Tool{}, usagef("unknown_tool: %s; %s", sandbox.Shown(name), didYouMean(name, "", names))
}

func newTool() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tool NAME [--flag value…]",
		Short: "Call a tool yourself, through the same gate as a worker",
		Long: `Call a tool as a worker of this program would: with the files, rules and approvals of the
worker, and recorded in the journal. The flags after NAME are the arguments of the tool:
golem tool NAME --help lists them. --content - and --command - read the text from standard
input. --args takes all arguments as one JSON object.

Exit code 0: done; 1: failed; 2: wrong arguments; 3: declined, or the call needs approval;
5: no jail for commands; 129, 130, 131 or 143: ended by a signal. If a command ran and
failed, the code is 0, and the result shows the exit code of the command. With --exit-code,
the code is that of the command.

In a directory without a program, the tools see the directory copy-on-write, and their
changes wait in a session, as with golem exec.`,
		Example: `  golem tool list_files
  golem tool write_file --path /out/a.md --content - < notes.md
  golem tool shell --command 'make test' --timeout 60`,
		DisableFlagParsing: true, // the flags depend on the tool, which is not known yet
	}
	flags := addGateFlags(cmd)
	cmd.Flags().BoolVar(&flags.exitCode, "exit-code", false, "end with the exit code of the command that the tool ran")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runTool(cmd, flags, args) }
	return cmd
}

// runTool parses the command line twice: up to the name of the tool, and then with the
// tool's own flags.
func runTool(cmd *cobra.Command, flags *gateFlags, args []string) error {
	all := cmd.Flags()
	all.AddFlagSet(cmd.InheritedFlags())
	all.SetInterspersed(false)
	if err := all.Parse(args); err != nil {
		return flagError(cmd, err)
	}
	help := func() bool { asked, _ := all.GetBool("help"); return asked }
	if all.NArg() == 0 && help() {
		return cmd.Help()
	}
	if all.NArg() == 0 {
		return usageError("use which tool? golem tools lists them")
	}
	t, err := flags.toolNamed(all)
	if err != nil {
		return err
	}
	own := newToolArgs(t)
	own.addTo(all)
	if rest := all.Args()[1:]; len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && all.Lookup("command") != nil {
		return usagef("%s takes flags, and no argument %s; golem tool %s --command %s", t.Name, sandbox.Shown(rest[0]), t.Name, visible.CommandLine(strings.Join(rest, " ")))
	}
	all.SetInterspersed(true)
	if err := all.Parse(all.Args()[1:]); err != nil {
		return flagErrorOf(cmd, "golem tool "+t.Name, err)
	}
	if help() {
		printTool(cmd.OutOrStdout(), t)
		return nil
	}
	if err := refuseEmpty(cmd); err != nil {
		return err
	}
	if all.NArg() == 1 && all.Lookup("path") != nil && !all.Changed("path") {
		return usagef("%s takes flags, and no argument %s; golem tool %s --path %s", t.Name, sandbox.Shown(all.Arg(0)), t.Name, visible.CommandLine(all.Arg(0)))
	}
	if all.NArg() > 0 {
		return usagef("%s takes flags, and no argument %s; golem tool %s --help lists them; a value with spaces needs quotes: --flag 'two words'%s",
			t.Name, sandbox.Shown(all.Arg(0)), t.Name, own.several())
	}
	given, err := own.read(cmd.InOrStdin())
	if err != nil {
		return err
	}
	c := &userCall{gateFlags: flags, cmd: cmd, Call: tool.Call{Tool: t.Name, Args: given.json}, inputTaken: given.stdin, otherwise: sessionOrDirectory}
	r, err := c.do()
	if caught, is := errors.AsType[signaled](err); is {
		return errors.Join(caught.code(), printResult(cmd, r)) // the first code counts
	}
	if err != nil && r.OK() {
		return err
	}
	err = errors.Join(printResult(cmd, r), err)
	if ran, ok := r.Data.(shell.Ran); err == nil && ok && flags.exitCode && ran.ExitCode != 0 {
		return exit(ran.ExitCode)
	}
	return err
}

// toolNamed returns the named tool, one of golem's or one of the program's. Flags after
// the name may choose the program.
func (f *gateFlags) toolNamed(all *pflag.FlagSet) (tool.Tool, error) {
	t, unknown := toolNamed(program.Tools(), all.Arg(0))
	if unknown == nil {
		return t, nil
	}
	rest := all.Args()
	all.ParseErrorsAllowlist.UnknownFlags = true
	all.SetInterspersed(true)
	err := all.Parse(rest)
	all.ParseErrorsAllowlist.UnknownFlags = false
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		return t, unknown
	}
	again := all.Parse(append([]string{"--"}, rest...)) // restores the original arguments
	p, err := f.programOr(sessionOrDirectory)
	switch _, is := errors.AsType[strictyaml.Problems](err); {
	case is:
		return t, err
	case err != nil || again != nil:
		return t, unknown
	}
	gate, err := p.Tools(f.worker)
	if err != nil {
		return t, err
	}
	t, unknown = toolNamed(gate.Tools, rest[0])
	if notes, err := p.ServerNotes(f.worker); unknown != nil && err == nil && len(notes) > 0 {
		if strings.Contains(unknown.Error(), "did you mean") {
			notes = append([]string{unknown.Error()}, notes...)
		} else { // the user more likely meant a tool of these servers than a listed one
			notes[0] = "unknown_tool: " + sandbox.Shown(rest[0]) + "; " + notes[0]
		}
		return t, usageError(strings.Join(notes, "; "))
	}
	return t, unknown
}

// printTool prints all about a tool except the permissions of a worker.
func printTool(w io.Writer, t tool.Tool) {
	fmt.Fprintf(w, "%s\n\n%s\n\n", t.Name, t.Description)
	rows := [][]string{{"mode", t.Mode.String()}, {"effects", verbs(t)}}
	if t.Label != "" {
		rows = append(rows, []string{"label", t.Label})
	}
	if t.Category != "" {
		rows = append(rows, []string{"category", t.Category})
	}
	printColumns(w, rows)
	own := pflag.NewFlagSet(t.Name, pflag.ContinueOnError)
	newToolArgs(t).addTo(own)
	fmt.Fprintf(w, "\nusage\n  golem tool %s [--flag value…]\n\narguments\n", t.Name)
	var args []flagRow
	own.VisitAll(func(f *pflag.Flag) { args = append(args, newFlagRow(f)) })
	printFlags(w, args)
	fmt.Fprint(w, "\nalso --worker, --session, --copy, --approval, --approve-reads, --wait, --json, -C: golem tool --help\n")
}

func verbs(t tool.Tool) string { return strings.Join(visible.Each(t.Verbs, policy.Verb.String), " ") }

// A presetDocument is a set of hosts for --json.
type presetDocument struct {
	Name    string   `json:"name"`
	About   string   `json:"about"`
	Hosts   []string `json:"hosts"`
	Used    bool     `json:"used"` // the program uses it
	Problem string   `json:"problem,omitempty"`
}

// printPresets prints the sets of hosts, with the hosts that they have here.
func printPresets(cmd *cobra.Command, p *program.Program) error {
	list := []presetDocument{}
	rows := [][]string{{"preset", "used", "hosts", "from"}}
	for _, s := range p.FindPresets(cmd.Context(), policy.PresetNames()) {
		d := presetDocument{Name: s.Name, About: s.About, Hosts: append([]string{}, s.Hosts.Patterns()...), Used: slices.Contains(p.Project.Presets, s.Name)}
		if s.Err != nil {
			d.Problem = s.Err.Error()
		}
		list = append(list, d)
		for i, host := range append(d.Hosts, cmp.Or(visible.Text(d.Problem), "none")) {
			if i == len(d.Hosts) && i > 0 {
				break
			}
			row := []string{"", "", visible.Text(host), ""}
			if i == 0 {
				row = []string{d.Name, yesOrNo(d.Used, ""), visible.Text(host), d.About}
			}
			rows = append(rows, row)
		}
	}
	return printOr(cmd, map[string]any{"presets": list}, func(w io.Writer) {
		printColumns(w, rows)
		fmt.Fprintln(w, "network.presets in golem-forge.config.yaml adds them to the hosts of a program, and\ngolem exec --net +PRESET to those of one call. Commands can only read there.")
	})
}
