package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/scripted"
)

func open(t *testing.T, text string) *scripted.Model {
	t.Helper()
	m, err := scripted.New("demo.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ask returns a conversation that ends with a text of the user.
func ask(worker, text string, answered int) model.Request {
	r := model.Request{Worker: worker}
	for range answered {
		r.Messages = append(r.Messages, model.Message{Role: model.User}, model.Message{Role: model.Assistant})
	}
	r.Messages = append(r.Messages, model.Message{Role: model.User, Parts: []model.Part{{Text: text}}})
	return r
}

// summarize returns an answer in short: its text, its calls and why it ended.
func summarize(a model.Answer) string {
	var b strings.Builder
	for _, p := range a.Parts {
		switch {
		case p.Thinking != nil:
			fmt.Fprintf(&b, "(%s) ", p.Thinking.Text)
		case p.Call != nil:
			fmt.Fprintf(&b, "%s %s %s; ", p.Call.ID, p.Call.Tool, p.Call.Args)
		default:
			b.WriteString(p.Text + "; ")
		}
	}
	return b.String() + string(a.Stop)
}

func TestTurns(t *testing.T) {
	m := open(t, `
- text: Looking around.
  calls: [{tool: list_files, args: {path: /}}]
- expect: ^in/\nout/$
  thinking: Hm.
  calls:
    - {tool: write_file, args: {path: /out/a.md, n: 1.50, big: 12345678901234567890, yes: true, no: "true", list: [1, ~, x], nothing: }}
    - {tool: git_status}
    - {tool: read_file, raw: '{"path": "/a'}
    - {tool: read_file, raw: ""}
    - {tool: read_file, args: }
    - {tool: read_file, args: [<a>]}
- text: Cut o
  stop: length
  usage: {input: 10, output: 2, cache_read: 3, cache_write: 4}
- {}
`)
	ctx := context.Background()
	results := model.Request{Messages: []model.Message{
		{Role: model.User, Parts: []model.Part{{Text: "go"}}},
		{Role: model.Assistant},
		{Role: model.User, Parts: []model.Part{{Result: &model.Result{Text: "in/"}}, {Result: &model.Result{Text: "out/"}}}},
	}}
	for i, step := range []struct {
		ask  model.Request
		want string
	}{
		{ask("main", "go", 0), "Looking around.; call_1_1 list_files {\"path\":\"/\"}; calls"},
		{results, `(Hm.) call_2_1 write_file {"path":"/out/a.md","n":1.50,"big":12345678901234567890,"yes":true,"no":"true","list":[1,null,"x"],"nothing":null}; ` +
			`call_2_2 git_status {}; call_2_3 read_file {"path": "/a; call_2_4 read_file ; call_2_5 read_file null; call_2_6 read_file ["<a>"]; calls`},
		{ask("other", "", 7), "Cut o; length"},
		{ask("main", "", 0), "done"},
	} {
		var told []string
		a, err := m.Answer(ctx, step.ask, func(p model.Piece) { told = append(told, p.Text+p.Thinking) })
		if err != nil {
			t.Fatal(err)
		}
		if got := summarize(a); got != step.want {
			t.Errorf("turn %d: got %s\nwant %s", i+1, got, step.want)
		}
		if i == 0 && !slices.Equal(told, []string{"Looking around."}) {
			t.Errorf("told %q", told)
		}
		if i == 2 && a.Usage != (model.Usage{Input: 10, Output: 2, CacheRead: 3, CacheWrite: 4}) {
			t.Errorf("usage: got %+v", a.Usage)
		}
	}
	_, err := m.Answer(ctx, ask("main", "", 4), nil)
	mustFail(t, err, model.Bad, "demo.yaml:16: the script has 4 turns, and another is asked for", "add a turn")
}

func mustFail(t *testing.T, err error, class model.Class, words ...string) {
	t.Helper()
	var e *model.Error
	if !errors.As(err, &e) || e.Class != class {
		t.Fatalf("got %v, want the class %s", err, class)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got %v\nwhich lacks %q", err, w)
		}
	}
}

// TestWorkers: a worker's list continues over conversations; under each it starts again.
func TestWorkers(t *testing.T) {
	m := open(t, "main:\n  - text: one\n  - text: two\n  - text: three\nreader:\n  each:\n    - text: first\n    - text: second\n")
	for i, step := range []struct {
		ask  model.Request
		want string
	}{
		{ask("main", "", 0), "one"}, {ask("reader", "", 0), "first"}, {ask("main", "", 0), "two"},
		{ask("reader", "", 1), "second"}, {ask("reader", "", 0), "first"}, {ask("main", "", 5), "three"},
	} {
		a, err := m.Answer(context.Background(), step.ask, nil)
		if err != nil || a.Text() != step.want {
			t.Errorf("step %d: got %q, %v, want %q", i+1, a.Text(), err, step.want)
		}
	}
	_, err := m.Answer(context.Background(), ask("writer", "", 0), nil)
	mustFail(t, err, model.Bad, "no turns for the worker writer", "main, reader")
	_, err = m.Answer(context.Background(), ask("reader", "", 2), nil)
	mustFail(t, err, model.Bad, "demo.yaml:8: the script of the worker reader has 2 turns")
}

// TestResumed: a new model continues after the answers that a conversation has.
func TestResumed(t *testing.T) {
	m := open(t, "- text: one\n- text: two\n- text: three\n")
	for _, want := range []string{"two", "three"} {
		a, err := m.Answer(context.Background(), ask("main", "", 1), nil)
		if err != nil || a.Text() != want {
			t.Errorf("got %q, %v, want %q", a.Text(), err, want)
		}
	}
}

func TestExpect(t *testing.T) {
	m := open(t, "- expect: ^ok$\n  text: good\n")
	_, err := m.Answer(context.Background(), ask("main", "not\x1bok\n"+strings.Repeat("x", 10_000), 0), nil)
	mustFail(t, err, model.Bad, "demo.yaml:1: turn 1 expects ^ok$, and got \"not", "make the expression match")
	if strings.ContainsAny(err.Error(), "\x1b\n") || len(err.Error()) > 1000 {
		t.Errorf("not printable on one line: %q", err)
	}
}

func TestFailAndTimes(t *testing.T) {
	m := open(t, "- fail: overloaded\n  times: 2\n- text: yes\n  times: 2\n  calls: [{tool: a}]\n")
	ids := map[string]bool{}
	for i := range 4 {
		a, err := m.Answer(context.Background(), ask("", "", 0), nil)
		if i < 2 {
			mustFail(t, err, model.Overloaded, "demo.yaml:1: the script fails here")
			continue
		}
		ids[a.Calls()[0].ID] = true
	}
	if len(ids) != 2 {
		t.Errorf("got ids %v, want those of two calls", ids)
	}
}

// TestWait: a slow turn ends with its context.
func TestWait(t *testing.T) {
	m := open(t, "- wait: 1h\n  text: late\n- wait: 0.001\n  text: soon\n")
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := m.Answer(ctx, ask("", "", 0), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if a, err := m.Answer(context.Background(), ask("", "", 0), nil); err != nil || a.Text() != "soon" {
		t.Errorf("got %v, %v", a, err)
	}
}

// TestParallel: every turn is played once, however many goroutines ask.
func TestParallel(t *testing.T) {
	m := open(t, "- text: x\n  times: 100\n  calls: [{tool: a}]\n")
	var mu sync.Mutex
	ids := map[string]bool{}
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			a, err := m.Answer(context.Background(), ask("", "", 0), nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			ids[a.Calls()[0].ID] = true
		})
	}
	all.Wait()
	if len(ids) != 100 {
		t.Errorf("got %d turns", len(ids))
	}
}

