package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
	"github.com/spf13/cobra"
)

func newWorkers() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "Show which worker calls which, and their permissions",
		Long: `Show the entry worker and the workers that it may call, with the files and tools that
each gets from its caller, and how many more levels of workers it may call. It is an error
if a worker asks for more than its caller has. Below the tree golem lists the workers that
no worker may call.

Exit code 0: no errors; 2: errors.`,
		Example: "  golem workers\n  golem workers --entry summarise --json",
		Args:    noArgs,
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := flags.open(opening{strict: true, otherwise: defaultWorker})
		if p == nil || p.Project == nil {
			return err
		}
		top := p.Tree()
		if err == nil {
			err = p.EntryProblems().Err()
		}
		doc := workersDocument{Entry: describe(p, top), Unreached: []string{}, Problems: problemsOf(err)}
		for _, w := range p.Workers {
			if top.Find(w.Name) == nil {
				doc.Unreached = append(doc.Unreached, w.Name)
			}
		}
		if wantsJSON(cmd) {
			return cmp.Or(printJSON(cmd.OutOrStdout(), doc), exitIf(err != nil, exitUsage)) // the document has the problems
		}
		if top == nil && err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), "no worker: this program has only a project file")
		}
		if p.IsDefault() {
			fmt.Fprintln(cmd.OutOrStdout(), noProgramNote)
		}
		doc.Entry.print(cmd.OutOrStdout(), "")
		if len(doc.Unreached) > 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "called by nobody: %s\n", strings.Join(doc.Unreached, ", "))
		}
		return unlessIn(top, err)
	}
	cmd.AddCommand(newWorkersAccept())
	return cmd
}

// unlessIn returns the problems that the printed tree did not show, or the exit code if
// it showed all.
func unlessIn(top *calltree.Step, err error) error {
	var problems strictyaml.Problems
	if err == nil || !errors.As(err, &problems) {
		return err
	}
	shown := map[strictyaml.Problem]bool{}
	var note func(s *calltree.Step)
	note = func(s *calltree.Step) {
		for _, p := range s.Problems {
			shown[p] = true
		}
		for _, c := range s.Calls {
			note(c)
		}
	}
	if top != nil {
		note(top)
	}
	problems = slices.DeleteFunc(slices.Clone(problems), func(p strictyaml.Problem) bool { return shown[p] })
	if len(problems) == 0 {
		return exit(exitUsage)
	}
	return problems
}

type workersDocument struct {
	Entry     *workerStep   `json:"entry"`
	Unreached []string      `json:"unreached"`
	Problems  []lintProblem `json:"problems"`
}

// A workerStep describes a worker in the tree, for people and for JSON output.
type workerStep struct {
	Name     string        `json:"name"`
	About    string        `json:"description,omitempty"`
	File     string        `json:"file"`
	Files    []string      `json:"files"` // "/in ro"
	Tools    []string      `json:"tools"`
	Hosts    []string      `json:"hosts"`
	Depth    int           `json:"depth"` // how deep calls may be nested below it
	Problems []lintProblem `json:"problems"`
	Note     string        `json:"note,omitempty"`
	Calls    []*workerStep `json:"calls"`
}

func describe(p *program.Program, s *calltree.Step) *workerStep {
	if s == nil {
		return nil
	}
	d := &workerStep{Name: s.Worker.Name, About: visible.Text(s.Worker.Description), File: s.Worker.File, Depth: s.Grant.Depth,
		Files: shownFiles(p, s.Grant.Files), Tools: s.Grant.Tools.Names(), Hosts: append([]string{}, s.Grant.Hosts.Patterns()...),
		Problems: []lintProblem{}, Calls: []*workerStep{}}
	if s.Grant.Hosts.IsAll() {
		d.Hosts = []string{"*"}
	}
	for _, wrong := range s.Problems {
		d.Problems = append(d.Problems, lintProblem{placeOf(wrong.Place), visible.Text(wrong.What), visible.Text(wrong.Hint)})
	}
	switch {
	case s.Circular:
		d.Note = "refused: it calls itself"
	case s.Repeated:
		d.Note = "see above"
	}
	for _, c := range s.Calls {
		d.Calls = append(d.Calls, describe(p, c))
	}
	return d
}

// shownFiles returns the topmost paths of a grant with their access.
func shownFiles(p *program.Program, f policy.Files) []string {
	list := []string{}
	for _, l := range f.Roots() {
		mode := l.Access.String()
		if l.Access == sandbox.ReadWrite && p.Project.Layered(l.Path) {
			mode = project.Overlay
		}
		list = append(list, sandbox.Shown(l.Path)+" "+mode)
	}
	return list
}

