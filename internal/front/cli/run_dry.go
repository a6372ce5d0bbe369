package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/program"
)

// A dryStep describes what a worker could do in a run. It needs no model.
type dryStep struct {
	*workerStep
	Unasked []string            `json:"unasked"` // tools that need no approval at least in some directories
	AsksIn  map[string][]string `json:"asks_in"` // directories in which some of these tools ask
	Asks    []string            `json:"asks"`    // tools that always ask
	Calls   []*dryStep          `json:"calls"`
}

// dryRun prints what a run could do and would ask.
func dryRun(cmd *cobra.Command, p *program.Program) error {
	top := p.Tree()
	if err := p.CheckEntry(); err != nil {
		return err
	}
	if top == nil {
		return usageError("no worker: this program has only a project file; write main.worker, or golem init makes a program with workers")
	}
	step, err := dryOf(p, top)
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), map[string]any{"model": p.EntryModel(), "approval": p.Project.Approval, "entry": step})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "nothing is run; approval %s\n", p.Project.Approval)
	step.print(cmd.OutOrStdout(), "")
	return nil
}

func dryOf(p *program.Program, s *calltree.Step) (*dryStep, error) {
	d := &dryStep{workerStep: describe(p, s), Unasked: []string{}, AsksIn: map[string][]string{}, Asks: []string{}, Calls: []*dryStep{}}
	gate, err := p.Tools(s.Worker.Name)
	if err != nil {
		return nil, err
	}
	gate.Grant = s.Grant
	for _, t := range gate.ToolsFor(policy.Model) {
		if gate.HighestApproval(t) == policy.PreApproved {
			d.Unasked = append(d.Unasked, t.Name)
			for _, folder := range gate.DirsNeedingApproval(t) {
				d.AsksIn[folder] = append(d.AsksIn[folder], t.Name)
			}
		} else {
			d.Asks = append(d.Asks, t.Name)
		}
	}
	for _, c := range s.Calls {
		child, err := dryOf(p, c)
		if err != nil {
			return nil, err
		}
		d.Calls = append(d.Calls, child)
	}
	return d, nil
}

func (d *dryStep) print(w io.Writer, indent string) {
	files := "no files"
	if len(d.Files) > 0 {
		files = strings.Join(d.Files, ", ")
	}
	network := "network off"
	if len(d.Hosts) > 0 {
		network = "network " + strings.Join(d.Hosts, ", ")
	}
	fmt.Fprintf(w, "%s%s  %s; %s; %s below it\n", indent, d.Name, files, network, visible.Count(d.Depth, "call"))
	list := func(word string, names []string) {
		if len(names) > 0 {
			fmt.Fprintf(w, "%s  %s: %s\n", indent, word, strings.Join(names, ", "))
		}
	}
	list("unasked", d.Unasked)
	for _, folder := range slices.Sorted(maps.Keys(d.AsksIn)) {
		list("asks in "+folder, d.AsksIn[folder])
	}
	list("asks", d.Asks)
	for _, p := range d.Problems {
		fmt.Fprintf(w, "%s  error: %s; %s\n", indent, p.What, p.Hint)
	}
	for _, c := range d.Calls {
		c.print(w, indent+"  ")
	}
}
