package run

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/golem-forge/golem/internal/work/model"
)

// A Choice is a model that a worker may ask.
type Choice struct {
	Name  string // as written in the configuration
	Model model.Model
}

// choice returns the model that the worker asks now, and its number.
func (t *conversation) choice() (Choice, int) {
	at := min(int(t.fallenFrom(t.w.ModelName).Load()), len(t.w.Fallbacks))
	if at == 0 {
		return Choice{t.w.ModelName, t.w.Model}, 0
	}
	return t.w.Fallbacks[at-1], at
}

// fallenFrom counts, for all workers with a model, the models that did not answer.
func (r *Run) fallenFrom(modelName string) *atomic.Int32 {
	count, _ := r.fallen.LoadOrStore(modelName, new(atomic.Int32))
	return count.(*atomic.Int32)
}

// fallBack lets the run ask the next model after an error of the model with a number. It
// reports whether there is one. All workers of the run with the same model ask it from now
// on: to wait again for a model that is overloaded would take minutes for each answer.
func (t *conversation) fallBack(at int, err error) bool {
	var wrong *model.Error
	if !errors.As(err, &wrong) || at >= len(t.w.Fallbacks) {
		return false
	}
	switch wrong.Class {
	case model.Overloaded, model.Unknown, model.Denied, model.Unreached, model.Broken, model.TimedOut:
	default: // the request is at fault, and another model would get the same
		return false
	}
	if t.fallenFrom(t.w.ModelName).CompareAndSwap(int32(at), int32(at+1)) {
		next := t.w.Fallbacks[at].Name
		t.teller.say(Event{Type: Note, Worker: t.w.Name, Chain: t.gate.Workers, Model: next, Text: fmt.Sprintf("%s; %s answers from now on", wrong.Error(), next)})
	}
	return true
}

// newRequest returns the request for the model of a conversation.
func newRequest(t *conversation, room int64) model.Request {
	a := t.w.Answers
	return model.Request{Worker: t.w.Name, System: t.system, Messages: t.messages, Tools: t.offered, MaxTokens: room, Schema: t.w.Schema,
		Effort: model.Effort(a.Effort), Temperature: a.Temperature, Thoughts: a.ShowThinking != nil && *a.ShowThinking}
}

// roomFor returns how many tokens an answer to a worker may have.
func roomFor(w *Worker) int64 {
	if w.Answers.MaxTokens > 0 {
		return w.Answers.MaxTokens
	}
	return answerRoom
}
