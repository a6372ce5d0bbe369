package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
)

var write = map[string]any{"path": "/b.txt", "content": "new\n"}

// TestReplies checks that only an explicit yes in the form approves a call. Declining
// the form means no. A canceled form or one with other content gives no answer.
func TestReplies(t *testing.T) {
	t.Parallel()
	yes, no, none := tool.Answer{Verdict: tool.Approved, By: "user in the client"}, tool.Answer{By: "user in the client"}, tool.Answer{By: "nobody", Unattended: true}
	for _, test := range []struct {
		said *mcp.ElicitResult
		want tool.Answer
	}{
		{&mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "yes"}}, yes},
		{&mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "no"}}, no},
		{&mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "YES"}}, none},
		{&mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": true}}, none},
		{&mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": []any{"yes"}}}, none},
		{&mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "yes", "and": "yes"}}, none},
		{&mcp.ElicitResult{Action: "accept", Content: map[string]any{"Answer": "yes"}}, none},
		{&mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, none},
		{&mcp.ElicitResult{Action: "accept"}, none},
		{&mcp.ElicitResult{Action: "Accept", Content: map[string]any{"answer": "yes"}}, none},
		{&mcp.ElicitResult{Action: "decline", Content: map[string]any{"answer": "yes"}}, no},
		{&mcp.ElicitResult{Action: "decline"}, no},
		{&mcp.ElicitResult{Action: "cancel", Content: map[string]any{"answer": "yes"}}, none},
		{&mcp.ElicitResult{Action: "cancel", Content: map[string]any{"answer": "no"}}, none},
		{&mcp.ElicitResult{Action: "cancel"}, none},
		{&mcp.ElicitResult{}, none},
		{nil, none},
	} {
		if got := (form{}).reply(test.said).Answer; got.Verdict != test.want.Verdict || got.By != test.want.By || got.Unattended != test.want.Unattended {
			t.Errorf("%v: got %+v, want %+v", test.said, got, test.want)
		}
	}
}

// TestCancelLeavesTheCallPending checks that a canceled form leaves the call to golem
// approve, at once and in every version.
func TestCancelLeavesTheCallPending(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		h := newTestServer(t, nil)
		c := h.client(version, func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "cancel"}, nil
		})
		start := time.Now()
		text, ok := use(t, c, "write_file", write)
		if ok || h.file("b.txt") != "" {
			t.Errorf("%s: the call succeeded: %s", version, text)
		}
		if took := time.Since(start); took > h.service.Wait/2 {
			t.Errorf("%s: the call waited %v for another answer", version, took)
		}
		id := h.waitForRequest()
		checkContains(t, text, "golem approve "+id)
		if err := h.answer(id, true); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		if text, ok := use(t, c, "write_file", write); !ok || h.file("b.txt") == "" {
			t.Errorf("%s: after golem approve: %s", version, text)
		}
	}
}

// TestForms checks that golem shows the form once and does what the user answers, in
// every version.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		action, answer string
		done           bool
	}{
		{"accept", "yes", true}, {"accept", "no", false}, {"decline", "", false}, {"cancel", "", false}, {"error", "", false},
	} {
		for _, version := range versions {
			h := newTestServer(t, nil)
			asked := 0
			var message string
			c := h.client(version, func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked, message = asked+1, r.Params.Message
				if test.action == "error" {
					return nil, errors.New("the form broke")
				}
				result := &mcp.ElicitResult{Action: test.action}
				if test.answer != "" {
					result.Content = map[string]any{"answer": test.answer}
				}
				return result, nil
			})
			r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "write_file", Arguments: write})
			if (err == nil && !r.IsError) != test.done {
				t.Errorf("%s: %v: got %v, %v", version, test, r, err)
			}
			if got := h.file("b.txt") != ""; got != test.done || asked != 1 {
				t.Errorf("%s: %v: written: %v; asked %d times", version, test, got, asked)
			}
			checkContains(t, message, "about write_file", "golem approve ")
		}
	}
}

