package run

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/sandbox"
)

// An Event is something that has happened in a run. Its texts come from workers: who
// shows them escapes them.
type Event struct {
	Type   Kind      `json:"type"`
	Time   time.Time `json:"time"`
	Worker string    `json:"worker"`
	Chain  []string  `json:"chain,omitempty"` // from the entry worker to this one
	Call   string    `json:"call,omitempty"`  // the same of a call and its result

	Tool  string          `json:"tool,omitempty"`
	Args  json.RawMessage `json:"args,omitempty"`
	OK    *bool           `json:"ok,omitempty"`
	Code  sandbox.Code    `json:"code,omitempty"`
	Text  string          `json:"text,omitempty"`
	Hint  string          `json:"hint,omitempty"`
	Calls int             `json:"calls,omitempty"` // that a message asks for

	Model string       `json:"model,omitempty"`
	End   End          `json:"end,omitempty"`
	Usage *model.Usage `json:"usage,omitempty"`
	Sum   *Sum         `json:"sum,omitempty"`
}

// A Kind is a kind of event.
type Kind string

// The kinds. Pieces of an answer come before the message that they make up.
const (
	RunStart   Kind = "run_start"
	Started    Kind = "worker_start" // by another
	Piece      Kind = "piece"
	Message    Kind = "message"
	ToolCall   Kind = "tool_call"
	Approval   Kind = "approval"
	ToolResult Kind = "tool_result"
	Note       Kind = "note" // what golem itself did: a retry, room that was made
	RunEnd     Kind = "run_end"
)

// A Sum counts what a run has done.
type Sum struct {
	Workers  int              `json:"workers"` // conversations that were begun
	Calls    int              `json:"calls"`
	Refused  int              `json:"refused"`
	Asked    int              `json:"asked"`
	Nobody   int              `json:"nobody,omitempty"` // calls that nobody could be asked about
	Dropped  int              `json:"-"`                // of them, those that do not wait for an answer
	Turns    int64            `json:"turns"`
	Tokens   model.Usage      `json:"tokens"`
	Cost     float64          `json:"cost"`
	Unpriced bool             `json:"unpriced,omitempty"` // some of it has no known price
	By       map[string]Share `json:"by,omitempty"`       // of each worker
}

// A Share is what one worker has used, over all its conversations.
type Share struct {
	Turns  int64       `json:"turns"`
	Tokens model.Usage `json:"tokens"`
	Cost   float64     `json:"cost"`
}

// A teller passes events on, one at a time.
type teller struct {
	mu   sync.Mutex
	tell func(Event)
	now  func() time.Time
}

func (t *teller) say(e Event) {
	if t.tell == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e.Time = t.now()
	t.tell(e)
}

// validArgs returns arguments as JSON: those that are none as a text.
func validArgs(args string) json.RawMessage {
	if json.Valid([]byte(args)) {
		return json.RawMessage(args)
	}
	text, err := json.Marshal(strings.ToValidUTF8(args, "�"))
	if err != nil {
		return nil
	}
	return text
}
