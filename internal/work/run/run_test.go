package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/toolset/file"
	"github.com/golem-forge/golem/sandbox"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// journal keeps records in memory; the real one has its own tests.
type journal struct {
	mu      sync.Mutex
	records []audit.Record
}

func (j *journal) Write(r audit.Record, wait audit.Wait) error {
	if wait < r.Least() {
		return errors.New("the journal is not waited for")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records = append(j.records, r)
	return nil
}

type approver func(tool.Request) tool.Answer

func (a approver) Approve(_ context.Context, r tool.Request) tool.Answer { return a(r) }

// player is a model that computes its answer from the conversation.
type player func(r model.Request) (model.Answer, error)

func (p player) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	if err := ctx.Err(); err != nil {
		return model.Answer{}, err
	}
	a, err := p(r)
	a.Usage = model.Usage{Input: 10, Output: 5}
	return a, err
}

// playAnswers returns a model that gives answers in order.
func playAnswers(answers ...model.Answer) player {
	var at atomic.Int64
	return func(model.Request) (model.Answer, error) {
		i := int(at.Add(1)) - 1
		if i >= len(answers) {
			return model.Answer{}, errors.New("no more turns")
		}
		return answers[i], nil
	}
}

func newTextAnswer(text string) model.Answer {
	return model.Answer{Parts: []model.Part{{Text: text}}, Stop: model.Done}
}

var ids atomic.Int64

// newCallsAnswer returns an answer that asks for tools: name, arguments, name, arguments.
func newCallsAnswer(words ...string) model.Answer {
	a := model.Answer{Stop: model.Calls}
	for i := 0; i < len(words); i += 2 {
		a.Parts = append(a.Parts, model.Part{Call: &model.Call{ID: fmt.Sprint("c", ids.Add(1)), Tool: words[i], Args: words[i+1]}})
	}
	return a
}

// A testRun has a file system in memory and workers that share it.
type testRun struct {
	t       testing.TB
	files   *sandbox.Sandbox
	journal journal
	asked   atomic.Int64
	answer  tool.Answer
	events  []run.Event
}

func newTestRun(t testing.TB) *testRun {
	h := &testRun{t: t, answer: tool.Answer{Verdict: tool.Approved, By: "user"}}
	var err error
	h.files, err = sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/in", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadWrite},
		{Target: "/out", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadWrite},
	}})
	must(t, err)
	_, err = h.files.Write("/in/a.txt", []byte("three findings\n"))
	must(t, err)
	return h
}

func (h *testRun) grant(depth int) policy.Grant {
	return policy.Grant{Files: policy.AllFiles(), Tools: policy.All(), Workers: policy.All(), Depth: depth,
		Attachments: policy.Attachments{Max: 4, Bytes: 1 << 20}, Approvals: policy.Approvals{}.With(
			policy.Rule{Verb: policy.Write, Target: "/out", Approval: policy.PreApproved},
			policy.Rule{Verb: policy.Delete, Target: "/out", Approval: policy.PreApproved})}
}

// worker returns a worker with access to all files and with a chain of callers.
func (h *testRun) worker(m model.Model, chain ...string) *run.Worker {
	grant := h.grant(6 - len(chain))
	return &run.Worker{Name: chain[len(chain)-1], Prompt: "Work.", Model: m, ModelName: "test:x", Gate: tool.Gate{
		Tools: file.Tools(), Grant: grant, Files: h.files, Journal: &h.journal, Workers: chain,
		Approver: approver(func(r tool.Request) tool.Answer {
			h.asked.Add(1)
			a := h.answer
			a.Seen = r.FollowRule()
			return a
		})}}
}

func (h *testRun) run(l policy.Limits) *run.Run {
	now := func() time.Time { return time.Unix(1_700_000_000, 0) }
	return &run.Run{ID: "r", Budget: run.NewBudget(l, nil, now()), Now: now, Tell: func(e run.Event) { h.events = append(h.events, e) }}
}

