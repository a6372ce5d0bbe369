package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
	"github.com/spf13/cobra"
)

// records opens the stored records of the program.
func (f *programFlags) records() (*storage.Records, error) {
	p, err := f.open(opening{otherwise: sessionOrState})
	if err != nil {
		return nil, err
	}
	return p.Storage.OpenRecords()
}

// approveFlags are the flags of golem approve.
type approveFlags struct {
	*programFlags
	no, all bool
	reason  string
	wait    time.Duration
	hub     *hubFlags
	atHub   bool
}

func newApprove() *cobra.Command {
	f := &approveFlags{}
	cmd := &cobra.Command{
		Use:   "approve [ID] | --all",
		Short: "Approve or decline a call that waits",
		Long: `Approve or decline a call that waits because golem could not ask you. golem approvals lists
these calls. At a terminal golem shows the call and asks. If only one call waits, you can
omit the ID, except with --no. --all shows every call that waits, one after the other. The
approval covers exactly this call with these changes, and golem uses it once. For a host that
waits, a also allows it always in this project. golem shows the rule first, and asks.

Without a terminal, golem approve ID approves the call unseen, and the journal says so.
golem approvals revoke ID deletes a rule, or a call that waits.

With --hub golem shows the calls that wait at your hub. Your answer is signed with your key and
covers exactly what you saw. The ID, at a terminal its first letters, is that of a call or a job.

A run is paused while its call waits. golem run --resume last makes the call and continues
the run.

Exit code 0: answered; 3: a call still waits.`,
		Example: "  golem approve k3v9q2xz\n  golem approve k3v9q2xz --no --reason wrong-file\n  golem approve --hub",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case f.all && len(args) > 0:
				return usageError("--all and an ID name the calls; use one of them")
			case len(args) > 1:
				return usageError("approve takes one ID, or --all; golem approvals lists them")
			}
			return nil
		},
	}
	f.programFlags, f.hub = addProgramFlags(cmd), addHubFlags(cmd)
	cmd.Flags().BoolVar(&f.atHub, "hub", false, "answer calls that wait at your hub")
	cmd.Flags().BoolVar(&f.no, "no", false, "decline the call")
	cmd.Flags().BoolVar(&f.all, "all", false, "show every call that waits, and ask about each")
	cmd.Flags().StringVar(&f.reason, "reason", "", "the reason, for the worker")
	cmd.Flags().DurationVar(&f.wait, "wait", patience, "how long to wait for your answer")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.reason != "" && !f.no {
			return usageError("--reason goes with --no")
		}
		if f.atHub {
			return f.approveHub(cmd, args)
		}
		p, err := f.open(opening{otherwise: sessionOrState})
		if err != nil {
			return f.hintElsewhere(f.findCall(strings.Join(args, ""), err))
		}
		r, err := p.Storage.OpenRecords()
		if err != nil {
			return err
		}
		defer r.Close()
		if f.all {
			return f.approveAll(cmd, p, r)
		}
		w, err := f.choose(p, r, args)
		if err != nil && hubOfConfig() != "" && f.waitsElsewhere(p, r, args, err) {
			return f.approveHub(cmd, args)
		}
		if err != nil {
			return err
		}
		answered, _, err := f.approve(cmd, r, w)
		if err != nil {
			return f.sayAnswered(p, w, err)
		}
		if !answered {
			return exit(exitDenied)
		}
		f.sayNext(cmd, p, []approval.PendingRequest{w})
		return nil
	}
	return cmd
}

// waitsElsewhere reports whether the call that the user means is not here: none waits here, or
// none has the id.
func (f *approveFlags) waitsElsewhere(p *program.Program, r *storage.Records, args []string, err error) bool {
	if len(args) == 1 {
		return sandbox.CodeOf(err) == sandbox.ErrNotFound
	}
	all, err := r.Waiting(p.Storage.Sessions)
	return err == nil && len(all) == 0
}

