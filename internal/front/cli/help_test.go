package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// eachCommand calls visit for every command that help lists.
func eachCommand(visit func(*cobra.Command)) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		visit(cmd)
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(rootWithHelp())
}

// rootWithHelp returns all commands. cobra adds the command help only when it executes one.
func rootWithHelp() *cobra.Command {
	root := newRoot(Fronts{})
	root.InitDefaultHelpCmd()
	return root
}

// TestExamples checks that every command has two or three examples.
func TestExamples(t *testing.T) {
	eachCommand(func(cmd *cobra.Command) {
		if n := len(strings.Split(strings.TrimSpace(cmd.Example), "\n")); n < 2 || n > 3 {
			t.Errorf("%s has %d examples, want 2 or 3", cmd.CommandPath(), n)
		}
	})
}

// TestAllFlags checks that help and help --all list every flag: the first those that people
// use every day, the second all of them, as the man page does.
func TestAllFlags(t *testing.T) {
	used := 0
	eachCommand(func(cmd *cobra.Command) {
		var all []string
		cmd.InitDefaultHelpFlag()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				all = append(all, f.Name)
			}
		})
		first, rest := chooseFlags(cmd)
		var got []string
		for _, row := range slices.Concat(first, rest) {
			got = append(got, row.name)
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(all))) {
			t.Errorf("%s: help and help --all have %q, want %q", cmd.CommandPath(), got, all)
		}
		if names, ok := everydayFlags[cmd.CommandPath()]; ok {
			used++
			if len(first) != len(strings.Fields(names)) {
				t.Errorf("%s: help lists %d flags, want %q", cmd.CommandPath(), len(first), names)
			}
		}
		short, long, page := helpOf(cmd), "", manPage(cmd, time.Time{})
		showAllFlags(cmd.Root())
		long = helpOf(cmd)
		cmd.Root().Annotations = nil
		for _, row := range slices.Concat(first, rest) {
			left := "--" + row.name
			if !strings.Contains(long, left) || !strings.Contains(page, roff(left)) || slices.Contains(first, row) && !strings.Contains(short, left) {
				t.Errorf("%s: %s is missing in help --all, in the man page, or in help", cmd.CommandPath(), left)
			}
		}
		if strings.Contains(short, "Global flags:") || !strings.Contains(short, cmd.CommandPath()+" --help --all") {
			t.Errorf("%s --help has global flags, or does not say how to see them:\n%s", cmd.CommandPath(), short)
		}
	})
	if used != len(everydayFlags) {
		t.Errorf("everydayFlags has %d commands, %d exist", len(everydayFlags), used)
	}
	for line, want := range map[string]bool{"exec --help --all": true, "sessions show -h --all": true, "--help --all": true, "status --all --help": true,
		"exec ls --help --all": false, "status --all": false, "exec -- --help --all": false} {
		if _, got := asksAll(newRoot(Fronts{}), strings.Fields(line)); got != want {
			t.Errorf("golem %s asks for all flags: got %v, want %v", line, got, want)
		}
	}
}

// helpOf returns the usage of a command.
func helpOf(cmd *cobra.Command) string {
	var b bytes.Buffer
	printUsageTo(&b, cmd)
	return b.String()
}

// TestGroups checks the groups of golem --help.
func TestGroups(t *testing.T) {
	root := rootWithHelp()
	for group, want := range map[string][]string{
		"run":     {"run", "eval", "exec", "intake", "ps", "attach", "ports", "mcp", "acp"},
		"review":  {"status", "diff", "apply", "discard", "pr", "undo", "review", "approve", "approvals", "comments", "desk"},
		"records": {"sessions", "audit", "doctor"},
		"more":    {"tool", "scan", "completion", "man", "version", "help"},
	} {
		var got []string
		for _, c := range commandsIn(root, group) {
			got = append(got, c.Name())
		}
		if !slices.Equal(got, want) {
			t.Errorf("group %s: got %v, want %v", group, got, want)
		}
	}
}

