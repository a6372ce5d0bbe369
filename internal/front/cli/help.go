package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newHelp() *cobra.Command {
	all := false
	help := &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Explain a command",
		Example: "  golem help apply\n  golem help sessions show",

		ValidArgsFunction: completing(commandValues),
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError(noCommand(cmd.Root(), strings.Join(args, " ")))
			}
			if all {
				showAllFlags(cmd.Root())
			}
			return about.Help()
		},
	}
	help.Flags().BoolVar(&all, "all", false, "list all flags, also those that few people need")
	return help
}

// everydayFlags are the flags that the help of a command lists, if it has many. --help --all
// lists all of them, and so do the man pages. The help of other commands lists all
// that are not shared.
var everydayFlags = map[string]string{
	"golem exec":    "budget continue detach env mount net root session",
	"golem run":     "attach continue file model net resume session",
	"golem mcp":     "http mount root",
	"golem acp":     "budget env model mount name net root session",
	"golem apply":   "branch commits hunks overwrite patch session yes",
	"golem diff":    "commits interactive session stat",
	"golem status":  "all interactive",
	"golem approve": "all no reason",
}

// allFlags marks the root command if help lists all flags.
const allFlags = "all flags"

// showAllFlags makes help list all flags.
func showAllFlags(root *cobra.Command) { root.Annotations = map[string]string{allFlags: "true"} }

// asksAll reports whether arguments end with --help --all after the words of a command, and
// returns them without --all.
func asksAll(root *cobra.Command, args []string) ([]string, bool) {
	n := len(args) - 2
	if n < 0 || !slices.Contains(args[n:], "--all") || !slices.ContainsFunc(args[n:], func(a string) bool { return a == "--help" || a == "-h" }) {
		return args, false
	}
	if _, rest, err := root.Find(args[:n]); err != nil || len(rest) > 0 { // such as the arguments of a program
		return args, false
	}
	return append(slices.Clone(args[:n]), "--help"), true
}

// chooseFlags returns the flags that help lists, and those that only --help --all lists.
func chooseFlags(cmd *cobra.Command) (first, rest []flagRow) {
	own, shared := splitFlags(cmd)
	names, some := everydayFlags[cmd.CommandPath()]
	for _, row := range own {
		if !some || slices.Contains(strings.Fields(names), row.name) {
			first = append(first, row)
		} else {
			rest = append(rest, row)
		}
	}
	return first, append(rest, shared...)
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

// printHelp prints the description of a command and its usage.
func printHelp(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	columns, _ := newScreen(out).size()
	fmt.Fprintln(out, reflow(strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)), columns)+"\n")
	printUsageTo(out, cmd)
}

// printUsage prints the usage of a command.
func printUsage(cmd *cobra.Command) error {
	printUsageTo(cmd.OutOrStderr(), cmd)
	return nil
}

// printUsageTo prints the usage of a command: its subcommands, its everyday flags or all, and
// examples.
func printUsageTo(out io.Writer, cmd *cobra.Command) {
	fmt.Fprintln(out, "Usage:")
	if cmd.Runnable() && cmd.HasParent() {
		fmt.Fprintln(out, "  "+useLine(cmd))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(out, "  %s COMMAND\n", cmd.CommandPath())
	}
	printCommands(out, cmd)
	all := cmd.Root().Annotations[allFlags] != ""
	own, rest := chooseFlags(cmd)
	if all {
		own, rest = splitFlags(cmd)
	}
	if len(own) > 0 {
		fmt.Fprint(out, "\nFlags:\n")
		printFlags(out, own)
	}
	if all && len(rest) > 0 {
		fmt.Fprint(out, "\nGlobal flags:\n")
		printFlags(out, rest)
	}
	if cmd.Example != "" {
		fmt.Fprint(out, "\nExamples:\n"+strings.TrimRight(cmd.Example, "\n")+"\n")
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(out, "\n%s COMMAND --help explains a command.\n", cmd.CommandPath())
	}
	if !all {
		fmt.Fprintf(out, "\n%s --help --all lists all flags, %d more.\n", cmd.CommandPath(), len(rest))
	}
}