func (h *testRun) do(w *run.Worker, input string) run.Outcome {
	h.t.Helper()
	o, err := h.run(policy.Limits{}).Do(context.Background(), w, run.Input{Text: input})
	must(h.t, err)
	return o
}

// results returns the results of the tools in order.
func (h *testRun) results() string {
	var b strings.Builder
	for _, e := range h.events {
		if e.Type == run.ToolResult {
			fmt.Fprintf(&b, "%s %s %s\n", e.Worker, e.Tool, strings.SplitN(e.Text, "\n", 2)[0])
		}
	}
	return b.String()
}

func (h *testRun) has(parts ...string) {
	h.t.Helper()
	for _, part := range parts {
		if !strings.Contains(h.results(), part) {
			h.t.Errorf("no %q in\n%s", part, h.results())
		}
	}
}

// TestLoop: every call is made once, and its result reaches the model unchanged.
func TestLoop(t *testing.T) {
	h := newTestRun(t)
	var seen []model.Message
	turn := 0
	m := player(func(r model.Request) (model.Answer, error) {
		seen = r.Messages
		turn++
		switch turn {
		case 1:
			return newCallsAnswer("read_file", `{"path":"/in/a.txt"}`, "write_file", `{"path":"/out/b","content":"b"}`), nil
		case 2:
			return newCallsAnswer("write_file", `{"path":"/out/b","content":`, "no_such", `{}`, "read_file", `[]`, "read_file", ``), nil
		}
		return newTextAnswer("done"), nil
	})
	o := h.do(h.worker(m, "main"), "go")
	if o.Text != "done" || !o.OK() {
		t.Errorf("%+v", o)
	}
	h.has("main read_file /in/a.txt: lines", "main write_file created /out/b", "write_file Error: write_file: invalid_args", "no_such Error: call no_such: unknown_tool", "read_file Error: read_file: invalid_args", "read_file Error: read_file: invalid_args; the arguments: want an object, got null")
	intents := 0
	for _, r := range h.journal.records {
		if r.Kind == audit.Intent {
			intents++
		}
	}
	if intents != 2 {
		t.Errorf("%d calls began, want 2", intents)
	}
	if len(seen) != 5 || len(seen[4].Parts) != 4 || seen[4].Parts[0].Result == nil || !seen[4].Parts[0].Result.Failed {
		t.Errorf("the model got: %+v", seen)
	}
}

// TestEnds covers the ends of conversations that would not end by themselves.
func TestEnds(t *testing.T) {
	same := `{"path":"/in/none"}`
	for _, c := range []struct {
		name   string
		model  player
		limits policy.Limits
		end    run.End
		why    string
	}{
		{"the same call for ever", func(model.Request) (model.Answer, error) { return newCallsAnswer("read_file", same), nil }, policy.Limits{}, run.Looping, "same calls 6 times"},
		{"two calls in turns", func(r model.Request) (model.Answer, error) {
			return newCallsAnswer("read_file", fmt.Sprintf(`{"path":"/in/%d"}`, len(r.Messages)/2%2)), nil
		}, policy.Limits{}, run.Looping, "same calls 6 times"},
		{"no end", func(r model.Request) (model.Answer, error) {
			return newCallsAnswer("read_file", fmt.Sprintf(`{"path":"/in/%d"}`, len(r.Messages))), nil
		}, policy.Limits{Turns: 20}, run.Spent, "the models have answered 20 times; raise budget.turns"},
		{"tokens", func(r model.Request) (model.Answer, error) {
			return newCallsAnswer("read_file", fmt.Sprintf(`{"path":"/in/%d"}`, len(r.Messages))), nil
		}, policy.Limits{Tokens: 2000}, run.Spent, "budget.tokens"},
		{"empty", func(model.Request) (model.Answer, error) { return model.Answer{Stop: model.Done}, nil }, policy.Limits{}, run.Failed, "empty"},
		{"refused", func(model.Request) (model.Answer, error) { return model.Answer{Stop: model.Refused}, nil }, policy.Limits{}, run.Declined, "refused"},
		{"cut off", func(model.Request) (model.Answer, error) {
			a := newCallsAnswer("write_file", `{"path":"/out/cut","content":"x"}`)
			a.Stop = model.Length
			return a, nil
		}, policy.Limits{}, run.Failed, "cut off 3 times"},
		{"error", func(model.Request) (model.Answer, error) {
			return model.Answer{}, &model.Error{Class: model.Denied, Model: "test:x", What: "no key", Hint: "set it"}
		}, policy.Limits{}, run.Failed, "denied; no key; set it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newTestRun(t)
			o, err := h.run(c.limits).Do(context.Background(), h.worker(c.model, "main"), run.Input{Text: "go"})
			must(t, err)
			if o.End != c.end || !strings.Contains(o.Why, c.why) {
				t.Errorf("%+v", o)
			}
			if ok, _ := h.files.Exists("/out/cut"); ok {
				t.Error("an incomplete call was made")
			}
		})
	}
}

