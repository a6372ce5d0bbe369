package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/replay"
)

// A counter answers with a number that grows, and fails every third time.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	if err := ctx.Err(); err != nil {
		return model.Answer{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if c.n%3 == 0 {
		return model.Answer{}, &model.Error{Class: model.Overloaded, Model: "m", What: fmt.Sprint(c.n), After: 5}
	}
	return model.Answer{
		Parts: []model.Part{
			{Thinking: &model.Thinking{Text: "hm", Proof: json.RawMessage(`{"signature":"x"}`)}}, {Text: fmt.Sprint(c.n)},
			{Call: &model.Call{ID: "a", Tool: "t", Args: "{\"cut"}},
		},
		Stop: model.Calls, Usage: model.Usage{Input: int64(c.n)}, Model: "m-1",
	}, nil
}

func request(worker, text string) model.Request {
	return model.Request{
		Worker: worker, System: "Be brief.",
		Tools: []model.Tool{{Name: "t", Schema: json.RawMessage(`{"type": "object"}`)}},
		Messages: []model.Message{{Role: model.User, Parts: []model.Part{
			{Text: text}, {File: &model.File{Name: "a.png", Type: "image/png", Data: []byte{0, 255}}},
		}}},
	}
}

func TestReplay(t *testing.T) {
	var record bytes.Buffer
	ctx := context.Background()
	recorder := replay.Record(&counter{}, &record)
	asked := []model.Request{request("main", "a"), request("reader", "a"), request("main", "b"), request("main", "a"), request("reader", "a<b>")}
	var answers []model.Answer
	var errs []error
	for _, r := range asked {
		a, err := recorder.Answer(ctx, r, nil)
		answers, errs = append(answers, a), append(errs, err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := recorder.Answer(gone, request("main", "c"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	if n := bytes.Count(record.Bytes(), []byte("\n")); n != len(asked) {
		t.Errorf("got %d lines:\n%s", n, &record)
	}

	m, err := replay.New("r.jsonl", record.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{4, 2, 0, 1, 3} { // in another order, with equal requests in theirs
		told := ""
		a, err := m.Answer(ctx, asked[i], func(p model.Piece) { told += p.Thinking + p.Text })
		if !reflect.DeepEqual(a, answers[i]) || !reflect.DeepEqual(err, errs[i]) {
			t.Errorf("request %d: got %+v, %v\nwant %+v, %v", i, a, err, answers[i], errs[i])
		}
		if err == nil && told != "hm"+a.Text() {
			t.Errorf("told %q", told)
		}
	}
	_, err = m.Answer(ctx, asked[0], nil)
	checkAnswer(t, err, "replay:r.jsonl", "the same request of the worker main was made less often", "record it again")
	_, err = m.Answer(ctx, request("main", "z"), nil)
	checkAnswer(t, err, "the record is at its end")
}

func checkAnswer(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("got %v\nwhich lacks %q", err, w)
		}
	}
}

// TestDifference: an error describes what changed.
func TestDifference(t *testing.T) {
	var record bytes.Buffer
	for _, r := range []model.Request{request("reader", "x"), request("main", "Read the long letter and say what is in it.")} {
		if _, err := replay.Record(&counter{}, &record).Answer(context.Background(), r, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		change func(*model.Request)
		want   string
	}{
		{func(r *model.Request) { r.System = "Be long." }, `system was "Be brief.", and is "Be long."`},
		{func(r *model.Request) {
			r.Messages[0].Parts[0].Text = "Read the long letter and say what was in it.\x1b"
		},
			`messages[0].parts[0].text was "…letter and say what is in it.", and is "…letter and say what was in it.\x1b"`},
		{func(r *model.Request) { r.Messages = append(r.Messages, model.Message{Role: model.Assistant}) },
			`messages[1] was not there, and is {"parts":null,"role":"assistant"}`},
		{func(r *model.Request) { r.Tools = nil }, `tools was [{"name":"t","schema":{"type":"object"}}], and is not there`},
		{func(r *model.Request) { r.Tools[0].Schema = json.RawMessage(`{"type":"array"}`) }, `tools[0].schema.type was "object", and is "array"`},
		{func(r *model.Request) { r.MaxTokens = 5 }, `max_tokens was not there, and is 5`},
		{func(r *model.Request) { r.Worker = "nobody" }, `worker was "reader", and is "nobody"`},
	} {
		m, err := replay.New("r.jsonl", record.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		r := request("main", "Read the long letter and say what is in it.")
		test.change(&r)
		if r.Worker == "nobody" {
			r.Messages[0].Parts[0].Text = "x"
		}
		_, err = m.Answer(context.Background(), r, nil)
		checkAnswer(t, err, test.want)
	}
}

func TestBadRecords(t *testing.T) {
	var record bytes.Buffer
	if _, err := replay.Record(&counter{}, &record).Answer(context.Background(), request("main", "x"), nil); err != nil {
		t.Fatal(err)
	}
	good := record.String()
	for text, want := range map[string]string{
		"":               "r.jsonl:1: not a line of a record",
		good + good[:40]: "r.jsonl:2: not a line of a record: unexpected EOF; make one with golem run --record",
		good + "{}":      "r.jsonl:2: not one answer or one error",
		strings.Replace(good, "Be brief.", "Be long!!", 1): "r.jsonl:1: the request is not the one that the digest is of",
		strings.Replace(good, "digest", "digset", 1):       "unknown field",
	} {
		_, err := replay.New("r.jsonl", []byte(text))
		checkAnswer(t, err, want)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestRecordFull(t *testing.T) {
	_, err := replay.Record(&counter{}, full{}).Answer(context.Background(), request("main", "x"), nil)
	checkAnswer(t, err, "record", "no space left", "run without --record")
}
