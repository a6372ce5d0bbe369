package run

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/model"
)

// A Log records the steps of a run, before and after each call. A run that was killed
// continues from its log and does not repeat finished calls.
type Log struct {
	log state.Log
	now func() time.Time

	mu    sync.Mutex
	known map[string]*past // conversations of the run to continue
	begun int64            // number of workers that the run had started
	inRun bool             // the entry worker of the run has begun
	spent []pastAnswer     // answers of models that the run had got
	ran   time.Duration    // how long it had worked
	last  time.Time        // of the last line that was read
	calls map[string]int   // how often each call of the run has begun, by its id

	attached Attached // to the messages of the run to continue
}

// logVersion is the version of the lines that this golem writes. It also reads older
// versions: lines of version 1 have no version, no step and no id.
const logVersion = 2

// A past is the recorded part of a conversation.
type past struct {
	worker   string
	model    string // that the worker began with
	from     int    // index of its first answer in those of the run
	step     int    // number of the model's last answer
	messages []model.Message
	begun    map[string]begunCall    // calls of the last message that had begun
	results  map[string]model.Result // results of these calls
	files    map[string][]model.File // that came with these results
	outcome  *Outcome

	decisions []string // what the user decided about its calls
}

// A pastAnswer is what is counted of an answer that a run got before it continued.
type pastAnswer struct {
	in, model   string
	said, about model.Usage // as the server reported it, and estimated
}

// A begunCall is a call that was approved, and whose effect may have happened.
type begunCall struct {
	digest string // of the approved request
	policy string // that the approval is bound to
}

// An Entry is a line of the log. A call entry is written before the effect of the call,
// and not while golem waits for its approval.
type Entry struct {
	Version int       `json:"version,omitempty"`
	Kind    string    `json:"kind"` // begin, resume, message, replace, call, paused, undone, result, end
	Time    time.Time `json:"time"`
	In      string    `json:"in"` // id of the conversation

	// ID is the id of a call, unique in a run: 3.1 is the first call in the model's third
	// answer, and 3.1/2.1 a call of the worker that 3.1 started. The begin of such a worker
	// has the id of the call that started it.
	ID   string `json:"id,omitempty"`
	Step int    `json:"step,omitempty"` // number of the model's last answer

	Worker string `json:"worker,omitempty"`
	Model  string `json:"model,omitempty"`
	// Continues is true for the begin of the entry worker in a new conversation of the same run.
	Continues bool            `json:"continues,omitempty"`
	OneModel  bool            `json:"one_model,omitempty"` // the user chose the model for all workers
	Messages  []model.Message `json:"messages,omitempty"`
	Usage     *model.Usage    `json:"usage,omitempty"`
	Call      string          `json:"call,omitempty"`    // the model's id of a call, which may repeat
	Digest    string          `json:"digest,omitempty"`  // of the call, as it was approved
	Policy    string          `json:"policy,omitempty"`  // that this approval is bound to
	Pending   *tool.Pending   `json:"pending,omitempty"` // the request that a paused call waits for
	Result    *model.Result   `json:"result,omitempty"`
	Files     []model.File    `json:"files,omitempty"` // that came with the result
	Outcome   *Outcome        `json:"outcome,omitempty"`
	Decision  string          `json:"decision,omitempty"` // of the user about the call
	Note      string          `json:"note,omitempty"`     // how golem replaced the messages
}

// WithoutFileData returns the entry with sizes and digests in place of the contents of
// files.
func (e Entry) WithoutFileData() Entry {
	e.Files = slices.Clone(e.Files)
	for i, f := range e.Files {
		e.Files[i] = f.WithoutData()
	}
	e.Messages = slices.Clone(e.Messages)
	for i, m := range e.Messages {
		e.Messages[i].Parts = slices.Clone(m.Parts)
		for n, p := range m.Parts {
			if p.File != nil {
				short := p.File.WithoutData()
				e.Messages[i].Parts[n].File = &short
			}
		}
	}
	return e
}

// OpenLog opens the log in a directory. With resume, conversations continue from their
// recorded state. Otherwise they start anew, and the old lines stay readable.
func OpenLog(folder *state.Dir, resume bool, now func() time.Time) (*Log, error) {
	kept, err := folder.Log("run", 64<<20)
	if err != nil {
		return nil, err
	}
	l := &Log{log: kept, now: now, known: make(map[string]*past), calls: make(map[string]int)}
	if resume {
		err = l.load()
	}
	return l, err
}

