package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/desktop"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
)

func newDesk(serve Desk) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "desk",
		Short: "Review and decide in your browser",
		Long: `Open a page in your browser with everything that waits for you, in every directory: calls
that wait for approval, sessions with changes, staged commits and paused runs. The riskiest
comes first. You can approve a call there after you have viewed all of it. The approval
covers exactly the content that the page showed, as with golem approve. You can also choose
the hunks of a session to apply, push a staged commit, search the journal, and look at
pictures of calls, cost and connections. The page also shows what runs now, and can stop
and resume runs.

With --hub, or if your configuration names a hub, the page also has the calls that wait for
you at the hub, its jobs, and the results to fetch. golem signs your decisions there with your key.

If your configuration names desk.url, paired devices such as your phone reach the calls that
wait there too: golem desk pair adds one.

golem serves the page on this machine only, until you press Ctrl-C. The address that it
prints works once, in one browser. --listen chooses the port. The address then has a new name
below localhost each time, which Safari may not find. Other machines cannot connect.
With --demo, golem serves the demo of the sandbox for web pages instead, at port 8139.
To open the page on another machine, forward the port: ssh -L 8137:127.0.0.1:8137 HOST.`,
		Example: "  golem desk\n  golem desk --hub\n  golem desk --listen 127.0.0.1:8137",
		Args:    noArgs,
	}
	f := &programFlags{dir: "."}
	cmd.Flags().StringVar(&f.state, "state", "", "the directory of golem's state (GOLEM_STATE)")
	markShared(cmd.Flags(), "state")
	noOpen, demo, listen := false, false, "127.0.0.1:0"
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "print the address, and do not open a browser")
	cmd.Flags().StringVar(&listen, "listen", listen, "the address of this machine to listen on; port 0 is a free port")
	cmd.Flags().BoolVar(&demo, "demo", false, "serve the demo of the sandbox for web pages instead, with nothing of yours (docs/browser.md)")
	atHub, hubAccess := false, addHubFlags(cmd)
	cmd.Flags().BoolVar(&atHub, "hub", false, "also show the calls and jobs of your hub")
	cmd.MarkFlagsMutuallyExclusive("demo", "hub")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if wantsJSON(cmd) {
			return usageError("golem desk serves pages; golem status --all --json prints what waits")
		}
		if demo {
			return serveDemo(cmd, serve, listen)
		}
		o, err := f.options()
		if err != nil {
			return err
		}
		var watcher *inbox.HubWatcher
		if atHub {
			if _, err := hubAccess.credentials(); err != nil {
				return err
			}
		}
		if atHub || !cmd.Flags().Changed("hub") && hubOfConfig() != "" {
			watcher = inbox.NewHubWatcher(o, hubAccess.credentials)
		}
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		ready := func(address, file string) {
			fmt.Fprintln(cmd.OutOrStdout(), address)
			fmt.Fprintln(cmd.ErrOrStderr(), "golem: this address works once, in one browser; Ctrl-C ends the desk")
			if noOpen {
				return
			}
			if err := desktop.OpenFile(ctx, desktop.Directories(), os.Environ(), file); err != nil && ctx.Err() == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "golem: no browser was opened (%s); open the address yourself\n", visible.Line(err.Error(), maxColumns))
			}
		}
		if watcher != nil && preferences().Notify.IsRemote() {
			told := make(chan struct{})
			defer func() { stop(); <-told }()
			go func() {
				defer close(told)
				notifyHub(ctx, o, watcher)
			}()
		}
		err = serve(ctx, inbox.DeskOptions{Options: o, Listen: listen, Front: withAccount("golem desk, in a browser"), Secrets: secrets(os.Environ()), Ready: ready, Resume: f.resumeRun, Hub: watcher, Devices: preferences().Desk})
		if caught, is := errors.AsType[signaled](context.Cause(ctx)); is {
			return caught.code()
		}
		return err
	}
	cmd.AddCommand(newDeskPair(), newDeskDevices())
	return cmd
}

// serveDemo serves the demo. The browser keeps the demo's files for one address, so the port is
// the same each time.
func serveDemo(cmd *cobra.Command, serve Desk, listen string) error {
	if !cmd.Flags().Changed("listen") {
		listen = "127.0.0.1:8139"
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	ready := func(address, _ string) {
		fmt.Fprintln(cmd.OutOrStdout(), address)
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: open this address in your browser; Ctrl-C ends the demo")
	}
	err := serve(ctx, inbox.DeskOptions{Demo: true, Listen: listen, Ready: ready})
	if caught, is := errors.AsType[signaled](context.Cause(ctx)); is {
		return caught.code()
	}
	return err
}

// resumeRun starts golem run --resume for the run of a session. It has no terminal, so calls
// that need approval wait for the user.
func (f *programFlags) resumeRun(dir, session string, output *os.File) (wait func() int, err error) {
	args := []string{"run", dir, "--resume", session}
	if f.state != "" {
		args = append(args, "--state", f.state)
	}
	return jail.StartSelf(args, output)
}
