package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
)

// A userCall is a call of a tool that a command makes for the user.
type userCall struct {
	*gateFlags
	tool.Call
	wrong      error // about the arguments
	cmd        *cobra.Command
	work       *workSession // the session with the changes that the call is about; nil for none
	otherwise  fallback     // what to open in a directory without a program
	doing      string       // what the call does, for the status line; the name of the tool if ""
	inputTaken bool         // standard input held content, so golem asks at the controlling terminal
	before     seenBefore
	partly     bool                          // some changes of the session were applied, and others not
	explain    func(tool.Result) tool.Result // says an error in the words of the command; may be nil

	program  *program.Program
	paths    *paths // converts the paths in prompts and results; nil for commands that take names of the sandbox
	terminal *os.File
	asker    *asker      // nil if there is no terminal
	live     *liveOutput // prints the output of a command while it runs; nil if it is printed in the end
}

// seenBefore is what the user has seen before the question.
type seenBefore struct {
	items   func(tool.Request) []string // the items of a request; may be nil
	changed func(tool.Request) []string // the paths that had other content; may be nil
	repeats bool                        // the items are no longer on screen
}

// newUserCall returns a call with arguments. If they are wrong, do returns the error.
func newUserCall(cmd *cobra.Command, f *gateFlags, args tool.Arguments) *userCall {
	call, err := tool.NewCall(args)
	return &userCall{gateFlags: f, cmd: cmd, Call: call, wrong: err}
}

// undoes reports whether the call undoes the last change.
func (c *userCall) undoes() bool { return c.Tool == "undo" }

// run makes the call, and prints the result.
func (c *userCall) run() error {
	r, err := c.do()
	if err != nil && r.OK() {
		return err
	}
	if c.explain != nil {
		r = c.explain(r)
	}
	if c.work != nil {
		r = c.addNext(r)
	}
	return cmp.Or(printResult(c.cmd, r), err)
}

// do makes the call.
func (c *userCall) do() (r tool.Result, err error) {
	if err = c.wrong; err == nil {
		err = c.openProgram()
	}
	if err != nil {
		return r, err
	}
	if c.undoes() && c.recovered.hasUndone() { // the user wants one change undone, not two
		return tool.Result{Text: "completed the undo that was cut off; golem undo --list lists what can be undone next"}, nil
	}
	ctx, stop := untilSignal(c.cmd.Context())
	defer stop()
	if c.terminal = findTerminal(c.inputTaken); c.terminal != nil && c.terminal != os.Stdin {
		defer c.terminal.Close()
	}
	gate, err := c.openGate(ctx)
	if err != nil {
		return r, err
	}
	r = c.make(ctx, gate)
	err = c.close(ctx, gate, r)
	return c.omitSeen(r), err
}

// openProgram opens the program of the call, and asks whether the user trusts it.
func (c *userCall) openProgram() (err error) {
	switch {
	case c.work != nil:
		c.program, c.paths = c.work.program, c.work.paths
	case c.undoes():
		c.program, err = c.undoable()
	default:
		c.program, err = c.programOr(c.otherwise)
	}
	if err == nil {
		err = c.program.CheckEntry()
	}
	if err == nil {
		err = c.askTrust(c.cmd, c.program, c.inputTaken)
	}
	if err == nil && c.undoes() {
		c.paths, err = c.pathsOf(c.program)
	}
	return err
}

// openGate opens the gate, and prints what the user should know before the call.
func (c *userCall) openGate(ctx context.Context) (*program.OpenWorker, error) {
	o := program.WorkerOptions{ApproveReads: c.reads, Session: c.sessionID(), SingleCall: true, Undo: c.undoes(), Tools: []string{c.Tool}, Clipboard: clipboardOf(c.terminal)}
	if c.Tool == "shell" && !wantsJSON(c.cmd) {
		c.live = newLiveOutput(c.cmd.OutOrStdout(), "")
	}
	if c.live != nil {
		o.OnOutput = func(_ []string, data []byte) { c.live.write(data) }
	}
	if c.terminal != nil {
		c.asker = newAsker(c.terminal, c.cmd.ErrOrStderr(), c.wait)
		c.asker.before, c.asker.changed, c.asker.repeats, c.asker.local = c.before.items, c.before.changed, c.before.repeats, c.localRequest
		o.Asker = c.asker
	}
	gate, err := c.openWorker(ctx, c.cmd, c.program, o)
	if err != nil {
		return nil, err
	}
	if c.copy && gate.Session == nil {
		note(c.cmd, "--copy has no effect: no mount of this program has mode: overlay")
	}
	notes := gate.StartNotes
	if canChange(gate.Gate, c.Tool) {
		notes = slices.Concat(notes, gate.Notes)
	}
	note(c.cmd, notes...)
	return gate, nil
}

// openWorker opens the worker of a command. It reports the progress of a copy, and a signal that
// ended the copy.
func (f *gateFlags) openWorker(ctx context.Context, cmd *cobra.Command, p *program.Program, o program.WorkerOptions) (*program.OpenWorker, error) {
	copying := newCopying(ctx, cmd.ErrOrStderr(), wantsCopy(f.copy))
	o.Worker, o.Secrets, o.Copy, o.OnCopy = f.worker, secrets(os.Environ()), wantsCopy(f.copy), copying.tell
	gate, err := p.OpenWorker(o)
	copying.end(err == nil)
	if caught, is := errors.AsType[signaled](err); is {
		note(cmd, "stopped before the copy was complete; nothing was done, and the copy was removed")
		return nil, caught.code()
	}
	return gate, err
}

// canChange reports whether a tool can change files.
func canChange(g tool.Gate, name string) bool {
	for _, t := range g.Tools {
		if t.Name == name {
			return slices.ContainsFunc(t.Verbs, func(v policy.Verb) bool { return v != policy.Read })
		}
	}
	return false
}

