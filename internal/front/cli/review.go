package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/toolset/git"
	"github.com/golem-forge/golem/sandbox"
)

func newReview(show Explorer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "review [ID…]",
		Short: "Review staged commits, and push or discard them",
		Long: `Show the commits that workers have staged, or those that you name: warnings first, then
the files, the findings of the scanners, and the diffs. golem reads all of it from the git
objects that it would push.

golem shows only the first lines of a very long file; --all shows every line.

With --accept ID golem asks, then pushes the commit. --discard ID discards one. With -i golem
shows a commit full screen, and asks before it pushes or discards it there. Without them,
review changes nothing.`,
		Example: "  golem review\n  golem review -i\n  golem review --accept 4f2a91c",
	}
	f := addGateFlags(cmd)
	var accept, discard string
	var override []string
	var summary, all, unseen, interactive, plain bool
	cmd.Flags().StringVar(&accept, "accept", "", "push the commit with this id")
	cmd.Flags().StringVar(&discard, "discard", "", "discard the commit with this id")
	cmd.Flags().StringArrayVar(&override, "override", nil, "with --accept: push a file that a scanner holds back: PATH=REASON; may be given again")
	cmd.Flags().BoolVar(&unseen, "unseen", false, "with --accept: also push files that are too large to show")
	cmd.Flags().BoolVar(&summary, "summary", false, "do not show the diffs")
	cmd.Flags().BoolVar(&all, "all", false, "show every line of every file")
	addPlain(cmd, &interactive, &plain, "print each commit, and ask whether to push it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case accept != "" && discard != "", (accept != "" || discard != "") && len(args) > 0:
			return usageError("review shows, accepts or discards; do one at a time")
		case all && (summary || accept != "" || discard != ""):
			return usageError("--all shows every diff; it does not go with --summary, --accept or --discard")
		case accept == "" && (len(override) > 0 || unseen):
			return usageError("--override and --unseen go with --accept ID")
		case plain && !interactive:
			return usageError("--plain is for golem review -i; golem review prints plain text anyway")
		case interactive && (all || summary || accept != "" || discard != "" || wantsJSON(cmd)):
			return usageError("-i shows everything full screen; use it only with ID and --plain")
		case interactive:
			return f.exploreCommits(cmd, show, args, plain)
		case accept != "":
			return f.use(cmd, git.PushArgs{CommitID: accept, Override: override, Unseen: unseen})
		case discard != "":
			return f.use(cmd, git.DiscardArgs{CommitID: discard})
		}
		return f.review(cmd, args, summary, all)
	}
	addFetchFlag(cmd, f.programFlags)
	return cmd
}

// use calls a tool on a staged commit.
func (f *gateFlags) use(cmd *cobra.Command, args tool.Arguments) error {
	r, err := newUserCall(cmd, f, args).do()
	if err != nil {
		return err
	}
	return printResult(cmd, r)
}

// review shows the staged commits.
func (f *gateFlags) review(cmd *cobra.Command, ids []string, summary, all bool) error {
	p, err := f.program()
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	gate, err := p.OpenWorker(program.WorkerOptions{Worker: f.worker, Secrets: secrets(os.Environ()), Session: f.sessionID(), SingleCall: true, Tools: []string{"git_list_staged", "git_diff"}})
	if err != nil {
		return err
	}
	defer gate.Close()
	call := func(args tool.Arguments) (tool.Result, error) {
		call, err := tool.NewCall(args)
		if err != nil {
			return tool.Result{}, err
		}
		r := gate.Do(ctx, policy.User, call)
		if r.Err != nil {
			return r, r.Err
		}
		return r, nil
	}
	if len(ids) == 0 {
		r, err := call(git.ListArgs{})
		if none, is := errors.AsType[*sandbox.Error](err); is && none.Op == "git_list_staged" {
			renamed := *none // the user did not call the tool
			renamed.Op = "review"
			err = &renamed
		}
		if err != nil {
			return err
		}
		ids = git.IDs(r)
	}
	status := beginStatus(cmd.ErrOrStderr(), "the scanners look at what is staged")
	defer status.end()
	looks := []*git.CommitView{}
	var hidden []unshown
	for _, id := range ids {
		r, err := call(git.DiffArgs{CommitID: id})
		switch l, ok := r.Data.(*git.CommitView); {
		case err != nil && (len(ids) == 1 || ctx.Err() != nil):
			return err
		case err != nil: // an error in one commit does not hide the others
			hidden = append(hidden, unshown{id, err.Error()})
		case ok:
			looks = append(looks, l)
		}
	}
	status.end()
	if len(hidden) > 0 {
		err = fmt.Errorf("%d of %d staged commits cannot be shown; the reason is above", len(hidden), len(ids))
	}
	if wantsJSON(cmd) {
		all := map[string]any{"staged": looks}
		if len(hidden) > 0 {
			all["unshown"] = hidden
		}
		return errors.Join(printJSON(cmd.OutOrStdout(), all), err)
	}
	return errors.Join(showLooks(cmd, looks, hidden, func(l *git.CommitView, w io.Writer, page visible.Page) (err error) {
		switch {
		case summary:
			return l.ShowSummary(w, page)
		case all:
			err = l.ShowAll(ctx, w, page)
		default:
			err = l.Show(w, page)
		}
		if err == nil {
			err = l.MarkPrinted(all)
		}
		return err
	}), err)
}

// An unshown is a staged commit that golem cannot show, and the reason.
type unshown struct {
	CommitID string `json:"commitId"`
	Error    string `json:"error"`
}

// maxOverrides is how many files the suggested command names.
const maxOverrides = 5

// showLooks prints staged commits, each with the next commands.
func showLooks(cmd *cobra.Command, looks []*git.CommitView, hidden []unshown, show func(*git.CommitView, io.Writer, visible.Page) error) error {
	s := newScreen(cmd.OutOrStdout())
	if len(looks)+len(hidden) == 0 {
		fmt.Fprintln(s.w, "no commit is staged; workers stage with git_stage, you with golem tool git_stage")
		return nil
	}
	for i, l := range looks {
		if i > 0 {
			fmt.Fprintln(s.w)
		}
		if err := show(l, s.w, s.page()); err != nil {
			return err
		}
		id := sandbox.Shown(l.CommitID[:min(12, len(l.CommitID))])
		accept := "golem review --accept " + id
		for i, name := range l.Held() {
			if i == maxOverrides {
				accept += " …"
				break
			}
			accept += " " + clearance.OverrideFlag(name)
		}
		if l.HasUnseen() {
			accept += " --unseen"
		}
		for _, next := range []string{"push it: " + accept, "discard it: golem review --discard " + id} {
			if err := s.page().Line(s.w, next); err != nil {
				return err
			}
		}
	}
	for i, h := range hidden {
		if i+len(looks) > 0 {
			fmt.Fprintln(s.w)
		}
		id := sandbox.Shown(h.CommitID[:min(12, len(h.CommitID))])
		for _, line := range []string{id + "  cannot be shown: " + visible.Line(h.Error, 2000), "discard it: golem review --discard " + id} {
			if err := s.page().Line(s.w, line); err != nil {
				return err
			}
		}
	}
	return nil
}