// TestSynonyms checks that no word has two meanings, that no word is a command of golem,
// and that every suggestion is a command line that parses.
func TestSynonyms(t *testing.T) {
	root := rootWithHelp()
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	seen := make(map[string]string)
	for command, words := range synonyms {
		c, rest, err := rootWithHelp().Find(strings.Fields(command))
		if err == nil {
			err = c.ParseFlags(rest)
		}
		if err != nil || !c.HasParent() {
			t.Errorf("golem %s: %v", command, err)
		}
		for _, word := range strings.Fields(words) {
			if seen[word] != "" || slices.Contains(names, word) {
				t.Errorf("%s means golem %s and golem %s", word, command, seen[word]+word)
			}
			seen[word] = command
		}
	}
	for word, want := range map[string]string{"rollback": "undo", "kill": "ps stop", "merge": "apply", "log": "audit show", "claude": "exec claude", "Push": "review", "resume": "run --resume last"} {
		if got := sameMeaning(word); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
}

// TestJSONForms checks that every command in the table of forms exists, and that the
// documentation has the same table.
func TestJSONForms(t *testing.T) {
	left := make(map[string]bool)
	docs, err := os.ReadFile("../../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range jsonForms {
		left[path] = true
		if row := "| `" + path + "` | " + text + " |"; !bytes.Contains(docs, []byte(row)) {
			t.Errorf("docs/ci.md has no row %s", row)
		}
	}
	eachCommand(func(cmd *cobra.Command) { delete(left, cmd.CommandPath()) })
	for path := range left {
		t.Errorf("there is no command %s", path)
	}
}

// TestReflow checks how help breaks paragraphs.
func TestReflow(t *testing.T) {
	const text = "One two three four five.\nSix.\n\n  kept   as it is\n\nSeven."
	if got, want := reflow(text, 12), "One two\nthree four\nfive. Six.\n\n  kept   as it is\n\nSeven."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := reflow(text, 0); got != text {
		t.Errorf("without columns: got %q", got)
	}
	if got := wrapWords("a verylongword b", 4); !slices.Equal(got, []string{"a", "verylongword", "b"}) {
		t.Errorf("got %q", got)
	}
}

// TestColor checks which setting decides about colours.
func TestColor(t *testing.T) {
	for _, c := range []struct {
		flag                  colorFlag
		no, force, term, want string
	}{
		{colorAuto, "", "", "xterm", "terminal"},
		{colorAuto, "", "", "dumb", "never"},
		{colorAuto, "1", "", "xterm", "never"},
		{colorAuto, "1", "1", "xterm", "never"},
		{colorAuto, "", "1", "dumb", "always"},
		{colorAuto, "", "0", "xterm", "terminal"},
		{colorAlways, "1", "", "dumb", "always"},
		{colorNever, "", "1", "xterm", "never"},
	} {
		t.Setenv("NO_COLOR", c.no)
		t.Setenv("CLICOLOR_FORCE", c.force)
		t.Setenv("CLICOLOR", "")
		t.Setenv("TERM", c.term)
		got := map[[2]bool]string{{false, false}: "never", {true, false}: "terminal", {true, true}: "always"}[[2]bool{c.flag.paints(true), c.flag.paints(false)}]
		if got != c.want && (colours || c.want != "terminal") {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

// TestMan checks the man pages with the programs of this machine that read them.
func TestMan(t *testing.T) {
	dir := t.TempDir()
	names, err := writeMan(dir, rootWithHelp(), time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 20 || names[0] != "golem.1" || !slices.Contains(names, "golem-sessions-show.1") {
		t.Fatalf("wrote %q", names)
	}
	page, err := os.ReadFile(filepath.Join(dir, "golem-run.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".TH GOLEM\\-RUN 1 2026-11-16 golem", ".SH SYNOPSIS\ngolem run [flags]", ".SH OPTIONS", `\fB\-\-resume\fR`, ".SH GLOBAL OPTIONS", ".SH EXAMPLES"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("golem-run.1 has no %q", want)
		}
	}
	checked := false
	for _, checker := range [][]string{{"mandoc", "-T", "lint", "-W", "warning"}, {"groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-z"}} {
		if _, err := exec.LookPath(checker[0]); err != nil {
			continue
		}
		checked = true
		for _, name := range names {
			out, err := exec.Command(checker[0], append(checker[1:], filepath.Join(dir, name))...).CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("%s %s: %v\n%s", checker[0], name, err, out)
			}
		}
	}
	t.Logf("checked by a program: %v", checked)
}

// TestRoff checks that no text of a page is a command of roff.
func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		".br": `\&.br`, "'quoted'": `\(aqquoted\(aq`, `C:\x`: `C:\ex`, "--all": `\-\-all`,
	} {
		if got := roffLine(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestWrapClauses checks that a message breaks between clauses first, so that a command
// stays on one line.
func TestWrapClauses(t *testing.T) {
	for _, test := range []struct {
		columns int
		text    string
		want    string
	}{
		{0, "golem: a; b", "golem: a; b"},
		{40, "golem: apply x: not found; golem diff --stat lists the changes", "golem: apply x: not found;\n  golem diff --stat lists the changes"},
		{80, "golem: short; it fits", "golem: short; it fits"},
		{20, "golem: a clause of many words", "golem: a clause\n  of many words"},
		{40, "golem: it is off; to allow it: golem exec --net +npm -- sh -c 'a; npm install x; b'", "golem: it is off; to allow it:\n  golem exec --net +npm -- sh -c 'a; npm install x; b'"},
		{60, "golem: the network was off; to allow it: golem exec --net +npm -- npm install", "golem: the network was off;\n  to allow it: golem exec --net +npm -- npm install"},
		{40, "golem: wait; a very long way of saying that golem diff --stat lists it; b", "golem: wait;\n  a very long way of saying that\n  golem diff --stat lists it; b"},
		{20, "golem: two\nlines of more than twenty characters", "golem: two\nlines of more than twenty characters"},
	} {
		if got := wrapClauses(test.text, test.columns); got != test.want {
			t.Errorf("%d columns: got %q, want %q", test.columns, got, test.want)
		}
	}
}
