// Package scripted is a model that answers from a file, for demos and tests. It sends
// nothing and costs nothing.
//
// A file is a list of turns, played in the order of requests from any worker, or a map
// from the name of a worker to its turns. A worker's list continues from one conversation
// to the next. Under the key each, every conversation plays the turns from the first one,
// even if several run at the same time.
package scripted

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/model"
)

// A Model plays the turns of a file.
type Model struct {
	name    string // scripted:FILE
	file    string
	anybody bool // the file is one list for all workers
	scripts map[string]script

	mu      sync.Mutex
	next    map[string]int // number of played turns, by worker
	missing string         // a worker that asked and has no turns
}

// A script holds the turns of one worker.
type script struct {
	each  bool // every conversation starts with the first turn
	turns []turn
}

// A turn is one answer.
type turn struct {
	number, line int
	expect       *regexp.Regexp // nil matches anything
	fail         *model.Error   // returned instead of an answer
	answer       model.Answer
	wait         time.Duration
}

// FileTypes implements [model.FileTaker].
func (m *Model) FileTypes() []string { return model.AllFileTypes() }

// AnswersInOrder implements [model.Ordered]. Turns under the key each do not depend on the
// order.
func (m *Model) AnswersInOrder(except string) bool {
	for worker, s := range m.scripts {
		if !s.each && worker != except {
			return true
		}
	}
	return m.anybody
}

// Answer implements [model.Model].
func (m *Model) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	t, err := m.turn(r)
	if err != nil {
		return model.Answer{}, err
	}
	if t.wait > 0 {
		timer := time.NewTimer(t.wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if err := context.Cause(ctx); err != nil {
		return model.Answer{}, err
	}
	if said := last(r.Messages); t.expect != nil && !t.expect.MatchString(said) {
		hint := "make the expression match, or change what comes before it"
		if missing := m.missingWorker(); missing != "" {
			hint = "the file has no turns for the worker " + visible.Name(missing) + ", which was called before; add them first"
		}
		return model.Answer{}, m.wrong(
			fmt.Sprintf("%s:%d: turn %d expects %s, and got %s", visible.Name(m.file), t.line, t.number, visible.Line(t.expect.String(), shown), quote(said)), hint)
	}
	if t.fail != nil {
		return model.Answer{}, t.fail
	}
	answer, calls := t.answer, 0
	answer.Parts = slices.Clone(answer.Parts)
	for i, p := range answer.Parts {
		switch {
		case p.Call != nil:
			calls++
			call := *p.Call
			call.ID = fmt.Sprintf("call_%d_%d", t.number, calls)
			answer.Parts[i].Call = &call
		case p.Thinking != nil && tell != nil:
			tell(model.Piece{Thinking: p.Thinking.Text})
		case p.Text != "" && tell != nil:
			tell(model.Piece{Text: p.Text})
		}
	}
	return answer, nil
}

// turn returns the turn that answers a request. The first request of a worker to a new
// Model may be a conversation that another Model began. It continues after the answers
// that the conversation already has.
func (m *Model) turn(r model.Request) (turn, error) {
	worker := r.Worker
	if m.anybody {
		worker = ""
	}
	s, ok := m.scripts[worker]
	if !ok {
		names := make([]string, 0, len(m.scripts))
		for name := range m.scripts {
			names = append(names, visible.Name(name))
		}
		slices.Sort(names)
		m.mu.Lock()
		m.missing = worker
		m.mu.Unlock()
		return turn{}, m.wrong("it has no turns for the worker "+visible.Name(worker), "it has some for "+strings.Join(names, ", "))
	}
	answered := 0
	for _, message := range r.Messages {
		if message.Role == model.Assistant {
			answered++
		}
	}
	at := answered
	if !s.each {
		m.mu.Lock()
		defer m.mu.Unlock()
		if next, begun := m.next[worker]; begun {
			at = next
		}
		m.next[worker] = at + 1
	}
	if at >= len(s.turns) {
		whose := "the script"
		if worker != "" {
			whose = "the script of the worker " + visible.Name(worker)
		}
		return turn{}, m.wrong(fmt.Sprintf("%s:%d: %s has %d turns, and another is asked for", visible.Name(m.file), s.turns[len(s.turns)-1].line, whose, len(s.turns)),
			"add a turn, or let the last one make no calls")
	}
	return s.turns[at], nil
}

// missingWorker returns a worker that asked before and has no turns, "" for none.
func (m *Model) missingWorker() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.missing
}

func (m *Model) wrong(what, hint string) error {
	return &model.Error{Class: model.Bad, Model: m.name, What: what, Hint: hint}
}

// last returns the texts and results of tools in the last message.
func last(messages []model.Message) string {
	var texts []string
	if len(messages) > 0 {
		for _, p := range messages[len(messages)-1].Parts {
			if p.Result != nil {
				texts = append(texts, p.Result.Text)
			} else if p.Text != "" {
				texts = append(texts, p.Text)
			}
		}
	}
	return strings.Join(texts, "\n")
}

// shown is how many characters of a text an error has.
const shown = 300

func quote(text string) string {
	if text == "" {
		return "nothing"
	}
	return `"` + visible.Line(text, shown) + `"`
}