// choose returns the request that the user named, or the only one that waits.
func (f *approveFlags) choose(p *program.Program, r *storage.Records, args []string) (w approval.PendingRequest, err error) {
	if len(args) == 1 {
		w, err = r.Approvals.FindPending(args[0])
		return w, f.findCall(args[0], err)
	}
	all, err := r.Waiting(p.Storage.Sessions)
	switch {
	case err != nil:
		return w, err
	case len(all) == 0:
		return w, f.hintElsewhere(usageError("nothing waits for approval here; golem status --all shows what waits elsewhere"))
	case f.no:
		return w, usagef("--no declines a call unseen, so it takes the ID: golem approve %s --no; golem approve shows the calls that wait, and asks", all[0].ID)
	case len(all) > 1:
		return w, usagef("%d calls wait; golem approve --all shows each, golem approvals lists them", len(all))
	case findTerminal(false) == nil:
		return w, usagef("without a terminal approve takes the ID: golem approve %s approves the call unseen", all[0].ID)
	}
	return all[0], nil
}

// approveAll asks about every call that waits, the oldest first.
func (f *approveFlags) approveAll(cmd *cobra.Command, p *program.Program, r *storage.Records) error {
	all, err := r.Waiting(p.Storage.Sessions)
	if err != nil {
		return err
	}
	terminal := findTerminal(false)
	switch {
	case len(all) == 0:
		fmt.Fprintln(cmd.OutOrStdout(), "nothing waits for approval")
		f.printElsewhere(cmd.OutOrStdout())
		return nil
	case terminal == nil && !f.no:
		return usageError("approve --all shows each call and asks, so it needs a terminal; golem approve ID approves one call unseen")
	}
	waits := 0
	var done []approval.PendingRequest
	for i, w := range all {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: %d of %s that wait: %s, made %s\n", i+1, visible.Count(len(all), "call"), w.ID, age(w.Made))
		answered, stop, err := f.approve(cmd, r, w)
		switch {
		case sandbox.CodeOf(err) == sandbox.ErrExists || sandbox.CodeOf(err) == sandbox.ErrNotFound: // somebody else answered it meanwhile
			fmt.Fprintln(cmd.ErrOrStderr(), "golem:", err)
			continue
		case err != nil:
			return err
		case answered:
			done = append(done, w)
		default:
			waits++
		}
		if stop {
			waits += len(all) - i - 1
			break
		}
	}
	f.sayNext(cmd, p, done)
	if waits > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: %s without an answer; golem approvals lists them\n", visible.Count(waits, "call"))
		return exit(exitDenied)
	}
	return nil
}

// approve answers one request. answered is false if it still waits, and stop is true if
// the user wants no more questions.
func (f *approveFlags) approve(cmd *cobra.Command, r *storage.Records, w approval.PendingRequest) (answered, stop bool, err error) {
	if err := r.CheckPending(w); err != nil {
		return false, false, err
	}
	// Without a terminal the command itself is the answer. The ID names the digest.
	reply := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, Note: f.reason}, DigestPrefix: w.Digest}
	reply.Front = withAccount("golem approve, without a terminal")
	if f.no {
		reply.Verdict = tool.Declined
	}
	if terminal := findTerminal(false); terminal != nil && !f.no {
		request, err := r.Approvals.Request(w)
		if err != nil {
			return false, false, err
		}
		asker := newAsker(terminal, cmd.ErrOrStderr(), f.wait)
		asker.front, asker.keepsRules = "golem approve, at a terminal", true
		reply = asker.AskOnce(cmd.Context(), request)
		if reply.By != "user" || reply.Stop {
			fmt.Fprintln(cmd.ErrOrStderr(), "golem: not answered; it still waits; golem approve "+w.ID+" asks again, golem approve "+w.ID+" --no declines it")
			if asker.why != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: "+asker.why.Error())
			}
			return false, reply.Stop || reply.Unattended, nil
		}
	}
	yes := reply.Verdict == tool.Approved
	if err := r.Answer(w.ID, reply, secrets(os.Environ())); err != nil {
		return false, false, err
	}
	word := map[bool]string{true: "yes", false: "no"}[yes]
	if wantsJSON(cmd) {
		return true, false, printJSON(cmd.OutOrStdout(), map[string]any{"id": w.ID, "digest": w.Digest, "answer": word})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s %s, by %s\n", word, w.Tool, comesTo(visible.Line(w.Summary, maxColumns), shownAll(w.Effects)), strings.Join(shownAll(w.Workers), " → "))
	if reply.Remember != nil {
		fmt.Fprintln(cmd.OutOrStdout(), "remembered: "+visible.Line(reply.Remember.String(), math.MaxInt)+"; golem approvals revoke removes it")
	}
	return true, false, nil
}

