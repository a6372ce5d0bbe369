package run_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/sandbox"
)

// A meeting lets calls wait for each other, so that it ends only if they run at once.
type meeting struct {
	t    testing.TB
	n    int64
	came atomic.Int64
	all  chan struct{}
}

func newMeeting(t testing.TB, n int64) *meeting {
	return &meeting{t: t, n: n, all: make(chan struct{})}
}

func (m *meeting) wait() {
	if m.came.Add(1) == m.n {
		close(m.all)
	}
	select {
	case <-m.all:
	case <-time.After(20 * time.Second):
		m.t.Error("the calls do not run at once")
	}
}

// readAll says that a worker may read all files and write those in a directory of its own.
func readAll(name string, n run.Narrow) (tool.Reach, bool) {
	if n.ReadOnly {
		return tool.Reach{Reads: []string{"/in"}}, true
	}
	return tool.Reach{Reads: []string{"/in"}, Writes: []string{"/out/" + strings.TrimPrefix(n.Restrict, "/out/")}}, true
}

// TestCallsRunAtOnce calls workers that write to different directories, and ask. They run
// at once. Their questions and writes come in the order of the answer, one at a time, and
// so do events and results.
func TestCallsRunAtOnce(t *testing.T) {
	h := newTestRun(t)
	const n = 4
	var told []model.Part
	m := player(func(r model.Request) (model.Answer, error) {
		if len(r.Messages) > 1 {
			told = r.Messages[2].Parts
			return newTextAnswer("done"), nil
		}
		var words []string
		for i := range n {
			words = append(words, "child", fmt.Sprintf(`{"input":"c%d","restrict":"/out/%d"}`, i, i), "read_file", `{"path":"/in/a.txt"}`)
		}
		return newCallsAnswer(words...), nil
	})
	together := newMeeting(t, n)
	var asking atomic.Int64
	var mu sync.Mutex
	var asked []string
	ask := approver(func(r tool.Request) tool.Answer {
		if asking.Add(1) > 1 {
			t.Error("two questions at once")
		}
		defer asking.Add(-1)
		mu.Lock()
		asked = append(asked, r.Effects[0].String())
		mu.Unlock()
		time.Sleep(time.Millisecond)
		return tool.Answer{Verdict: tool.Approved, By: "user", Seen: r.FollowRule()}
	})
	w := h.worker(m, "main")
	w.Callees, w.Reach = []run.Callee{{Name: "child"}}, readAll
	w.Child = func(_ string, narrow run.Narrow) (*run.Worker, error) {
		number := strings.TrimPrefix(narrow.Restrict, "/out/")
		child := h.worker(player(func(r model.Request) (model.Answer, error) {
			switch len(r.Messages) {
			case 1:
				together.wait()
				return newCallsAnswer("write_file", fmt.Sprintf(`{"path":"/out/%s/f","content":"x"}`, number), "write_file", fmt.Sprintf(`{"path":"/in/%s","content":"x"}`, number)), nil
			}
			return newTextAnswer("answer " + number), nil
		}), "main", "child")
		child.Gate.Approver = ask
		return child, nil
	}
	w.Gate.Grant.Approvals = w.Gate.Grant.Approvals.With(policy.Rule{Verb: policy.Call, Target: "child", Approval: policy.PreApproved})
	h.do(w, "go")
	var writes, want []string
	for _, r := range h.journal.records {
		if r.Kind == audit.Intent && r.Tool == "write_file" {
			writes = append(writes, strings.Join(r.Effects, " "))
		}
	}
	for i := range n {
		want = append(want, fmt.Sprintf("write /out/%d/f", i), fmt.Sprintf("write /in/%d", i))
	}
	if !slices.Equal(writes, want) {
		t.Errorf("writes: %v", writes)
	}
	if len(asked) != n || !slices.IsSorted(asked) {
		t.Errorf("questions: %v", asked)
	}
	var results, calls []string
	for _, e := range h.events {
		switch {
		case e.Worker != "main":
		case e.Type == run.ToolCall:
			calls = append(calls, e.Call)
		case e.Type == run.ToolResult:
			results = append(results, e.Call)
		}
	}
	if len(results) != 2*n || !slices.Equal(results, calls) || !slices.IsSorted(results) {
		t.Errorf("events: %v, %v", calls, results)
	}
	for i := range n {
		if r := told[2*i].Result; r == nil || !strings.Contains(r.Text, fmt.Sprint("answer ", i)) {
			t.Errorf("result %d: %+v", i, r)
		}
	}
}

