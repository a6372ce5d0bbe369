package cli

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
)

// shells are the shells that golem writes completion scripts for.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes commands in a shell",
		Long: `Print a script for your shell. It completes commands, flags, sessions, the ids of
calls that wait, and the names of workers and tools. To use it, add a
line to the startup file of your shell, and start a new one:

  bash        . <(golem completion bash)       in ~/.bashrc
  zsh         . <(golem completion zsh)        in ~/.zshrc, after compinit
  fish        golem completion fish | source   in ~/.config/fish/config.fish
  powershell  golem completion powershell | Out-String | Invoke-Expression`,
		Example:   "  golem completion bash > golem.bash\n  golem completion fish > golem.fish",
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef("completion takes the name of a shell: %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeCompletion(cmd.OutOrStdout(), cmd.Root(), args[0])
		},
	}
}

// writeCompletion writes the completion script for a shell.
func writeCompletion(w io.Writer, root *cobra.Command, shell string) error {
	switch shell {
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	case "powershell":
		return root.GenPowerShellCompletionWithDesc(w)
	}
	var script bytes.Buffer
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.Replace(script.String(), needsPackage, ownWords, 1))
	return err
}

// needsPackage is the line of cobra's script that calls a function of the package
// bash-completion. Not every machine has this package.
const needsPackage = `    _get_comp_words_by_ref "$@" cur prev words cword
`

// ownWords splits the line into words if the package bash-completion is not there.
const ownWords = `    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    case "${COMP_LINE:0:COMP_POINT}" in *[[:space:]]) words+=("") ;; esac
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword-1]}
`

// A completer returns the values that complete a word.
type completer = cobra.CompletionFunc

// flagCompleters complete the values of flags, by the names of the flags.
var flagCompleters = map[string]completer{
	"session":  completing(sessionValues),
	"resume":   completing(sessionValues),
	"worker":   completing(workerValues),
	"entry":    completing(workerValues),
	"profile":  completing(profileValues),
	"program":  completeDirs,
	"state":    completeDirs,
	"root":     completeDirs,
	"color":    cobra.FixedCompletions(colorWords, cobra.ShellCompDirectiveNoFileComp),
	"approval": cobra.FixedCompletions([]string{"interactive", "approve_all", "auto_deny"}, cobra.ShellCompDirectiveNoFileComp),
	"net":      cobra.FixedCompletions([]string{"off", "on"}, cobra.ShellCompDirectiveNoFileComp),
	"jail":     cobra.FixedCompletions([]string{"namespaces", "landlock", "container"}, cobra.ShellCompDirectiveNoFileComp),
	"decision": cobra.FixedCompletions(decisions, cobra.ShellCompDirectiveNoFileComp),
	"origin":   cobra.FixedCompletions(origins, cobra.ShellCompDirectiveNoFileComp),
	"kind":     cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp),
}

// argCompleters complete the arguments of commands, by the paths of the commands. The
// shell completes file names for the other commands that take arguments.
var argCompleters = map[string]completer{
	"golem diff":             completeSessionOrPath,
	"golem apply":            completeSessionOrPath,
	"golem discard":          completeSessionOrPath,
	"golem sessions show":    completing(sessionValues),
	"golem sessions export":  completing(sessionValues),
	"golem sessions rm":      completing(sessionValues),
	"golem suggest":          completing(sessionValues),
	"golem attach":           completing(sessionValues),
	"golem ps stop":          completing(sessionValues),
	"golem approve":          completing(approvalValues),
	"golem approvals show":   completing(approvalValues),
	"golem approvals revoke": completing(approvalValues),
	"golem tools":            completing(toolValues),
	"golem tool":             completeToolCall,
	"golem man":              completeDirs,
	"golem init":             completeDirs,
}

// addCompletions adds the completers to a command and all below it.
func addCompletions(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if complete := flagCompleters[f.Name]; complete != nil && f.Value.Type() != "bool" {
			cmd.RegisterFlagCompletionFunc(f.Name, complete) // this fails only for an unknown flag
		}
	})
	complete := argCompleters[cmd.CommandPath()]
	switch {
	case complete != nil:
		cmd.ValidArgsFunction = complete
	case cmd.ValidArgs == nil && !strings.Contains(cmd.Use, " "): // the command takes no arguments
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, c := range cmd.Commands() {
		addCompletions(c)
	}
}

// completionFlags returns the flags of a command that choose the program, as far as the
// user has typed them.
func completionFlags(cmd *cobra.Command) *programFlags {
	f := &programFlags{dir: "."}
	if flag := cmd.Flags().Lookup("program"); flag != nil {
		f.dir = flag.Value.String()
	}
	if flag := cmd.Flags().Lookup("state"); flag != nil {
		f.state = flag.Value.String()
	}
	return f
}

