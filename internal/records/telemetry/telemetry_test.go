package telemetry

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/spending"
)

func TestRead(t *testing.T) {
	for _, test := range []struct {
		env             map[string]string
		url, wrong      string
		service, header string
	}{
		{env: nil},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, url: "http://localhost:4318/v1/traces", service: "golem"},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://example.com/otlp/", "OTEL_SERVICE_NAME": "mine", "OTEL_EXPORTER_OTLP_HEADERS": "X-Key=a%20b, other=1"}, url: "https://example.com/otlp/v1/traces", service: "mine", header: "a b"},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a.example/x", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://b.example"}, url: "http://a.example/x", service: "golem"},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, url: "http://localhost:4318/v1/traces", service: "golem"},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}},
		{env: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "jaeger"}, wrong: "golem has otlp and none"},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"}, wrong: "OTEL_EXPORTER_OTLP_ENDPOINT: not an address"},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://me:hunter2@example.com"}, wrong: "not an address"},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, wrong: "golem sends http/json only"},
	} {
		s, err := Read(func(name string) string { return test.env[name] })
		got := ""
		if s.URL != nil {
			got = s.URL.String()
		}
		if got != test.url || s.Service != test.service || s.Header.Get("X-Key") != test.header || (err == nil) != (test.wrong == "") || err != nil && (!strings.Contains(err.Error(), test.wrong) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%v: got %s, %+v, %v", test.env, got, s, err)
		}
	}
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for text, want := range map[string]Parent{
		"00-" + trace + "-" + span + "-01": {trace, span}, "": {}, "00-" + trace + "-" + span: {}, "00-" + strings.Repeat("0", 32) + "-" + span + "-01": {}, "00-" + strings.ToUpper(trace) + "-" + span + "-01": {},
	} {
		if got := parseParent(text); got != want {
			t.Errorf("%s: got %+v", text, got)
		}
	}
}

// TestAgentSpan checks the span of a foreign agent.
func TestAgentSpan(t *testing.T) {
	r := NewRecorder(Settings{Service: "golem"}, "1")
	r.SetSession("abc")
	start := time.Unix(1, 0)
	r.AddAgent("claude", start, start.Add(time.Minute), 3, spending.Account{Requests: 41, Cost: 3.1, Uncounted: 2, Tokens: model.Usage{Input: 10, CacheRead: 90, Output: 7}})
	body, spans, err := r.Take()
	if err != nil || spans != 1 {
		t.Fatal(spans, err)
	}
	for _, want := range []string{`"name":"invoke_agent claude"`, `"startTimeUnixNano":"1000000000","status":{"code":2}`, `{"key":"gen_ai.conversation.id","value":{"stringValue":"abc"}}`, `{"key":"golem.requests","value":{"intValue":"41"}}`,
		`{"key":"gen_ai.usage.input_tokens","value":{"intValue":"100"}}`, `{"key":"gen_ai.usage.output_tokens","value":{"intValue":"7"}}`, `{"key":"golem.cost","value":{"doubleValue":3.1}}`, `{"key":"golem.not_counted","value":{"intValue":"2"}}`, `{"key":"error.type","value":{"stringValue":"3"}}`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the span lacks %s:\n%s", want, body)
		}
	}
}

// A request is a request of OTLP, as its JSON form defines it.
type request struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes []attribute }
		ScopeSpans []struct {
			Scope struct{ Name, Version string }
			Spans []struct {
				TraceID           string `json:"traceId"`
				SpanID            string `json:"spanId"`
				ParentSpanID      string `json:"parentSpanId"`
				Name              string
				Kind              int
				StartTimeUnixNano string
				EndTimeUnixNano   string
				Attributes        []attribute
				Status            struct{ Code int }
			}
		}
	}
}

type attribute struct {
	Key   string
	Value struct{ StringValue, IntValue string }
}