// TestFormAsksForTheDigest: if the form does not show everything, a plain yes is not an
// answer. The user must type the digest.
func TestFormAsksForTheDigest(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		for named, done := range map[string]bool{"": false, "01234567": false, "right": true} {
			h := newTestServer(t, nil)
			c := h.client(version, func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				checkContains(t, r.Params.Message, "not all is shown; golem approvals show ")
				field := fmt.Sprint(r.Params.RequestedSchema.(map[string]any)["properties"].(map[string]any)["digest"])
				content := map[string]any{"answer": "yes"}
				if content["digest"] = named; named == "right" {
					_, rest, _ := strings.Cut(field, "type ")
					content["digest"] = rest[:8]
				} else if named == "" {
					delete(content, "digest")
				}
				return &mcp.ElicitResult{Action: "accept", Content: content}, nil
			})
			text, _ := use(t, c, "write_file", map[string]any{"path": "/b.txt", "content": strings.Repeat("line\n", 1000)})
			if got := h.file("b.txt") != ""; got != done {
				t.Errorf("%s: %q: written: %v, want %v", version, named, got, done)
			}
			if !done {
				checkContains(t, text, "golem approve "+h.waitForRequest())
			}
		}
	}
}

// TestAnswerIsForOneCall checks that an answer is valid for one call and for its current changes.
func TestAnswerIsForOneCall(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		h := newTestServer(t, map[string]string{"b.txt": "old\n"})
		asked := 0
		c := h.client(version, func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked++
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "yes"}}, nil
		})
		for range 2 {
			if text, ok := use(t, c, "write_file", write); !ok {
				t.Errorf("%s: got %q", version, text)
			}
		}
		if text, ok := use(t, c, "delete_file", map[string]any{"path": "/b.txt"}); !ok {
			t.Errorf("%s: got %q", version, text)
		}
		if asked < 2 { // a write that changes nothing does not have to ask
			t.Errorf("%s: asked %d times", version, asked)
		}
	}
}

// TestAnswerElsewhere checks that the first answer counts, and that an answer from elsewhere
// withdraws the form.
func TestAnswerElsewhere(t *testing.T) {
	t.Parallel()
	for _, yes := range []bool{true, false} {
		h := newTestServer(t, nil)
		var withdrawn atomic.Bool
		c := h.client("2025-11-25", func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			<-ctx.Done()
			withdrawn.Store(true)
			return nil, ctx.Err()
		})
		type answer struct {
			text string
			ok   bool
		}
		done := make(chan answer, 1)
		go func() {
			var got answer
			defer func() { done <- got }()
			got.text, got.ok = use(t, c, "write_file", write)
		}()
		id := h.waitForRequest()
		if err := h.answer(id, yes); err != nil {
			t.Fatal(err)
		}
		if got := <-done; got.ok != yes {
			t.Errorf("said %v: got %q", yes, got.text)
		}
		wait(t, "the form is withdrawn", withdrawn.Load)
		if got := h.file("b.txt") != ""; got != yes {
			t.Errorf("said %v: written %v", yes, got)
		}
		if err := h.answer(id, true); err == nil {
			t.Error("an answer was used twice")
		}
	}
}

// TestApprovalIsForOneSession: an approval is for the files of one session. The same call of a
// client in another session does not use it.
func TestApprovalIsForOneSession(t *testing.T) {
	h := newTestServer(t, nil)
	h.session, h.service.Wait = session.New, 300*time.Millisecond
	one, other := h.client(newestAsked, nil), h.client(newestAsked, nil)
	write := map[string]any{"path": "/b.txt", "content": "new"}
	use(t, one, "write_file", write)
	id := h.waitForRequest()
	use(t, other, "write_file", write)
	if err := h.answer(id, true); err != nil {
		t.Fatal(err)
	}
	if text, ok := use(t, other, "write_file", write); ok || !strings.Contains(text, "it waits") {
		t.Errorf("in another session: got %q, want a waiting request", text)
	}
	if text, ok := use(t, one, "write_file", write); !ok {
		t.Errorf("in the session of the request: got %q", text)
	}
}

// TestApproveAfterForm: after an answer in the form, golem approve is too late.
func TestApproveAfterForm(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		h := newTestServer(t, nil)
		id := ""
		c := h.client(version, func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			id = h.waitForRequest()
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "yes"}}, nil
		})
		if text, ok := use(t, c, "write_file", write); !ok {
			t.Errorf("%s: got %q", version, text)
		}
		if err := h.answer(id, false); err == nil {
			t.Errorf("%s: a late answer was accepted", version)
		}
	}
}