// sayAnswered adds to the error about a call that was answered already how it continues.
func (f *approveFlags) sayAnswered(p *program.Program, w approval.PendingRequest, err error) error {
	var known *sandbox.Error
	if !errors.As(err, &known) || known.Code != sandbox.ErrExists {
		return err
	}
	next := "golem makes the call when the same call is made again"
	if p.Storage.Runs().IsPaused(w.Session) {
		next = f.resumeCommand(p, w.Session) + " continues its run"
	}
	return &sandbox.Error{Op: known.Op, Path: known.Path, Code: known.Code, Hint: known.Hint + "; " + next}
}

// resumeCommand returns the command that continues the paused run of a session.
func (f *programFlags) resumeCommand(p *program.Program, id string) string {
	where := ""
	if f.dir != "." {
		where = " " + visible.CommandLine(f.dir)
	}
	if one, err := p.Storage.Sessions.Find(id); err == nil {
		id = naming.Label(one)
	}
	return "golem run" + where + " --resume " + id
}

// sayNext says how the calls that were answered continue.
func (f *approveFlags) sayNext(cmd *cobra.Command, p *program.Program, done []approval.PendingRequest) {
	if wantsJSON(cmd) || len(done) == 0 {
		return
	}
	var runs []string
	others := false
	for _, w := range done {
		switch {
		case !p.Storage.Runs().IsPaused(w.Session):
			others = true
		case !slices.Contains(runs, w.Session):
			runs = append(runs, w.Session)
		}
	}
	for _, id := range runs {
		fmt.Fprintln(cmd.OutOrStdout(), "next: "+f.resumeCommand(p, id))
	}
	if others && !f.no {
		fmt.Fprintln(cmd.OutOrStdout(), "the approval counts once: now if the call still waits, otherwise when the same call is made again")
	}
}

func newApprovals() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List the calls that wait for approval, and your rules",
		Long: `List the calls that wait for your approval, and the rules by which you allow calls in
advance: what each rule allows, for whom, and until when.`,
		Example: "  golem approvals\n  golem approvals show k3v9q2xz\n  golem approvals revoke p7d2m4aa",
		Args:    noArgs,
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := flags.open(opening{otherwise: sessionOrState})
		if err != nil {
			return flags.hintElsewhere(err)
		}
		r, err := p.Storage.OpenRecords()
		if err != nil {
			return err
		}
		defer r.Close()
		return flags.listApprovals(cmd, p, r)
	}
	cmd.AddCommand(newApprovalsShow(), newApprovalsRevoke())
	return cmd
}

type pendingDocument struct {
	ID      string    `json:"id"`
	Digest  string    `json:"digest"`
	Workers []string  `json:"workers"`
	Tool    string    `json:"tool"`
	Effects []string  `json:"effects"`
	Wish    string    `json:"wish,omitempty"`
	Session string    `json:"session,omitempty"`
	Made    time.Time `json:"made"`
	Answer  string    `json:"answer,omitempty"`

	next string // how the call continues after its answer
}

type ruleDocument struct {
	ID      string     `json:"id"`
	Allows  string     `json:"allows"`
	Scope   string     `json:"scope"`
	Made    time.Time  `json:"made"`
	Expires *time.Time `json:"expires,omitempty"`
	Holds   bool       `json:"holds"`
}

