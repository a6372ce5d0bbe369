package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/sandbox"
	"github.com/spf13/cobra"
)

func newJobs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs of a hub, and follow, stop or repeat one",
		Long: `List the jobs of a hub, newest first: their state, the machine that works on them, their age
and cost. golem submit makes jobs.

States: queued, running, waiting (for an approval), in doubt (a machine died during a call, so
nobody knows whether it was done), done, failed, cancelled.`,
		Example: "  golem jobs\n  golem jobs logs -f k3v9q2xz\n  golem jobs cancel k3v9q2xz",
		Args:    noArgs,
	}
	f := addHubFlags(cmd)
	var state []string
	var most int
	cmd.Flags().StringSliceVar(&state, "state", nil, "only jobs in these states, such as waiting or in-doubt")
	cmd.Flags().IntVar(&most, "last", 50, "how many jobs to list")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if most < 1 {
			return usageError("--last is a number above 0")
		}
		filter := hub.Filter{Most: most + 1} // one more tells that there are more
		for _, s := range state {
			filter.States = append(filter.States, hub.State(strings.ReplaceAll(s, "-", " ")))
		}
		return f.ask(cmd, func(ctx context.Context, c *hub.Client) error {
			list, err := c.Jobs(ctx, filter)
			if err != nil {
				return err
			}
			names, err := inbox.UserNames(ctx, c)
			if err != nil {
				return err
			}
			more := len(list) > most
			if err := printJobs(cmd, c, list[:min(len(list), most)], names); err != nil {
				return err
			}
			if more {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: there are older jobs; golem jobs --last %d lists more of them\n", 10*most)
			}
			return nil
		})
	}
	cmd.AddCommand(newJobsShow(), newJobsLogs(), newJobsFetch(), newJobsChange("cancel", "Stop jobs",
		"Stop jobs. A job that runs stops after its current call. What it has made so far stays.", func(ctx context.Context, c *hub.Client, id string) error { return c.Cancel(ctx, id) }),
		newJobsChange("retry", "Run jobs again that failed, were cancelled or are in doubt",
			"Run jobs again that failed, were cancelled or are in doubt. They continue where they stopped.\nA call in doubt is made again: first find out whether it was done.", func(ctx context.Context, c *hub.Client, id string) error { return c.Retry(ctx, id) }),
		newJobsChange("rm", "Remove jobs that are over",
			"Remove jobs that are over from the hub, with their files, events and decisions. Sessions that you\nhave fetched stay. golem jobs cancel ends a job that is not over.", func(ctx context.Context, c *hub.Client, id string) error { return c.Remove(ctx, id) }))
	return cmd
}

func printJobs(cmd *cobra.Command, c *hub.Client, list []hub.Job, names map[string]string) error {
	documents := []inbox.Job{}
	for _, j := range list {
		documents = append(documents, inbox.NewJob(c, j, names))
	}
	out := cmd.OutOrStdout()
	if wantsJSON(cmd) {
		return printJSON(out, documents)
	}
	if len(documents) == 0 && cmd.Flags().Changed("state") {
		fmt.Fprintln(out, "no jobs in this state; golem jobs lists all jobs")
		return nil
	}
	if len(documents) == 0 {
		fmt.Fprintln(out, `no jobs; golem submit . "what to do" makes one`)
		return nil
	}
	rows := [][]string{{"JOB", "STATE", "NODE", "AGE", "COST", "WHAT"}}
	waiting, doubtful := 0, 0
	for _, d := range documents {
		rows = append(rows, []string{d.ID, d.StateText(), d.Node, age(d.Created), d.Cost(), d.Program + ": " + d.Input})
		if d.State == hub.InDoubt {
			doubtful++
		}
		waiting += d.OpenCalls()
	}
	printColumns(out, rows)
	if waiting > 0 {
		fmt.Fprintf(out, "%s %s for approval; next: golem approve --hub\n", visible.Count(waiting, "call"), visible.Verb(waiting, "waits", "wait"))
	}
	if doubtful > 0 {
		fmt.Fprintf(out, "%s in doubt; next: golem jobs show JOB\n", visible.Count(doubtful, "job"))
	}
	return nil
}

// oneJob is the error of a command that takes one job.
const oneJob = "golem jobs %s takes one job; golem jobs lists them"

func newJobsShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show JOB",
		Short:   "Show a job: its state, what it waits for, its answer",
		Long:    "Show a job of the hub: its state, the calls that wait for approval, the calls in doubt, and its\nanswer. A few first letters of the id suffice.",
		Example: "  golem jobs show k3v9q2xz\n  golem jobs show k3v9q2xz --json",
		Args:    takesArgs(1, 1, oneJob),
	}
	f := addHubFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.ask(cmd, func(ctx context.Context, c *hub.Client) error {
			d, err := inbox.ReadJob(ctx, c, args[0])
			if err != nil {
				return err
			}
			return printOr(cmd, d, func(w io.Writer) { printJob(w, d) })
		})
	}
	return cmd
}