// localRequest returns a request as the user sees it: with the paths that the user types,
// and with the session if there are several.
func (c *userCall) localRequest(r tool.Request) tool.Request {
	r = c.paths.localRequest(r)
	if c.work != nil && len(c.work.others) > 0 {
		r.Session = c.work.describe()
	}
	return r
}

// make makes the call through the gate.
func (c *userCall) make(ctx context.Context, gate *program.OpenWorker) tool.Result {
	working := beginStatus(c.cmd.ErrOrStderr(), cmp.Or(c.doing, visible.Line(c.Tool, maxMark)))
	ctx = tool.WithProgress(ctx, func(part float64) { working.advance(int64(part*progressSteps), progressSteps, "") })
	r := c.paths.localResult(gate.Do(ctx, policy.User, c.Call))
	working.end()
	if c.live != nil && c.live.wrote {
		c.live.end()
		r.Output = ""
	}
	if note := gate.PendingNote(); note != "" {
		r.Notes = append(r.Notes, note)
	}
	if note := meant(c.program, c.Args, r.Err); note != "" {
		r.Notes = append(r.Notes, note)
	}
	if r.Err != nil {
		if note := fullNote(c.program, r.Err.Hint); note != "" {
			r.Notes = append(r.Notes, note)
		}
	}
	if c.asker != nil && c.asker.why != nil && r.Pending != nil {
		r.Notes = append(r.Notes, c.asker.why.Error())
	}
	return r
}

// fullNote says that the disk with the state directory is full, if an error says that a disk is
// full and nothing can be written there. Only the user may see this text.
func fullNote(p *program.Program, err string) string {
	if !strings.Contains(err, "no space left on device") && !strings.Contains(err, "disk quota exceeded") {
		return ""
	}
	const enough = 64 << 10 // for the records of a call
	try, wrong := os.CreateTemp(string(p.Storage.Dir()), ".space-")
	if wrong == nil {
		_, wrong = try.Write(make([]byte, enough))
		wrong = errors.Join(wrong, try.Close(), os.Remove(try.Name()))
	}
	if wrong == nil {
		return ""
	}
	return "the disk with golem's state directory " + visible.Text(string(p.Storage.Dir())) + " is full; free some space on that disk, and type the command again; golem sessions rm ID removes a session, and needs almost no space"
}

// explainFull adds a fullNote to an error.
func explainFull(p *program.Program, err error) error {
	if err == nil {
		return nil
	}
	if note := fullNote(p, err.Error()); note != "" {
		return fmt.Errorf("%w; %s", err, note)
	}
	return err
}

// close closes the gate after the call, and returns the signal if one ended the call.
func (c *userCall) close(ctx context.Context, gate *program.OpenWorker, r tool.Result) error {
	err := gate.Close()
	if err != nil && r.Err == nil { // the call was done, and its result counts
		err = withLate(c.cmd, printResult(c.cmd, r), err)
	}
	if c.sessionID() == session.New && r.Err != nil && r.Pending == nil && c.program.Storage.Sessions.IsUnused(gate.Session, profile.Profile{}) {
		err = cmp.Or(err, c.program.Storage.RemoveUnused(gate.Session)) // otherwise this unused session would be the last used one, before sessions with changes
	}
	if caught, is := errors.AsType[signaled](context.Cause(ctx)); is && (r.Err == nil || r.Err.Code != "declined") { // a signal during a question already declined the call
		if err != nil {
			fmt.Fprintln(c.cmd.ErrOrStderr(), "golem:", err)
		}
		err = caught
	}
	return err
}

// omitSeen returns a result without the changes if the user has just seen them in a
// question.
func (c *userCall) omitSeen(r tool.Result) tool.Result {
	c.partly = slices.ContainsFunc(r.Changes, func(c tool.Change) bool { return c.Part != "" })
	if c.asker == nil || !c.asker.shown || wantsJSON(c.cmd) {
		return r
	}
	if r.OK() && r.Done != nil && r.Done.Undone {
		r.Text, r.Done = r.Done.Named(), nil
	}
	r.Changes = nil
	return r
}

// addNext adds to the result of applying or discarding changes what the user can type next.
func (c *userCall) addNext(r tool.Result) tool.Result {
	discards := c.Tool == "discard_changes"
	if !wantsJSON(c.cmd) && (discards || c.commits && r.OK()) {
		r.Changes = nil // in the list they would look like changes of the directory
	}
	if r.Err != nil && r.Err.Code == "declined" && r.Pending == nil {
		r.Notes = append(r.Notes, c.nextIfDeclined(discards))
	}
	if r.OK() && !discards && r.Done != nil && !c.commits {
		if c.partly {
			look := "golem diff"
			if len(c.work.others) > 0 {
				look += " --session " + c.work.label()
			}
			r.Notes = append(r.Notes, "the rest stays in session "+c.work.label()+"; "+look+" shows it")
		}
		r.Notes = append(r.Notes, visible.UndoNote(r.Final))
	}
	return r
}

// nextIfDeclined says what to type after the user declined to apply or discard changes.
func (c *userCall) nextIfDeclined(discards bool) string {
	text, option := "the changes stay in session "+c.work.label()+"; ", c.work.option()
	switch {
	case c.orChanges:
		return "nothing was pushed; " + text + "golem diff" + option + " shows them"
	case c.commits:
		return "the commits stay in session " + c.work.label() + "; golem diff" + option + " --commits shows them"
	case discards:
		return text + "golem diff" + option + " shows them, golem discard" + option + " PATH… deletes some"
	}
	return text + "golem apply" + option + " -p chooses some, golem discard" + option + " deletes them"
}