// TestFailedMessage: if the model fails at a later message, its earlier answer is not the answer to it. Another
// model then gets the whole conversation.
func TestFailedMessage(t *testing.T) {
	h := newTestRun(t)
	r := h.run(policy.Limits{})
	asked := 0
	w := h.worker(player(func(model.Request) (model.Answer, error) {
		if asked++; asked > 1 {
			return model.Answer{}, &model.Error{Class: model.Denied, Model: "test:x", What: "no key", Hint: "set it"}
		}
		return newTextAnswer("one"), nil
	}), "main")
	do := func(text string) run.Outcome {
		o, err := r.Do(context.Background(), w, run.Input{Text: text})
		must(t, err)
		return o
	}
	if o := do("first"); o.Text != "one" {
		t.Errorf("%+v", o)
	}
	if o := do("second"); o.End != run.Failed || o.Text != "" {
		t.Errorf("%+v", o)
	}
	w.UseModel(run.Choice{Name: "test:y", Model: player(func(q model.Request) (model.Answer, error) {
		return newTextAnswer(fmt.Sprint(len(q.Messages), q.Messages[1].Parts[0].Text)), nil
	})}, 0)
	if o := do("third"); o.Text != "3one" {
		t.Errorf("%+v", o)
	}
}

// TestDelegation: a worker delegates to another, which delegates further. Events name the
// chain. A worker that is too deep, circular or unknown is an ordinary result.
func TestDelegation(t *testing.T) {
	h := newTestRun(t)
	var house func(chain ...string) *run.Worker
	house = func(chain ...string) *run.Worker {
		var m player
		next := map[string]string{"a": "b", "b": "c", "c": "d", "d": "e", "e": "f", "f": "g"}[chain[len(chain)-1]]
		switch {
		case len(chain) == 2:
			m = playAnswers(newCallsAnswer("a", `{"input":"x"}`, "nobody", `{"input":"x"}`, next, `{"input":"x","instructions":"be quick"}`), newTextAnswer("b is done"))
		default:
			m = playAnswers(newCallsAnswer(next, `{"input":"x"}`), newTextAnswer(chain[len(chain)-1]+" is done"))
		}
		w := h.worker(m, chain...)
		w.Callees = []run.Callee{{"a", ""}, {next, "The next."}}
		w.Child = func(name string, n run.Narrow) (*run.Worker, error) {
			return house(append(append([]string{}, chain...), name)...), nil
		}
		return w
	}
	o := h.do(house("a"), "go")
	if o.Text != "a is done" {
		t.Errorf("%+v", o)
	}
	h.has("b a Error: call a: blocked; circular delegation detected: a -> b -> a", "b nobody Error: call nobody: unknown_tool", "a b b is done", "e f f is done",
		"f g Error: call g: depth; workers may call each other at most 5 deep")
}

