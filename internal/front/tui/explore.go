package tui

import (
	"context"
	"errors"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/git"
	"github.com/golem-forge/golem/sandbox"
)

// Explore shows what waits for the user until the user quits or ctx ends. It returns the
// last words for the user, because the screen is gone then.
func Explore(ctx context.Context, o inbox.ExploreOptions) (last string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	m := newModel(ctx, o)
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.Terminal), tea.WithOutput(o.Terminal), tea.WithEnvironment(o.Environ), tea.WithoutSignalHandler())
	m.send = p.Send
	var work sync.WaitGroup
	m.do = func(job func() tea.Msg) { work.Go(func() { p.Send(job()) }) }
	if o.Hub != nil {
		o.Hub.OnChange = func() { p.Send(heard{}) }
		work.Go(func() { o.Hub.Watch(ctx) })
	}
	_, err = p.Run()
	cancel()
	work.Wait() // a call that was begun ends before golem does
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		err = nil
	}
	return m.last, err
}

// A backend reads what waits and makes the calls of the user, beside the screen. Each of
// its methods sends a message with the result.
type backend struct {
	o    inbox.ExploreOptions
	ctx  context.Context
	send func(tea.Msg)
	do   func(job func() tea.Msg) // runs a job, and sends its message
}

// The messages.
type (
	// reviewed holds the changes of a session.
	reviewed struct {
		session inbox.ProgramSession
		list    *session.Review
		holder  *changes.Holder // what works in the session now; nil for nothing
		again   bool            // the session was on the screen when golem began to read
		err     error
	}
	// loaded holds the contents of a changed file.
	loaded struct {
		file      *file
		real, own []byte
		err       error
	}
	// listed holds everything that waits.
	listed struct {
		items    []inbox.Item
		problems []inbox.Problem
		took     time.Duration
		err      error
	}
	// refresh says that the list is old.
	refresh struct{}
	// heard says that something else waits at the hub.
	heard struct{}
	// opened is a call that waits. changed says that it was shown with other content before.
	opened struct {
		call    waiting
		request tool.Request
		changed bool
		err     error
	}
	// answered says that a call that waits was answered, or why not.
	answered struct {
		call  waiting
		reply approval.Reply
		err   error
	}
	// controlled says what became of stopping or continuing what runs in a session.
	controlled struct {
		note string
		err  error
	}
	// examined is a staged commit.
	examined struct {
		program *program.Program
		look    *git.CommitView
		err     error
	}
	// reloaded holds the contents of files that were read before the changes were read again.
	reloaded struct {
		review *review
		files  []loaded
	}
	// asked is a question of a call that the user began here.
	asked struct {
		program *program.Program
		request tool.Request
		shown   choice.Shown
		reply   chan<- approval.Reply
	}
	// called is the result of such a call.
	called struct {
		program *program.Program
		result  tool.Result
		err     error
	}
	// drawn says that a frame was on the screen for a moment.
	drawn struct{ frame int }
	// settled says that a question was on the screen long enough for an answer.
	settled struct{ question *question }
)

// drawTime is how long a frame must be on the screen before its lines count as shown. It
// is longer than a frame of the renderer, which skips frames that were replaced.
const drawTime = 50 * time.Millisecond

// readList reads everything that waits.
func (b *backend) readList() {
	b.do(func() tea.Msg {
		begin := time.Now()
		items, problems, err := b.o.Items(b.ctx)
		if b.o.Hub != nil && err == nil {
			state := b.o.Hub.State()
			items = inbox.MergeItems(items, state.Items)
			if state.Problem != "" {
				problems = append(problems, inbox.Problem{Directory: "your hub", Text: state.Problem})
			}
		}
		return listed{items, problems, time.Since(begin), err}
	})
}

// openItem reads an item of the list, to show it.
func (b *backend) openItem(it inbox.Item) {
	b.do(func() tea.Msg {
		switch it.Kind {
		case inbox.KindChanges:
			s, err := inbox.OpenSession(b.o.Options, it.Program, it.Session)
			if err != nil {
				return reviewed{err: err}
			}
			return reviewSession(s, nil)
		case inbox.KindCommit:
			p, err := inbox.OpenProgram(b.o.Options, it.Program)
			if err != nil {
				return examined{err: err}
			}
			_, look, err := inbox.ReadStaged(b.ctx, p, it.ID, b.o.Gate.Secrets)
			return examined{p, look, err}
		}
		c, r, err := b.readCall(it)
		return opened{call: c, request: r, err: err}
	})
}

// control stops what runs in the session of an item, or continues its run.
func (b *backend) control(it inbox.Item, key string) {
	b.do(func() tea.Msg {
		s, err := inbox.OpenSession(b.o.Options, it.Program, it.Session)
		if err != nil {
			return controlled{err: err}
		}
		note := ""
		if key == "R" {
			var wait func() string
			if note, wait, err = s.Resume(b.o.Resume); err == nil {
				go func() { // the run may work longer than the screen is open
					if problem := wait(); problem != "" && b.ctx.Err() == nil {
						b.send(controlled{note: problem})
					}
				}()
			}
		} else {
			note, err = s.Stop(key == "E")
		}
		return controlled{note, err}
	})
}