// load reads the steps of the last run in the log.
func (l *Log) load() error {
	return l.Read(func(e Entry) error {
		p := l.known[e.In]
		if p == nil || e.Kind == "begin" {
			p = &past{worker: e.Worker, model: e.Model, from: len(l.spent)}
			l.known[e.In] = p
		}
		switch {
		case e.Kind == "begin" && e.In == top:
			if !e.Continues {
				l.begun, l.spent, l.ran, l.last = 0, nil, 0, time.Time{}
			}
			l.inRun = true
			clear(l.calls)
		case e.Kind == "begin":
			l.begun++
		}
		switch {
		case e.Kind == "resume": // nobody worked before it
		case !l.last.IsZero():
			l.ran += max(e.Time.Sub(l.last), 0)
		}
		l.last = e.Time
		if e.Usage != nil {
			l.spent = append(l.spent, pastAnswer{e.In, cmp.Or(e.Model, p.model), *e.Usage, model.Usage{Input: estimate(p.messages), Output: estimate(e.Messages)}})
		}
		switch e.Kind {
		case "begin", "message", "replace": // ids of calls may repeat with other calls
			p.begun, p.results, p.files, p.outcome = make(map[string]begunCall), make(map[string]model.Result), make(map[string][]model.File), nil
			l.forgetBelow(e.In)
			p.step = max(e.Step, p.step)
		}
		if e.In == top {
			l.countAttached(e)
		}
		switch e.Kind {
		case "replace":
			p.messages = nil
			fallthrough
		case "message":
			for _, m := range e.Messages {
				if e.Version < 2 && e.Kind == "message" && m.Role == model.Assistant && !p.endsWith(model.Assistant) {
					p.step++
				}
				p.add(m)
			}
		case "call":
			p.begun[e.Call] = begunCall{e.Digest, e.Policy}
			l.calls[e.ID]++
		case "undone", "paused":
			delete(p.begun, e.Call)
		case "result":
			if e.Decision != "" {
				p.decisions = append(p.decisions, e.Decision)
			}
			p.results[e.Call], p.files[e.Call] = *e.Result, e.Files
		case "end":
			p.outcome = e.Outcome
		}
		return nil
	})
}

// countAttached counts the files in a line. The messages that replace others have those of them
// that golem has not omitted.
func (l *Log) countAttached(e Entry) {
	switch now := countAttached(e.Messages); e.Kind {
	case "message":
		l.attached.Files, l.attached.Bytes = l.attached.Files+now.Files, l.attached.Bytes+now.Bytes
	case "replace":
		l.attached.Files, l.attached.Bytes = max(l.attached.Files, now.Files), max(l.attached.Bytes, now.Bytes)
	}
}

// Attached returns what was attached to the messages of the run to continue.
func (l *Log) Attached() Attached { return l.attached }

// Read calls yield with each line until yield returns an error.
func (l *Log) Read(yield func(Entry) error) error {
	return l.ReadFrom(0, func(_ uint64, e Entry) error { return yield(e) })
}

// Len returns how many lines the log has.
func (l *Log) Len() (uint64, error) {
	tail, err := l.log.Tail()
	return tail.Count, err
}

// ReadFrom is Read for the lines from a number on. The first line has the number 1. It is
// fast if this Log has read the lines before.
func (l *Log) ReadFrom(from uint64, yield func(number uint64, e Entry) error) error {
	return l.log.Read(from, func(number uint64, record []byte) error {
		var e Entry
		if err := json.Unmarshal(record, &e); err != nil {
			return err
		}
		if e.Version > logVersion {
			return newerLogError(e.Version)
		}
		return yield(number, e)
	})
}

// A newerLogError says that a newer golem wrote the log.
type newerLogError int

func (version newerLogError) Error() string {
	return fmt.Sprintf("a newer golem wrote the log of this run (version %d; this golem reads up to %d); continue it with that golem, or start another session", int(version), logVersion)
}

// IsEntry reports whether the id of a conversation is that of the entry worker.
func IsEntry(id string) bool { return id == top }

