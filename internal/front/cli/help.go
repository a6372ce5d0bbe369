package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/golem-forge/golem/sandbox"
)

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Explain a command",
		Example: "  golem help apply\n  golem help sessions show",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError(noCommand(cmd.Root(), strings.Join(args, " ")))
			}
			return about.Help()
		},
	}
}

// sharedFlag marks a flag that many commands have. Help lists it below the command's own
// flags.
const sharedFlag = "shared"

// markShared marks flags as shared.
func markShared(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flags.SetAnnotation(name, sharedFlag, []string{"true"}) // this fails only for an unknown flag
	}
}

// printUsage prints the usage of a command: its subcommands, its own flags, the shared
// flags, and examples.
func printUsage(cmd *cobra.Command) error {
	out := cmd.OutOrStderr()
	fmt.Fprintln(out, "Usage:")
	if cmd.Runnable() {
		fmt.Fprintln(out, "  "+useLine(cmd))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(out, "  %s COMMAND\n", cmd.CommandPath())
	}
	printCommands(out, cmd)
	own, shared := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !cmd.HasParent() || f.Name == "help" || f.Annotations[sharedFlag] != nil || cmd.InheritedFlags().Lookup(f.Name) != nil {
			shared.AddFlag(f)
		} else {
			own.AddFlag(f)
		}
	})
	if text := own.FlagUsages(); text != "" {
		fmt.Fprint(out, "\nFlags:\n"+text)
	}
	if text := shared.FlagUsages(); text != "" {
		fmt.Fprint(out, "\nGlobal flags:\n"+text)
	}
	if cmd.Example != "" {
		fmt.Fprint(out, "\nExamples:\n"+strings.TrimRight(cmd.Example, "\n")+"\n")
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(out, "\n%s COMMAND --help explains a command.\n", cmd.CommandPath())
	}
	return nil
}

// useLine returns the command line of a command, with the flags before the arguments.
func useLine(cmd *cobra.Command) string {
	name, args, _ := strings.Cut(cmd.Use, " ")
	line := strings.TrimSuffix(cmd.CommandPath(), name) + name
	if !strings.Contains(args, "flag") {
		line += " [flags]"
	}
	return strings.TrimSpace(line + " " + args)
}

// printCommands lists the subcommands of a command. For the root it groups them.
func printCommands(w io.Writer, cmd *cobra.Command) {
	listed := make(map[string]bool)
	if !cmd.HasParent() {
		for _, group := range cmd.Groups() {
			fmt.Fprintf(w, "\n%s:\n", group.Title)
			for _, c := range subcommands(nil) {
				if made, _, err := cmd.Find([]string{c.name}); err == nil && c.group == group.ID && made.HasParent() {
					listCommand(w, made, listed)
				}
			}
			for _, c := range cmd.Commands() {
				if c.GroupID == group.ID && !listed[c.Name()] {
					listCommand(w, c, listed)
				}
			}
		}
		return
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(w, "\nCommands:\n")
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			listCommand(w, c, listed)
		}
	}
}

func listCommand(w io.Writer, cmd *cobra.Command, listed map[string]bool) {
	listed[cmd.Name()] = true
	fmt.Fprintf(w, "  %-10s %s\n", cmd.Name(), cmd.Short)
}

// sameMeaning maps command names of other programs to commands of golem.
var sameMeaning = map[string]string{
	"rollback": "undo", "revert": "undo", "restore": "undo", "ps": "sessions", "ls": "sessions", "list": "sessions", "sesssion": "sessions",
	"merge": "apply", "accept": "apply", "commit": "apply", "pull": "apply", "land": "apply", "reset": "discard", "clean": "discard", "drop": "discard", "rm": "discard",
	"show": "diff", "log": "audit show", "journal": "audit show", "history": "audit show", "start": "run", "shell": "exec bash", "sandbox": "exec", "new": "init", "create": "init",
	"validate": "lint", "check": "lint", "serve": "mcp", "pending": "approvals", "allow": "approve", "yes": "approve", "settings": "config", "agents": "workers",
}

// unknownCommand returns the name in cobra's error about an unknown command.
func unknownCommand(err error) (string, bool) {
	quoted, ok := strings.CutPrefix(err.Error(), "unknown command ")
	if !ok {
		return "", false
	}
	quoted, bad := strconv.QuotedPrefix(quoted)
	name, worse := strconv.Unquote(quoted)
	return name, bad == nil && worse == nil
}

func noCommand(root *cobra.Command, name string) string {
	text := "unknown command " + sandbox.Shown(name) + "; "
	if other := sameMeaning[name]; other != "" {
		return text + "did you mean golem " + other + "?"
	}
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := nearest(name, names); near != "" {
		return text + "did you mean golem " + near + "?"
	}
	return text + "golem --help lists the commands"
}
