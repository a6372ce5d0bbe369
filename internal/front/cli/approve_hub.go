package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// A hubCall is a call of a job that waits for a decision.
type hubCall struct {
	hub.Request
	job hub.Job
}

// waitingCalls returns the calls that wait at a hub, the oldest first.
func waitingCalls(ctx context.Context, c *hub.Client) (list []hubCall, err error) {
	jobs, err := c.Jobs(ctx, hub.Filter{States: []hub.State{hub.Running, hub.Waiting}})
	for _, j := range jobs {
		for _, r := range j.Requests {
			if r.Decided == nil && visible.Name(r.ID) == r.ID && visible.Name(j.ID) == j.ID { // people see and type them
				list = append(list, hubCall{r, j})
			}
		}
	}
	slices.SortFunc(list, func(a, b hubCall) int { return a.Since.Compare(b.Since) })
	return list, err
}

// approveHub answers calls that wait at a hub.
func (f *approveFlags) approveHub(cmd *cobra.Command, args []string) error {
	c, err := f.hub.connect(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), hubPatience)
	list, err := waitingCalls(ctx, c)
	cancel()
	if err != nil {
		return hubError(err)
	}
	if len(args) == 1 {
		list = slices.DeleteFunc(list, func(one hubCall) bool { return one.ID != args[0] && one.job.ID != args[0] })
	}
	terminal := findTerminal(false)
	switch {
	case len(list) == 0 && len(args) == 1:
		return &sandbox.Error{Op: "approve", Path: args[0], Code: sandbox.ErrNotFound, Hint: "no call or job with this id waits at the hub; golem jobs lists them"}
	case len(list) == 0:
		fmt.Fprintln(cmd.OutOrStdout(), "nothing waits for approval at the hub")
		return nil
	case len(args) == 0 && (f.no || terminal == nil):
		return usagef("name the call or its job: golem approve --hub %s; without a terminal golem approves it unseen", list[0].ID)
	}
	open := 0
	for i, one := range list {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: call %d of %d at the hub: %s of job %s (%s), asked %s\n", i+1, len(list), one.ID, one.job.ID, visible.Line(one.job.Name, maxColumns), age(one.Since))
		answered, stop, err := f.decide(cmd, c, one)
		if sandbox.CodeOf(err) == sandbox.ErrExists { // somebody else was faster
			fmt.Fprintln(cmd.ErrOrStderr(), "golem:", err)
			continue
		}
		if err != nil {
			return err
		}
		if !answered {
			open++
		}
		if stop {
			open += len(list) - i - 1
			break
		}
	}
	if open > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: %s without an answer; golem approve --hub asks again\n", visible.Count(open, "call"))
		return exit(exitDenied)
	}
	return nil
}

// decide shows a call and signs the answer. It covers exactly the bytes that were shown: the
// node compares their hash with its own request.
func (f *approveFlags) decide(cmd *cobra.Command, c *hub.Client, one hubCall) (answered, stop bool, err error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), hubPatience)
	text, err := c.Get(ctx, hub.Part{Job: one.job.ID, Hash: one.Hash})
	cancel()
	if err != nil {
		return false, false, hubError(err)
	}
	var request tool.Request
	if err := json.Unmarshal(text, &request); err != nil {
		return false, false, fmt.Errorf("the call %s cannot be read: %w", one.ID, err)
	}
	if request.Digest != one.Digest || request.CheckDigests() != nil {
		return false, false, fmt.Errorf("the call %s is not the one that the node asks about; golem jobs cancel %s ends the job", one.ID, one.job.ID)
	}
	reply := hub.Reply{Yes: !f.no, Note: f.reason, DigestPrefix: request.Digest, Front: withAccount("golem approve --hub, without a terminal")}
	if terminal := findTerminal(false); terminal != nil && !f.no {
		asker := newAsker(terminal, cmd.ErrOrStderr(), f.wait)
		asker.front = "golem approve --hub, at a terminal"
		got := asker.AskOnce(cmd.Context(), request)
		if got.By != "user" || got.Stop {
			return false, got.Stop || got.Unattended, nil
		}
		if got.Remember != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "note: the answer counts for this call only; rules are not kept at a hub")
		}
		reply = hub.Reply{Yes: got.Verdict == tool.Approved, Note: got.Note, Rendered: got.Rendered, DigestPrefix: got.DigestPrefix, Front: got.Front}
	}
	signed, err := hub.SignDecision(c.Credentials, hub.Decision{Hub: c.Hub, Job: one.job.ID, Request: one.ID, Hash: one.Hash, By: c.Key, Name: c.Name, Reply: reply, Time: time.Now().UTC()})
	if err != nil {
		return false, false, err
	}
	ctx, cancel = context.WithTimeout(cmd.Context(), hubPatience)
	defer cancel()
	if err := c.Decide(ctx, one.job.ID, signed); err != nil {
		return false, false, hubError(err)
	}
	word := map[bool]string{true: "yes", false: "no"}[reply.Yes]
	if wantsJSON(cmd) {
		return true, false, printJSON(cmd.OutOrStdout(), map[string]any{"id": one.ID, "job": one.job.ID, "digest": request.Digest, "answer": word})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s of job %s, by %s\n", word, visible.Line(one.Tool, maxColumns), one.job.ID, strings.Join(shownAll(request.Workers), " → "))
	return true, false, nil
}
