package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

func newUndo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undo",
		Short: "Undo the last change in your directories",
		Long: `Undo the last change that golem made in your directories: a golem apply, a worker's
command, or a call of a file tool in a directory with mode: rw. golem shows a diff and asks
first. It restores the files, and records the undo in the journal. Changes that came from a
session go back into it. If any of the files has changed since, golem undoes nothing.

Each golem undo goes back one step, and --list shows the steps. golem keeps the old files of
the last 20 commands and applies, up to 512 MiB. Beyond that it forgets the oldest. It
always keeps the last one. It keeps the last 50 calls of file tools, with at most 64 MiB in
total and 16 MiB for one file.

With --forget golem forgets the last change without undoing it. Then you can undo the one
before.

Exit code 0: done; 1: nothing to undo, or a file changed since; 3: declined.`,
		Example: "  golem undo\n  golem undo --list\n  golem undo --yes",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("undo takes no path, got %s: it undoes the last change as a whole; golem undo shows the change and asks", sandbox.Shown(args[0]))
			}
			return nil
		},
	}
	flags := addGateFlags(cmd)
	forget := false
	yes := false
	cmd.Flags().BoolVar(&yes, "yes", false, "undo without showing the change and without asking")
	cmd.Flags().BoolVar(&forget, "forget", false, "forget the last change without undoing it")
	list := false
	cmd.Flags().BoolVar(&list, "list", false, "list the changes that can be undone, the last one first")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if list {
			return flags.listUndo(cmd)
		}
		if yes {
			flags.approval = "approve_all"
		}
		c := newUserCall(cmd, flags, settle.UndoArgs{Forget: forget})
		c.explain = func(r tool.Result) tool.Result {
			if r.Err != nil && r.Err.Code == "declined" && r.Pending == nil {
				r.Notes = append(r.Notes, "your files stay as they are; golem undo --list lists what can be undone")
			}
			return r
		}
		return c.run()
	}
	return cmd
}

// undoable loads the program whose last change is undone.
func (f *gateFlags) undoable() (*program.Program, error) {
	p, o, err := f.undoPrograms()
	if err != nil || o == nil {
		return p, err
	}
	return program.LoadForUndo(*o, p)
}

// undoPrograms returns the program of the current directory, nil if there is none. It also
// returns the options of directories without a program whose changes can be undone, whose
// session may be gone: those of the nearest directory upwards in which golem exec applied
// changes. They are nil if there are none.
func (f *gateFlags) undoPrograms() (*program.Program, *program.Options, error) {
	if err := checkDir(f.dir); err != nil {
		return nil, nil, err
	}
	p, missing := f.open(opening{session: f.sessionID()})
	o, err := f.options()
	if err != nil {
		return nil, nil, err
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, nil, err
	}
	for ; ; o.Dir = filepath.Dir(o.Dir) {
		last, err := program.LoadForUndo(o, nil)
		if errors.Is(err, fs.ErrPermission) { // something to undo may be there
			return nil, nil, err
		}
		if last != nil && err == nil {
			return p, &o, nil
		}
		if o.Dir == filepath.Dir(o.Dir) {
			break
		}
	}
	if p == nil && f.hasRunHere() {
		return nil, nil, &sandbox.Error{Op: "undo", Code: sandbox.ErrNotFound, Hint: "golem has applied nothing here that it can undo; golem status shows what waits, golem sessions lists the sessions"}
	}
	if p == nil {
		return nil, nil, f.hintElsewhere(missing)
	}
	return p, nil, nil
}

// hasRunHere reports whether golem exec has worked in this directory without a program.
func (f *gateFlags) hasRunHere() bool {
	o, err := f.options()
	if err != nil {
		return false
	}
	p, err := program.LoadMounts(o, nil)
	return err == nil && p.Storage.Exists()
}

// listUndo prints the changes that can be undone.
func (f *gateFlags) listUndo(cmd *cobra.Command) error {
	p, o, err := f.undoPrograms()
	if err != nil && !isAbsent(err) { // without a program there is nothing to undo
		return err
	}
	programs := []*program.Program{p}
	if o != nil {
		bare, err := program.LoadMounts(*o, nil)
		if err != nil {
			return err
		}
		programs = append(programs, bare)
	}
	dir, err := f.realDir()
	if err != nil {
		return err
	}
	steps := []session.UndoStep{}
	states := make(map[sandbox.Host]bool)
	for _, p := range programs {
		if p == nil || states[p.Storage.Dir()] {
			continue
		}
		states[p.Storage.Dir()] = true
		more, err := p.Storage.Sessions.UndoSteps()
		if err != nil {
			return err
		}
		for i := range more {
			for k, name := range more[i].Files {
				if !wantsJSON(cmd) {
					more[i].Files[k] = pathsIn(more[i].Mounts, dir).localName(name)
				}
			}
		}
		steps = append(steps, more...)
	}
	slices.SortStableFunc(steps, func(a, b session.UndoStep) int { return b.At.Compare(a.At) })
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), map[string]any{"steps": steps})
	}
	if len(steps) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing to undo here")
		return nil
	}
	var rows [][]string
	for i, s := range steps {
		rows = append(rows, undoRow(i+1, s))
	}
	printColumns(cmd.OutOrStdout(), rows)
	next := "next: golem undo undoes 1"
	if steps[0].Problem != "" {
		next = "next: golem undo --forget forgets 1"
	}
	fmt.Fprintln(cmd.OutOrStdout(), next)
	return nil
}

// undoRow returns a change as a line of golem undo --list.
func undoRow(n int, s session.UndoStep) []string {
	what := "command"
	switch {
	case s.Session != "" && s.Command != "":
		what = fmt.Sprintf("applied from session %s (%s)", cmp.Or(s.Name, s.Session), visible.Line(filepath.Base(s.Command), maxWhat))
	case s.Session != "":
		what = "applied from session " + cmp.Or(s.Name, s.Session)
	case s.Tool != "":
		what = visible.Line(s.Tool, maxWhat)
	}
	const most = 3
	names := visible.Each(s.Files[:min(most, len(s.Files))], visible.Name)
	if len(s.Files) > most {
		names = append(names, "…")
	}
	about := strings.Join(names, ", ")
	if s.Problem != "" {
		about += " (cannot be undone: " + visible.Line(s.Problem, maxColumns) + ")"
	}
	return []string{strconv.Itoa(n), age(s.At), what, visible.Count(len(s.Files), "change"), about}
}
