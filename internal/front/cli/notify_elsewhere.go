package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/desktop"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

func newNotify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "Try the notifications of your configuration",
		Long: `Send a message by each channel of the key notify in your configuration, to see that it arrives.

golem tells you by these channels when a call has waited for your approval for ten seconds. The
message has the tools, the name of the directory and the risk. With notify.content it also says
what the calls would do. A channel that does not answer never holds up a run: another
process sends, and tries again for about an hour. golem desk tells you about calls at your hub.`,
		Example: "  golem config edit --user\n  golem notify",
		Args:    noArgs,
	}
	f := &programFlags{dir: "."}
	cmd.Flags().StringVar(&f.state, "state", "", "the directory of golem's state (GOLEM_STATE)")
	markShared(cmd.Flags(), "state")
	waiting := ""
	cmd.Flags().StringVar(&waiting, "waiting", "", "send what waits in the state of a program")
	if err := cmd.Flags().MarkHidden("waiting"); err != nil {
		panic(err)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if wantsJSON(cmd) {
			return usageError("golem notify sends a message, and prints no data")
		}
		if waiting != "" {
			o, err := f.options()
			if err != nil {
				return err
			}
			return notifyWaiting(cmd.Context(), o, waiting)
		}
		n := preferences().Notify
		switch {
		case n.Denied != "":
			return &sandbox.Error{Op: "notify", Code: "blocked", Hint: "a policy does not allow the host of the webhook: " + n.Denied}
		case !n.IsRemote():
			return &sandbox.Error{Op: "notify", Code: sandbox.ErrInvalid, Hint: "your configuration names no command, webhook or mail; golem config edit --user, and write for example notify: {webhook: https://ntfy.sh/my-topic, form: ntfy}"}
		}
		if err := channels().Send(cmd.Context(), desktop.Notice{Text: "this is a test of golem notify"}); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), "golem sent a message; look where it should arrive")
		return nil
	}
	return cmd
}

// channels returns the channels of the user's configuration.
func channels() desktop.Channels {
	n := preferences().Notify
	return desktop.Channels{Command: n.Command, Webhook: n.Webhook, Form: n.Form, Mail: n.Mail, Environ: os.Environ(), Directories: desktop.Directories(), Pause: pause}
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// maxNamed is how many tools and titles a message has.
const maxNamed = 5

// describeWaiting returns the notice about calls that wait in a directory, or at the hub, whose calls
// no device shows.
func describeWaiting(items []inbox.Item, directory string, content bool) desktop.Notice {
	n, where := desktop.Notice{Directory: directory, Link: preferences().Desk.URL}, "in "+directory
	if items[0].Job != "" {
		n.Link, where = "", "at the "+directory
	}
	n.Risk = slices.MaxFunc(items, func(a, b inbox.Item) int { return cmp.Compare(a.Risk, b.Risk) }).Risk.String()
	for _, i := range items {
		if !slices.Contains(n.Tools, i.Tool) && len(n.Tools) < maxNamed {
			n.Tools = append(n.Tools, i.Tool)
		}
		if content && len(n.Titles) < maxNamed {
			n.Titles = append(n.Titles, i.Title)
		}
	}
	text := fmt.Sprintf("%s %s for you %s, %s risk: %s", visible.Count(len(items), "call"), visible.Verb(len(items), "waits", "wait"), where, n.Risk, strings.Join(n.Tools, ", "))
	lines := append([]string{text}, n.Titles...)
	if n.Link != "" {
		lines = append(lines, n.Link)
	}
	n.Text = strings.Join(lines, "\n")
	return n
}

// startNotify starts a golem that tells the user elsewhere what waits in the state of a program.
// It does not end with this process, and nobody waits for it.
func startNotify(at sandbox.Host) {
	if !preferences().Notify.IsRemote() {
		return
	}
	none, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return // the question waits all the same
	}
	defer none.Close()
	if wait, err := jail.StartSelf([]string{"notify", "--state", filepath.Dir(string(at)), "--waiting", filepath.Base(string(at))}, none); err == nil {
		go wait() // so that it is no zombie
	}
}

