package run

import (
	"encoding/json"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/taint"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/model"
)

// A Worker can be started by a run. It holds the prompt, the permissions and the workers
// that it may start.
type Worker struct {
	Name       string
	Prompt     string
	Gate       tool.Gate // without the tools that start workers
	Model      model.Model
	ModelName  string          // as written in the configuration: anthropic:claude-sonnet-4-5
	OneModel   bool            // the user chose the model for all workers
	Fallbacks  []Choice        // models to ask if Model does not answer, in this order
	Answers    policy.Answers  // how the model answers
	Budgets    []*Budget       // of its own file and those of its callers, beside that of the run
	Schema     json.RawMessage // schema of its answer; nil allows any text
	Summarizer Summarizer      // summarises its conversation; without a model, its own does
	Context    int64           // most tokens of a conversation; 0 means the model's limit
	Empty      bool            // it may be started without input
	Layer      bool            // its changes wait for the user
	Notes      []string        // notes for the user at the start
	Exposure   *taint.Tracker  // records what it has read, shared with its gate; may be nil

	modelChanged bool // another model answers than when the conversation began

	// Callees are the workers that it may start, each with its own tool. With Any, it may
	// start more workers by name.
	Callees []Callee
	Any     bool
	// Child returns a worker to start, with at most the permissions of this one.
	Child func(name string, n Narrow) (*Worker, error)
	// Reach returns which files such a worker may read and write, with the workers that it
	// starts itself. It may be nil: then workers are called one after the other.
	Reach func(name string, n Narrow) (tool.Reach, bool)
	// Close releases the worker's resources when it is done; may be nil.
	Close func() error
	// Propose keeps a new worker, which has only a prompt, for the user to review. It
	// returns a text for the model. It is nil if the worker may not propose others.
	Propose func(name, description, prompt string) (string, error)
}

// UseModel lets another model answer from now on. The conversation stays.
func (w *Worker) UseModel(c Choice, context int64) {
	w.Model, w.ModelName, w.Fallbacks, w.Context, w.modelChanged = c.Model, c.Name, nil, context, true
}

// A Callee is a worker as its callers know it.
type Callee struct{ Name, Description string }

// Narrow is how a caller restricts a worker that it starts.
type Narrow struct {
	Restrict string // the only directory that it sees; "" for all of its directories
	ReadOnly bool
}

// An Input is the task of a worker.
type Input struct {
	Text         string       `json:"text"`
	Instructions string       `json:"instructions,omitempty"` // from the caller
	Files        []model.File `json:"files,omitempty"`
	// OnSaid, if not nil, is called when the input is part of the conversation, and recorded. A
	// paused run that stays paused does not take an input.
	OnSaid func() error `json:"-"`
}

// isEmpty reports whether the input is empty.
func (in Input) isEmpty() bool { return in.Text == "" && len(in.Files) == 0 }

// size returns the number of bytes in the input.
func (in Input) size() int64 {
	n := len(in.Text) + len(in.Instructions)
	for _, f := range in.Files {
		n += len(f.Data)
	}
	return int64(n)
}

// An Outcome is the result of a conversation.
type Outcome struct {
	Text string          `json:"text"`
	Data json.RawMessage `json:"data,omitempty"` // the text as JSON, if there is a schema
	End  End             `json:"end"`
	Why  string          `json:"why,omitempty"` // the reason of an unwanted end, and what to do
	// Own says that only the budget of a worker file is used up, and the run can continue.
	Own bool `json:"own,omitempty"`
	// Model is the class of the model's error, if that is the reason.
	Model model.Class `json:"model,omitempty"`
	// Pending are the ids of the requests that wait for approval, if the run is paused.
	Pending []string `json:"pending,omitempty"`
}

// OK reports whether the work was finished.
func (o Outcome) OK() bool { return o.End == Finished }

// An End says why a conversation ended.
type End string

// The ends.
const (
	Finished End = "finished"
	Stopped  End = "stopped" // by the user
	Paused   End = "paused"  // a call waits for approval; a resumed run makes it
	Spent    End = "budget"  // a limit of the budget was reached
	Looping  End = "loop"
	Declined End = "refused" // by the model
	Failed   End = "failed"
)
