package cli

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/terminal"
)

// maxHostWait is how long a question about a host covers the screen of a command. Then
// the request waits for golem approve.
const maxHostWait = time.Minute

// An execTerminal connects the command of golem exec with the streams of this process. It
// asks about hosts while the command has the terminal.
type execTerminal struct {
	asker *asker        // nil if nobody can be asked
	turn  chan struct{} // holds one element while a question is open
	line  atomic.Pointer[terminal.Line]
}

// newExecTerminal returns an execTerminal that asks as another asker does.
func newExecTerminal(like approval.Asker) *execTerminal {
	t := &execTerminal{turn: make(chan struct{}, 1)}
	if a, ok := like.(*asker); ok && a != nil {
		t.asker = &asker{keys: a.keys, screen: a.screen, wait: min(a.wait, maxHostWait), settle: a.settle, turn: make(chan struct{}, 1), front: a.front, untilEnd: true}
	}
	return t
}

// attach runs a command on the streams of this process. If these are a terminal, the
// command gets a terminal of its own, connected to it.
func (t *execTerminal) attach(ctx context.Context, s *jail.Jail, c jail.Command) (r jail.Result, err error) {
	line, err := terminal.Open(os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, line.Close()) }()
	at := jail.Attached{Stdin: line.Stdin, Stdout: line.Stdout, Stderr: line.Stderr, Signals: line.Signals, Stopped: line.Suspend}
	if line.Wanted {
		if at.Terminal, err = s.Terminal(); err != nil {
			return r, err
		}
		defer at.Terminal.Close()
		if err := line.Connect(at.Terminal.Person); err != nil {
			return r, err
		}
		defer line.Close() // close it before the command's terminal
		t.line.Store(line)
	}
	return s.Attach(ctx, c, at)
}

// why returns why golem could not ask, if the user can fix it.
func (t *execTerminal) why() error {
	if t.asker == nil {
		return nil
	}
	return t.asker.why
}

// Ask implements approval.Asker. Without a terminal nobody answers, and the request waits.
// So does a question that ctx ends before its turn.
func (t *execTerminal) Ask(ctx context.Context, r tool.Request) approval.Reply {
	reply := approval.Reply{Answer: tool.Answer{By: "nobody", Note: errNobody.Error(), Unattended: true}}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
	}
	if line := t.line.Load(); line != nil && t.asker != nil && ctx.Err() == nil {
		line.Lend(func() { reply = t.asker.Ask(ctx, r) })
	}
	return reply
}