// TestMeetingCallsRunInOrder: a worker that may write what another call reads or writes
// runs by itself.
func TestMeetingCallsRunInOrder(t *testing.T) {
	for _, reach := range []tool.Reach{{Reads: []string{"/in"}, Writes: []string{"/out"}}, {Reads: []string{"/in"}, Writes: []string{"/in/sub"}}, {Writes: []string{"/"}}} {
		h := newTestRun(t)
		var running atomic.Int64
		m := player(func(r model.Request) (model.Answer, error) {
			if len(r.Messages) > 1 {
				return newTextAnswer("done"), nil
			}
			return startManyWorkers(6, "child"), nil
		})
		w := h.worker(m, "main")
		w.Callees = []run.Callee{{Name: "child"}}
		w.Reach = func(string, run.Narrow) (tool.Reach, bool) { return reach, true }
		w.Gate.Grant.Approvals = w.Gate.Grant.Approvals.With(policy.Rule{Verb: policy.Call, Target: "child", Approval: policy.PreApproved})
		w.Child = func(string, run.Narrow) (*run.Worker, error) {
			return h.worker(player(func(model.Request) (model.Answer, error) {
				if running.Add(1) > 1 {
					t.Errorf("%+v: two workers at once", reach)
				}
				time.Sleep(time.Millisecond)
				running.Add(-1)
				return newTextAnswer("ok"), nil
			}), "main", "child"), nil
		}
		if o := h.do(w, "go"); !o.OK() {
			t.Errorf("%+v", o)
		}
	}
}

// readers returns a worker that calls n workers which only read.
func readers(h *testRun, n int, answer player) *run.Worker {
	w := h.worker(player(func(r model.Request) (model.Answer, error) {
		if len(r.Messages) > 1 {
			return newTextAnswer("done"), nil
		}
		return startManyWorkers(n, "child"), nil
	}), "main")
	w.Callees = []run.Callee{{Name: "child"}}
	w.Reach = func(string, run.Narrow) (tool.Reach, bool) { return tool.Reach{Reads: []string{"/"}}, true }
	w.Gate.Grant.Approvals = w.Gate.Grant.Approvals.With(policy.Rule{Verb: policy.Call, Target: "child", Approval: policy.PreApproved})
	w.Child = func(string, run.Narrow) (*run.Worker, error) { return h.worker(answer, "main", "child"), nil }
	return w
}

// TestBudgetCancelsQueue uses up a budget while calls wait for a place. They are not
// begun, and the outcome says so.
func TestBudgetCancelsQueue(t *testing.T) {
	for _, test := range []struct {
		limits policy.Limits
		most   int64
		why    string
	}{
		{policy.Limits{Workers: 5}, 5, "5 workers were started; raise budget.workers in the project file or with --set budget.workers=…, then continue with --resume; 34 more calls of the answer were not made"},
		{policy.Limits{Turns: 10}, 9, "more calls of the answer were not made"},
		{policy.Limits{Tokens: 400}, 30, "more calls of the answer were not made"},
	} {
		h := newTestRun(t)
		var asked, running, most atomic.Int64
		w := readers(h, 40, func(model.Request) (model.Answer, error) {
			asked.Add(1)
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(2 * time.Millisecond)
			running.Add(-1)
			return newTextAnswer("ok"), nil
		})
		o, err := h.run(test.limits).Do(context.Background(), w, run.Input{Text: "go"})
		must(t, err)
		if o.End != run.Spent || !strings.Contains(o.Why, test.why) || asked.Load() > test.most || asked.Load() == 0 {
			t.Errorf("%+v: %d workers asked: %+v", test.limits, asked.Load(), o)
		}
		if most.Load() > 8 {
			t.Errorf("%d workers at once", most.Load())
		}
	}
}

// TestReservationsWait: workers that run at once share a budget that is enough for all of
// them only one after the other.
func TestReservationsWait(t *testing.T) {
	h := newTestRun(t)
	w := readers(h, 8, func(model.Request) (model.Answer, error) { return newTextAnswer("ok"), nil })
	o, err := h.run(policy.Limits{Tokens: 30_000, Turns: 10}).Do(context.Background(), w, run.Input{Text: "go"})
	must(t, err)
	if !o.OK() {
		t.Errorf("%+v", o)
	}
}