// TestChildFails: a refused call of a child is a result, and a failed child does not end
// its caller.
func TestChildFails(t *testing.T) {
	h := newTestRun(t)
	w := h.worker(playAnswers(newCallsAnswer("child", `{"input":"x"}`), newCallsAnswer("child", `{"input":" "}`), newCallsAnswer("child", `{"input":"x","attachments":["/in/a.txt","/etc/passwd"]}`), newTextAnswer("done anyway")), "main")
	w.Callees = []run.Callee{{"child", "A child."}}
	w.Child = func(string, run.Narrow) (*run.Worker, error) {
		c := h.worker(playAnswers(), "main", "child")
		c.Name = "child"
		return c, nil
	}
	o := h.do(w, "go")
	if o.Text != "done anyway" {
		t.Errorf("%+v", o)
	}
	h.has("child Error: child: internal; the worker did not finish: its model did not answer (broken)", "child Error: call child: invalid_args; input", "child Error: attach /etc/passwd: not_found")
}

// TestAttachments: attachments reach the child as files if both policies allow them.
func TestAttachments(t *testing.T) {
	h := newTestRun(t)
	_, err := h.files.Write("/in/a.pdf", []byte("no pdf at all"))
	must(t, err)
	var got []model.Part
	w := h.worker(playAnswers(
		newCallsAnswer("child", `{"input":"x","attachments":["/in/a.txt"]}`),
		newCallsAnswer("child", `{"input":"x","attachments":["/in/a.pdf"]}`),
		newCallsAnswer("child", `{"input":"x","attachments":["/in/a.txt","/in/a.txt","/in/a.txt","/in/a.txt","/in/a.txt"]}`),
		newTextAnswer("done")), "main")
	w.Callees = []run.Callee{{"child", "A child."}}
	w.Child = func(string, run.Narrow) (*run.Worker, error) {
		return h.worker(player(func(r model.Request) (model.Answer, error) {
			got = append(got, r.Messages[0].Parts...)
			return newTextAnswer("read"), nil
		}), "main", "child"), nil
	}
	h.do(w, "go")
	if len(got) != 2 || got[1].File == nil || string(got[1].File.Data) != "three findings\n" || got[1].File.Type != "text/plain" {
		t.Errorf("%+v", got)
	}
	h.has("attach /in/a.pdf: invalid; it is called .pdf, and holds text/plain", "5 attachments, at most 4")
}

// TestSchema: an answer that does not match the schema is asked for again, and then the
// run fails.
func TestSchema(t *testing.T) {
	h := newTestRun(t)
	w := h.worker(playAnswers(newTextAnswer("nothing"), newTextAnswer(`{"verdict": 3}`), newTextAnswer("```json\n{\"verdict\": \"fine\"}\n```")), "main")
	w.Schema = json.RawMessage(`{"type":"object","required":["verdict"],"properties":{"verdict":{"type":"string"}}}`)
	if o := h.do(w, "go"); !o.OK() || string(o.Data) != `{"verdict": "fine"}` {
		t.Errorf("%+v", o)
	}
	w.Model = playAnswers(newTextAnswer("a"), newTextAnswer("b"), newTextAnswer("c"))
	if o := h.do(w, "go"); o.End != run.Failed || !strings.Contains(o.Why, "output_schema") {
		t.Errorf("%+v", o)
	}
}

// TestShortenConversation: a conversation that is too long, and cannot be summarised, is
// shortened. The task stays, and no result is without its call.
func TestShortenConversation(t *testing.T) {
	h := newTestRun(t)
	_, err := h.files.Write("/in/long", []byte(strings.Repeat("word ", 2000)))
	must(t, err)
	turn, most := 0, int64(0)
	m := player(func(r model.Request) (model.Answer, error) {
		if r.Worker == "golem summary" {
			return model.Answer{}, &model.Error{Class: model.Bad, Model: "x", What: "no summaries"}
		}
		if r.Messages[0].Parts[0].Text != "the task" {
			t.Errorf("the task is gone: %+v", r.Messages[0])
		}
		open := make(map[string]bool)
		size := 0
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				switch {
				case p.Call != nil:
					open[p.Call.ID] = true
				case p.Result != nil && !open[p.Result.ID]:
					t.Errorf("a result without its call: %s", p.Result.ID)
				case p.Result != nil:
					size += len(p.Result.Text)
				}
			}
		}
		most = max(most, int64(size))
		if turn++; turn == 40 {
			return newTextAnswer("done"), nil
		}
		return newCallsAnswer("read_file", fmt.Sprintf(`{"path":"/in/long","limit":%d}`, turn)), nil
	})
	w := h.worker(m, "main")
	w.Context = 20_000
	o := h.do(w, "the task")
	if !o.OK() || most > 4*20_000 {
		t.Errorf("%+v, %d bytes", o, most)
	}
	for _, want := range []string{"shortened", "golem could not summarise the conversation, and drops its oldest results: model x: bad; no summaries"} {
		if !slices.ContainsFunc(h.events, func(e run.Event) bool { return e.Type == run.Note && strings.Contains(e.Text, want) }) {
			t.Errorf("no note with %q", want)
		}
	}
}