// answerCall answers a call that waits. If it has other content now, that is shown.
func (b *backend) answerCall(c waiting, shown tool.Request, reply approval.Reply) {
	b.do(func() tea.Msg {
		err := b.answer(c, shown, reply)
		if errors.Is(err, sandbox.ErrConflict) {
			c, r, err := b.readCall(c.item)
			return opened{call: c, request: r, changed: true, err: err}
		}
		return answered{c, reply, err}
	})
}

// readReview reads the changes of a session. again says that it is on the screen.
func (b *backend) readReview(s inbox.ProgramSession, again bool) {
	b.do(func() tea.Msg {
		msg := reviewSession(s, b.o.Names)
		msg.again = again
		return msg
	})
}

// reviewSession reads the changes of a session at and below some names.
func reviewSession(s inbox.ProgramSession, names []string) reviewed {
	r, err := s.Program.Storage.Sessions.Review(s.Session, names, false, nil)
	msg := reviewed{session: s, list: r, err: err}
	if h, ok := s.Holder(); ok {
		msg.holder = &h
	}
	return msg
}

// readFile reads the contents of a changed file.
func (b *backend) readFile(s inbox.ProgramSession, f *file) {
	b.do(func() tea.Msg { return readFiles(s, []*file{f})[0] })
}

// readAgain reads the contents of the files of a review that were read before. It reports
// whether there are any.
func (b *backend) readAgain(v *review) bool {
	var again []*file
	for _, f := range v.files {
		if f.was != nil {
			f.loading = true
			again = append(again, f)
		}
	}
	if len(again) > 0 {
		b.do(func() tea.Msg { return reloaded{v, readFiles(v.session, again)} })
	}
	return len(again) > 0
}

// readFiles reads the contents of changed files.
func readFiles(s inbox.ProgramSession, files []*file) (list []loaded) {
	contents, err := s.Program.Storage.Sessions.OpenContents(s.Session)
	if err == nil {
		defer contents.Close()
	}
	for _, f := range files {
		one := loaded{file: f, err: err}
		if err == nil {
			one.real, one.own, one.err = contents.Read(f.Path, choice.MaxRead)
		}
		list = append(list, one)
	}
	return list
}

// call makes a call of the user. shown are contents that were on the screen.
func (b *backend) call(p *program.Program, session string, call tool.Call, shown choice.Shown) {
	b.do(func() tea.Msg {
		ask := asker{closed: b.ctx.Done(), ask: func(_ context.Context, r tool.Request, reply chan<- approval.Reply) {
			b.send(asked{p, r, shown, reply})
		}}
		o := b.o.Gate
		o.SingleCall, o.Asker = true, ask
		if session != "" {
			o.Session = session
		}
		gate, err := p.OpenWorker(o)
		if err != nil {
			return called{program: p, err: err}
		}
		r := gate.Do(b.ctx, policy.User, call)
		return called{p, r, gate.Close()}
	})
}

// after returns a message after some time.
func after(wait time.Duration, msg tea.Msg) tea.Cmd {
	return tea.Tick(wait, func(time.Time) tea.Msg { return msg })
}

// hubPatience is how long the screen waits for an answer of a hub.
const hubPatience = 10 * time.Second

// A waiting call is a call that waits for the user, here or at a hub.
type waiting struct {
	item inbox.Item
	call inbox.Call     // if it waits here
	hub  *inbox.HubCall // if it waits at the hub
}

// readCall reads a call that waits.
func (b *backend) readCall(it inbox.Item) (waiting, tool.Request, error) {
	w := waiting{item: it}
	if it.Job == "" {
		c, r, err := inbox.ReadCall(b.o.Options, it.Program, it.ID)
		w.call = c
		return w, r, err
	}
	c, err := b.o.Hub.Client()
	if err != nil {
		return w, tool.Request{}, err
	}
	ctx, cancel := context.WithTimeout(b.ctx, hubPatience)
	defer cancel()
	one, r, err := inbox.ReadHubCall(ctx, c, b.o.Options, it.Job, it.ID)
	if err == nil {
		err = inbox.CheckHubApprover(ctx, c, one)
	}
	w.hub = &one
	return w, r, err
}

// answer answers a call that waits. The reply counts only for the content that was shown.
func (b *backend) answer(w waiting, shown tool.Request, reply approval.Reply) error {
	if w.hub == nil {
		return inbox.AnswerCall(w.call, shown, reply, b.o.Gate.Secrets)
	}
	c, err := b.o.Hub.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), hubPatience) // the screen may close before the hub answers
	defer cancel()
	err = inbox.DecideHubCall(ctx, c, b.o.Options, *w.hub, shown, reply, b.o.Gate.Secrets)
	if err == nil {
		b.o.Hub.Settle(w.item.Job, w.item.ID)
	}
	return err
}

// fetch brings the changes of a job of the hub here.
func (b *backend) fetch(it inbox.Item) {
	b.do(func() tea.Msg {
		c, err := b.o.Hub.Client()
		if err != nil {
			return controlled{err: err}
		}
		_, one, err := b.o.Hub.Fetch(b.ctx, c, it.Job)
		note := "job " + it.Job + " is session " + one.Session + ", with its changes in this list"
		if n := len(one.Dropped); n > 0 {
			note += "; warning: the node changed " + visible.Count(n, "file") + " where the job may not write, which golem did not bring here"
		}
		return controlled{note, inbox.HubError(err)}
	})
}
