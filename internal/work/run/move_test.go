package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
)

// movingRun is a diary with a worker that reads, writes, and calls a worker that writes.
func movingRun(t *testing.T) (*diary, *run.Worker) {
	d := newDiary(t)
	turn := func(r model.Request, answers ...model.Answer) (model.Answer, error) {
		if at := len(r.Messages) / 2; at < len(answers) {
			return answers[at], nil
		}
		var texts []string
		for _, p := range r.Messages[len(r.Messages)-1].Parts {
			texts = append(texts, p.Result.Text)
		}
		return newTextAnswer(strings.Join(texts, "; ")), nil
	}
	w := d.worker(player(func(r model.Request) (model.Answer, error) {
		return turn(r, newCallAnswer("c1", "read_file", `{"path":"/in/a.txt"}`), newCallAnswer("c2", "write_file", `{"path":"/out/a","content":"1"}`),
			newCallAnswer("c3", "child", `{"input":"go"}`))
	}), "main")
	w.Callees = []run.Callee{{Name: "child"}}
	w.Child = func(string, run.Narrow) (*run.Worker, error) {
		return d.worker(player(func(r model.Request) (model.Answer, error) {
			return turn(r, newCallAnswer("c1", "write_file", `{"path":"/out/b","content":"2"}`))
		}), "main", "child"), nil
	}
	return d, w
}

// move runs or resumes the run with hooks.
func (d *diary) move(resume bool, w *run.Worker, claim func(call string) error, checkpoint func() error) (o run.Outcome, err error) {
	d.again(resume, func(r *run.Run) {
		r.Claim = func(_ context.Context, call, digest string) error {
			if digest == "" {
				d.t.Errorf("%s has no digest", call)
			}
			return claim(call)
		}
		r.Checkpoint = func(context.Context) error { return checkpoint() }
		in := run.Input{Text: "go"}
		if resume && r.Log.Began() != "" {
			in = run.Input{}
		}
		o, err = r.Do(d.t.Context(), w, in)
	})
	return o, err
}

// TestClaim: a run claims each call with an effect once, before the call, and ends if it
// cannot.
func TestClaim(t *testing.T) {
	d, w := movingRun(t)
	var calls []string
	checkpoints := 0
	o, err := d.move(false, w, func(call string) error {
		calls = append(calls, call)
		if call == "2.1" && d.exists("/out/a") || call == "3.1/1.1" && d.exists("/out/b") {
			t.Errorf("%s was made before its claim", call)
		}
		return nil
	}, func() error { checkpoints++; return nil })
	if err != nil || o.End != run.Finished || !slices.Equal(calls, []string{"2.1", "3.1/1.1"}) {
		t.Errorf("got %v, %+v, %v", calls, o, err)
	}
	if want := 4 + 4 + 1; checkpoints != want { // answers with calls, calls, the end
		t.Errorf("%d checkpoints, want %d", checkpoints, want)
	}

	lost := errors.New("node 2 has it")
	for _, at := range []string{"2.1", "3.1/1.1"} {
		d, w := movingRun(t)
		o, err := d.move(false, w, func(call string) error {
			if call == at {
				return lost
			}
			return nil
		}, func() error { return nil })
		if !errors.Is(err, run.ErrInterrupted) || !errors.Is(err, lost) || o.End == run.Finished {
			t.Errorf("%s: got %+v, %v", at, o, err)
		}
		if d.exists("/out/b") || d.exists("/out/a") != (at != "2.1") {
			t.Errorf("%s: the call was made", at)
		}
		intents := 0
		for _, r := range d.journal.records {
			if r.Kind == audit.Intent && r.Tool == "write_file" {
				intents++
			}
		}
		if want := map[string]int{"2.1": 0, "3.1/1.1": 1}[at]; intents != want {
			t.Errorf("%s: %d intents, want %d", at, intents, want)
		}
		// The machine that holds it continues, and makes the call.
		if o, err := d.move(true, w, func(string) error { return nil }, func() error { return nil }); err != nil || o.End != run.Finished || !d.exists("/out/b") {
			t.Errorf("%s: got %+v, %v", at, o, err)
		}
	}
}

// TestClaimInDoubt: a call that another machine may have made is not made again, and the
// model gets to know it. That is in the log.
func TestClaimInDoubt(t *testing.T) {
	d, w := movingRun(t)
	o, err := d.move(false, w, func(call string) error {
		if call == "3.1/1.1" {
			return fmt.Errorf("%w: it was node 1", run.ErrInDoubt)
		}
		return nil
	}, func() error { return nil })
	if err != nil || !strings.Contains(o.Text, "does not know whether it was done") || d.exists("/out/b") {
		t.Errorf("got %+v, %v", o, err)
	}
	if again, err := d.move(true, w, func(string) error { return errors.New("no call is left") }, func() error { return nil }); err != nil || again.Text != o.Text {
		t.Errorf("got %+v, %v", again, err)
	}
}

// TestCheckpointFails: a run whose checkpoint fails is interrupted, and continues after it.
// No call is made twice.
func TestCheckpointFails(t *testing.T) {
	d, w := movingRun(t)
	full := errors.New("full")
	made := map[string]int{}
	for n := range 20 {
		o, err := d.move(n > 0, w, func(call string) error { made[call]++; return nil }, func() error { return full })
		if !errors.Is(err, run.ErrInterrupted) || !errors.Is(err, full) {
			t.Fatalf("got %+v, %v", o, err)
		}
		if o.End == run.Finished {
			break
		}
	}
	if o, err := d.move(true, w, func(string) error { return full }, func() error { return nil }); err != nil || o.End != run.Finished || made["2.1"] != 1 || made["3.1/1.1"] != 1 {
		t.Errorf("got %+v, %v, %v", made, o, err)
	}
}

// TestCheckpointOfStoppedRun: a run that is stopped ends with a checkpoint.
func TestCheckpointOfStoppedRun(t *testing.T) {
	d, w := movingRun(t)
	ctx, cancel := context.WithCancel(t.Context())
	last := errors.New("none")
	d.again(false, func(r *run.Run) {
		r.Claim = func(context.Context, string, string) error { cancel(); return nil }
		r.Checkpoint = func(ctx context.Context) error { last = ctx.Err(); return last }
		if o, err := r.Do(ctx, w, run.Input{Text: "go"}); err != nil || o.End != run.Stopped || last != nil {
			t.Errorf("got %+v, %v; the context of the checkpoint: %v", o, err, last)
		}
	})
}
