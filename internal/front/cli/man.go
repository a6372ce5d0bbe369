package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/people/visible"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages to a directory",
		Long: `Write a manual page for golem and for each command to DIR, which golem makes if it does
not exist. The pages have the same text as --help.`,
		Example: "  golem man ~/.local/share/man/man1\n  golem man build/man",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usageError("man takes one directory: golem man ~/.local/share/man/man1")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := newRoot(Fronts{}) // this process made only the command man
			root.InitDefaultHelpCmd()
			names, err := writeMan(args[0], root, manDate())
			if err != nil {
				return err
			}
			return printLineOr(cmd, map[string]any{"dir": args[0], "pages": names}, "wrote %d pages to %s; man -l %s shows the first", len(names), visible.CommandLine(args[0]), visible.CommandLine(filepath.Join(args[0], names[0])))
		},
	}
}

// manDate returns the day of the commit that golem was built from, or today.
func manDate() time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return time.Now()
	}
	for _, s := range info.Settings {
		if t, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
			return t
		}
	}
	return time.Now()
}

// writeMan writes a page for each command into a directory, and returns the names of the
// files.
func writeMan(dir string, root *cobra.Command, date time.Time) ([]string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	var names []string
	var write func(cmd *cobra.Command) error
	write = func(cmd *cobra.Command) error {
		name := pageName(cmd) + ".1"
		if err := durable.WriteFile(filepath.Join(dir, name), []byte(manPage(cmd, date)), 0o644); err != nil {
			return err
		}
		names = append(names, name)
		for _, c := range cmd.Commands() {
			if c.Hidden {
				continue
			}
			if err := write(c); err != nil {
				return err
			}
		}
		return nil
	}
	return names, write(root)
}

// pageName returns the name of the page of a command: golem-sessions-show.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// A manText is a page in the language of man pages.
type manText struct{ strings.Builder }

// manPage returns the page of a command.
func manPage(cmd *cobra.Command, date time.Time) string {
	var m manText
	fmt.Fprintf(&m, ".TH %s 1 %s golem \"Golem Forge\"\n", strings.ToUpper(roff(pageName(cmd))), date.UTC().Format(time.DateOnly))
	m.section("NAME")
	m.line(roff(pageName(cmd)) + ` \- ` + roff(strings.ToLower(cmd.Short[:1])+cmd.Short[1:]))
	m.section("SYNOPSIS")
	if cmd.HasParent() && cmd.Runnable() {
		m.line(roff(useLine(cmd)))
	}
	if cmd.HasAvailableSubCommands() {
		if cmd.HasParent() && cmd.Runnable() {
			m.line(".br")
		}
		m.line(roff(cmd.CommandPath()) + ` \fICOMMAND\fR`)
	}
	m.section("DESCRIPTION")
	m.paragraphs(cmp.Or(cmd.Long, cmd.Short+"."))
	m.commands(cmd)
	own, shared := splitFlags(cmd)
	m.flags("OPTIONS", own)
	m.flags("GLOBAL OPTIONS", shared)
	if !cmd.HasParent() {
		m.section("ENVIRONMENT")
		for _, v := range variables {
			m.entry(`\fB`+roff(v.name)+`\fR`, v.about)
		}
	}
	m.section("EXAMPLES")
	m.line(".nf")
	for line := range strings.Lines(cmd.Example) {
		m.line(roffLine(strings.TrimSpace(line)))
	}
	m.line(".fi")
	m.seeAlso(cmd)
	return m.String()
}

// variables are the environment variables that every command knows.
var variables = []struct{ name, about string }{
	{"GOLEM_STATE", "the directory of golem's state"},
	{"GOLEM_MODEL", "the model, such as anthropic:… or scripted:FILE"},
	{"GOLEM_APPROVAL", "the approval mode: interactive, approve_all or auto_deny"},
	{"GOLEM_SESSION", "the session to work in"},
	{"GOLEM_PAGER, PAGER", "the program that shows long output; cat or an empty value shows it at once"},
	{"VISUAL, EDITOR", "the program that edits text"},
	{"NO_COLOR", "if it has a value, golem prints no colours"},
	{"CLICOLOR_FORCE", "if it has a value other than 0, golem prints colours also to files and pipes"},
}

func (m *manText) line(text string) { m.WriteString(text + "\n") }

func (m *manText) section(title string) { m.line(".SH " + title) }

// entry adds an entry of a list.
func (m *manText) entry(title, about string) {
	m.line(".TP\n" + title)
	m.line(roffLine(about))
}

// paragraphs adds the paragraphs of a help text. Indented lines stay as they are.
func (m *manText) paragraphs(text string) {
	verbatim, begun := false, true // a section begins a paragraph
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		indented := strings.HasPrefix(line, " ")
		switch {
		case verbatim && !indented:
			m.line(".fi")
			verbatim = false
		case indented && !verbatim:
			m.line(".PP\n.nf")
			verbatim, begun = true, true
		}
		switch {
		case strings.TrimSpace(line) == "":
			begun = false
			continue
		case !begun:
			m.line(".PP")
		}
		begun = true
		m.line(roffLine(line))
	}
	if verbatim {
		m.line(".fi")
	}
}

// commands adds the list of subcommands.
func (m *manText) commands(cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	m.section("COMMANDS")
	list := func(all []*cobra.Command) {
		for _, c := range all {
			if !c.Hidden {
				m.entry(`\fB`+roff(c.Name())+`\fR`, c.Short)
			}
		}
	}
	if cmd.HasParent() {
		list(cmd.Commands())
		return
	}
	for _, g := range cmd.Groups() {
		m.line(".SS " + g.Title)
		list(commandsIn(cmd, g.ID))
	}
}

func (m *manText) flags(title string, rows []flagRow) {
	if len(rows) == 0 {
		return
	}
	m.section(title)
	for _, r := range rows {
		text := `\fB` + roff("--"+r.name) + `\fR`
		if r.short != "" {
			text = `\fB` + roff("-"+r.short) + `\fR, ` + text
		}
		if r.value != "" {
			text += ` \fI` + roff(r.value) + `\fR`
		}
		m.entry(text, r.text)
	}
}

// seeAlso adds the pages of the command above and of the commands below.
func (m *manText) seeAlso(cmd *cobra.Command) {
	var pages []string
	if cmd.HasParent() {
		pages = append(pages, pageName(cmd.Parent()))
	}
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			pages = append(pages, pageName(c))
		}
	}
	m.section("SEE ALSO")
	for i, page := range pages {
		comma := ","
		if i == len(pages)-1 {
			comma = ""
		}
		m.line(`\fB` + roff(page) + `\fR(1)` + comma)
	}
}

// roff escapes a text for a man page.
func roff(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`, "'", `\(aq`).Replace(text)
}

// roffLine escapes a whole line, which must not begin like a command of roff.
func roffLine(line string) string {
	line = roff(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line
}
