package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/starter"
	"github.com/golem-forge/golem/sandbox"
)

// initFlags are the flags of golem init, and the answers to its questions.
type initFlags struct {
	kind, model string
	yes         bool
}

func addInitFlags(cmd *cobra.Command) *initFlags {
	f := &initFlags{}
	cmd.Flags().StringVar(&f.kind, "for", "", "what the program is for: documents, repository or tools")
	cmd.Flags().StringVar(&f.model, "model", "", "the model to write into the project file")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "take the defaults and ask nothing")
	return f
}

func (f *initFlags) options() starter.Options {
	return starter.Options{Kind: starter.Kind(f.kind), Model: f.model}
}

// An initAnswer is an answer to a question of golem init.
type initAnswer struct{ value, text string }

// kindChoices are the answers to the first question.
var kindChoices = []initAnswer{
	{string(starter.Documents), "a document pipeline: workers read /in and write to /out"},
	{string(starter.Repository), "an agent that works on this repository: its changes wait until you apply them"},
	{string(starter.Tools), "a library of tools for other agents"},
}

// modelChoices are the answers to the second question, and the variables that suggest
// them.
var modelChoices = []initAnswer{
	{"", "none yet: demo.yaml plays one, without a key"},
	{"anthropic:claude-sonnet-4-5", "Anthropic (ANTHROPIC_API_KEY)"},
	{"openai:gpt-5-mini", "OpenAI (OPENAI_API_KEY)"},
	{"ollama:qwen3", "Ollama on this machine"},
}

// complete asks for what the flags do not say. Without a terminal of this user it takes the defaults.
// It asks nothing if no program can be made in dir.
func (f *initFlags) complete(cmd *cobra.Command, dir string) error {
	if f.model != "" {
		if err := checkModel(f.model); err != nil {
			return err
		}
	}
	if f.kind != "" && !slices.Contains(starter.Kinds(), starter.Kind(f.kind)) {
		return usagef("--for %s: it is documents, repository or tools", sandbox.Shown(f.kind))
	}
	suggestedKind := starter.DefaultKind(dir)
	defer func() { f.kind = cmp.Or(f.kind, string(suggestedKind)) }()
	terminal := findTerminal(false)
	if f.yes || wantsJSON(cmd) || terminal == nil || f.kind != "" && cmd.Flags().Changed("model") {
		return nil
	}
	if err := starter.Check(dir, f.options()); err != nil {
		return err
	}
	asker := newAsker(terminal, cmd.ErrOrStderr(), patience)
	asker.settle = 0 // the answers permit nothing
	if f.kind == "" {
		n, err := asker.chooseOne(cmd.Context(), "What is this program for?", kindChoices,
			slices.IndexFunc(kindChoices, func(c initAnswer) bool { return c.value == string(suggestedKind) }))
		if errors.Is(err, errForeign) {
			return nil // as without a terminal
		}
		if err != nil {
			return errInit(cmd, err)
		}
		f.kind = kindChoices[n].value
	}
	if cmd.Flags().Changed("model") {
		return nil
	}
	suggested := 0
	switch {
	case os.Getenv("ANTHROPIC_API_KEY") != "":
		suggested = 1
	case os.Getenv("OPENAI_API_KEY") != "":
		suggested = 2
	}
	n, err := asker.chooseOne(cmd.Context(), "Which model does it use?", modelChoices, suggested)
	if errors.Is(err, errForeign) {
		return nil
	}
	if err != nil {
		return errInit(cmd, err)
	}
	f.model = modelChoices[n].value
	return nil
}

// errInit returns the exit code of golem init if a question has no answer.
func errInit(cmd *cobra.Command, err error) error {
	if errors.Is(err, errClosed) {
		err = errEnd
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "golem: %v; nothing was made; %s takes the defaults\n", err, visible.CommandLine(append([]string{"golem", "init", "--yes"}, cmd.Flags().Args()...)...))
	return exit(exitDenied)
}

// chooseOne asks the user to choose one of several answers. An empty line chooses the suggested answer.
func (a *asker) chooseOne(ctx context.Context, what string, choices []initAnswer, suggested int) (int, error) {
	q, done, err := a.open(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	q.options = func() []string {
		return []string{fmt.Sprintf("[1-%d]", len(choices)), fmt.Sprintf("[Enter] %d", suggested+1), "[Ctrl-C] stop", "[?]"}
	}
	q.redraw = func() {
		q.show([]row{{Mark: visible.Header, Text: what}})
		for i, c := range choices {
			q.show([]row{{Mark: detail, Text: visible.Line(fmt.Sprintf("[%d] %s", i+1, c.text), math.MaxInt)}})
		}
		q.showKeys(q.options()...)
	}
	q.begin()
	for range maxTypos {
		text, err := q.read()
		number, bad := strconv.Atoi(text)
		byName := slices.IndexFunc(choices, func(c initAnswer) bool { return c.value != "" && strings.EqualFold(c.value, text) })
		switch {
		case err != nil && !errors.Is(err, errTypo):
			return 0, err
		case err == nil && text == "":
			return suggested, nil
		case err == nil && byName >= 0:
			return byName, nil
		case err == nil && bad == nil && number >= 1 && number <= len(choices):
			return number - 1, nil
		case err == nil && text == "?":
			q.show(help([]key{{fmt.Sprintf("1 to %d", len(choices)), "choose this answer"}, {"Enter", fmt.Sprintf("choose answer %d", suggested+1)}, {"Ctrl-C, Ctrl-D", "stop; golem makes nothing"}}))
			q.typo("")
			continue
		}
		q.typo(fmt.Sprintf("please answer a number from 1 to %d, Enter or ? (help)", len(choices)))
	}
	return 0, errLate
}

// printInit prints what golem init made, and what to do next.
func printInit(w io.Writer, dir string, o starter.Options, made []string) {
	where := "made"
	if dir != "." {
		where = "made " + sandbox.Shown(dir) + ":"
	}
	text := where + " " + strings.Join(made, ", ")
	if columns, _ := newScreen(w).size(); columns > 0 {
		text = strings.Join(wrapWords(text, columns-len("  ")), "\n  ")
	}
	fmt.Fprintln(w, text)
	about, next := "/     copy-on-write: your files change only when you apply changes\n  /in   read-only\n  /out  asks before a write", `golem run . "Summarise the papers"`
	switch o.Kind {
	case starter.Repository:
		about, next = "/     copy-on-write: your files change only when you apply changes", `golem run . "Say what this repository is about"`
	case starter.Tools:
		about, next = "/in   read-only, for the tools", "golem tool count_words --path /in/paper.txt"
	}
	note := ""
	if o.Model == "" && o.Kind != starter.Tools {
		next += " --model scripted:demo.yaml"
		note = "      demo.yaml plays the model, without a key; golem help run lists real models\n"
	}
	if dir != "." {
		next = "cd " + visible.CommandLine(dir) + " && " + next
	}
	fmt.Fprintf(w, "  %s\nnext: %s\n%s", about, next, note)
}
