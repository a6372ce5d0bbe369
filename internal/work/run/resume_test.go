package run_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
)

// A diary holds the log of several runs, as if each ran in its own process.
type diary struct {
	*testRun
	dir string
}

func newDiary(t *testing.T) *diary { return &diary{newTestRun(t), t.TempDir()} }

// again opens a run, resumed or new, and passes it to use.
func (d *diary) again(resume bool, use func(r *run.Run)) {
	d.t.Helper()
	folder, err := state.Open(d.dir)
	must(d.t, err)
	defer folder.Close()
	log, err := run.OpenLog(folder, resume, time.Now)
	must(d.t, err)
	defer log.Close()
	r := d.run(policy.Limits{})
	r.Log = log
	use(r)
}

func (d *diary) do(resume bool, w *run.Worker, input string) (o run.Outcome) {
	d.t.Helper()
	d.again(resume, func(r *run.Run) {
		var err error
		o, err = r.Do(context.Background(), w, run.Input{Text: input})
		must(d.t, err)
	})
	return o
}

func (d *diary) exists(name string) bool {
	ok, err := d.files.Exists(name)
	must(d.t, err)
	return ok
}

// newCallAnswer returns an answer with one call that has an id.
func newCallAnswer(id, name, args string) model.Answer {
	return model.Answer{Stop: model.Calls, Parts: []model.Part{{Call: &model.Call{ID: id, Tool: name, Args: args}}}}
}

// checkWhole fails if a call has no result in the next message, or a result has no call.
func checkWhole(t *testing.T, messages []model.Message) {
	t.Helper()
	open := make(map[string]bool)
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Result != nil {
				if !open[p.Result.ID] {
					t.Errorf("a result without a call: %s", p.Result.ID)
				}
				delete(open, p.Result.ID)
			}
		}
		if len(open) > 0 {
			t.Errorf("calls without results: %v", open)
		}
		for _, p := range m.Parts {
			if p.Call != nil {
				open[p.Call.ID] = true
			}
		}
	}
}

var errKilled = errors.New("killed")

// TestResumeSameID: a repeated id is another call. It does not get the first call's
// result or the worker that the first call started.
func TestResumeSameID(t *testing.T) {
	d := newDiary(t)
	worker := func(m model.Model) *run.Worker {
		w := d.worker(m, "main")
		w.Callees = []run.Callee{{Name: "child"}}
		w.Child = func(string, run.Narrow) (*run.Worker, error) {
			return d.worker(player(func(r model.Request) (model.Answer, error) {
				return newTextAnswer("heard " + r.Messages[0].Parts[0].Text), nil
			}), "main", "child"), nil
		}
		return w
	}
	killed := true
	m := player(func(r model.Request) (model.Answer, error) {
		switch len(r.Messages) {
		case 1:
			return newCallAnswer("x", "write_file", `{"path":"/out/a","content":"1"}`), nil
		case 3:
			return newCallAnswer("x", "child", `{"input":"first"}`), nil
		case 5:
			if killed {
				return model.Answer{}, errKilled
			}
			return newCallAnswer("x", "write_file", `{"path":"/out/b","content":"1"}`), nil
		case 7:
			return newCallAnswer("x", "child", `{"input":"second"}`), nil
		}
		return newTextAnswer(r.Messages[len(r.Messages)-1].Parts[0].Result.Text), nil
	})
	d.do(false, worker(m), "go")
	killed = false
	if o := d.do(true, worker(m), ""); o.Text != "heard second" || !d.exists("/out/b") {
		t.Errorf("%+v", o)
	}
}

// TestResumeChild: a worker that was stopped during its calls continues there. It does
// not get its input again, every call gets its result, and nothing is done twice.
func TestResumeChild(t *testing.T) {
	d := newDiary(t)
	stopped := false
	var seen []model.Message
	child := player(func(r model.Request) (model.Answer, error) {
		seen = r.Messages
		if len(r.Messages) == 1 {
			return newCallsAnswer("write_file", `{"path":"/out/a","content":"1"}`, "write_file", `{"path":"/out/a","content":"2"}`), nil
		}
		return newTextAnswer("child is done"), nil
	})
	worker := func() *run.Worker {
		w := d.worker(player(func(r model.Request) (model.Answer, error) {
			if len(r.Messages) == 1 {
				return newCallsAnswer("child", `{"input":"the part"}`), nil
			}
			return newTextAnswer("done"), nil
		}), "main")
		w.Callees = []run.Callee{{Name: "child"}}
		w.Child = func(string, run.Narrow) (*run.Worker, error) { return d.worker(child, "main", "child"), nil }
		return w
	}
	d.again(false, func(r *run.Run) {
		r.Tell = func(e run.Event) {
			if e.Type == run.ToolResult && e.Tool == "write_file" {
				stopped = true
				r.Stop()
			}
		}
		o, err := r.Do(context.Background(), worker(), run.Input{Text: "go"})
		must(t, err)
		if o.End != run.Stopped || !stopped {
			t.Errorf("%+v", o)
		}
	})
	if o := d.do(true, worker(), ""); o.Text != "done" {
		t.Errorf("%+v", o)
	}
	checkWhole(t, seen)
	if len(seen) != 3 || strings.Count(d.results(), "write_file") != 1 {
		t.Errorf("%d messages\n%s", len(seen), d.results())
	}
}