// TestAnswerElsewhereAtRetry: in the newest version an answer from elsewhere counts when the
// client repeats the call. It takes precedence over the answer in the form.
func TestAnswerElsewhereAtRetry(t *testing.T) {
	t.Parallel()
	for _, yes := range []bool{true, false} {
		h := newTestServer(t, nil)
		c := h.client("2026-07-28", func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if err := h.answer(h.waitForRequest(), yes); err != nil {
				t.Error(err)
			}
			if h.file("b.txt") != "" {
				t.Error("the call ran before the client repeated it")
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": map[bool]string{true: "no", false: "yes"}[yes]}}, nil
		})
		if text, ok := use(t, c, "write_file", write); ok != yes {
			t.Errorf("said %v: got %q", yes, text)
		}
	}
}

// TestClientWithoutForms: a client without forms leaves the question to golem approve. The call waits
// and reports that it is pending. After the approval, the same call succeeds once.
func TestClientWithoutForms(t *testing.T) {
	t.Parallel()
	cannot := func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound}
	}
	for _, ask := range []func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error){nil, cannot} {
		for _, version := range versions[1:] {
			if ask != nil && version == "2026-07-28" {
				continue // the client itself fails in this version
			}
			h := newTestServer(t, nil)
			h.service.Wait = 120 * time.Millisecond
			c := h.client(version, ask)
			text, ok := use(t, c, "write_file", write)
			id := h.waitForRequest()
			if ok || !strings.Contains(text, "golem approve "+id) || h.file("b.txt") != "" {
				t.Errorf("%s: got %v, %q", version, ok, text)
			}
			if err := h.answer(id, true); err != nil {
				t.Fatal(err)
			}
			if text, ok := use(t, c, "write_file", write); !ok || h.file("b.txt") != "new\n" {
				t.Errorf("%s: got %v, %q", version, ok, text)
			}
			if text, ok := use(t, c, "delete_file", map[string]any{"path": "/b.txt"}); ok {
				t.Errorf("%s: another call passed: %q", version, text)
			}
			if err := h.answer(h.waitForRequest(), true); err != nil {
				t.Fatal(err)
			}
			if _, ok := use(t, c, "delete_file", map[string]any{"path": "/b.txt"}); !ok {
				t.Errorf("%s: the approved call fails", version)
			}
			if text, ok := use(t, c, "write_file", write); ok {
				t.Errorf("%s: the call passes twice: %q", version, text)
			}
		}
	}
}

// TestOlderNames: a call of a tool by an older name shows a form if the library allows
// it. In other versions it waits for golem approve.
func TestOlderNames(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		h := newTestServer(t, nil)
		form := version < multiRound
		if !form { // nobody answers in this version
			h.service.Wait = 500 * time.Millisecond
		}
		c := h.client(version, replyWith("yes"))
		text, ok := use(t, c, "sandbox_write_text", map[string]any{"path": "/b.txt", "content": "new\n"})
		if ok != form || !ok && !strings.Contains(text, "golem approve ") || (h.file("b.txt") != "") != form {
			t.Errorf("%s: got %v, %q", version, ok, text)
		}
	}
}

// TestProgress checks that a client learns that its call waits for approval.
func TestProgress(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	in, out := h.serveStreams()
	var told atomic.Pointer[string]
	var once sync.Once
	c := h.connect(&mcp.IOTransport{Reader: out, Writer: in}, "2025-11-25", nil, func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		once.Do(func() {
			told.Store(&r.Params.Message)
			h.answer(h.waitForRequest(), true)
		})
	})
	p := &mcp.CallToolParams{Name: "write_file", Arguments: write}
	p.SetProgressToken("here")
	r, err := c.CallTool(t.Context(), p)
	if err != nil || r.IsError {
		t.Fatalf("got %v, %v", r, err)
	}
	checkContains(t, *told.Load(), "write_file waits for the user's approval; golem approve ")
}

