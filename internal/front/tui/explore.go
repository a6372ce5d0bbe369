package tui

import (
	"context"
	"errors"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/choice"
	"github.com/golem-forge/golem/internal/inbox"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/tool"
)

// Explore shows the changes of a session until the user quits or ctx ends. It returns the last words of
// the program, which is no longer on the screen.
func Explore(ctx context.Context, o inbox.ExploreOptions) (last string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	m := newModel(ctx, o)
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.Terminal), tea.WithOutput(o.Terminal), tea.WithEnvironment(o.Environ), tea.WithoutSignalHandler())
	m.send = p.Send
	var work sync.WaitGroup
	m.do = func(job func() tea.Msg) { work.Go(func() { p.Send(job()) }) }
	_, err = p.Run()
	cancel()
	work.Wait() // a call that was begun ends before golem does
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		err = nil
	}
	return m.last, errors.Join(err, m.failed)
}

// The messages.
type (
	// reviewed holds the changes of a session.
	reviewed struct {
		session inbox.Session
		list    *session.Review
		err     error
	}
	// loaded holds the contents of a changed file.
	loaded struct {
		file      *file
		real, own []byte
		err       error
	}
	// asked is a question of a call that the user began here.
	asked struct {
		session inbox.Session
		request tool.Request
		shown   choice.Shown
		reply   chan<- approval.Reply
	}
	// called is the result of such a call.
	called struct {
		session inbox.Session
		result  tool.Result
		err     error
	}
	// drawn says that a frame was on the screen for a moment.
	drawn struct{ frame int }
	// settled says that a question was on the screen long enough for an answer.
	settled struct{ question *question }
)

const (
	// drawTime is how long a frame must be on the screen before its lines count as shown. It
	// is longer than a frame of the renderer, which skips frames that were replaced.
	drawTime = 50 * time.Millisecond
)

// readReview reads the changes of a session.
func (m *model) readReview(s inbox.Session) {
	m.do(func() tea.Msg {
		r, err := s.Program.Sessions().Review(s.Session, m.o.Names, false)
		return reviewed{s, r, err}
	})
}

// readFile reads the contents of a changed file.
func (m *model) readFile(s inbox.Session, f *file) {
	m.do(func() tea.Msg {
		contents, err := s.Program.Sessions().OpenContents(s.Session)
		if err != nil {
			return loaded{file: f, err: err}
		}
		defer contents.Close()
		real, own, err := contents.Read(f.Path, choice.MaxRead)
		return loaded{f, real, own, err}
	})
}

// call makes a call of the user in a session. shown are contents that were on the screen.
func (m *model) call(s inbox.Session, what string, call tool.Call, shown choice.Shown) {
	m.busy = what
	m.do(func() tea.Msg {
		ask := asker{closed: m.ctx.Done(), ask: func(_ context.Context, r tool.Request, reply chan<- approval.Reply) {
			m.send(asked{s, r, shown, reply})
		}}
		gate, err := s.Program.OpenGate(program.GateOptions{Secrets: m.o.Secrets, Session: s.ID, SingleCall: true, Asker: ask})
		if err != nil {
			return called{session: s, err: err}
		}
		r := gate.Do(m.ctx, policy.User, call)
		return called{s, r, gate.Close()}
	})
}

// after returns a message after some time.
func after(wait time.Duration, msg tea.Msg) tea.Cmd {
	return tea.Tick(wait, func(time.Time) tea.Msg { return msg })
}