func (f *programFlags) listApprovals(cmd *cobra.Command, p *program.Program, r *storage.Records) error {
	waiting, err := r.Pending(p.Storage.Sessions)
	if err != nil {
		return err
	}
	rules, err := r.Approvals.Rules()
	if err != nil {
		return err
	}
	pending, kept := []pendingDocument{}, []ruleDocument{}
	for _, w := range waiting {
		d := pendingDocument{w.ID, w.Digest, shownAll(w.Workers), sandbox.Shown(w.Tool), shownAll(w.Effects), visible.Line(w.Summary, maxColumns), w.Session, w.Made, "", ""}
		if w.Answer != nil {
			d.Answer = map[bool]string{true: "yes", false: "no"}[w.Answer.Yes]
			d.next = "counts when the same call is made again"
			if p.Storage.Runs().IsPaused(w.Session) {
				d.next = f.resumeCommand(p, w.Session)
			}
		}
		pending = append(pending, d)
	}
	now := time.Now()
	for _, rule := range rules {
		d := ruleDocument{ID: rule.ID, Allows: rule.String(), Scope: string(rule.Scope), Made: rule.Made,
			Holds: rule.Policy == r.Policy && (rule.Expires.IsZero() || now.Before(rule.Expires))}
		if !rule.Expires.IsZero() {
			d.Expires = &rule.Expires
		}
		kept = append(kept, d)
	}
	return printOr(cmd, map[string]any{"pending": pending, "rules": kept}, func(w io.Writer) {
		printApprovals(w, pending, kept)
		if len(pending) == 0 {
			f.printElsewhere(w)
		}
	})
}

// comesTo returns the summary of a call, or its effects if it has none.
func comesTo(wish string, effects []string) string {
	return cmp.Or(wish, strings.Join(effects, ", "))
}

func shownAll(names []string) []string { return visible.Each(names, sandbox.Shown) }

func printApprovals(w io.Writer, pending []pendingDocument, rules []ruleDocument) {
	var waiting, answered [][]string
	for _, p := range pending {
		row := []string{p.ID, strings.Join(p.Workers, " → "), p.Tool, comesTo(p.Wish, p.Effects), ""}
		switch {
		case p.Answer != "":
			row[4] = p.Answer + ": " + p.next
			answered = append(answered, row)
			continue
		case p.Session != "":
			row[4] = "in session " + p.Session
		}
		waiting = append(waiting, row)
	}
	if len(waiting) == 0 {
		fmt.Fprintln(w, "nothing waits for approval")
	} else {
		fmt.Fprintln(w, "waiting for approval: golem approve ID")
	}
	printColumns(w, waiting)
	if len(answered) > 0 {
		fmt.Fprintln(w, "answered, and not used yet:")
		printColumns(w, answered)
	}
	var rows [][]string
	if len(rules) == 0 {
		fmt.Fprintln(w, "no rules are remembered")
		return
	}
	fmt.Fprintln(w, "remembered rules: golem approvals revoke ID")
	for _, r := range rules {
		state := ""
		if !r.Holds {
			state = "no longer holds"
		}
		rows = append(rows, []string{r.ID, r.Allows, state})
	}
	printColumns(w, rows)
}

func newApprovalsShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show a call that waits, with its changes",
		Example: "  golem approvals show k3v9q2xz\n  golem approvals show k3v9q2xz --json",
		Args:    oneID,
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := flags.records()
		if err != nil {
			return err
		}
		defer r.Close()
		w, err := r.Approvals.FindPending(args[0])
		if err != nil {
			return err
		}
		request, err := r.Approvals.Request(w)
		if err != nil {
			return err
		}
		return printOr(cmd, map[string]any{"id": w.ID, "request": request}, func(w io.Writer) { showRequest(w, request) })
	}
	return cmd
}

func newApprovalsRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "Delete a rule, or a call that waits",
		Example: "  golem approvals revoke p7d2m4aa\n  golem approvals revoke k3v9q2xz",
		Args:    oneID,
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := flags.records()
		if err != nil {
			return err
		}
		defer r.Close()
		what, err := r.Revoke(args[0], secrets(os.Environ()))
		if err != nil {
			return err
		}
		return printLineOr(cmd, map[string]string{"revoked": args[0], "was": what}, "revoked: %s", what)
	}
	return cmd
}

func oneID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || slices.Contains(args, "") {
		return usagef("%s takes one ID; golem approvals lists them", cmd.Name())
	}
	return nil
}