// printJob prints a job for people.
func printJob(w io.Writer, d inbox.Job) {
	fmt.Fprintf(w, "job %s: %s\n", d.ID, d.StateText())
	rows := [][]string{{"program", d.Program}, {"input", d.Input}, {"by", d.By + ", " + age(d.Created)}}
	if d.Node != "" {
		rows = append(rows, []string{"node", d.Node})
	}
	if len(d.Labels) > 0 {
		rows = append(rows, []string{"labels", strings.Join(d.Labels, ", ")})
	}
	if d.Result.Calls > 0 || d.Result.Tokens > 0 {
		rows = append(rows, []string{"work", strings.TrimSpace(fmt.Sprintf("%s, %s %s", visible.Count(int(d.Result.Calls), "call"), visible.Count(int(d.Result.Tokens), "token"), d.Cost()))})
	}
	if d.Result.Why != "" {
		rows = append(rows, []string{"why", d.Result.Why})
	}
	for _, r := range d.Waiting {
		text := r.Tool + ", waits for approval, asked " + age(r.Since)
		if r.Decided {
			text = r.Tool + ", decided"
		}
		rows = append(rows, []string{"call " + r.ID, text})
	}
	for _, doubt := range d.Doubts {
		text := fmt.Sprintf("%s: attempt %d began it and was cut off", doubt.Tool, doubt.Attempt)
		if doubt.Again {
			text += "; it may be made again"
		}
		rows = append(rows, []string{"doubt " + doubt.Call, text})
	}
	printColumns(w, rows)
	if d.Result.Answer != "" {
		fmt.Fprintln(w)
		fmt.Fprintln(newAnswer(w, ""), d.Result.Answer)
	}
	switch {
	case d.State == hub.InDoubt:
		again := " (makes the call in doubt again)"
		if len(d.Doubts) == 0 {
			again = "" // after a restore; the row why explains it
		}
		printNext(w, "golem jobs logs "+d.ID, "golem jobs retry "+d.ID+again, "golem jobs cancel "+d.ID)
	case d.State == hub.Waiting:
		printNext(w, "golem approve --hub")
	case d.State == hub.Queued && len(d.Labels) > 0:
		fmt.Fprintln(w, "it waits for a node that offers all its labels: golem node --label", strings.Join(d.Labels, ","))
	case d.State == hub.Done:
		printNext(w, "golem jobs fetch "+d.ID+" in the directory of the program")
	case d.State == hub.Failed:
		printNext(w, "golem jobs logs "+d.ID, "golem jobs retry "+d.ID)
	}
}

func newJobsLogs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "logs JOB",
		Short:   "Show what a job did",
		Long:    "Show the events of a job: its calls and their results. -f waits for more until the job is over.",
		Example: "  golem jobs logs k3v9q2xz\n  golem jobs logs -f k3v9q2xz",
		Args:    takesArgs(1, 1, oneJob),
	}
	f := addHubFlags(cmd)
	follow := false
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more events")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.connect(cmd)
		if err != nil {
			return err
		}
		defer c.Close()
		return inbox.HubError(followJob(cmd, c, args[0], follow))
	}
	return cmd
}

// followJob prints the events of a job.
func followJob(cmd *cobra.Command, c *hub.Client, id string, follow bool) error {
	q := hub.EventsQuery{Job: id, From: 1}
	if follow {
		q.Wait = 15 * time.Second
	}
	for {
		ctx, cancel := context.WithTimeout(cmd.Context(), hubPatience)
		e, err := c.Events(ctx, q)
		cancel()
		if err != nil {
			return err
		}
		for _, line := range e.Lines {
			if wantsJSON(cmd) {
				if safe, err := visible.JSONLine(json.RawMessage(line)); err == nil {
					cmd.OutOrStdout().Write(safe)
				}
			} else if text := eventText(line); text != "" {
				fmt.Fprintln(cmd.OutOrStdout(), text)
			}
		}
		q.From = e.Next
		if len(e.Lines) == 0 && (!follow || e.State.IsOver() || e.State == hub.InDoubt) {
			return nil
		}
	}
}

// eventText returns one line for an event of a run, "" for those that say nothing.
func eventText(line []byte) string {
	var e run.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return visible.Line(string(line), maxColumns)
	}
	at := e.Time.Local().Format("15:04:05")
	text := ""
	switch e.Type {
	case run.RunStart:
		text = "begins, with the model " + e.Model
	case run.ToolCall:
		text = e.Tool + " " + string(e.Args)
	case run.ToolResult:
		text = "  → " + e.Text
		if e.OK != nil && !*e.OK {
			text = "  → failed: " + e.Hint
		}
	case run.Pending:
		text = e.Tool + " waits for approval as " + e.Request
	case run.Note:
		text = "note: " + e.Text
	case run.RunEnd:
		text = string(e.End) + ": " + e.Text + e.Hint
		if e.End == "" {
			text = "interrupted"
		}
	default:
		return ""
	}
	return at + "  " + visible.Line(e.Worker, 30) + "  " + visible.Line(text, 200)
}

// newJobsChange returns a command that changes jobs.
func newJobsChange(name, short, long string, do func(ctx context.Context, c *hub.Client, id string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:     name + " JOB…",
		Short:   short,
		Long:    long,
		Example: "  golem jobs " + name + " k3v9q2xz\n  golem jobs " + name + " k3v9q2xz p7d2m4aa",
		Args:    takesArgs(1, math.MaxInt, "golem jobs %s which job? golem jobs lists them"),
	}
	f := addHubFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.ask(cmd, func(ctx context.Context, c *hub.Client) error {
			for _, id := range args {
				if err := do(ctx, c, id); err != nil {
					return err
				}
				if !wantsJSON(cmd) {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", map[string]string{"cancel": "cancelled", "retry": "queued again", "rm": "removed"}[name], id)
				}
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), map[string]any{"jobs": args})
			}
			return nil
		})
	}
	return cmd
}

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
		return printJSON(out, append([]inbox.FetchedJob{}, list...))
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