func (d *workerStep) print(w io.Writer, indent string) {
	if d == nil {
		return
	}
	gets := "no files"
	if len(d.Files) > 0 {
		gets = strings.Join(d.Files, ", ")
	}
	if len(d.Tools) > 0 {
		gets += "; " + strings.Join(d.Tools, ", ")
	}
	if len(d.Hosts) > 0 {
		gets += "; hosts " + strings.Join(d.Hosts, ", ")
	}
	if d.Note != "" {
		gets = "(" + d.Note + ")"
	}
	printLine(w, indent+d.Name+"  ", gets)
	for _, p := range d.Problems {
		printLine(w, indent+"  error: ", fmt.Sprintf("%s; %s  (%s:%d)", p.What, p.Hint, p.Source, p.Line))
	}
	for _, c := range d.Calls {
		c.print(w, indent+"  ")
	}
}

func newWorkersAccept() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "accept [NAME]",
		Short: "Add a worker that another worker proposed",
		Long: `Show the workers that were proposed in a session, or one of them. golem asks whether to add
that worker, and writes it to workers/NAME.worker, exactly as it is shown. It has no effect
until you run golem trust. Without a terminal golem only shows it, except with --yes.`,
		Example: "  golem workers accept\n  golem workers accept translate\n  golem workers accept translate --yes",
	}
	flags := addProgramFlags(cmd)
	yes, session := false, ""
	cmd.Flags().BoolVar(&yes, "yes", false, "add it to the program without asking")
	cmd.Flags().StringVar(&session, "session", "", "the session; the last used one if not given")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 || len(args) == 0 && yes {
			return usageError("accept which? golem workers accept NAME --yes")
		}
		p, err := flags.open(opening{})
		if err != nil {
			return err
		}
		s, err := p.Storage.Sessions.Find(session)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			list, err := s.Proposals()
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), map[string]any{"session": s.ID, "proposed": list})
			}
			for _, w := range list {
				fmt.Fprintln(cmd.OutOrStdout(), w.Name)
			}
			if len(list) == 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "no worker was proposed in session %s\n", naming.Label(s))
			}
			return nil
		}
		w, err := s.Proposal(args[0])
		if err != nil {
			return err
		}
		file, err := acceptWorker(cmd, p, s, w, yes)
		if err != nil || file == "" {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: wrote %s; run golem trust before it can be called\n", file)
		return nil
	}
	return cmd
}

// acceptWorker shows a proposed worker, and adds it to the program if the user approves. The
// file is "" if golem did not add it because there is no terminal.
func acceptWorker(cmd *cobra.Command, p *program.Program, s *session.Session, w session.Proposal, yes bool) (file string, err error) {
	if err := checkUnseen("workers accept", p, yes); err != nil {
		return "", err
	}
	d := decision{cmd: cmd, program: p, terminal: findTerminal(false), out: cmd.OutOrStdout(), yes: yes}
	if yes || d.terminal == nil { // otherwise the question shows it
		fmt.Fprint(newGutter(cmd.OutOrStdout(), w.Name), visible.Text(w.Content))
	}
	if !yes && d.terminal == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: nothing was changed; golem workers accept %s --yes adds it to the program\n", w.Name)
		return "", nil
	}
	request, err := tool.NewCommandRequest("workers accept", "add the worker "+w.Name+" to the program", nil, strings.Split(strings.TrimSuffix(w.Content, "\n"), "\n"), nil, map[string]string{"session": s.ID, "worker": w.Name})
	if err != nil {
		return "", err
	}
	ok, err := d.confirmed(request, "added", "", func() error {
		file, err = acceptProposal(p, s, w)
		return err
	})
	if err == nil && !ok {
		return "", exit(exitDenied)
	}
	return file, err
}

// acceptProposal writes a proposed worker into the program. The worker can be called once
// the user trusts the program again.
func acceptProposal(p *program.Program, s *session.Session, w session.Proposal) (file string, err error) {
	if p.Worker(w.Name) != nil {
		return "", &sandbox.Error{Op: "accept", Path: w.Name, Code: sandbox.ErrExists, Hint: "the program has such a worker"}
	}
	root, err := os.OpenRoot(string(p.Root()))
	if err != nil {
		return "", visible.FileError("the program", err)
	}
	defer root.Close()
	if file, err = w.Write(root); err != nil {
		return "", err
	}
	return file, s.RemoveProposal(w)
}
