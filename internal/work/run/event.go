package run

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/sandbox"
)

// An Event is a step of a run. Its texts come from workers, so a front escapes them
// before it shows them.
type Event struct {
	Type   Kind      `json:"type"`
	Time   time.Time `json:"time"`
	Worker string    `json:"worker"`
	Chain  []string  `json:"chain,omitempty"` // from the entry worker to this one
	Call   string    `json:"call,omitempty"`  // the same id for a call and its result

	Tool    string          `json:"tool,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	OK      *bool           `json:"ok,omitempty"`
	Code    sandbox.Code    `json:"code,omitempty"`
	Text    string          `json:"text,omitempty"`
	Hint    string          `json:"hint,omitempty"`
	Calls   int             `json:"calls,omitempty"`   // number of calls that a message asks for
	Request string          `json:"request,omitempty"` // id of the request that waits for approval
	Allow   []string        `json:"allow,omitempty"`   // what the user types so that the call would not have reached a limit

	// Line is a result in one line, and Stderr what a failed command wrote there. They are
	// for a person at this machine.
	Line, Stderr string `json:"-"`

	Model   string       `json:"model,omitempty"`
	End     End          `json:"end,omitempty"`
	Usage   *model.Usage `json:"usage,omitempty"`
	Context *Context     `json:"context,omitempty"` // of the conversation after a message
	Sum     *Sum         `json:"sum,omitempty"`
}

// A Kind is a kind of event.
type Kind string

// The kinds of events. The pieces of an answer come before its message.
const (
	RunStart   Kind = "run_start"
	Started    Kind = "worker_start" // by another worker
	Piece      Kind = "piece"
	Thought    Kind = "thought" // a piece of the model's thinking, if the user wants to see it
	Message    Kind = "message"
	ToolCall   Kind = "tool_call"
	Approval   Kind = "approval"
	Pending    Kind = "pending" // the call waits for approval as the request in Request
	ToolResult Kind = "tool_result"
	Note       Kind = "note" // an action of golem itself: a retry, a shortened conversation
	RunEnd     Kind = "run_end"
)

// A Sum counts what a run did and used.
type Sum struct {
	Workers  int              `json:"workers"` // conversations that were started
	Calls    int              `json:"calls"`
	Refused  int              `json:"refused"`
	Asked    int              `json:"asked"`
	Nobody   int              `json:"nobody,omitempty"`  // calls that were refused because nobody could be asked
	Waiting  int              `json:"waiting,omitempty"` // calls that wait for approval
	Turns    int64            `json:"turns"`
	Tokens   model.Usage      `json:"tokens"`
	Cost     float64          `json:"cost"`
	Unpriced bool             `json:"unpriced,omitempty"` // some usage has no known price
	By       map[string]Share `json:"by,omitempty"`       // per worker
}

// MarshalJSON implements json.Marshaler. A cost that is not known is null, not 0.
func (s Sum) MarshalJSON() ([]byte, error) {
	type plain Sum
	return marshalCost(plain(s), s.Cost, s.Unpriced)
}

// MarshalJSON implements json.Marshaler, as for Sum.
func (s Share) MarshalJSON() ([]byte, error) {
	type plain Share
	return marshalCost(plain(s), s.Cost, s.Unpriced)
}

// marshalCost encodes a value with its cost.
func marshalCost[T any](value T, cost float64, unpriced bool) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil || !unpriced {
		return data, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields["cost"] = json.RawMessage("null")
	if cost > 0 {
		fields["known_cost"], err = json.Marshal(cost)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// A Share is the usage of one worker over all its conversations.
type Share struct {
	Model  string      `json:"model,omitempty"` // that answered last, as written in the configuration
	Turns  int64       `json:"turns"`
	Tokens model.Usage `json:"tokens"`
	Cost   float64     `json:"cost"`
	// Unpriced says that some of the usage has no known price.
	Unpriced bool `json:"unpriced,omitempty"`
}

// A reporter passes on events, one at a time.
type reporter struct {
	mu   sync.Mutex
	tell func(Event)
	now  func() time.Time
}

func (t *reporter) say(e Event) {
	if t.tell == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e.Time = t.now()
	t.tell(e)
}

// validArgs returns arguments as JSON. Arguments that are not JSON become a string.
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