// TestRecorder checks the spans of a run in which a worker calls another.
func TestRecorder(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	yes, no := true, false
	r := NewRecorder(Settings{Service: "golem"}, "1")
	r.SetSession("k3xq2a")
	for i, e := range []run.Event{
		{Type: run.RunStart, Worker: "main", Chain: []string{"main"}, Model: "anthropic:claude", Text: "SECRET"},
		{Type: run.Piece, Worker: "main", Chain: []string{"main"}, Text: "SECRET"},
		{Type: run.Message, Worker: "main", Chain: []string{"main"}, Text: "SECRET", Model: "claude-1", Usage: &model.Usage{Input: 7, CacheRead: 3, Output: 2}},
		{Type: run.ToolCall, Worker: "main", Chain: []string{"main"}, Call: "1", Tool: "child", Args: json.RawMessage(`{"input":"SECRET"}`)},
		{Type: run.Started, Worker: "child", Chain: []string{"main", "child"}, Model: "anthropic:claude"},
		{Type: run.Message, Worker: "child", Chain: []string{"main", "child"}, Text: "SECRET", Usage: &model.Usage{}},
		{Type: run.ToolCall, Worker: "child", Chain: []string{"main", "child"}, Call: "2", Tool: "write_file", Args: json.RawMessage(`{"path":"SECRET"}`)},
		{Type: run.ToolResult, Worker: "child", Chain: []string{"main", "child"}, Call: "2", Tool: "write_file", OK: &no, Code: "read_only", Hint: "SECRET"},
		{Type: run.ToolResult, Worker: "main", Chain: []string{"main"}, Call: "1", Tool: "child", OK: &yes, Text: "SECRET"},
		{Type: run.RunEnd, Worker: "main", Chain: []string{"main"}, OK: &yes, End: run.Finished, Text: "SECRET", Sum: &run.Sum{Turns: 2, Calls: 2, Refused: 1}},
	} {
		e.Time = at.Add(time.Duration(i) * time.Second)
		r.Tell(e)
	}
	body, spans, err := r.Take()
	if err != nil || spans != 6 {
		t.Fatalf("got %d spans, %v", spans, err)
	}
	if strings.Contains(string(body), "SECRET") {
		t.Errorf("content in %s", body)
	}
	var got request
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	ids, lines := map[string]string{"": "-"}, []string{}
	list := got.ResourceSpans[0].ScopeSpans[0].Spans
	for _, s := range list {
		ids[s.SpanID] = s.Name
		if !isID(s.SpanID, spanBytes) || !isID(s.TraceID, traceBytes) || s.TraceID != list[0].TraceID {
			t.Errorf("ids: %+v", s)
		}
	}
	for _, s := range list {
		about := map[string]string{}
		for _, a := range s.Attributes {
			about[a.Key] = a.Value.StringValue + a.Value.IntValue
		}
		lines = append(lines, fmt.Sprintf("%s in %s, kind %d, status %d, %s to %s, %s %s %s %s", s.Name, ids[s.ParentSpanID], s.Kind, s.Status.Code,
			strings.TrimPrefix(s.StartTimeUnixNano[:10], "170000000"), strings.TrimPrefix(s.EndTimeUnixNano[:10], "170000000"), about["gen_ai.operation.name"], about["gen_ai.provider.name"], about["gen_ai.usage.input_tokens"], about["error.type"]))
	}
	const want = `chat claude in invoke_agent main, kind 3, status 0, 0 to 2, chat anthropic 10 
chat claude in invoke_agent child, kind 3, status 0, 4 to 5, chat anthropic 0 
execute_tool write_file in invoke_agent child, kind 1, status 2, 6 to 7, execute_tool   read_only
invoke_agent child in execute_tool child, kind 1, status 0, 4 to 8, invoke_agent anthropic  
execute_tool child in invoke_agent main, kind 1, status 0, 3 to 8, execute_tool   
invoke_agent main in -, kind 1, status 0, 0 to 9, invoke_agent anthropic 0 `
	if text := strings.Join(lines, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if again, _, _ := r.Take(); again != nil {
		t.Errorf("got %s twice", again)
	}
}

// TestRecorderLimits: a run without a server drops spans, and names no file of a script.
func TestRecorderLimits(t *testing.T) {
	r := NewRecorder(Settings{Service: "golem", Parent: Parent{strings.Repeat("a", 32), strings.Repeat("b", 16)}}, "1")
	r.Tell(run.Event{Type: run.RunStart, Worker: "main", Chain: []string{"main"}, Model: "scripted:/home/me/demo.yaml"})
	for i := range 2 * maxQueue {
		r.Tell(run.Event{Type: run.ToolCall, Chain: []string{"main"}, Call: fmt.Sprint(i), Tool: "x"})
		r.Tell(run.Event{Type: run.Message, Chain: []string{"main"}, Model: "scripted:/home/me/demo.yaml"})
	}
	if len(r.calls) > maxOpen || len(r.ready) > maxQueue || r.Dropped() != maxQueue {
		t.Errorf("%d open, %d ready, %d dropped", len(r.calls), len(r.ready), r.Dropped())
	}
	body, _, err := r.Take()
	r.Tell(run.Event{Type: run.RunEnd, Chain: []string{"main"}, End: run.Stopped})
	last, _, _ := r.Take()
	if err != nil || strings.Contains(string(body)+string(last), "/home") || !strings.Contains(string(last), `"parentSpanId":"bbbbbbbbbbbbbbbb"`) || !strings.Contains(string(last), strings.Repeat("a", 32)) {
		t.Errorf("got %v, %.300s", err, last)
	}
	if len(r.calls)+len(r.agents) > 0 {
		t.Error("spans stay open")
	}
}
