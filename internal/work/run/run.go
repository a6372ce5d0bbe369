package run

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golem-forge/golem/internal/work/model"
)

// A Run is one task. It is used once.
type Run struct {
	ID     string
	Budget *Budget
	Log    *Log        // nil records nothing
	Tell   func(Event) // called by one goroutine at a time; may be nil
	Now    func() time.Time

	// Policy is the hash that approvals are bound to. A resumed run with another policy
	// asks again.
	Policy string

	// Secrets are values that golem hides from models: the user's keys.
	Secrets []string

	// Claim, if set, reserves a call before it has an effect. The run may move between
	// machines, and only one of them may make the call. The digest is that of the call. If
	// Claim returns ErrInDoubt, the run does not make the call and tells the model that its
	// outcome is unknown. Any other error interrupts the run.
	Claim func(ctx context.Context, call, digest string) error

	// Checkpoint, if set, is called when the run can be continued elsewhere with the files
	// that it has written so far: after each answer of the model, after each call, and at
	// the end of Do. A last answer counts as the end. An error interrupts the run.
	Checkpoint func(ctx context.Context) error

	// Cancelled is true if the user cancelled the calls of the entry worker that have no result
	// yet. The run does not make them again, and tells the model so.
	Cancelled bool

	// AtEnd, if set, looks at the last answer of the entry worker. An error says why the
	// work is not finished. The worker gets the reason and continues, a few times.
	AtEnd func(ctx context.Context, ok bool, answer string) (notes []string, err error)

	teller    reporter
	once      sync.Once
	history   []model.Message // of the entry worker
	steps     int             // number of the model's answers to the entry worker
	decisions []string        // of the user about calls of the entry worker
	resumed   bool            // what it had used before is counted
	halt      chan struct{}   // closed by Stop
	places    chan struct{}   // a value for each call that is made beside another one
	stopped   atomic.Bool
	fallen    sync.Map // for each model, by its name, how many did not answer: an *atomic.Int32; the next fallback is asked

	interruption atomic.Pointer[error] // why the run cannot continue here
}

// top is the id of the entry worker's conversation.
const top = "run"

func (r *Run) begin() {
	r.once.Do(func() {
		r.halt, r.places = make(chan struct{}), make(chan struct{}, atOnce-1)
		r.teller.tell, r.teller.now = r.Tell, r.Now
	})
}

// resume counts what the run had used before it continued, and records that it continues.
func (r *Run) resume() error {
	if r.Log == nil || r.resumed {
		return nil
	}
	r.resumed = true
	if !r.Log.inRun {
		return nil
	}
	r.Budget.usedBefore(r.Log.spent, r.Log.begun, r.Log.ran)
	return r.Log.write(Entry{Kind: "resume", In: top})
}

// Stop ends the run after the calls in progress. To end it at once, cancel its context.
func (r *Run) Stop() {
	r.begin()
	if r.stopped.CompareAndSwap(false, true) {
		close(r.halt)
	}
}

// Stopped returns a channel that Stop closes.
func (r *Run) Stopped() <-chan struct{} {
	r.begin()
	return r.halt
}

// Forget makes the next input start a new conversation.
func (r *Run) Forget() {
	r.history, r.steps, r.decisions = nil, 0, nil
	r.Log.takePast(top)
	r.Log.forget(top)
}

// Do lets a worker work on an input. It continues the conversation of this run or of its
// log. The input, if there is one, is the user's next message. An error means that the
// run could not be recorded, or was interrupted. Everything else is in the outcome.
func (r *Run) Do(ctx context.Context, w *Worker, in Input) (Outcome, error) {
	r.begin()
	if err := r.resume(); err != nil {
		return Outcome{}, err
	}
	ctx, cancel := r.Budget.within(ctx, r.Now())
	defer cancel()
	r.teller.say(Event{Type: RunStart, Worker: w.Name, Chain: w.Gate.Workers, Model: w.ModelName, Text: in.Text})
	o, err := r.converse(ctx, w, top, "", in, nil)
	if err == nil && r.AtEnd != nil {
		o, err = r.askAtEnd(ctx, w, o)
	}
	if err == nil {
		err = r.checkpoint(ctx)
	}
	sum := r.Budget.Sum()
	ok := o.OK() && err == nil
	r.teller.say(Event{Type: RunEnd, Worker: w.Name, Chain: w.Gate.Workers, OK: &ok, End: o.End, Text: o.Text, Hint: o.Why, Sum: &sum})
	return o, err
}

// maxReturns is how often a worker continues after AtEnd has refused its last answer.
const maxReturns = 3

// askAtEnd asks AtEnd about the outcome of a run, and lets the worker continue if that
// refuses.
func (r *Run) askAtEnd(ctx context.Context, w *Worker, o Outcome) (Outcome, error) {
	for returns := 0; o.End == Finished || o.End == Declined; returns++ {
		notes, refusal := r.AtEnd(ctx, o.OK(), o.Text)
		for _, note := range notes {
			r.teller.say(Event{Type: Note, Worker: w.Name, Chain: w.Gate.Workers, Text: note})
		}
		if refusal == nil {
			return o, nil
		}
		if returns == maxReturns || !o.OK() || ctx.Err() != nil {
			return Outcome{End: Failed, Text: o.Text, Why: refusal.Error()}, nil
		}
		r.teller.say(Event{Type: Note, Worker: w.Name, Chain: w.Gate.Workers, Text: refusal.Error()})
		var err error
		if o, err = r.converse(ctx, w, top, "", Input{Text: "You are not finished: " + refusal.Error()}, nil); err != nil {
			return o, err
		}
	}
	return o, nil
}

// modelContext returns a context for questions to models. It ends with ctx or as soon as
// the run is stopped. The contexts of tools do not end then.
func (r *Run) modelContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-r.halt:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// hide removes secrets from a text.
func (r *Run) hide(text string) string { return hideSecrets(text, r.Secrets) }

func hideSecrets(text string, secrets []string) string {
	const least = 8 // shorter values are no secrets and occur everywhere
	for _, secret := range secrets {
		if len(secret) >= least {
			text = strings.ReplaceAll(text, secret, "[a secret of the user's]")
		}
	}
	return text
}

// estimate returns the approximate number of tokens in messages.
func estimate(messages []model.Message) int64 {
	const perToken, perFile = 4, 1600 // bytes of text for a token, tokens for an image
	var n int64
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.File != nil {
				n += perFile // vendors scale images down
				if p.File.Type == model.PDF {
					n += int64(len(p.File.Data)) / perToken / 4
				}
				if strings.HasPrefix(p.File.Type, "text/") {
					n += int64(len(p.File.Data)) / perToken
				}
				continue
			}
			n += int64(sizeOf(p))/perToken + 4
		}
	}
	return n
}

// sizeOf returns the approximate number of bytes in a part.
func sizeOf(p model.Part) int {
	switch {
	case p.Call != nil:
		return len(p.Call.Args) + len(p.Call.Tool)
	case p.Result != nil:
		return len(p.Result.Text)
	case p.Thinking != nil:
		return len(p.Thinking.Text)
	case p.File != nil:
		return len(p.File.Data)
	}
	return len(p.Text)
}