// TestManyCallsKeepTheirOrder makes many calls in one answer, some of which depend on the
// one before.
func TestManyCallsKeepTheirOrder(t *testing.T) {
	h := newTestRun(t)
	var words []string
	for i := range 20 {
		words = append(words, "write_file", fmt.Sprintf(`{"path":"/out/%d","content":"x"}`, i), "read_file", `{"path":"/in/a.txt"}`)
	}
	words = append(words, "write_file", `{"path":"/out/one","content":"1"}`, "write_file", `{"path":"/out/one","content":"2"}`, "read_file", `{"path":"/out/one"}`)
	h.do(h.worker(playAnswers(newCallsAnswer(words...), newTextAnswer("done")), "main"), "go")
	text, err := h.files.Read("/out/one")
	must(t, err)
	if string(text) != "2" {
		t.Errorf("calls ran out of order: %q", text)
	}
	if strings.Contains(h.results(), "Error") {
		t.Error(h.results())
	}
}

// TestChildAfterWrite: a worker does not start before the calls before it are done.
func TestChildAfterWrite(t *testing.T) {
	h := newTestRun(t)
	w := h.worker(playAnswers(newCallsAnswer("write_file", `{"path":"/out/a","content":"1"}`, "child", `{"input":"x"}`), newTextAnswer("done")), "main")
	w.Callees = []run.Callee{{Name: "child"}}
	w.Child = func(string, run.Narrow) (*run.Worker, error) {
		if ok, _ := h.files.Exists("/out/a"); !ok {
			t.Error("the worker started too early")
		}
		return h.worker(playAnswers(newTextAnswer("x")), "main", "child"), nil
	}
	h.do(w, "go")
}

// TestStop: Stop ends the run after the current call, and a cancelled context at once.
func TestStop(t *testing.T) {
	h := newTestRun(t)
	var r *run.Run
	w := h.worker(player(func(q model.Request) (model.Answer, error) {
		return newCallsAnswer("write_file", `{"path":"/out/a","content":"x"}`, "write_file", `{"path":"/out/a","content":"y"}`), nil
	}), "main")
	r = h.run(policy.Limits{})
	tell := r.Tell
	r.Tell = func(e run.Event) {
		tell(e)
		if e.Type == run.ToolCall {
			r.Stop()
		}
	}
	o, err := r.Do(context.Background(), w, run.Input{Text: "go"})
	must(t, err)
	text, err := h.files.Read("/out/a")
	must(t, err)
	if o.End != run.Stopped || string(text) != "x" {
		t.Errorf("%+v %q", o, text)
	}
	h.answer = tool.Answer{Verdict: tool.Declined, By: "user", Stop: true}
	if o := h.do(h.worker(playAnswers(newCallsAnswer("write_file", `{"path":"/in/a","content":"x"}`), newTextAnswer("never")), "main"), "go"); o.End != run.Stopped {
		t.Errorf("%+v", o)
	}
}