// TestCancelWhileWaiting checks that a call does nothing if the client cancels it while it
// waits.
func TestCancelWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, version := range versions[:2] {
		h := newTestServer(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		c := h.client(version, func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			cancel()
			time.Sleep(50 * time.Millisecond) // the cancellation may arrive first
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "no"}}, nil
		})
		if r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "write_file", Arguments: write}); err == nil && !r.IsError {
			t.Errorf("%s: got %v", version, r)
		}
		if text, ok := use(t, c, "list_files", nil); !ok || strings.Contains(text, "b.txt") {
			t.Errorf("%s: got %q", version, text)
		}
	}
}

// TestRepeatedCall: a client may repeat a call without an answer as often as it likes. golem
// asks about the last one, and the others do not count against the limit.
func TestRepeatedCall(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	in, out := h.serveStreams()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: replyWith("yes"), MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}})
	c, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &mcp.CallToolParams{Name: "write_file", Arguments: write}
	for i := range 2 * maxAsked {
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: p.Name, Arguments: p.Arguments})
		if err != nil || len(r.InputRequests) != 1 {
			t.Fatalf("%d: got %v, %v", i, r, err)
		}
		p.RequestState = r.RequestState
	}
	p.InputResponses = mcp.InputResponseMap{"answer": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "yes"}}}
	if r, err := c.CallTool(t.Context(), p); err != nil || r.IsError || h.file("b.txt") != "new\n" {
		t.Errorf("got %v, %v", r, err)
	}
}

