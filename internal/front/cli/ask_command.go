package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// A decision is how the user decides about a command that is no call of a tool. The journal
// of the program records it.
type decision struct {
	cmd      *cobra.Command
	program  *program.Program
	terminal *os.File  // where golem asks; nil if there is none
	out      io.Writer // of the question
	yes      bool      // the user gave --yes, and golem does not ask
}

// decide asks the user about a request, and calls do after an approval. yes is false if the
// user declined or did not answer. The reply says more.
func (d decision) decide(r tool.Request, do func() error) (yes bool, reply approval.Reply, err error) {
	by := "user"
	switch {
	case d.yes:
		by = "--yes"
		reply = approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, Front: withAccount("a flag")}, DigestPrefix: r.Digest}
	case d.terminal == nil:
		return false, reply, nil
	default:
		r.UnseenOff = d.program.Storage.UnseenOff
		asker := newAsker(d.terminal, d.out, patience)
		if reply = asker.Ask(d.cmd.Context(), r); reply.By != "user" {
			if asker.why != nil {
				fmt.Fprintln(d.out, "note: "+asker.why.Error())
			}
			return false, reply, nil
		}
	}
	records, err := d.program.Storage.OpenRecords()
	if err != nil {
		return false, reply, err
	}
	defer records.Close()
	err = records.Decide(r, by, reply, secrets(os.Environ()), do)
	return err == nil && reply.Verdict == tool.Approved, reply, err
}

// confirmed is decide for a command that ends with the answer. If the user does not approve,
// it prints that the thing is not verb, such as trusted. Without a terminal it prints what to
// run otherwise.
func (d decision) confirmed(r tool.Request, verb, otherwise string, do func() error) (bool, error) {
	if d.terminal == nil && !d.yes {
		fmt.Fprintln(d.out, "no terminal to ask at: look at it, then run "+otherwise)
		return false, nil
	}
	yes, _, err := d.decide(r, do)
	if err == nil && !yes {
		fmt.Fprintln(d.out, "not "+verb+"; nothing has changed; the same command asks again")
	}
	return yes, err
}

// confirm asks the user at a terminal whether to go to the next step of a command, which
// asks about everything that it changes. The summary completes "You are about to …".
func (a *asker) confirm(ctx context.Context, command, summary string) (yes, stopped bool, err error) {
	r, err := tool.NewCommandRequest(command, summary, nil, nil, nil, nil)
	if err != nil {
		return false, false, err
	}
	reply := a.Ask(ctx, r)
	return reply.Verdict == tool.Approved, reply.Stop, nil
}

// checkUnseen returns an error if the user gave --yes and a policy forbids that: nobody saw what
// it approves.
func checkUnseen(op string, p *program.Program, yes bool) error {
	place := p.Storage.UnseenOff
	if place == "" || !yes {
		return nil
	}
	return &sandbox.Error{Op: op, Code: "blocked", Hint: visible.Text(place) + " does not allow approving without looking; run the command at a terminal without --yes"}
}