// TestManyCallsAtOnce: a model asks for 200 calls in one answer. The run makes 128 of
// them, at most 8 at once, and each result has the place of its call.
func TestManyCallsAtOnce(t *testing.T) {
	h := newTestRun(t)
	var told []model.Part
	m := player(func(r model.Request) (model.Answer, error) {
		if len(r.Messages) > 1 {
			told = r.Messages[2].Parts
			return newTextAnswer("done"), nil
		}
		var words []string
		for i := range 200 {
			words = append(words, "read_file", fmt.Sprintf(`{"path":"/in/f%d"}`, i))
		}
		return newCallsAnswer(words...), nil
	})
	for i := range 200 {
		_, err := h.files.Write(fmt.Sprintf("/in/f%d", i), []byte(fmt.Sprintf("content %d\n", i)))
		must(t, err)
	}
	h.do(h.worker(m, "main"), "go")
	if len(told) != 200 {
		t.Fatalf("%d results", len(told))
	}
	for i, p := range told {
		want := fmt.Sprintf("content %d", i)
		if i >= 128 {
			want = "at most 128 calls"
		}
		if !strings.Contains(p.Result.Text, want) {
			t.Errorf("result %d: %s", i, p.Result.Text)
		}
	}
}

// TestPausedGroup: a worker among others that run at once waits for approval. The workers
// before it are done, none after it writes, and a resumed run makes every call once.
func TestPausedGroup(t *testing.T) {
	d := newDiary(t)
	const n = 5
	var mu sync.Mutex
	written := make(map[string]int)
	decline := true
	worker := func() *run.Worker {
		w := d.worker(player(func(r model.Request) (model.Answer, error) {
			if len(r.Messages) > 1 {
				return newTextAnswer("done"), nil
			}
			a := model.Answer{Stop: model.Calls}
			for i := range n {
				a.Parts = append(a.Parts, model.Part{Call: &model.Call{ID: fmt.Sprint("k", i), Tool: "child", Args: fmt.Sprintf(`{"input":"go","restrict":"/out/%d"}`, i)}})
			}
			return a, nil
		}), "main")
		w.Callees, w.Reach = []run.Callee{{Name: "child"}}, readAll
		w.Gate.Grant.Approvals = w.Gate.Grant.Approvals.With(policy.Rule{Verb: policy.Call, Target: "child", Approval: policy.PreApproved})
		w.Child = func(_ string, narrow run.Narrow) (*run.Worker, error) {
			child := d.worker(player(func(r model.Request) (model.Answer, error) {
				if len(r.Messages) == 1 {
					return newCallAnswer("w", "write_file", fmt.Sprintf(`{"path":"%s/f","content":"x"}`, narrow.Restrict)), nil
				}
				return newTextAnswer("ok"), nil
			}), "main", "child")
			child.Gate.Grant.Approvals = policy.Approvals{}
			child.Gate.Approver = approver(func(r tool.Request) tool.Answer {
				if decline && narrow.Restrict == "/out/2" {
					return tool.Answer{Verdict: tool.Undecided, ID: "ask"}
				}
				mu.Lock()
				defer mu.Unlock()
				written[narrow.Restrict]++
				return tool.Answer{Verdict: tool.Approved, By: "user", Seen: r.FollowRule()}
			})
			return child, nil
		}
		return w
	}
	if o := d.do(false, worker(), "go"); o.End != run.Paused || !slices.Equal(o.Pending, []string{"ask"}) {
		t.Fatalf("%+v", o)
	}
	for i := range n {
		if d.exists(fmt.Sprintf("/out/%d/f", i)) != (i < 2) {
			t.Errorf("worker %d: the file is not as expected while worker 2 waits", i)
		}
	}
	decline = false
	if o := d.do(true, worker(), ""); !o.OK() {
		t.Errorf("%+v", o)
	}
	for i := range n {
		if dir := fmt.Sprint("/out/", i); !d.exists(dir+"/f") || written[dir] != 1 {
			t.Errorf("%s was written %d times", dir, written[dir])
		}
	}
}