// completing returns a completer for values. It offers those that begin with the typed text,
// and skips values that a shell would split or that are not plain text.
func completing(values func(cmd *cobra.Command, args []string) []cobra.Completion) completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var fits []cobra.Completion
		for _, v := range values(cmd, args) {
			word, about, _ := strings.Cut(v, "\t")
			if strings.HasPrefix(word, typed) && visible.CommandLine(word) == word && word != "" {
				fits = append(fits, cobra.CompletionWithDesc(word, visible.Line(about, maxAbout)))
			}
		}
		return fits, cobra.ShellCompDirectiveNoFileComp
	}
}

// maxAbout is how many characters of a description a completion shows.
const maxAbout = 60

func sessionValues(cmd *cobra.Command, _ []string) (values []cobra.Completion) {
	all, err := completionFlags(cmd).sessionsHere()
	if err != nil || len(all) == 0 {
		return nil
	}
	var ids []cobra.Completion
	for _, w := range all {
		about := strings.TrimLeft(strings.TrimPrefix(w.title(), "session "+w.label()), " ,")
		if values = append(values, w.label()+"\t"+about); w.label() != w.ID {
			ids = append(ids, w.ID+"\t"+about)
		}
	}
	return append(append(values, lastSession+"\tthe session that was used last"), ids...)
}

// completeSessionOrPath completes the name of a session after @, and otherwise a path.
func completeSessionOrPath(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if !strings.HasPrefix(typed, naming.Mark) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return completing(markedSessionValues)(cmd, args, typed)
}

// markedSessionValues returns the sessions with @ before each.
func markedSessionValues(cmd *cobra.Command, args []string) []cobra.Completion {
	return visible.Each(sessionValues(cmd, args), func(value string) string { return naming.Mark + value })
}

func approvalValues(cmd *cobra.Command, _ []string) (values []cobra.Completion) {
	p, err := completionFlags(cmd).open(opening{otherwise: sessionOrState})
	if err != nil || !p.Storage.Exists() { // opening the records would make the state
		return nil
	}
	r, err := p.Storage.OpenRecords()
	if err != nil {
		return nil
	}
	defer r.Close()
	if waiting, err := r.Approvals.Pending(); err == nil && cmd.Name() != "revoke" {
		for _, w := range waiting {
			values = append(values, w.ID+"\t"+w.Tool+" "+w.Summary)
		}
	}
	if rules, err := r.Approvals.Rules(); err == nil && cmd.Name() == "revoke" {
		for _, rule := range rules {
			values = append(values, rule.ID+"\t"+rule.String())
		}
	}
	return values
}

func workerValues(cmd *cobra.Command, _ []string) (values []cobra.Completion) {
	p, _ := completionFlags(cmd).open(opening{strict: true, otherwise: emptyProgram}) // other problems of the program do not matter here
	if p != nil {
		for _, w := range p.Workers {
			values = append(values, w.Name+"\t"+w.Description)
		}
	}
	return values
}

func profileValues(cmd *cobra.Command, _ []string) (values []cobra.Completion) {
	all, _ := agentUser().All() // without profiles there is nothing to complete
	for _, p := range all {
		values = append(values, p.Name)
	}
	here, _ := program.ReadProfiles(completionFlags(cmd).dir)
	for _, name := range here.Names() {
		if _, err := here.Profile(agentUser(), name); err == nil {
			values = append(values, name+"\tof this directory")
		}
	}
	return values
}

func completeDirs(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// toolsHere returns the tools of the program here, or all tools of golem if there is no
// program.
func toolsHere(cmd *cobra.Command) []tool.Tool {
	if p, err := completionFlags(cmd).open(opening{}); err == nil {
		if gate, err := p.Tools(""); err == nil {
			return offered(gate)
		}
	}
	return program.Tools()
}

func toolValues(cmd *cobra.Command, args []string) (values []cobra.Completion) {
	if len(args) > 0 {
		return nil
	}
	for _, t := range toolsHere(cmd) {
		if !t.Unlisted {
			values = append(values, t.Name+"\t"+firstSentence(t.Description))
		}
	}
	return values
}

// completeToolCall completes the name of a tool, and then its flags.
func completeToolCall(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	i := slices.IndexFunc(args, func(word string) bool { return !strings.HasPrefix(word, "-") })
	isFlag := strings.HasPrefix(typed, "-")
	switch {
	case i < 0 && !isFlag:
		return completing(toolValues)(cmd, nil, typed)
	case !isFlag:
		return nil, cobra.ShellCompDirectiveDefault
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.AddFlagSet(cmd.Flags())
	if i >= 0 {
		if t, err := toolNamed(toolsHere(cmd), args[i]); err == nil {
			newToolArgs(t).addTo(flags)
		}
	}
	return completing(func(*cobra.Command, []string) (values []cobra.Completion) {
		flags.VisitAll(func(f *pflag.Flag) {
			_, about := pflag.UnquoteUsage(f)
			values = append(values, "--"+f.Name+"\t"+about)
		})
		return values
	})(cmd, args, typed)
}

func commandValues(cmd *cobra.Command, args []string) (values []cobra.Completion) {
	about, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return nil
	}
	for _, c := range about.Commands() {
		if c.IsAvailableCommand() {
			values = append(values, c.Name()+"\t"+c.Short)
		}
	}
	return values
}
