package run_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
)

// TestFallback: the next model answers if a server has trouble or cannot be reached, and not
// if the request itself is wrong.
func TestFallback(t *testing.T) {
	for class, want := range map[model.Class]bool{
		model.Overloaded: true, model.Unknown: true, model.Denied: true, model.Unreached: true, model.Broken: true, model.TimedOut: true,
		model.Bad: false, model.TooLong: false,
	} {
		h := newTestRun(t)
		w := h.worker(player(func(model.Request) (model.Answer, error) {
			return model.Answer{}, &model.Error{Class: class, Model: "one", What: "trouble"}
		}), "main")
		w.Fallbacks = []run.Choice{{Name: "two", Model: player(func(model.Request) (model.Answer, error) { return newTextAnswer("from two"), nil })}}
		if o := h.do(w, "go"); (o.Text == "from two") != want || o.OK() != want {
			t.Errorf("%s: got %+v, want an answer of the other model: %v", class, o, want)
		}
	}
}