// TestResume: an interrupted run continues from its log and does nothing twice.
func TestResume(t *testing.T) {
	h := newTestRun(t)
	dir := t.TempDir()
	answers := []model.Answer{newCallsAnswer("write_file", `{"path":"/out/a","content":"1"}`), newCallsAnswer("child", `{"input":"x"}`), newTextAnswer("all done")}
	child := []model.Answer{newCallsAnswer("write_file", `{"path":"/out/b","content":"1"}`), newCallsAnswer("write_file", `{"path":"/out/c","content":"1"}`), newTextAnswer("child done")}
	// by the number of answers in the conversation
	by := func(list []model.Answer, stopAt int) player {
		return func(r model.Request) (model.Answer, error) {
			if stopAt == 0 {
				return model.Answer{}, errors.New("killed")
			}
			stopAt--
			n := 0
			for _, m := range r.Messages {
				if m.Role == model.Assistant {
					n++
				}
			}
			return list[n], nil
		}
	}
	do := func(resume bool, top, below int) run.Outcome {
		folder, err := state.Open(dir)
		must(t, err)
		defer folder.Close()
		log, err := run.OpenLog(folder, resume, time.Now)
		must(t, err)
		defer log.Close()
		w := h.worker(by(answers, top), "main")
		w.Callees = []run.Callee{{"child", "A child."}}
		w.Child = func(string, run.Narrow) (*run.Worker, error) {
			return h.worker(by(child, below), "main", "child"), nil
		}
		r := h.run(policy.Limits{})
		r.Log = log
		in := run.Input{Text: "go"}
		if resume {
			in = run.Input{}
		}
		o, err := r.Do(context.Background(), w, in)
		must(t, err)
		return o
	}
	if o := do(false, 2, 1); o.OK() {
		t.Fatalf("%+v", o)
	}
	// The child failed and its caller got that result. The run ends there.
	o := do(true, 9, 9)
	if o.Text != "all done" {
		t.Errorf("%+v", o)
	}
	intents := make(map[string]int)
	for _, r := range h.journal.records {
		if r.Kind == audit.Intent && r.Tool == "write_file" {
			intents[r.Effects[0]]++
		}
	}
	for what, n := range intents {
		if n != 1 {
			t.Errorf("%s was done %d times", what, n)
		}
	}
}

// TestManyWorkers: thousands of workers leave nothing behind.
func TestManyWorkers(t *testing.T) {
	h := newTestRun(t)
	closed := atomic.Int64{}
	child := func(string, run.Narrow) (*run.Worker, error) {
		c := h.worker(playAnswers(newCallsAnswer("read_file", `{"path":"/in/a.txt"}`), newTextAnswer("read")), "main", "child")
		c.Close = func() error { closed.Add(1); return nil }
		return c, nil
	}
	turn := 0
	w := h.worker(player(func(model.Request) (model.Answer, error) {
		if turn++; turn <= 1000 {
			return newCallsAnswer("child", fmt.Sprintf(`{"input":"%d"}`, turn)), nil
		}
		if turn == 1001 {
			var many []string
			for i := range 100 {
				many = append(many, "child", fmt.Sprintf(`{"input":"%d"}`, i))
			}
			return newCallsAnswer(many...), nil
		}
		return newTextAnswer("done"), nil
	}), "main")
	w.Callees, w.Child = []run.Callee{{"child", "A child."}}, child
	r := h.run(policy.Limits{Turns: 10_000, Workers: 10_000})
	r.Tell = nil
	before := heap()
	o, err := r.Do(context.Background(), w, run.Input{Text: "go"})
	must(t, err)
	if !o.OK() || closed.Load() != 1100 || r.Budget.Sum().Workers != 1101 {
		t.Errorf("%+v, %d closed, %+v", o, closed.Load(), r.Budget.Sum())
	}
	h.journal.records = nil
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("%d bytes are left", grown)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestLongArguments: arguments that are too long are refused before they are parsed, and do not
// stay in the conversation.
func TestLongArguments(t *testing.T) {
	h := newTestRun(t)
	flood := `{"path":"/out/a","content":"` + strings.Repeat("x", 50_000_000) + `"}`
	carried := 0
	turn := 0
	o := h.do(h.worker(player(func(r model.Request) (model.Answer, error) {
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				if p.Call != nil {
					carried += len(p.Call.Args)
				}
			}
		}
		if turn++; turn == 1 {
			return newCallsAnswer("write_file", flood), nil
		}
		return newTextAnswer("done"), nil
	}), "main"), "go")
	if ok, _ := h.files.Exists("/out/a"); ok || !o.OK() || carried > 1000 {
		t.Errorf("%+v, the conversation keeps %d bytes", o, carried)
	}
}