// TestRequestState checks that golem accepts a request state only unchanged and only for the
// same call. The state stays valid when the server restarts.
func TestRequestState(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	connect := func() *mcp.ClientSession {
		t.Helper()
		in, out := h.serveStreams()
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: replyWith("yes"), MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}})
		c, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	yes := mcp.InputResponseMap{"answer": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "yes"}}}
	c := connect()
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "write_file", Arguments: write})
	if err != nil || r.RequestState == "" || len(r.InputRequests) != 1 {
		t.Fatalf("got %v, %v", r, err)
	}
	state := r.RequestState
	changed := strings.Map(func(r rune) rune { // in the id
		if r >= 'a' && r <= 'y' {
			r++
		}
		return r
	}, state[:8]) + state[8:]
	other := map[string]any{"path": "/b.txt", "content": "other\n"}
	for name, p := range map[string]*mcp.CallToolParams{
		"another call":  {Name: "write_file", Arguments: other, RequestState: r.RequestState, InputResponses: yes},
		"another tool":  {Name: "delete_file", Arguments: write, RequestState: r.RequestState, InputResponses: yes},
		"changed":       {Name: "write_file", Arguments: write, RequestState: changed, InputResponses: yes},
		"cut":           {Name: "write_file", Arguments: write, RequestState: state[:len(state)-1], InputResponses: yes},
		"longer":        {Name: "write_file", Arguments: write, RequestState: strings.Replace(r.RequestState, ".", ".9", 1), InputResponses: yes},
		"made up":       {Name: "write_file", Arguments: write, RequestState: "a.9999999999.b", InputResponses: yes},
		"not its shape": {Name: "write_file", Arguments: write, RequestState: "...", InputResponses: yes},
	} {
		if got, err := c.CallTool(t.Context(), p); err == nil || !strings.Contains(err.Error(), "request state") {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if h.file("b.txt") != "" {
		t.Fatal("the file was written")
	}
	// Another server with the same state directory continues the call.
	c.Close()
	c = connect()
	again := &mcp.CallToolParams{Name: "write_file", Arguments: write, RequestState: r.RequestState, InputResponses: yes}
	if got, err := c.CallTool(t.Context(), again); err != nil || got.IsError || h.file("b.txt") != "new\n" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := c.CallTool(t.Context(), again); err == nil && got.InputRequests == nil && !got.IsError && strings.Contains(fmt.Sprint(got.Content[0]), "created") {
		t.Errorf("an answer was used twice: %v", got)
	}
}

// TestRequestedVersion: a client may send initialize with a version that has no initialize.
// It gets an older version, and golem asks as in that version.
func TestRequestedVersion(t *testing.T) {
	t.Parallel()
	for _, wish := range []string{"2026-07-28", "2027-01-01", "DRAFT-2027", ""} {
		h := newTestServer(t, nil)
		in, out := h.serveStreams()
		r := &rawClient{t, in, bufio.NewReader(out)}
		text := strings.Replace(hello, `"2025-11-25","capabilities":{}`, `"`+wish+`","capabilities":{"elicitation":{}}`, 1)
		r.send(text)
		var m struct {
			Method string
			ID     json.RawMessage
			Result struct{ ProtocolVersion string }
		}
		next := func() {
			t.Helper()
			line, err := r.out.ReadBytes('\n')
			if err == nil {
				err = json.Unmarshal(line, &m)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if next(); m.Result.ProtocolVersion != "2025-11-25" {
			t.Errorf("%s: got version %q", wish, m.Result.ProtocolVersion)
		}
		r.send(newCall(1, "write_file", `{"path":"/b.txt","content":"new"}`))
		if next(); m.Method != "elicitation/create" {
			t.Fatalf("%s: got %+v", wish, m)
		}
		r.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept","content":{"answer":"yes"}}}` + "\n")
		if got := r.read(); got.ID != 1.0 || got.Result.IsError || h.file("b.txt") != "new" {
			t.Errorf("%s: got %+v, %q", wish, got, h.file("b.txt"))
		}
	}
}

// TestDuplicateKeys checks that golem refuses a duplicate key in an answer and in a
// call, in any spelling.
func TestDuplicateKeys(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		`{"answer":"no","answer":"yes"}`, `{"answer":"yes","answer":"yes"}`, `{"answer":"no","\u0061nswer":"yes"}`, `{"answer":"no","ans\u0077er":"yes"}`,
	} {
		h := newTestServer(t, nil)
		in, out := h.serveStreams()
		r := &rawClient{t, in, bufio.NewReader(out)}
		r.send(strings.Replace(hello, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
		r.read()
		r.send(newCall(1, "write_file", `{"path":"/b.txt","content":"new"}`))
		var m struct {
			Method string
			ID     json.RawMessage
		}
		line, err := r.out.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &m)
		}
		if err != nil || m.Method != "elicitation/create" {
			t.Fatalf("got %s, %v", line, err)
		}
		r.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept","content":` + content + `}}` + "\n")
		if got := r.read(); got.ID != 1.0 || !got.Result.IsError || h.file("b.txt") != "" {
			t.Errorf("%s: got %+v, %q", content, got, h.file("b.txt"))
		}
		h.waitForRequest() // the request is still pending
	}
	for _, line := range []string{
		newCall(1, "write_file", `{"path":"/a.txt","path":"/b.txt","content":"new"}`),
		strings.Replace(newCall(1, "write_file", `{"path":"/b.txt","content":"new"}`), `"name":"write_file"`, `"name":"read_file","name":"write_file"`, 1),
		strings.Replace(newCall(1, "write_file", `{"path":"/b.txt","content":"new"}`), `"method":`, `"method":"ping","method":`, 1),
	} {
		h := newTestServer(t, nil)
		r := h.newRawClient()
		r.send(line)
		text, err := r.out.ReadString('\n')
		if err != nil || !strings.Contains(text, "appears twice") {
			t.Errorf("%s: got %s, %v", line, text, err)
		}

		address, token := h.serveHTTP(program.HTTPOptions{Address: "127.0.0.1:0"})
		post, err := http.NewRequest("POST", "http://"+address+endpoint, strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		post.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		got, err := tokenSender(token).RoundTrip(post)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		got.Body.Close()
		if err != nil || got.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "appears twice") {
			t.Errorf("%s over HTTP: got %s %s, %v", line, got.Status, body, err)
		}
	}
}

// TestDuplicateKeysInAnswer checks that the HTTP server refuses an answer of a client in which
// a key appears twice.
func TestDuplicateKeysInAnswer(t *testing.T) {
	h := newTestServer(t, nil)
	address, token := h.serveHTTP(program.HTTPOptions{Address: "127.0.0.1:0"})
	post, err := http.NewRequest("POST", "http://"+address+endpoint, strings.NewReader(`{"jsonrpc":"2.0","id":7,"result":{"action":"decline"},"result":{"action":"accept"}}`))
	if err != nil {
		t.Fatal(err)
	}
	post.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	got, err := tokenSender(token).RoundTrip(post)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if body, err := io.ReadAll(got.Body); err != nil || got.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "appears twice") {
		t.Errorf("got %s %s, %v", got.Status, body, err)
	}
}
