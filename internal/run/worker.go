package run

import (
	"encoding/json"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/taint"
	"github.com/golem-forge/golem/internal/tool"
)

// A Worker is one that a run can start: what it is told, what it may do, and whom it
// may call.
type Worker struct {
	Name      string
	Prompt    string
	Gate      tool.Gate // without the tools that call workers
	Model     model.Model
	ModelName string          // as it is written: anthropic:claude-sonnet-4-5
	Schema    json.RawMessage // what its answer must fit; nil for any text
	Context   int64           // the most tokens of a conversation; 0 is what the model takes
	Empty     bool            // it may be called without input
	Layer     bool            // what it changes waits for the user
	Notes     []string        // what the user should know of it when it starts
	Exposure  *taint.Tracker  // what it has taken in, that of its gate; nil where nobody cares

	// Callees are the workers that it may call, each by a tool of its own. With Any, more
	// may be called by their names.
	Callees []Callee
	Any     bool
	// Child returns a worker that this one calls, with at most what this one has.
	Child func(name string, n Narrow) (*Worker, error)
	// Close lets go of what it used, when it is done; nil where that is nothing.
	Close func() error
	// Propose keeps a new worker for the user to look at, which has nothing but a prompt;
	// nil where that cannot be. It returns what to tell the model.
	Propose func(name, description, prompt string) (string, error)
}

// A Callee is a worker as its callers know it.
type Callee struct{ Name, Description string }

// Narrow is what a caller takes away from a worker that it calls.
type Narrow struct {
	Restrict string // the one directory that it sees; "" for all that it has
	ReadOnly bool
}

// An Input is what a worker is given to work on.
type Input struct {
	Text         string       `json:"text"`
	Instructions string       `json:"instructions,omitempty"` // of the caller
	Files        []model.File `json:"files,omitempty"`
}

// none reports whether there is nothing in it.
func (in Input) none() bool { return in.Text == "" && len(in.Files) == 0 }

// size is how many bytes there are in it.
func (in Input) size() int64 {
	n := len(in.Text) + len(in.Instructions)
	for _, f := range in.Files {
		n += len(f.Data)
	}
	return int64(n)
}

// An Outcome is what came of a conversation.
type Outcome struct {
	Text string          `json:"text"`
	Data json.RawMessage `json:"data,omitempty"` // the text, where a schema asks for JSON
	End  End             `json:"end"`
	Why  string          `json:"why,omitempty"` // of an end that was not wanted, and what to do
	// Model is what is wrong with the model, where that is why.
	Model model.Class `json:"model,omitempty"`
}

// OK reports whether the work was finished.
func (o Outcome) OK() bool { return o.End == Finished }

// An End says why a conversation ended.
type End string

// The ends.
const (
	Finished End = "finished"
	Stopped  End = "stopped" // by the user
	Spent    End = "budget"  // no more of it
	Looping  End = "loop"
	Declined End = "refused" // by the model
	Failed   End = "failed"
)
