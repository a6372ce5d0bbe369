package model_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/model"
)

// A flaky model fails with each of its errors, and then answers.
type flaky struct {
	errs  []error
	asked int
}

func (f *flaky) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	f.asked++
	if f.asked <= len(f.errs) {
		return model.Answer{}, f.errs[f.asked-1]
	}
	return model.Answer{Stop: model.Done}, nil
}

func failing(class model.Class, after ...time.Duration) error {
	e := &model.Error{Class: class, Model: "m", What: "x"}
	if len(after) > 0 {
		e.After = after[0]
	}
	return e
}

func TestRetrying(t *testing.T) {
	const s = time.Second
	over, broken := failing(model.Overloaded), failing(model.Broken)
	for _, test := range []struct {
		name  string
		errs  []error
		retry model.Retry
		waits []time.Duration
		fails bool
	}{
		{"at once", nil, model.Retry{}, nil, false},
		{"grows", []error{over, broken, failing(model.TimedOut)}, model.Retry{}, []time.Duration{s, 2 * s, 4 * s}, false},
		{"gives up", []error{over, over, over, over, over}, model.Retry{}, []time.Duration{s, 2 * s, 4 * s, 8 * s}, true},
		{"two tries", []error{over, over}, model.Retry{Tries: 2}, []time.Duration{s}, true},
		{"jitter", []error{over, over}, model.Retry{Jitter: func() float64 { return 0 }}, []time.Duration{s / 2, s}, false},
		{"as the server asks", []error{failing(model.Overloaded, 30*s), over}, model.Retry{}, []time.Duration{30 * s, 2 * s}, false},
		{"longer than the server asks", []error{over, failing(model.Overloaded, s)}, model.Retry{}, []time.Duration{s, 2 * s}, false},
		{"the server asks too much", []error{failing(model.Overloaded, time.Hour)}, model.Retry{}, nil, true},
		{"too much in all", []error{over, over, over, over}, model.Retry{Most: 5 * s}, []time.Duration{s, 2 * s}, true},
		{"nothing is there", []error{failing(model.Unreached)}, model.Retry{}, nil, true},
		{"will not pass", []error{failing(model.Denied)}, model.Retry{}, nil, true},
		{"another error", []error{errors.New("x")}, model.Retry{}, nil, true},
		{"very many", slices.Repeat([]error{over}, 70), model.Retry{Tries: 71, Most: 1 << 62, First: 1}, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var waits, told []time.Duration
			test.retry.Sleep = func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }
			test.retry.Tell = func(e *model.Error, tried int, wait time.Duration) {
				told = append(told, wait)
				if tried != len(told) || len(waits) != tried-1 || !e.Passing() {
					t.Errorf("reported try %d after %d waits: %v", tried, len(waits), e)
				}
			}
			f := &flaky{errs: test.errs}
			_, err := model.Retrying(f, test.retry).Answer(context.Background(), model.Request{}, nil)
			if (err != nil) != test.fails {
				t.Errorf("got %v", err)
			}
			if test.name == "very many" {
				test.waits = waits
			}
			if !slices.Equal(waits, test.waits) || !slices.Equal(told, waits) || f.asked != len(waits)+1 {
				t.Errorf("waited %v, told %v, asked %d times; want %v", waits, told, f.asked, test.waits)
			}
		})
	}
}

// TestTooLongWait: the error says how long the server wanted golem to wait.
func TestTooLongWait(t *testing.T) {
	f := &flaky{errs: []error{failing(model.Overloaded, 10*time.Minute)}}
	_, err := model.Retrying(f, model.Retry{}).Answer(context.Background(), model.Request{}, nil)
	const want = "model m: overloaded; x; the server asks to wait 10m0s, and golem waits at most 2m0s; run it again then"
	if err == nil || err.Error() != want || f.asked != 1 {
		t.Errorf("got %v after %d questions\nwant %s", err, f.asked, want)
	}
}

// TestRetryingCancelled: a wait on the system's own clock ends with the context.
func TestRetryingCancelled(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	f := &flaky{errs: []error{failing(model.Overloaded, time.Minute)}}
	_, err := model.Retrying(f, model.Retry{Tell: func(*model.Error, int, time.Duration) { cancel(stop) }}).Answer(ctx, model.Request{}, nil)
	if err != stop || f.asked != 1 {
		t.Errorf("got %v after %d", err, f.asked)
	}
	f = &flaky{errs: []error{failing(model.Overloaded)}}
	if _, err := model.Retrying(f, model.Retry{First: 1}).Answer(context.Background(), model.Request{}, nil); err != nil || f.asked != 2 {
		t.Errorf("got %v after %d", err, f.asked)
	}
}

func TestDistinct(t *testing.T) {
	call := func(ids ...string) (parts []model.Part) {
		for _, id := range ids {
			parts = append(parts, model.Part{Call: &model.Call{ID: id}})
		}
		return parts
	}
	for _, test := range []struct{ said, ids, want []string }{
		{nil, []string{"a", "b"}, []string{"a", "b"}},
		{nil, []string{"", "", "a", "a"}, []string{"call_1", "call_2", "a", "call_4"}},
		{[]string{"call_1", "x"}, []string{"x", ""}, []string{"call_3", "call_4"}},
		{[]string{"call_2", "call_3"}, []string{"", "call_5"}, []string{"call_4", "call_5"}},
		{nil, []string{"call_2", ""}, []string{"call_2", "call_3"}},
		{nil, []string{"a b", "é", "\n"}, []string{"call_1", "call_2", "call_3"}},
	} {
		said := []model.Message{{Role: model.Assistant, Parts: call(test.said...)}}
		parts := call(test.ids...)
		model.Distinct(said, parts)
		var got []string
		for _, p := range parts {
			got = append(got, p.Call.ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%v after %v: got %v, want %v", test.ids, test.said, got, test.want)
		}
	}
}

func TestSentArgs(t *testing.T) {
	for args, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, " {} ": "{}", `{"a":`: `{"INVALID_JSON":"{\"a\":"}`, "": `{"INVALID_JSON":""}`, "null": `{"INVALID_JSON":"null"}`,
		"[]": `{"INVALID_JSON":"[]"}`, `{}{}`: `{"INVALID_JSON":"{}{}"}`,
	} {
		if got := string(model.Call{Args: args}.SentArgs()); got != want {
			t.Errorf("%q: got %s, want %s", args, got, want)
		}
	}
}
