package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelp checks that every command has a short text and examples, and that every
// example parses.
func TestHelp(t *testing.T) {
	var visit func(cmd *cobra.Command)
	seen := 0
	visit = func(cmd *cobra.Command) {
		seen++
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short text %q", cmd.CommandPath(), cmd.Short)
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(line, " | ") // the rest is another program
			line, _, _ = strings.Cut(line, " > ") // the rest is for the shell
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "golem" {
				t.Errorf("%s: example %q", cmd.CommandPath(), line)
				continue
			}
			c, rest, err := newRoot(Fronts{}).Find(words[1:])
			if err == nil {
				err = c.ParseFlags(rest)
			}
			if err == nil && c.Args != nil {
				err = c.Args(c, c.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: example %q: %v", cmd.CommandPath(), line, err)
			}
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(newRoot(Fronts{}))
	if seen < 4 {
		t.Errorf("found %d commands: the test checks nothing", seen)
	}
}

// TestSubcommands checks that a command has its listed name, and that golem creates only
// this command for it.
func TestSubcommands(t *testing.T) {
	for _, c := range subcommands(Fronts{}) {
		if got := c.make().Name(); got != c.name {
			t.Errorf("%s makes %s", c.name, got)
		}
		made := newRoot(Fronts{}, c.name, "--json").Commands()
		if len(made) != 1 || made[0].Name() != c.name {
			t.Errorf("golem %s makes %d commands", c.name, len(made))
		}
	}
	if one, all := newRoot(Fronts{}, "unknown"), newRoot(Fronts{}); len(one.Commands()) != len(all.Commands()) {
		t.Errorf("an unknown command is compared with %d commands, want %d", len(one.Commands()), len(all.Commands()))
	}
}

// TestPlainOutput checks that both streams get plain text, whatever the arguments are.
func TestPlainOutput(t *testing.T) {
	for _, args := range [][]string{
		{"\x1b[2J"}, {"--\x1b[2J"}, {"explain", "/\x1b[2J"}, {"explain", "/x", "--op", "\x1b[2J"}, {"help", "\x1b[2J"},
		{"explain", "/x", "--root", "\x1b[2J"}, {"explain", "/\x1b[2J", "--json"}, {"explain", "/x", "-\x1b"}, {"version", "\x1b"}, {"--json=\x1b", "version"},
		{"completion", "\x1b"}, {"explain", "/x", "--=\x1b"},
	} {
		var out, errs bytes.Buffer
		if code := runArgs(args, &out, &errs, Fronts{}); code == exitDone {
			t.Errorf("golem %q: exit code 0", args)
		}
		if out.Len()+errs.Len() == 0 || bytes.ContainsRune(out.Bytes(), '\x1b') || bytes.ContainsRune(errs.Bytes(), '\x1b') {
			t.Errorf("golem %q: got %q, %q", args, out.String(), errs.String())
		}
	}
}

func TestDidYouMean(t *testing.T) {
	words := []string{"doctor", "explain", "version"}
	for _, test := range []struct{ word, want string }{
		{"exlpain", "did you mean explain?"},
		{"exp", "did you mean explain?"},
		{"doktor", "did you mean doctor?"},
		{"x", "there is doctor, explain, version"},
		{"versoin", "did you mean version?"},
		{"", "there is doctor, explain, version"},
		{"nothing", "there is doctor, explain, version"},
		{strings.Repeat("explain", 10), "there is doctor, explain, version"},
	} {
		if got := didYouMean(test.word, "", words); got != test.want {
			t.Errorf("didYouMean(%q): got %q, want %q", test.word, got, test.want)
		}
	}
}