// TestKilledGroup stops a run at once while several calls of an answer run. The resumed
// run has one result for each call, makes none again that was done, and makes again a read
// that was cut off.
func TestKilledGroup(t *testing.T) {
	const n = 8
	for kill := range n {
		d := newDiary(t)
		var mu sync.Mutex
		answered := make(map[string]int)
		var told []model.Part
		var results atomic.Int64
		worker := func(cancel func()) *run.Worker {
			w := d.worker(player(func(r model.Request) (model.Answer, error) {
				if len(r.Messages) > 1 {
					told = r.Messages[2].Parts
					return newTextAnswer("done"), nil
				}
				a := model.Answer{Stop: model.Calls}
				for i := range n {
					a.Parts = append(a.Parts, model.Part{Call: &model.Call{ID: fmt.Sprint("k", i), Tool: "child", Args: fmt.Sprintf(`{"input":"%d","readonly":true}`, i)}},
						model.Part{Call: &model.Call{ID: fmt.Sprint("r", i), Tool: "read_file", Args: `{"path":"/in/a.txt"}`}})
				}
				return a, nil
			}), "main")
			w.Callees, w.Reach = []run.Callee{{Name: "child"}}, readAll
			w.Gate.Grant.Approvals = w.Gate.Grant.Approvals.With(policy.Rule{Verb: policy.Call, Target: "child", Approval: policy.PreApproved})
			w.Child = func(string, run.Narrow) (*run.Worker, error) {
				return d.worker(player(func(r model.Request) (model.Answer, error) {
					if cancel != nil && results.Add(1) > int64(kill) {
						cancel()
						return model.Answer{}, context.Canceled
					}
					mu.Lock()
					answered[r.Messages[0].Parts[0].Text]++
					mu.Unlock()
					return newTextAnswer("answer " + r.Messages[0].Parts[0].Text), nil
				}), "main", "child"), nil
			}
			return w
		}
		d.again(false, func(r *run.Run) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			o, err := r.Do(ctx, worker(cancel), run.Input{Text: "go"})
			if err == nil && o.End != run.Stopped {
				t.Errorf("kill %d: %+v", kill, o)
			}
		})
		if o := d.do(true, worker(nil), ""); !o.OK() {
			t.Fatalf("kill %d: %+v", kill, o)
		}
		for i := range n {
			if k := fmt.Sprint(i); answered[k] != 1 || !strings.Contains(told[2*i].Result.Text, "answer "+k) || !strings.Contains(told[2*i+1].Result.Text, "three findings") {
				t.Errorf("kill %d: worker %d answered %d times: %+v %+v", kill, i, answered[k], told[2*i].Result, told[2*i+1].Result)
			}
		}
	}
}

// TestReachOfGate: a call that only reads can run beside others. One that asks, changes
// something or cannot be planned runs by itself.
func TestReachOfGate(t *testing.T) {
	h := newTestRun(t)
	w := h.worker(nil, "main")
	w.Gate.Grant.Approvals = w.Gate.Grant.Approvals.With(policy.Rule{Verb: policy.Read, Target: "/out", Approval: policy.Ask})
	for _, c := range []struct {
		tool, args string
		want       bool
	}{
		{"read_file", `{"path":"/in/a.txt"}`, true},
		{"list_files", `{"path":"/in"}`, true},
		{"read_file", `{"path":"/out/x"}`, false},
		{"write_file", `{"path":"/out/x","content":"x"}`, false},
		{"read_file", `{"path":`, false},
		{"no_such", `{}`, false},
	} {
		if reach, ok := w.Gate.Reach(context.Background(), policy.Model, tool.Call{Tool: c.tool, Args: []byte(c.args)}); ok != c.want || ok && len(reach.Writes) > 0 {
			t.Errorf("%s %s: %+v, %v", c.tool, c.args, reach, ok)
		}
	}
	if len(h.journal.records) != 0 || h.asked.Load() != 0 {
		t.Errorf("the journal has %d records, and %d questions were asked", len(h.journal.records), h.asked.Load())
	}
}

// TestHugeResult: a tool returns 100 MB. The model gets at most 1 MiB of it, and the log
// keeps no more.
func TestHugeResult(t *testing.T) {
	d := newDiary(t)
	huge := tool.New(tool.Tool{Name: "huge", Toolset: "test", Mode: policy.Both, Description: "Returns much."}, func(context.Context, tool.Names, struct{}) (tool.Plan, error) {
		return tool.NewReadPlan(func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
			return tool.Result{Text: strings.Repeat("0123456789", 10_000_000)}, nil
		}), nil
	})
	var got string
	w := d.worker(player(func(r model.Request) (model.Answer, error) {
		if len(r.Messages) > 1 {
			got = r.Messages[2].Parts[0].Result.Text
			return newTextAnswer("done"), nil
		}
		return newCallsAnswer("huge", `{}`), nil
	}), "main")
	w.Gate.Tools = append(w.Gate.Tools, huge)
	w.Gate.Grant.Approvals = w.Gate.Grant.Approvals.With(policy.Rule{Verb: policy.Use, Target: "huge", Approval: policy.PreApproved})
	if o := d.do(false, w, "go"); !o.OK() || len(got) > 1<<20 || !strings.Contains(got, "bytes omitted here") {
		t.Errorf("%d bytes: %+v", len(got), o)
	}
	for _, e := range d.entries() {
		if e.Result != nil && len(e.Result.Text) > 1<<20 {
			t.Errorf("the log has %d bytes", len(e.Result.Text))
		}
	}
}
