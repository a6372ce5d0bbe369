package models_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/model"
)

// documents are answers as one JSON document, as servers send them that cannot stream.
var documents = map[string]string{
	"anthropic": `{"type":"message","model":"m","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"Yes."},{"type":"tool_use","id":"t1","name":"read","input":{"path":"/a"}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":2}}`,
	"chat":      `{"object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Yes.","tool_calls":[{"id":"t1","type":"function","function":{"name":"read","arguments":"{\"path\":\"/a\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
	"responses": `{"object":"response","status":"completed","model":"m","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"Yes."}]},{"type":"function_call","call_id":"t1","name":"read","arguments":"{\"path\":\"/a\"}"}],"usage":{"input_tokens":3,"output_tokens":2}}`,
	"gemini":    `{"candidates":[{"content":{"parts":[{"text":"Yes."},{"functionCall":{"id":"t1","name":"read","args":{"path":"/a"}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}`,
}

// TestDocuments: a server that sends one JSON document in place of a stream has answered. So
// has one that sends a stream with the content type of a document.
func TestDocuments(t *testing.T) {
	forEachVendor(t, func(t *testing.T, d dialect) {
		kind := d.vendor
		switch {
		case d.vendor == "anthropic" || d.vendor == "gemini" && !strings.Contains(d.path, "chat/completions"):
		case strings.HasSuffix(d.path, "/responses"):
			kind = "responses"
		default:
			kind = "chat"
		}
		bodies := []string{documents[kind]}
		if kind == "gemini" {
			bodies = append(bodies, "["+documents[kind]+"]")
		}
		for _, body := range bodies {
			a, err := open(t, d, startServer(t, answer(200, "application/json", body)).URL).Answer(context.Background(), hello, nil)
			calls := a.Calls()
			if err != nil || a.Text() != "Yes." || len(calls) != 1 || calls[0].Tool != "read" || !strings.Contains(calls[0].Args, `"/a"`) || a.Usage.Input != 3 || a.Usage.Output != 2 {
				t.Errorf("got %+v, %v", a, err)
			}
		}
		for _, body := range []string{`{"ok":true}`, `[]`, `"x"`, `{"choices":[{}]}`, `{"type":"message"`} {
			_, err := open(t, d, startServer(t, answer(200, "application/json", body)).URL).Answer(context.Background(), hello, nil)
			if err == nil {
				t.Errorf("%s is an answer", body)
			}
		}
		events := d.events(sampleAnswer{text: []string{"Yes."}, stop: d.stops[model.Done]})
		if a, err := open(t, d, startServer(t, answer(200, "application/json", strings.Join(events, ""))).URL).Answer(context.Background(), hello, nil); err != nil || a.Text() != "Yes." {
			t.Errorf("a stream: got %+v, %v", a, err)
		}
	})
}

// TestPause: an answer that the vendor pauses continues with the next request, which has its
// beginning, and ends at some time.
func TestPause(t *testing.T) {
	d := dialects[0]
	n := 0
	s := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		stop := "pause_turn"
		if n++; n%3 == 0 {
			stop = "end_turn"
		}
		stream(anthropicEvents(sampleAnswer{text: []string{fmt.Sprint("part ", n, ". ")}, stop: stop})...)(w, r)
	})
	a, err := open(t, d, s.URL).Answer(context.Background(), hello, nil)
	if err != nil || a.Text() != "part 1. part 2. part 3. " || a.Stop != model.Done || len(s.bodies) != 3 {
		t.Errorf("got %+v, %v, %d requests", a, err, len(s.bodies))
	}
	if last := s.bodies[len(s.bodies)-1]; !strings.Contains(last, "part 1. ") || !strings.Contains(last, "part 2. ") {
		t.Errorf("the last request lacks the beginning: %s", last)
	}
	endless := startServer(t, stream(anthropicEvents(sampleAnswer{text: []string{"on "}, stop: "pause_turn"})...))
	if _, err := open(t, d, endless.URL).Answer(context.Background(), hello, nil); err != nil || len(endless.bodies) != 10 {
		t.Errorf("an answer without an end: %v after %d requests", err, len(endless.bodies))
	}
}