func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "demo.yaml:1:1: a map with no turns; a script is a list of turns, or a map from the names of workers to theirs",
		"just text":                              "demo.yaml:1:1: a single value with no turns",
		"[]":                                     "demo.yaml:1:1: script: an empty list",
		"- txt: a":                               "demo.yaml:1:3: unknown key \"txt\" in script; did you mean text?",
		"- calls: [{tol: a}]":                    "demo.yaml:1:12: unknown key \"tol\" in script.calls; did you mean tool? known here: tool, args, raw",
		"- calls: [{args: {}}]":                  "demo.yaml:1:11: a call without a tool; name the tool",
		"- calls: [{tool: a, args: {}, raw: b}]": "raw beside args; keep one",
		"- expect: '('":                          "demo.yaml:1:11: expect: error parsing regexp",
		"- stop: never":                          "demo.yaml:1:9: script.stop: never; it is done, calls, length or refused",
		"- stop: calls":                          "demo.yaml:1:9: stop: calls, and there are none",
		"- fail: broke":                          "did you mean broken?",
		"- fail: broken\n  text: a":              "demo.yaml:1:9: fail beside text",
		"- times: 0":                             "demo.yaml:1:10: times: 0; from 1 to 10000",
		"main: []":                               "demo.yaml:1:7: main: an empty list",
		"main: {each: []}":                       "demo.yaml:1:14: main.each: an empty list",
		"main: {eech: [{text: a}]}":              "did you mean each?",
		"main: {}":                               "demo.yaml:1:7: main: a map without each",
		"main: a":                                "demo.yaml:1:7: main: a; it is a list of maps",
		"- usage: {input: -1}":                   "usage.input: -1; it is a whole number",
		"- text: &a x\n- text: *a":               "an alias",
	} {
		_, err := scripted.New("demo.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v\nwant %s", text, err, want)
		}
	}
}

// FuzzScripted: every script that New accepts can be played, and only raw produces
// arguments that are not JSON.
func FuzzScripted(f *testing.F) {
	for _, seed := range []string{
		"- text: a\n", "- calls: [{tool: a, args: {b: [1, x, ~, 1e5, -0, 01, .5]}}]\n", "main:\n  - text: a\nb: {each: [{text: c}]}\n", "- expect: a+\n  stop: length\n",
		"- {}\n", "- fail: bad\n", "- times: 3\n", "a: {each: }", "a: {}", "- calls: [{tool: a, args: {\"\\ud800\": \"\\u2028\"}}]\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := scripted.New("f", []byte(text))
		if err != nil {
			if m != nil || err.Error() == "" {
				t.Fatalf("got %v, %v", m, err)
			}
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		if strings.Contains(text, "wait") {
			cancel()
		}
		defer cancel()
		for _, worker := range []string{"", "main", "a", "b"} {
			for range 3 {
				a, err := m.Answer(ctx, ask(worker, "a", 0), nil)
				if err != nil {
					continue
				}
				for _, call := range a.Calls() {
					if call.ID == "" || call.Tool == "" || !strings.Contains(text, "raw") && !json.Valid([]byte(call.Args)) {
						t.Fatalf("got the call %+v", call)
					}
				}
			}
		}
	})
}