// TestResumeWithInput: the user's message to a resumed run comes after the results that
// the run waits for.
func TestResumeWithInput(t *testing.T) {
	d := newDiary(t)
	var seen []model.Message
	m := player(func(r model.Request) (model.Answer, error) {
		seen = r.Messages
		if len(r.Messages) == 1 {
			return newCallsAnswer("write_file", `{"path":"/out/a","content":"1"}`, "write_file", `{"path":"/out/a","content":"2"}`), nil
		}
		return newTextAnswer("done"), nil
	})
	d.again(false, func(r *run.Run) {
		r.Tell = func(e run.Event) {
			if e.Type == run.ToolResult {
				r.Stop()
			}
		}
		_, err := r.Do(context.Background(), d.worker(m, "main"), run.Input{Text: "go"})
		must(t, err)
	})
	d.do(true, d.worker(m, "main"), "and quickly")
	checkWhole(t, seen)
	if last := seen[len(seen)-1].Parts; len(seen) != 3 || len(last) != 3 || last[2].Text != "and quickly" {
		t.Errorf("%+v", seen)
	}
}

// TestResumeIncompleteAnswer: a resumed run does not make the calls of an answer that was refused
// or cut off.
func TestResumeIncompleteAnswer(t *testing.T) {
	for _, stop := range []model.Stop{model.Refused, model.Length} {
		d := newDiary(t)
		turn := 0
		m := player(func(r model.Request) (model.Answer, error) {
			checkWhole(t, r.Messages)
			switch turn++; turn {
			case 1:
				a := newCallsAnswer("write_file", `{"path":"/out/a","content":"1"}`)
				a.Stop = stop
				return a, nil
			case 2:
				if stop == model.Length {
					return model.Answer{}, errKilled
				}
			}
			return newTextAnswer("done"), nil
		})
		d.do(false, d.worker(m, "main"), "go")
		if o := d.do(true, d.worker(m, "main"), ""); o.Text != "done" || d.exists("/out/a") {
			t.Errorf("%s: %+v", stop, o)
		}
	}
}

// TestResumeForget: after Forget a resumed run starts a new conversation too.
func TestResumeForget(t *testing.T) {
	d := newDiary(t)
	d.do(false, d.worker(playAnswers(newTextAnswer("one")), "main"), "first")
	d.again(true, func(r *run.Run) {
		r.Forget()
		_, err := r.Do(context.Background(), d.worker(player(func(r model.Request) (model.Answer, error) {
			if len(r.Messages) != 1 || r.Messages[0].Parts[0].Text != "second" {
				t.Errorf("%+v", r.Messages)
			}
			return newTextAnswer("two"), nil
		}), "main"), run.Input{Text: "second"})
		must(t, err)
	})
}

// TestResumeLong: a conversation longer than one line of the log is kept and continues.
func TestResumeLong(t *testing.T) {
	d := newDiary(t)
	file := model.File{Name: "a.txt", Type: "text/plain", Data: bytes.Repeat([]byte("0123456789"), 900_000)}
	d.again(false, func(r *run.Run) {
		w := d.worker(playAnswers(), "main")
		for _, in := range []run.Input{{Text: "go", Files: []model.File{file}}, {Text: "again", Files: []model.File{file}}} {
			_, err := r.Do(context.Background(), w, in)
			must(t, err)
		}
	})
	d.do(true, d.worker(player(func(r model.Request) (model.Answer, error) {
		if len(r.Messages) != 1 || len(r.Messages[0].Parts) != 4 || !bytes.Equal(r.Messages[0].Parts[3].File.Data, file.Data) {
			t.Errorf("%d messages", len(r.Messages))
		}
		return newTextAnswer("done"), nil
	}), "main"), "")
}

// TestStoppedAtQuestion: a user who stops the run at a question gets the same question
// when the run continues.
func TestStoppedAtQuestion(t *testing.T) {
	h := newTestRun(t)
	dir := t.TempDir()
	do := func(resume bool, in string) run.Outcome {
		t.Helper()
		folder, err := state.Open(dir)
		must(t, err)
		defer folder.Close()
		log, err := run.OpenLog(folder, resume, time.Now)
		must(t, err)
		defer log.Close()
		w := h.worker(player(func(r model.Request) (model.Answer, error) {
			if len(r.Messages) == 1 {
				return newCallsAnswer("write_file", `{"path":"/in/asked","content":"x"}`), nil
			}
			return newTextAnswer("done"), nil
		}), "main")
		r := h.run(policy.Limits{})
		r.Log = log
		o, err := r.Do(context.Background(), w, run.Input{Text: in})
		must(t, err)
		return o
	}
	h.answer = tool.Answer{Verdict: tool.Declined, By: "user", Stop: true}
	if o := do(false, "go"); o.End != run.Stopped {
		t.Fatalf("%+v", o)
	}
	h.answer = tool.Answer{Verdict: tool.Approved, By: "user"}
	if o := do(true, ""); o.Text != "done" {
		t.Errorf("%+v", o)
	}
	if ok, _ := h.files.Exists("/in/asked"); !ok || h.asked.Load() != 2 {
		t.Errorf("written: %v, asked %d times", ok, h.asked.Load())
	}
}