// notifyWaiting tells the user elsewhere what waits in the state of a program, once for each
// call. Only one process does so for each program. It ends when nothing new waits.
func notifyWaiting(ctx context.Context, o program.Options, key string) error {
	p, err := inbox.OpenProgram(o, key)
	if err != nil {
		return err
	}
	folder, err := state.Open(string(p.Storage.Dir()))
	if err != nil {
		return err
	}
	defer folder.Close()
	records, err := p.Storage.OpenRecords()
	if err != nil {
		return err
	}
	defer records.Close()
	reader := &inbox.Reader{Options: o}
	name := visible.Line(filepath.Base(string(p.Root())), maxWhat)
	// young is set if a call waits that is too young to tell about it.
	current := func() (items []inbox.Item, young bool) {
		told := make(map[string]bool)
		pending, _ := records.Waiting(p.Storage.Sessions)
		for _, w := range pending {
			told[w.ID] = w.Notified
		}
		for _, i := range reader.WaitingIn(p, "") {
			if is, ok := told[i.ID]; !ok || is {
				continue
			}
			if o.Now().Sub(i.Since) < waitsLong {
				young = true
			} else {
				items = append(items, i)
			}
		}
		return items, young
	}
	for {
		short, cancel := context.WithTimeout(ctx, time.Second)
		release, err := folder.Lock(short, "notify", "golem notify")
		cancel()
		if err != nil {
			return nil // another one does it, and looks again before it ends
		}
		for items, young := current(); len(items) > 0 || young; items, young = current() {
			var ids []string
			channels().Deliver(ctx, func() (desktop.Notice, bool) { // what failed for an hour is not tried again
				items, _ := current()
				if ids = ids[:0]; len(items) == 0 {
					return desktop.Notice{}, false
				}
				for _, i := range items {
					ids = append(ids, i.ID)
				}
				return describeWaiting(items, name, preferences().Notify.Content), true
			})
			if err := records.Approvals.SetNotified(ids); err != nil {
				return err
			}
			if _, young := current(); young {
				if err := pause(ctx, waitsLong); err != nil {
					return err
				}
			}
		}
		if err := release(); err != nil {
			return err
		}
		if items, young := current(); len(items) == 0 && !young {
			return nil
		}
	}
}

// maxToldHub is how many calls at the hub golem remembers that it told about.
const maxToldHub = 1000

// notifyHub tells the user elsewhere what waits at the hub, once for each call, until ctx ends.
func notifyHub(ctx context.Context, o program.Options, w *inbox.HubWatcher) {
	for pause(ctx, waitsLong) == nil {
		tellHub(ctx, o, func() (items []inbox.Item) {
			for _, i := range w.State().Items {
				if (i.Kind == inbox.KindCall || i.Kind == inbox.KindHost) && o.Now().Sub(i.Since) >= waitsLong {
					items = append(items, i)
				}
			}
			return items
		})
	}
}

// tellHub tells the user elsewhere about the calls at the hub that wait and that nobody told about.
// Of several desks one does so.
func tellHub(ctx context.Context, o program.Options, waiting func() []inbox.Item) {
	items := waiting()
	if len(items) == 0 {
		return
	}
	folder, err := state.Open(filepath.Join(o.StateBase(), items[0].Program))
	if err != nil {
		return // the calls wait all the same
	}
	defer folder.Close()
	short, cancel := context.WithTimeout(ctx, time.Second)
	release, err := folder.Lock(short, "notify", "golem desk")
	cancel()
	if err != nil {
		return
	}
	defer release()
	const document = "notified.json"
	var told []string
	if data, err := folder.Read(document); err != nil || len(data) > 0 && json.Unmarshal(data, &told) != nil {
		return
	}
	name := func(i inbox.Item) string { return i.Job + " " + i.ID }
	var now []string
	channels().Deliver(ctx, func() (desktop.Notice, bool) { // what failed for an hour is not tried again
		items := slices.DeleteFunc(waiting(), func(i inbox.Item) bool { return slices.Contains(told, name(i)) })
		if now = visible.Each(items, name); len(items) == 0 {
			return desktop.Notice{}, false
		}
		return describeWaiting(items, "hub", preferences().Notify.Content), true
	})
	if ctx.Err() != nil || len(now) == 0 {
		return
	}
	told = append(told, now...)
	folder.Update(document, func([]byte) ([]byte, error) { return json.Marshal(told[max(0, len(told)-maxToldHub):]) })
}
