package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
	"github.com/spf13/cobra"
)

// callsNamed returns the call with an id, or those of the job with the id. The first letters of
// one id suffice if shown is true: the user sees the call before the answer.
func callsNamed(list []inbox.HubCall, id string, shown bool) ([]inbox.HubCall, error) {
	ids := make(map[string]bool) // that begin with these letters
	for _, one := range list {
		for _, known := range []string{one.ID, one.Job.ID} {
			if id != "" && strings.HasPrefix(known, id) {
				ids[known] = true
			}
		}
	}
	if len(ids) > 0 && !ids[id] {
		all := slices.Sorted(maps.Keys(ids))
		switch {
		case len(all) > 1:
			return nil, usagef("%s begins %d ids: %s; type more letters of one", sandbox.Shown(id), len(all), strings.Join(all, ", "))
		case !shown:
			return nil, usagef("golem answers a call that you do not see only by its whole id: %s", all[0])
		}
		id = all[0]
	}
	return slices.DeleteFunc(list, func(one inbox.HubCall) bool { return one.ID != id && one.Job.ID != id }), nil
}

// approveHub answers calls that wait at a hub.
func (f *approveFlags) approveHub(cmd *cobra.Command, args []string) error {
	c, err := f.hub.connect(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), hubPatience)
	list, err := inbox.WaitingHubCalls(ctx, c)
	cancel()
	if err != nil {
		return err
	}
	terminal := findTerminal(false)
	if len(args) == 1 {
		if list, err = callsNamed(list, args[0], terminal != nil && !f.no); err != nil {
			return err
		}
	}
	ofJob := len(args) == 1 && slices.ContainsFunc(list, func(one inbox.HubCall) bool { return one.ID != args[0] && one.Job.ID == args[0] })
	switch {
	case ofJob && terminal == nil && !f.no: // a call may have come after the user looked
		var ids []string
		for _, one := range list {
			ids = append(ids, one.ID)
		}
		return usagef("golem approves calls that you do not see only by their own ids: %s", strings.Join(ids, ", "))
	case len(list) == 0 && len(args) == 1:
		return &sandbox.Error{Op: "approve", Path: args[0], Code: sandbox.ErrNotFound, Hint: "no call or job with this id waits at the hub; golem jobs lists them"}
	case len(list) == 0:
		fmt.Fprintln(cmd.OutOrStdout(), "nothing waits for approval at the hub")
		return nil
	case len(args) == 0 && (f.no || terminal == nil):
		return usagef("name the call: golem approve --hub %s; without a terminal golem approves it unseen", list[0].ID)
	}
	open := 0
	for i, one := range list {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: call %d of %d at the hub: %s of job %s (%s), asked %s\n", i+1, len(list), one.ID, one.Job.ID, visible.Line(one.Job.Name, maxColumns), age(one.Since))
		answered, stop, err := f.decide(cmd, c, one)
		if sandbox.CodeOf(err) == sandbox.ErrExists || len(args) == 0 && sandbox.CodeOf(err) == "blocked" { // somebody else was faster, or others must decide
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

// decide shows a call and signs the answer. It covers exactly the bytes that were shown.
func (f *approveFlags) decide(cmd *cobra.Command, c *hub.Client, waiting inbox.HubCall) (answered, stop bool, err error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), hubPatience)
	defer cancel()
	o, err := f.options()
	if err != nil {
		return false, false, err
	}
	one, request, err := inbox.ReadHubCall(ctx, c, o, waiting.Job.ID, waiting.ID)
	if err == nil {
		err = inbox.CheckHubApprover(ctx, c, one)
	}
	if err != nil {
		return false, false, err
	}
	reply := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, Note: f.reason, Front: withAccount("golem approve --hub, without a terminal")}, DigestPrefix: request.Digest}
	if f.no {
		reply.Verdict = tool.Declined
	}
	if terminal := findTerminal(false); terminal != nil && !f.no {
		asker := newAsker(terminal, cmd.ErrOrStderr(), f.wait)
		asker.front = "golem approve --hub, at a terminal"
		reply = asker.AskOnce(cmd.Context(), request)
		if reply.By != "user" || reply.Stop {
			return false, reply.Stop || reply.Unattended, nil
		}
		if reply.Remember != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "note: the answer counts for this call only; rules are not kept at a hub")
		}
	}
	ctx, cancel = context.WithTimeout(cmd.Context(), hubPatience) // the user may have read for long
	defer cancel()
	if err := inbox.DecideHubCall(ctx, c, o, one, request, reply, secrets(os.Environ())); err != nil {
		return false, false, err
	}
	word := map[bool]string{true: "yes", false: "no"}[reply.Verdict == tool.Approved]
	if wantsJSON(cmd) {
		return true, false, printJSON(cmd.OutOrStdout(), map[string]any{"id": one.ID, "job": one.Job.ID, "digest": request.Digest, "answer": word})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s of job %s, by %s\n", word, visible.Line(one.Tool, maxColumns), one.Job.ID, strings.Join(shownAll(request.Workers), " → "))
	return true, false, nil
}
