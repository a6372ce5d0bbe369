package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

func newPR() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pr [@SESSION]",
		Short: "Push the commits or changes of a session, and open a pull request",
		Long: `Push the commits that the agent made in a session as a new branch of your repository on
GitHub, and open a pull request. If the agent made no commit, golem makes one of the changed
files, on the branch that you have checked out. golem shows the text of the pull request and every commit
with its diff, asks once, and pushes exactly these commits. It never forces. No worker and no
agent can call this.

The text names the files that become code and the other warnings of the review, and says that
you approved the commits. golem pushes nothing that a scanner holds back, unless you give
--override PATH=REASON.

golem uses GITHUB_TOKEN, or the token of gh. The repository is that of the remote origin on
github.com, or --repo. For another server, or without a token, golem takes the commits as a
branch of your repository, and prints what you type next.

If golem or the machine is killed in the middle, type the command again: golem continues, and
opens no second pull request. If the session has new commits later, the command adds them to
the branch. If the branch on GitHub has other commits, golem refuses; --branch names another.

Exit code 0: the pull request is open; 1: failed; 2: wrong arguments; 3: declined, or no
terminal to ask at.`,
		Example: `  golem pr
  golem pr @fix-login --branch fix-login --title 'Fix the login'
  golem pr --repo github.example.com/team/shop --base develop --draft`,
	}
	f := addChoiceFlags(cmd)
	f.commits, f.orChanges = true, true
	var a settle.PullRequestArgs
	yes := false
	cmd.Flags().StringVar(&a.Branch, "branch", "", "the branch to push; the name of the session if not given")
	cmd.Flags().StringVar(&a.Base, "base", "", "the branch to merge into; the default branch of the repository if not given")
	cmd.Flags().StringVar(&a.Title, "title", "", "the title, also of the commit that golem makes; the first line of the first commit if not given")
	cmd.Flags().StringVar(&a.Repo, "repo", "", "the repository: OWNER/NAME, or SERVER/OWNER/NAME; that of the remote origin if not given")
	cmd.Flags().BoolVar(&a.Draft, "draft", false, "open it as a draft")
	cmd.Flags().StringArrayVar(&a.Override, "override", nil, "push a file that a scanner holds back: PATH=REASON; may be given again")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it without showing the commits and without asking; the pull request says so")
	cmd.Flags().DurationVar(&f.wait, "wait", patience, "how long to wait for an approval")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		args, err := f.takeSession(args)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			return usagef("golem pr takes all commits or changes of a session, and no paths; @%s means the session", visible.Line(args[0], 100))
		}
		if yes {
			f.approval, a.Unseen = "approve_all", true
		}
		w, err := f.choose(cmd)
		if err == nil {
			err = w.awaitCalls(cmd, "pushed")
		}
		if err != nil {
			return err
		}
		if yes {
			fmt.Fprintln(cmd.ErrOrStderr(), "golem: pushing the commits unseen (--yes)")
		}
		c := newUserCall(cmd, f, a)
		c.work, c.doing = w, "reading the commits and the repository on GitHub"
		c.explain = func(r tool.Result) tool.Result {
			if r.Err != nil && r.Err.Op == cmd.Name() && r.Err.Code == sandbox.ErrExists { // nothing is left to do
				return tool.Result{Text: r.Err.Hint}
			}
			return r
		}
		return c.run()
	}
	addFetchFlag(cmd, f.programFlags)
	return cmd
}
