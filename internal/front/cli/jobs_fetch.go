package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

func newJobsFetch() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fetch [JOB…]",
		Short: "Bring the changes of jobs here, for review",
		Long: `Bring the changes of jobs here, as sessions of the program in this directory. Then golem diff,
golem apply and golem discard work on them as on every other session. Without a JOB, golem
brings all finished jobs of this program that it has not brought before.

If you have changed a file since you submitted it, its change is a conflict, as always.`,
		Example: "  golem jobs fetch k3v9q2xz\n  golem jobs fetch",
	}
	f := &fetchFlags{programFlags: addProgramFlags(cmd), hub: addHubFlags(cmd)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fetched, err := f.fetch(cmd, args)
		if err != nil {
			return err
		}
		return f.print(cmd, fetched)
	}
	return cmd
}

// fetchFlags are the flags of commands that bring jobs here.
type fetchFlags struct {
	*programFlags
	hub *hubFlags
}

// fetch brings the sessions of jobs here: of these, or of all finished jobs of the program that
// were not brought before.
func (f *fetchFlags) fetch(cmd *cobra.Command, ids []string) ([]inbox.FetchedJob, error) {
	p, err := f.open(opening{})
	if err != nil {
		return nil, err
	}
	if p.Content.Hash == "" {
		return nil, noProgram(p)
	}
	c, err := f.hub.connect(cmd)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	before, err := p.Storage.FetchedJobs()
	if err != nil {
		return nil, err
	}
	all := len(ids) == 0
	if all {
		jobs, err := c.Jobs(cmd.Context(), hub.Filter{States: []hub.State{hub.Done}, Trust: p.Content.Hash, Mine: true})
		if err != nil {
			return nil, inbox.HubError(err)
		}
		for _, j := range slices.Backward(jobs) {
			if j.User == c.Key && j.Trust == p.Content.Hash && !slices.Contains(before, j.ID) {
				ids = append(ids, j.ID)
			}
		}
	}
	status := beginStatus(cmd.ErrOrStderr(), "fetching jobs")
	defer status.end()
	var list []inbox.FetchedJob
	for i, id := range ids {
		status.set(fmt.Sprintf("fetching job %d of %d", i+1, len(ids)))
		one, err := inbox.FetchJob(cmd.Context(), c, p, id)
		if all && (sandbox.CodeOf(err) == sandbox.ErrExists || sandbox.CodeOf(err) == sandbox.ErrNotFound) { // it is here, or it has changed nothing
			continue
		}
		if err != nil {
			return list, inbox.HubError(err)
		}
		list = append(list, one)
	}
	return list, nil
}

// print says what was brought.
func (f *fetchFlags) print(cmd *cobra.Command, list []inbox.FetchedJob) error {
	out := cmd.OutOrStdout()
	if wantsJSON(cmd) {
		if list == nil {
			list = []inbox.FetchedJob{}
		}
		return printJSON(out, list)
	}
	if len(list) == 0 {
		fmt.Fprintln(out, "nothing new to fetch; golem jobs lists all jobs")
		return nil
	}
	for _, one := range list {
		fmt.Fprintf(out, "job %s is session %s\n", one.Job, one.Session)
		if len(one.Dropped) > 0 {
			shown := one.Dropped[:min(len(one.Dropped), 5)]
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: the node changed %s where the job may not write (%s), which golem did not bring here; ask the administrator of the hub to look at the node\n", visible.Count(len(one.Dropped), "file"), strings.Join(shownAll(shown), ", "))
		}
	}
	printNext(out, "golem diff --session "+list[len(list)-1].Session, "golem status")
	return nil
}

// lacksProgram reports whether there is no program here, and so no job.
func (f *fetchFlags) lacksProgram() bool {
	p, err := f.open(opening{})
	return err != nil || p.Content.Hash == ""
}

// addFetchFlag adds --hub to a command that shows or changes sessions. Before it runs, golem
// brings the finished jobs of the program here.
func addFetchFlag(cmd *cobra.Command, flags *programFlags) {
	f := &fetchFlags{flags, addHubFlags(cmd)}
	atHub := false
	cmd.Flags().BoolVar(&atHub, "hub", false, "first bring the finished jobs of your hub here")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		byConfig := !cmd.Flags().Changed("hub") && hubOfConfig() != ""
		if byConfig && f.lacksProgram() {
			return run(cmd, args)
		}
		if atHub || byConfig {
			list, err := f.fetch(cmd, nil)
			if err != nil && !byConfig {
				return err
			}
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: nothing was brought from the hub of your configuration: %v\n", err)
			}
			for _, one := range list {
				fmt.Fprintf(cmd.ErrOrStderr(), "golem: job %s is session %s\n", one.Job, one.Session)
			}
		}
		return run(cmd, args)
	}
}
