package inbox

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/detached"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/sandbox"
)

// An Activity is a session that a golem works in now, or whose run is not finished. All its
// texts are visible text.
type Activity struct {
	About
	Directory string    `json:"directory"`
	Process   int       `json:"pid,omitempty"` // of the golem that works in it, 0 if it is not known
	Since     time.Time `json:"since,omitzero"`
	Command   string    `json:"command,omitempty"` // the program that golem exec runs
	// Detached is the program that runs in the background of the session, or that ended there
	// within the last days; nil if there is none.
	Detached *detached.Status `json:"detached,omitempty"`
	// Usage is what golem and the commands in its jail use, nil if it is not known. Load is
	// how many processors they kept busy since the last look, -1 before the second look.
	Usage       *jail.Usage     `json:"usage,omitempty"`
	Load        float64         `json:"load"`
	Doing       string          `json:"doing,omitempty"` // what its run does at the moment, or the last output of a program in the background, in one line
	Ports       []PublishedPort `json:"ports,omitempty"`
	Connections []Event         `json:"connections,omitempty"` // the last ones
	Open        int             `json:"open_connections"`
	Waiting     []Item          `json:"waiting,omitempty"` // calls and hosts that wait for the user
	Resume      bool            `json:"resume"`            // its run can continue
}

// maxConnections is how many connections an Activity has, and maxConnectionRecords how many
// records golem reads for them.
const (
	maxConnections       = 8
	maxConnectionRecords = 200
)

// resumable is how long golem offers to continue a run that was stopped or killed.
const resumable = 7 * 24 * time.Hour

// A Watcher reads again and again what the user's golems do.
type Watcher struct {
	Options program.Options
	Reader  *Reader // assesses the calls that wait

	mu   sync.Mutex
	last map[int]sample // by process
}

// A sample is a usage at a time.
type sample struct {
	cpu time.Duration
	at  time.Time
}