// Began returns the entry worker of the run to continue, or "".
func (l *Log) Began() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.known[top]; p != nil {
		return p.worker
	}
	return ""
}

// HasOpenCalls reports whether the run to continue has calls without results.
func (l *Log) HasOpenCalls() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.known[top]
	return p != nil && len(openCalls(p.messages)) > 0
}

// Messages returns the messages of the entry worker in the run to continue.
func (l *Log) Messages() []model.Message {
	if p := l.pastOf(top); p != nil {
		return p.messages
	}
	return nil
}

// spentIn returns the answers that a conversation to continue had got, and the workers that it
// had called. Those of the entry worker count after Forget, too.
func (l *Log) spentIn(id string, p *past) (list []pastAnswer) {
	switch {
	case l == nil:
		return nil
	case id == top:
		return l.spent
	case p == nil:
		return nil
	}
	for _, a := range l.spent[p.from:] {
		if a.in == id || strings.HasPrefix(a.in, id+"/") {
			list = append(list, a)
		}
	}
	return list
}

// knows reports whether the log has a recorded part of the conversation.
func (l *Log) knows(id string) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[id] != nil
}

// takePast returns the recorded part of a conversation, or nil for a new one. A second
// conversation with the same id is new.
func (l *Log) takePast(id string) *past {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.known[id]
	delete(l.known, id)
	return p
}

// pastOf returns the recorded part of a conversation that has not continued yet, or nil.
func (l *Log) pastOf(id string) *past {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[id]
}

// forget drops the recorded parts of conversations that calls of a conversation started.
func (l *Log) forget(id string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetBelow(id)
}

func (l *Log) forgetBelow(id string) {
	maps.DeleteFunc(l.known, func(other string, _ *past) bool { return strings.HasPrefix(other, id+"/") })
}

// timesBegun returns how often a call has begun. A call that was paused or stopped begins
// again.
func (l *Log) timesBegun(id string) int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[id]
}

// write appends an entry. The line survives the end of this process.
func (l *Log) write(e Entry) error {
	if l == nil {
		return nil
	}
	e.Version, e.Time = logVersion, l.now()
	if e.Kind == "begin" && e.In == top {
		l.mu.Lock()
		e.Continues, l.inRun = l.inRun, true
		l.mu.Unlock()
	}
	if e.Kind == "call" {
		l.mu.Lock()
		l.calls[e.ID]++
		l.mu.Unlock()
	}
	var lines [][]byte
	for _, part := range split(e) {
		line, err := json.Marshal(part)
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	return l.log.Append(false, func(state.Tail) ([][]byte, []byte, error) { return lines, nil, nil })
}

// split divides an entry that would be too long into several lines. Consecutive messages
// of the same role are read as one.
func split(e Entry) []Entry {
	const most = 1 << 20
	list := []Entry{e}
	list[0].Messages = nil
	size := 0
	for _, m := range e.Messages {
		for i, p := range m.Parts {
			n := sizeOf(p)
			if size += n; size > most && size > n {
				list, size = append(list, Entry{Version: e.Version, Kind: "message", Time: e.Time, In: e.In, Step: e.Step, Worker: e.Worker}), n
			}
			into := &list[len(list)-1]
			if last := len(into.Messages) - 1; i > 0 && last >= 0 {
				into.Messages[last].Parts = append(into.Messages[last].Parts, p)
			} else {
				into.Messages = append(into.Messages, model.Message{Role: m.Role, Parts: []model.Part{p}})
			}
		}
	}
	return list
}

// has reports whether a call has a result.
func (p *past) has(call string) bool {
	_, ok := p.results[call]
	return ok
}

// hasBegun reports whether a call had begun that may have had an effect.
func (p *past) hasBegun(call string) bool {
	_, ok := p.begun[call]
	return ok
}

// endsWith reports whether the last message is of a role.
func (p *past) endsWith(role model.Role) bool {
	last := len(p.messages) - 1
	return last >= 0 && p.messages[last].Role == role
}

// add adds a message, or appends to the last one of the same role.
func (p *past) add(m model.Message) {
	if last := len(p.messages) - 1; p.endsWith(m.Role) {
		p.messages[last].Parts = append(p.messages[last].Parts, m.Parts...)
		return
	}
	p.messages = append(p.messages, m)
}

// Close closes the log.
func (l *Log) Close() error { return l.log.Close() }
