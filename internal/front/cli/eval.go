package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/evaluation"
	"github.com/golem-forge/golem/internal/work/model/prices"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// evalFlags are the flags of golem eval.
type evalFlags struct {
	*programFlags
	model string
	jobs  int
	keep  bool
	copy  bool
}

// defaultJobs is how many cases golem runs at a time. They mostly wait for the model.
const defaultJobs = 4

func newEval() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval [FILE [CASE…]]",
		Short: "Run the cases of a program, and compare with what you expect",
		Long: `Run the cases of FILE: inputs of a program with the answers and changes that you expect.
FILE is eval.yaml in this directory if you name none. In a directory FILE it is eval.yaml.
CASE chooses cases by their names.

Each case is a run in its own session, with an overlay over every directory that the
program may write to. So a case changes none of your files, and no case sees the changes of
another. golem asks nobody: it approves the calls that the case approves, and declines
others that need approval. golem removes the sessions. --keep keeps those of failed cases,
for golem diff --session ID and golem sessions show ID.

Ctrl-C stops the cases after their current calls, and golem prints what is known.

Exit code 0: all cases passed; 1: a case failed; 2: wrong arguments or cases; 3: the program
is not trusted; 130: stopped.`,
		Example: `  golem eval
  golem eval cases.yaml --model ollama:qwen3 --jobs 2
  golem eval cases.yaml adds-a-note --keep`,
	}
	f := &evalFlags{programFlags: addProgramFlags(cmd)}
	cmd.Flags().StringVar(&f.model, "model", "", "the model of all cases, instead of the one that FILE names")
	cmd.Flags().IntVarP(&f.jobs, "jobs", "j", defaultJobs, "how many cases run at a time")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "keep the sessions of failed cases")
	cmd.Flags().BoolVar(&f.copy, "copy", false, "work on copies of directories instead of overlays (GOLEM_COPY)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, cases, err := f.read(args)
		if err != nil {
			return err
		}
		return f.run(cmd, file, cases)
	}
	return cmd
}

// read reads the file with cases that the arguments name, and chooses the cases.
func (f *evalFlags) read(args []string) (*evaluation.File, []evaluation.Case, error) {
	switch {
	case f.jobs < 1:
		return nil, nil, usagef("--jobs %d: it is a whole number above 0", f.jobs)
	case f.approval != "":
		return nil, nil, usageError("--approval: the cases say what they approve; write approve: [TOOL] in the file")
	}
	name := evaluation.DefaultName
	if len(args) > 0 {
		name = args[0]
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, evaluation.DefaultName)
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) && len(args) == 0 {
		return nil, nil, usagef("no %s here; name a file with cases: golem eval FILE; docs/eval.md describes it, golem schema eval prints its keys", evaluation.DefaultName)
	}
	if err != nil {
		return nil, nil, usagef("eval %s: %v; name a file with cases", sandbox.Shown(name), errors.Unwrap(err))
	}
	if len(data) > strictyaml.MaxFile {
		return nil, nil, usagef("eval %s: it has more than %d bytes; split it", sandbox.Shown(name), strictyaml.MaxFile)
	}
	dir, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return nil, nil, err
	}
	file, err := evaluation.Parse(name, dir, data)
	if err != nil {
		return nil, nil, err
	}
	cases, err := file.Choose(args[min(len(args), 1):])
	if err != nil {
		return nil, nil, usageError(err.Error())
	}
	return file, cases, nil
}

// run runs cases.
func (f *evalFlags) run(cmd *cobra.Command, file *evaluation.File, cases []evaluation.Case) error {
	if f.dir == "." {
		f.dir = shortDir(file.Program)
	}
	p, err := f.program()
	if err != nil {
		return err
	}
	if p.Content.Hash == "" {
		return noProgram(p)
	}
	if err := f.askTrust(cmd, p, false); err != nil {
		return err
	}
	if err := p.Storage.CheckLimit(); err != nil {
		return err
	}
	suite := &evaluation.Suite{Keep: f.keep, Copy: wantsCopy(f.copy), Open: f.openCase, Models: f.openModels, Price: prices.Cost, Secrets: secrets(os.Environ()), Now: time.Now}
	defer suite.Close()
	ctx, end := context.WithCancelCause(cmd.Context())
	defer end(nil)
	status := beginStatus(cmd.ErrOrStderr(), "running "+visible.Count(len(cases), "case"))
	heard := stopping(suite.Stop, end, cmd.ErrOrStderr())
	results := f.tryAll(ctx, suite, cases, status)
	code := heard()
	status.end()
	return f.report(cmd, results, code)
}

// tryAll runs cases, some at a time, and returns their results in the same order.
func (f *evalFlags) tryAll(ctx context.Context, suite *evaluation.Suite, cases []evaluation.Case, status *statusLine) []evaluation.Result {
	results := make([]evaluation.Result, len(cases))
	next := make(chan int)
	var done atomic.Int64
	var jobs sync.WaitGroup
	for range min(f.jobs, len(cases)) {
		jobs.Go(func() {
			for i := range next {
				results[i] = suite.Try(ctx, cases[i])
				n := done.Add(1)
				status.advance(n, int64(len(cases)), fmt.Sprintf("%d of %s", n, visible.Count(len(cases), "case")))
			}
		})
	}
	for i := range cases {
		next <- i // a suite that was stopped skips the case
	}
	close(next)
	jobs.Wait()
	return results
}

