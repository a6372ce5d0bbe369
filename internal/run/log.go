package run

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/state"
)

// A Log is what a run has done so far, written down before and after each call. A run
// that was killed goes on from it: what it had done is not done again.
type Log struct {
	log state.Log
	now func() time.Time

	mu    sync.Mutex
	known map[string]*past // conversations of a run that goes on
}

// A past is a conversation as far as it had come.
type past struct {
	messages []model.Message
	begun    map[string]bool         // calls
	results  map[string]model.Result // of calls
	outcome  *Outcome
}

// An Entry is a line of the log.
type Entry struct {
	Kind string    `json:"kind"` // begin, message, replace, call, result, end
	Time time.Time `json:"time"`
	In   string    `json:"in"` // the conversation

	Worker   string          `json:"worker,omitempty"`
	Model    string          `json:"model,omitempty"`
	Messages []model.Message `json:"messages,omitempty"`
	Usage    *model.Usage    `json:"usage,omitempty"`
	Call     string          `json:"call,omitempty"`
	Result   *model.Result   `json:"result,omitempty"`
	Outcome  *Outcome        `json:"outcome,omitempty"`
}

// OpenLog returns the log that is kept in a folder. With resume, conversations go on
// where they stand; otherwise they begin anew, and what the log holds stays to be looked
// at.
func OpenLog(folder *state.Folder, resume bool, now func() time.Time) (*Log, error) {
	kept, err := folder.Log("run", 64<<20)
	if err != nil {
		return nil, err
	}
	l := &Log{log: kept, now: now, known: make(map[string]*past)}
	if resume {
		err = l.load()
	}
	return l, err
}

// load reads what the last run of the log had done.
func (l *Log) load() error {
	return l.Read(func(e Entry) error {
		if e.Kind == "begin" && e.In == top {
			l.known = make(map[string]*past)
		}
		p := l.known[e.In]
		if p == nil {
			p = &past{begun: make(map[string]bool), results: make(map[string]model.Result)}
			l.known[e.In] = p
		}
		switch e.Kind {
		case "message":
			p.messages, p.outcome = append(p.messages, e.Messages...), nil
		case "replace":
			p.messages = e.Messages
		case "call":
			p.begun[e.Call] = true
		case "result":
			p.results[e.Call] = *e.Result
		case "end":
			p.outcome = e.Outcome
		}
		return nil
	})
}

// Read calls yield with each line, until it returns an error.
func (l *Log) Read(yield func(Entry) error) error {
	return l.log.Read(0, func(_ uint64, record []byte) error {
		var e Entry
		if err := json.Unmarshal(record, &e); err != nil {
			return err
		}
		return yield(e)
	})
}

// past returns how far a conversation had come, nil for a new one.
func (l *Log) past(id string) *past {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[id]
}

// write adds a line. It outlives this process.
func (l *Log) write(e Entry) error {
	if l == nil {
		return nil
	}
	e.Time = l.now()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return l.log.Append(false, func(state.Tail) ([][]byte, []byte, error) { return [][]byte{line}, nil, nil })
}

// Close lets go of the log.
func (l *Log) Close() error { return l.log.Close() }