// TestStrangeCalls covers invalid names, repeated ids and too many calls.
func TestStrangeCalls(t *testing.T) {
	h := newTestRun(t)
	var many []string
	for i := range 300 {
		many = append(many, "file_exists", fmt.Sprintf(`{"path":"/in/%d"}`, i))
	}
	o := h.do(h.worker(playAnswers(
		newCallsAnswer("shell2", `{}`, "../read_file", `{"path":"/in/a.txt"}`, "READ_FILE", `{"path":"/in/a.txt"}`, "read_file ", `{"path":"/in/a.txt"}`, "", `{}`),
		newCallsAnswer(many...), newTextAnswer("done")), "main"), "go")
	if !o.OK() {
		t.Errorf("%+v", o)
	}
	text := h.results()
	if strings.Count(text, "unknown_tool") != 5 || strings.Contains(text, "findings") {
		t.Error(text)
	}
	told, refused := 0, 0
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "main file_exists "); ok {
			told++
			if rest == "\n" {
				refused++
			}
		}
	}
	if told != 300 || refused != 172 {
		t.Errorf("%d calls were reported, and %d refused", told, refused)
	}
}

// TestSecrets: the user's secrets do not reach a model, in whatever file they are.
func TestSecrets(t *testing.T) {
	h := newTestRun(t)
	_, err := h.files.Write("/in/.env", []byte("TOKEN=hush-hush-hush\nPLAIN=x\n"))
	must(t, err)
	told := ""
	r := h.run(policy.Limits{})
	r.Secrets = []string{"hush-hush-hush"}
	turn := 0
	m := player(func(q model.Request) (model.Answer, error) {
		for _, m := range q.Messages {
			for _, p := range m.Parts {
				if p.Result != nil {
					told += p.Result.Text
				}
				if p.File != nil {
					told += string(p.File.Data)
				}
			}
		}
		if turn++; turn == 1 {
			return newCallsAnswer("read_file", `{"path":"/in/.env"}`, "child", `{"input":"x","attachments":["/in/.env"]}`), nil
		}
		return newTextAnswer("done"), nil
	})
	w := h.worker(m, "main")
	w.Callees = []run.Callee{{Name: "child"}}
	w.Child = func(string, run.Narrow) (*run.Worker, error) { return h.worker(m, "main", "child"), nil }
	_, err = r.Do(context.Background(), w, run.Input{Text: "go"})
	must(t, err)
	if strings.Contains(told, "hush-hush") || strings.Count(told, "PLAIN=x") < 2 {
		t.Error(told)
	}
}

// TestChildThatCannotStart: the reason why a worker cannot be started is for the user only,
// because it may name a host path.
func TestChildThatCannotStart(t *testing.T) {
	h := newTestRun(t)
	w := h.worker(playAnswers(newCallsAnswer("child", `{"input":"x"}`), newTextAnswer("done")), "main")
	w.Callees = []run.Callee{{"child", "A child."}}
	w.Child = func(string, run.Narrow) (*run.Worker, error) {
		return nil, errors.New("open /home/somebody/key: permission denied")
	}
	h.do(w, "go")
	h.has("child Error: call child: internal; golem could not start it, and has told the user why")
	if strings.Contains(h.results(), "/home") {
		t.Error(h.results())
	}
	told := false
	for _, e := range h.events {
		told = told || e.Type == run.Note && strings.Contains(e.Text, "permission denied")
	}
	if !told {
		t.Error("the user got no message")
	}
}