// splitFlags returns the flags of a command itself and those that it shares with others,
// as rows of help.
func splitFlags(cmd *cobra.Command) (own, shared []flagRow) {
	cmd.InitDefaultHelpFlag()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		row := newFlagRow(f)
		switch {
		case f.Hidden:
		case f.Name == "json" && cmd.HasParent():
			row.text = jsonForm(cmd)
			shared = append(shared, row)
		case !cmd.HasParent() || f.Name == "help" || f.Annotations[sharedFlag] != nil || cmd.InheritedFlags().Lookup(f.Name) != nil:
			shared = append(shared, row)
		default:
			own = append(own, row)
		}
	})
	return own, shared
}

// A flagRow is a flag as help and man pages show it.
type flagRow struct {
	short, name string // "" or "C", "program"
	value       string // the kind of value, "" for a flag without one
	text        string
}

func newFlagRow(f *pflag.Flag) flagRow {
	value, text := pflag.UnquoteUsage(f)
	switch value {
	case "stringArray", "strings":
		value = "string"
	}
	if zero := []string{"", "false", "0", "0s", "[]"}; !slices.Contains(zero, f.DefValue) {
		def := f.DefValue
		if f.Value.Type() == "string" {
			def = strconv.Quote(def)
		}
		text += " (default " + def + ")"
	}
	return flagRow{f.Shorthand, f.Name, value, text}
}

// left returns the flag as the user types it.
func (r flagRow) left() string {
	text := "    --" + r.name
	if r.short != "" {
		text = "-" + r.short + ", --" + r.name
	}
	if r.value != "" {
		text += " " + r.value
	}
	return text
}

// maxLeft is the widest column of flags. The text of a wider flag begins on its own line.
const maxLeft = 30

// narrow is the number of columns below which help uses lists instead of columns.
const narrow = 60

// printFlags prints flags in two columns. On a narrow terminal each text has its own line.
func printFlags(w io.Writer, rows []flagRow) {
	columns, _ := newScreen(w).size()
	width := 0
	for _, r := range rows {
		if n := utf8.RuneCountInString(r.left()); n <= maxLeft {
			width = max(width, n)
		}
	}
	indent := 2 + width + 3
	if columns > 0 && columns < narrow {
		indent = 6
	}
	for _, r := range rows {
		line := "  " + r.left()
		var lines []string
		if columns == 0 {
			lines = []string{r.text}
		} else {
			lines = wrapWords(r.text, columns-indent-1)
		}
		if n := utf8.RuneCountInString(line); n+2 > indent {
			fmt.Fprintln(w, line)
			line = strings.Repeat(" ", indent)
		} else {
			line += strings.Repeat(" ", indent-n)
		}
		for _, text := range lines {
			fmt.Fprintln(w, strings.TrimRight(line+text, " "))
			line = strings.Repeat(" ", indent)
		}
	}
}

// wrapWords breaks a text into lines of at most columns characters, between words.
func wrapWords(text string, columns int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) > columns:
			lines = append(lines, word)
		default:
			*last += " " + word
		}
	}
	return lines
}