// Activities returns the sessions that a golem works in now, the one that works longest
// first, and then those whose run is not finished.
func (w *Watcher) Activities(ctx context.Context) ([]Activity, error) {
	known, err := inventory.Programs(w.Options.StateBase())
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(known, func(a, b inventory.Known) int { return cmp.Compare(a.Directory, b.Directory) })
	var list []Activity
	last := ""
	for _, k := range known {
		if k.Directory == "" || last == string(k.Directory) {
			continue
		}
		last = string(k.Directory)
		all, _, err := sessionsIn(w.Options, last)
		if err != nil {
			continue // the inbox reports it
		}
		for _, s := range all {
			if a, ok := w.activity(s, last); ok {
				list = append(list, a)
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return w.complete(list), nil
}

// ItemsWithActivities returns what Reader.Items and Activities return. It loads each program
// once.
func (w *Watcher) ItemsWithActivities(ctx context.Context) (items []Item, problems []Problem, list []Activity, err error) {
	items, problems, err = w.Reader.items(ctx, func(s ProgramSession, dir string) {
		if a, ok := w.activity(s, dir); ok {
			list = append(list, a)
		}
	})
	return items, problems, w.complete(list), err
}

// ActivitiesOf returns what Activities returns, for some sessions.
func (w *Watcher) ActivitiesOf(all []ProgramSession) (list []Activity) {
	for _, s := range all {
		if a, ok := w.activity(s, string(s.Program.Root())); ok {
			list = append(list, a)
		}
	}
	return w.complete(list)
}

// complete adds what the processes use, and sorts the list.
func (w *Watcher) complete(list []Activity) []Activity {
	var processes []int
	for _, a := range list {
		processes = append(processes, a.Process)
	}
	w.addUsage(list, jail.ReadUsage(processes))
	slices.SortStableFunc(list, func(a, b Activity) int {
		if (a.State == storage.SessionRunning) != (b.State == storage.SessionRunning) {
			return map[bool]int{true: -1, false: 1}[a.State == storage.SessionRunning]
		}
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// activity returns what happens in a session. ok is false if nothing does.
func (w *Watcher) activity(s ProgramSession, dir string) (a Activity, ok bool) {
	process, isRun := s.Program.Storage.ProcessOf(s.Session)
	running := process > 0 || s.Program.Storage.IsRunning(s.Session)
	at := filepath.Join(s.Dir(), detached.Name)
	background, isDetached := detached.Read(at)
	since := s.LastUsed
	if isDetached && !background.Running {
		since = background.LastUsed(at)
		isDetached = !running && w.Options.Now().Sub(since) < resumable
	}
	running = running || isDetached && background.Running // it has not ended after its last call
	if !running && !isDetached && (w.Options.Now().Sub(s.LastUsed) > resumable || !s.isUnfinished()) {
		return a, false
	}
	about, err := s.About()
	if err != nil {
		return a, false
	}
	if running {
		about.State = storage.SessionRunning
	}
	a = Activity{About: about, Directory: visible.Text(dir), Process: process, Since: since, Load: -1}
	if h, ok := s.Holder(); ok && running {
		a.Since = h.Since
		if !isRun && !about.HasRun {
			a.Command = h.Command
		}
	}
	if isDetached {
		a.Detached, a.Command, a.Doing = &background, visible.Line(background.Command, maxWhat), background.Last
	}
	if running {
		a.Ports = PublishedPorts([]ProgramSession{s})
		a.Connections, a.Open = s.lastConnections()
		a.Doing = cmp.Or(s.doing(), a.Doing)
	}
	a.Waiting = w.Reader.WaitingIn(s.Program, s.ID)
	a.Resume = !running && s.isUnfinished() && !slices.ContainsFunc(a.Waiting, func(i Item) bool { return i.Kind == KindCall })
	return a, true
}

// WaitingIn returns the calls and hosts of a session that wait for the user, or those of all
// sessions of the program if the session is "".
func (r *Reader) WaitingIn(p *program.Program, session string) (items []Item) {
	for _, c := range waiting(p, session) {
		items = append(items, r.call(c, string(p.Root())))
	}
	return items
}

// waiting returns the calls that WaitingIn returns as items.
func waiting(p *program.Program, session string) (list []Call) {
	var all []approval.PendingRequest
	withRecords(p, func(r *storage.Records) (err error) { // without them nothing waits
		all, err = r.Waiting(p.Storage.Sessions)
		return err
	})
	for _, one := range all {
		if session == "" || one.Session == session {
			list = append(list, Call{one, p})
		}
	}
	return list
}

// HasRun reports whether a worker was run in the session.
func (s ProgramSession) HasRun() bool {
	begin, err := s.Program.Storage.Runs().Begin(s.Session)
	return err == nil && begin.Worker != ""
}

// isUnfinished reports whether the session has a run that is not finished.
func (s ProgramSession) isUnfinished() bool {
	sum, err := s.Program.Storage.Runs().Summary(s.Session)
	return err == nil && sum.End != run.Finished && sum.Begin.Worker != ""
}

// isPaused reports whether the session has a run that waits for an approval, or can continue
// after one. Runs.IsPaused would read all sessions to find this one.
func (s ProgramSession) isPaused() bool {
	end, err := s.Program.Storage.Runs().End(s.Session)
	return err == nil && end == run.Paused
}

// hasUnsent reports whether the session has a run that does not know all comments on its changes.
func (s ProgramSession) hasUnsent() bool {
	notes, err := choice.ReadNotes(s.Session)
	return err == nil && len(notes.Unsent()) > 0 && s.HasRun()
}

// CanResume reports whether the session has a run that does not work, that is not finished or does
// not know all comments, and none of its calls waits for the user.
func (s ProgramSession) CanResume() bool {
	return (s.isUnfinished() || s.hasUnsent()) && !s.Program.Storage.IsRunning(s.Session) && !slices.ContainsFunc(waiting(s.Program, s.ID), func(c Call) bool { return c.Tool != tool.ConnectTool })
}

// lastConnections returns the last connections of the session, the newest first, and how
// many of its connections are open.
func (s ProgramSession) lastConnections() (list []Event, open int) {
	folder, err := s.Program.Storage.OpenJournal()
	if err != nil || folder == nil {
		return nil, 0
	}
	defer folder.Close()
	var all audit.Connections
	err = audit.Last(folder, audit.Filter{Session: s.ID, Tool: audit.ConnectTool}, maxConnectionRecords, func(r audit.Record, _ []byte) error {
		all.Add(r)
		return nil
	})
	if err != nil {
		return nil, 0
	}
	for _, c := range slices.Backward(all.List) {
		if !c.Ended && c.Code == "" {
			open++
		}
		if len(list) < maxConnections {
			list = append(list, connectionEvent(c))
		}
	}
	return list, open
}

// addUsage adds what processes use.
func (w *Watcher) addUsage(list []Activity, all map[int]jail.Usage) {
	now := w.Options.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	next := make(map[int]sample)
	for i := range list {
		a := &list[i]
		u, ok := all[a.Process]
		if !ok || u.Processes == 0 {
			continue
		}
		a.Usage = &u
		before, ok := w.last[a.Process]
		if passed := now.Sub(before.at); ok && passed < time.Second {
			next[a.Process] = before // too soon for a figure that says something
			a.Load = -1
		} else if ok && u.CPU >= before.cpu {
			a.Load = float64(u.CPU-before.cpu) / float64(passed)
			next[a.Process] = sample{u.CPU, now}
		} else {
			next[a.Process] = sample{u.CPU, now}
		}
	}
	w.last = next
}

// Stop asks the golem that works in the session to end. A run ends after its current call,
// or at once with now. A command of golem exec ends at once.
func (s ProgramSession) Stop(now bool) (what string, err error) {
	process, isRun := s.Program.Storage.ProcessOf(s.Session)
	fail := func(hint string) error {
		return &sandbox.Error{Op: "stop", Path: s.ID, Code: sandbox.ErrNotFound, Hint: hint}
	}
	if process == 0 && s.Program.Storage.IsRunning(s.Session) {
		return "", fail("this system does not show which process works in it; press Ctrl-C in its terminal")
	}
	if process == 0 {
		return "", fail("no golem works in it now")
	}
	p, err := os.FindProcess(process)
	if err != nil {
		return "", fail("no golem works in it now")
	}
	defer p.Release()
	if again, _ := s.Program.Storage.ProcessOf(s.Session); again != process { // the process has ended, and another may have its id
		return "", fail("no golem works in it now")
	}
	signal, what := os.Signal(syscall.SIGTERM), "golem ends what runs in session "+s.ID
	if isRun && !now {
		signal, what = os.Interrupt, "the run in session "+s.ID+" stops after its current call"
	}
	if err := p.Signal(signal); err != nil {
		return "", &sandbox.Error{Op: "stop", Path: s.ID, Code: sandbox.ErrInvalid, Hint: fmt.Sprintf("golem cannot end process %d: %v; press Ctrl-C in its terminal", process, err)}
	}
	return what, nil
}

// Now returns what the run of the session does at the moment: the answer that a model
// writes, or the output of a command. ok is false if there is nothing to show.
func (s ProgramSession) Now() (e Event, ok bool) {
	title, text := run.ReadNow(s.Dir())
	if title == "" || !s.Program.Storage.IsRunning(s.Session) {
		return e, false
	}
	e = Event{Kind: EventNote, Title: visible.Line(title, maxTitle)}
	e.setText(lastRunes(text, maxEventText))
	return e, true
}

// doing returns what the run of the session does at the moment, in one line: with the last
// line of an output.
func (s ProgramSession) doing() string {
	e, ok := s.Now()
	if !ok {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(e.Text), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return e.Title + ": " + visible.Cut(last, maxTitle)
	}
	return e.Title
}

// lastRunes returns the last n characters of a text.
func lastRunes(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[len(runes)-n:])
	}
	return text
}