// program opens the program of the cases. Nobody is asked, so the approval mode of the
// project does not matter.
func (f *evalFlags) program() (*program.Program, error) {
	own := *f.programFlags
	own.approval = "interactive"
	p, err := own.open(opening{otherwise: emptyProgram})
	return p, err
}

// openCase opens the program of a case.
func (f *evalFlags) openCase(c evaluation.Case) (*program.Program, error) {
	own := *f
	own.programFlags = new(programFlags)
	*own.programFlags = *f.programFlags
	if own.entry == "" {
		own.entry = c.Entry
	}
	p, err := own.program()
	if err != nil {
		return nil, err
	}
	return p, p.CheckEntry()
}

// openModels opens the models of a case. A model that the user or the file names for the
// case has no fallback: a case with a script must not ask another model.
func (f *evalFlags) openModels(c evaluation.Case, p *program.Program, requests *network.OwnRequests) (all evaluation.Models, err error) {
	r := &runFlags{gateFlags: &gateFlags{programFlags: f.programFlags}, model: cmp.Or(f.model, c.Model)}
	r.only = r.model != ""
	quiet := func(string) {}
	if all.Choice, all.Fallbacks, _, err = r.openModel(p, requests, quiet); err != nil {
		return all, err
	}
	if all.Workers, err = r.openWorkers(p, all.Name, requests, quiet); err != nil {
		return all, err
	}
	all.Context = contextOf(p, all.Name)
	if vendor, _, _ := strings.Cut(all.Name, ":"); vendor != "scripted" {
		all.Summarizer, err = r.openSummarizer(p, all.Name, requests, quiet)
	}
	return all, err
}

// report prints the results and returns the exit code.
func (f *evalFlags) report(cmd *cobra.Command, results []evaluation.Result, signal exit) error {
	passed, failed, skipped := 0, 0, 0
	for _, r := range results {
		switch {
		case r.Passed:
			passed++
		case r.Skipped:
			skipped++
		default:
			failed++
		}
	}
	if wantsJSON(cmd) {
		for i := range results {
			visibleResult(&results[i])
		}
		if err := printJSON(cmd.OutOrStdout(), map[string]any{"passed": passed, "failed": failed, "skipped": skipped, "cases": results}); err != nil {
			return err
		}
	} else {
		f.print(cmd, results)
		line := visible.Count(len(results), "case") + ": " + fmt.Sprintf("%d passed, %d failed", passed, failed)
		if skipped > 0 {
			line += fmt.Sprintf(", %d stopped", skipped)
		}
		fmt.Fprintln(cmd.OutOrStdout(), line)
	}
	switch {
	case signal != 0:
		return signal
	case failed+skipped > 0:
		return exit(exitFailed)
	}
	return nil
}

// visibleResult makes the texts of a result safe to print.
func visibleResult(r *evaluation.Result) {
	r.Name, r.Answer = visible.Text(r.Name), visible.Text(r.Answer)
	for _, list := range [][]string{r.Reasons, r.Changed, r.Notes} {
		for i := range list {
			list[i] = visible.Text(list[i])
		}
	}
}

// print prints a table of results, and below it why cases failed.
func (f *evalFlags) print(cmd *cobra.Command, results []evaluation.Result) {
	out := cmd.OutOrStdout()
	noted := make(map[string]bool)
	rows := [][]string{{"result", "case", "turns", "tokens", "cost", "time"}}
	for _, r := range results {
		for _, note := range r.Notes {
			if !noted[note] {
				fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+visible.Text(note))
			}
			noted[note] = true
		}
		word := "failed"
		switch {
		case r.Passed:
			word = "passed"
		case r.Skipped:
			word = "stopped"
		}
		if word == "stopped" && r.Turns == 0 {
			rows = append(rows, []string{word, visible.Text(r.Name), "-", "-", "-", "-"})
			continue
		}
		cost := "-"
		switch {
		case r.Unpriced:
			cost = costUnknown
		case r.Cost > 0:
			cost = fmt.Sprintf("$%.4f", r.Cost)
		}
		rows = append(rows, []string{word, visible.Text(r.Name), fmt.Sprint(r.Turns), fmt.Sprint(r.Input + r.Output), cost, fmt.Sprintf("%.1f s", r.Seconds)})
	}
	printColumns(out, rows)
	for _, r := range results {
		if r.Passed || len(r.Reasons) == 0 || r.Skipped {
			continue
		}
		fmt.Fprintf(out, "%s failed:\n", visible.Text(r.Name))
		for _, reason := range r.Reasons {
			for i, line := range strings.Split(strings.TrimRight(reason, "\n"), "\n") {
				front := "  - "
				if i > 0 {
					front = "    "
				}
				printLine(out, front, visible.Text(line))
			}
		}
		switch {
		case r.Session != "":
			fmt.Fprintf(out, "  next: golem diff%s --session %s, golem sessions show%s %s\n", dirOption(f.dir), r.Label, dirOption(f.dir), r.Label)
		case !f.keep && r.End != "": // there was a session
			fmt.Fprintln(out, "  --keep keeps its session for golem diff")
		}
	}
}

// shortDir returns a directory relative to the current one, if it is in it.
func shortDir(dir string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, dir); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return dir
}