// wrapClauses breaks a message of one line for a terminal: first between clauses, then between
// words. It does not break a command, so that the user can copy it: one behind a colon that does
// not fit continues over the edge of the terminal.
func wrapClauses(text string, columns int) string {
	if columns == 0 || utf8.RuneCountInString(text) <= columns || strings.Contains(text, "\n") {
		return text
	}
	const indent = "  "
	var lines []string
	add := func(list ...string) {
		for _, line := range list {
			if len(lines) > 0 {
				line = indent + line
			}
			lines = append(lines, line+" ")
		}
	}
	room := columns - len(indent) - 1
	for _, clause := range splitClauses(text) {
		if n := len(lines); n > 0 && utf8.RuneCountInString(lines[n-1]+clause) < columns {
			lines[n-1] += clause
			continue
		}
		before, command, after := cutCommand(clause)
		switch {
		case command == "" || utf8.RuneCountInString(clause) <= room || !after && utf8.RuneCountInString(command) > room:
			add(wrapWords(clause, room)...)
		default:
			if n := len(lines); n > 0 && utf8.RuneCountInString(lines[n-1]+before) < columns {
				lines[n-1] += before
			} else if before != "" {
				add(wrapWords(before, room)...)
			}
			add(strings.TrimSpace(command))
		}
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// splitClauses splits a message behind each "; " that is not in quotes of a command.
func splitClauses(text string) (list []string) {
	clause := ""
	for part := range strings.SplitAfterSeq(text, "; ") {
		clause += part
		if _, command, after := cutCommand(clause); after && strings.Count(command, "'")%2 == 1 {
			continue
		}
		list, clause = append(list, clause), ""
	}
	if clause != "" {
		list = append(list, clause)
	}
	return list
}

// cutCommand splits a clause before a command of golem, which is "" if there is none. After says
// that it stands behind a colon, so that nothing but the command follows.
func cutCommand(clause string) (before, command string, after bool) {
	if i := strings.Index(clause, ": golem "); i >= 0 {
		return clause[:i+1], clause[i+2:], true
	}
	if i := strings.LastIndex(clause, " golem "); i >= 0 {
		return clause[:i], clause[i+1:], false
	}
	if strings.HasPrefix(clause, "golem ") {
		return "", clause, false
	}
	return clause, "", false
}

// wrapFirst breaks the first line of a message as wrapClauses does. The other lines are
// contents.
func wrapFirst(text string, columns int) string {
	first, contents, more := strings.Cut(text, "\n")
	if first = wrapClauses(first, columns); !more {
		return first
	}
	return first + "\n" + contents
}

// reflow breaks the paragraphs of a text for a terminal. It keeps indented lines. Without
// columns it changes nothing.
func reflow(text string, columns int) string {
	if columns == 0 {
		return text
	}
	var lines []string
	paragraph := ""
	end := func() {
		if paragraph != "" {
			lines = append(lines, wrapWords(paragraph, min(columns-1, 90))...)
			paragraph = ""
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, " ") {
			end()
			lines = append(lines, line)
			continue
		}
		paragraph += " " + line
	}
	end()
	return strings.Join(lines, "\n")
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
	if !cmd.HasParent() {
		for _, group := range cmd.Groups() {
			fmt.Fprintf(w, "\n%s:\n", group.Title)
			for _, c := range commandsIn(cmd, group.ID) {
				listCommand(w, c)
			}
		}
		return
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(w, "\nCommands:\n")
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			listCommand(w, c)
		}
	}
}

// commandsIn returns the commands of a group, in the order of the table.
func commandsIn(root *cobra.Command, group string) []*cobra.Command {
	var list []*cobra.Command
	for _, c := range subcommands(Fronts{}) {
		if made, _, err := root.Find([]string{c.name}); err == nil && c.group == group && made.HasParent() {
			list = append(list, made)
		}
	}
	for _, c := range root.Commands() { // help, which is not in the table
		if c.GroupID == group && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}

func listCommand(w io.Writer, cmd *cobra.Command) {
	fmt.Fprintf(w, "  %-10s %s\n", cmd.Name(), cmd.Short)
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

// noCommand describes an unknown command, and suggests one by its meaning or by its
// spelling.
func noCommand(root *cobra.Command, name string) string {
	text := "unknown command " + sandbox.Shown(name) + "; "
	if hint := commandHints[name]; hint != "" {
		return text + hint
	}
	if other := sameMeaning(name); other != "" {
		return text + "did you mean golem " + other + "?"
	}
	names := []string{"help"}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := nearest(name, names); near != "" {
		return text + "did you mean golem " + near + "?"
	}
	if other := nearMeaning(name); other != "" {
		return text + "did you mean golem " + other + "?"
	}
	return text + "golem --help lists the commands"
}

// jsonForms describes what --json prints, for the commands that do not print one document.
var jsonForms = map[string]string{
	"golem run":             "print JSON Lines: one object per event, the result last",
	"golem mcp":             "refused: standard output carries the MCP protocol",
	"golem acp":             "with --profile-help: print one JSON document; otherwise refused, because standard output carries the protocol",
	"golem exec":            "with --profile-help: print one JSON document; otherwise refused, because standard output belongs to the command",
	"golem audit export":    "no effect: the records are JSON Lines already",
	"golem sessions export": "no effect: the export is JSON Lines already",
	"golem completion":      "no effect: the output is a script",
	"golem man":             "print one JSON document with the names of the pages",
	"golem help":            "no effect",
}

// jsonForm returns the help text of --json for a command.
func jsonForm(cmd *cobra.Command) string {
	if text := jsonForms[cmd.CommandPath()]; text != "" {
		return text
	}
	return "print one JSON document"
}
