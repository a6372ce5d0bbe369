// Package replay records the answers of a model, and later gives the same answers from
// the record, without a model.
//
// A record consists of lines of JSON: a request, its digest, and the answer or the error.
// The digest covers the whole request: the worker, the instructions, the tools and the
// conversation with its files. A replay finds answers by digest. So workers that run at
// the same time may ask in any order. A repeated request gets the next answer that was
// recorded for it. A record contains no keys, but everything that the model saw.
package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/model"
)

// An entry is a line of a record.
type entry struct {
	Digest  string          `json:"digest"`
	Request json.RawMessage `json:"request"`
	Answer  *model.Answer   `json:"answer,omitempty"`
	Error   *model.Error    `json:"error,omitempty"`
	Files   []string        `json:"files,omitempty"` // the types of files that the model takes

	played bool
}

// digest returns a request as JSON, and its digest.
func digest(r model.Request) (json.RawMessage, string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(text)
	return text, hex.EncodeToString(sum[:]), nil
}

// Record returns a model that answers like m and writes each request and answer to w, one
// at a time. It does not record cancelled requests. It fails if an answer cannot be
// written.
func Record(m model.Model, w io.Writer) model.Model {
	return &recorder{model: m, w: w}
}

type recorder struct {
	model model.Model

	mu sync.Mutex
	w  io.Writer
}

func (r *recorder) Answer(ctx context.Context, request model.Request, tell func(model.Piece)) (model.Answer, error) {
	answer, err := r.model.Answer(ctx, request, tell)
	e := entry{Answer: &answer, Files: r.FileTypes()}
	if err != nil {
		e.Answer = nil
		if !errors.As(err, &e.Error) {
			return answer, err
		}
	}
	if failed := r.write(request, e); failed != nil {
		return model.Answer{}, &model.Error{Class: model.Bad, Model: "record", What: failed.Error(), Hint: "make room for the record, or run without --record"}
	}
	return answer, err
}

// FileTypes implements [model.FileTaker].
func (r *recorder) FileTypes() []string { return model.FileTypes(r.model) }

// AnswersInOrder implements [model.Ordered].
func (r *recorder) AnswersInOrder(except string) bool { return model.AnswersInOrder(r.model, except) }

func (r *recorder) write(request model.Request, e entry) (err error) {
	if e.Request, e.Digest, err = digest(request); err != nil {
		return err
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err = r.w.Write(append(line, '\n'))
	return err
}

// A Model answers from a record.
type Model struct {
	name string // replay:FILE

	mu      sync.Mutex
	entries []entry
}

// New reads a record.
func New(file string, data []byte) (*Model, error) {
	m := &Model{name: "replay:" + file}
	for number, line := range bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		wrong := func(what, hint string) error {
			return fmt.Errorf("%s:%d: %s; %s", visible.Name(file), number+1, what, hint)
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		var e entry
		if err := d.Decode(&e); err != nil {
			return nil, wrong("not a line of a record: "+visible.Line(err.Error(), shown), "make one with golem run --record FILE; one that was cut off ends before this line")
		}
		if (e.Answer == nil) == (e.Error == nil) {
			return nil, wrong("not one answer or one error", "record it again")
		}
		sum := sha256.Sum256(e.Request)
		if e.Digest != hex.EncodeToString(sum[:]) {
			return nil, wrong("the request is not the one that the digest is of", "answers can be changed by hand, requests cannot; record it again")
		}
		m.entries = append(m.entries, e)
	}
	return m, nil
}

// FileTypes implements [model.FileTaker].
func (m *Model) FileTypes() []string {
	if len(m.entries) == 0 {
		return nil
	}
	return m.entries[0].Files
}

// Answer implements [model.Model].
func (m *Model) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	if err := context.Cause(ctx); err != nil {
		return model.Answer{}, err
	}
	text, sum, err := digest(r)
	if err != nil {
		return model.Answer{}, m.wrong(err.Error(), "")
	}
	e, err := m.next(r, text, sum)
	if err != nil {
		return model.Answer{}, err
	}
	if e.Error != nil {
		again := *e.Error
		return model.Answer{}, &again
	}
	if tell != nil {
		for _, p := range e.Answer.Parts {
			if p.Thinking != nil {
				tell(model.Piece{Thinking: p.Thinking.Text})
			} else if p.Text != "" {
				tell(model.Piece{Text: p.Text})
			}
		}
	}
	return *e.Answer, nil
}

// next returns the first unused entry for a request, and marks it as used.
func (m *Model) next(r model.Request, text json.RawMessage, sum string) (entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var near *entry // the first unused entry, of the same worker if there is one
	again := false
	for i := range m.entries {
		e := &m.entries[i]
		switch {
		case e.Digest == sum && !e.played:
			e.played = true
			return *e, nil
		case e.Digest == sum:
			again = true
		case !e.played && (near == nil || worker(near.Request) != r.Worker && worker(e.Request) == r.Worker):
			near = e
		}
	}
	who := ""
	if r.Worker != "" {
		who = " of the worker " + visible.Name(r.Worker)
	}
	switch {
	case again:
		return entry{}, m.wrong("the same request"+who+" was made less often when it was recorded", "record it again")
	case near == nil:
		return entry{}, m.wrong("the record is at its end, and another request"+who+" is made", "record it again")
	}
	return entry{}, m.wrong("the request"+who+" is not one that was recorded: "+difference(near.Request, text),
		"run it with the files, the input and the configuration of the record, or record it again")
}

func (m *Model) wrong(what, hint string) error {
	return &model.Error{Class: model.Bad, Model: m.name, What: what, Hint: hint}
}

func worker(request json.RawMessage) string {
	var r struct{ Worker string }
	_ = json.Unmarshal(request, &r) // it was decoded before
	return r.Worker
}
