package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/program"
)

// A stand has a proxy between an editor and an agent that the test plays.
type stand struct {
	*Proxy
	t             *testing.T
	dir           string
	editor, agent side
	ended         chan struct{} // closed when the proxy asks for the end of the agent
	done          chan struct{} // closed when Run has returned

	mu   sync.Mutex
	told []string
}

// A side is what the test holds of one peer of the proxy.
type side struct {
	to   io.WriteCloser
	from *bufio.Reader
}

// newStand returns a stand whose editor and agent have agreed on version 1.
func newStand(t *testing.T, mode approval.Mode) *stand {
	t.Helper()
	s := newVersion(t, mode)
	s.agree(1, 1)
	return s
}

// newVersion returns a stand before the first message.
func newVersion(t *testing.T, mode approval.Mode) *stand {
	t.Helper()
	s := &stand{t: t, dir: t.TempDir(), ended: make(chan struct{}), done: make(chan struct{})}
	fromEditor, editorTo := io.Pipe()
	editorFrom, toEditor := io.Pipe()
	agentFrom, toAgent := io.Pipe()
	fromAgent, agentTo := io.Pipe()
	s.editor, s.agent = side{editorTo, bufio.NewReader(editorFrom)}, side{agentTo, bufio.NewReader(agentFrom)}
	s.Proxy = New(program.ProxyOptions{In: fromEditor, Out: toEditor, Dir: s.dir, Approval: mode, Wait: time.Minute,
		Show: func(r tool.Request, most int) (string, []string) {
			return "a connection to `x`", r.Items()
		},
		Tell: func(text string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.told = append(s.told, text)
		}}).(*Proxy)
	go func() {
		defer close(s.done)
		s.Run(t.Context(), toAgent, fromAgent, sync.OnceFunc(func() { close(s.ended); agentTo.Close() }))
	}()
	t.Cleanup(func() {
		editorTo.Close()
		agentTo.Close()
		go io.Copy(io.Discard, editorFrom)
		go io.Copy(io.Discard, agentFrom)
		<-s.done
	})
	return s
}

func (s *stand) send(to side, line string) {
	s.t.Helper()
	if _, err := io.WriteString(to.to, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) receive(from side) string {
	s.t.Helper()
	lines := make(chan string, 1)
	go func() {
		line, _ := from.from.ReadString('\n')
		lines <- strings.TrimSuffix(line, "\n")
	}()
	select {
	case line := <-lines:
		return line
	case <-time.After(20 * time.Second):
		s.t.Fatal("no message arrived")
		return ""
	}
}

// expect receives a message, and checks that it has a text.
func (s *stand) expect(from side, texts ...string) string {
	s.t.Helper()
	line := s.receive(from)
	for _, text := range texts {
		if !strings.Contains(line, text) {
			s.t.Fatalf("got %s, want %s", line, text)
		}
	}
	return line
}

// agree has the editor offer a version, and the agent answer with another.
func (s *stand) agree(offered, answered int) {
	s.t.Helper()
	s.send(s.editor, fmt.Sprintf(`{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":%d}}`, offered))
	s.expect(s.agent, `"initialize"`)
	s.send(s.agent, fmt.Sprintf(`{"jsonrpc":"2.0","id":"first","result":{"protocolVersion":%d}}`, answered))
	s.expect(s.editor, `"first"`)
}

// begin opens the session s1, in which a prompt with the id 7 runs.
func (s *stand) begin() {
	s.t.Helper()
	s.send(s.editor, `{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}`)
	s.expect(s.agent, `"session/prompt"`)
}

// nothing checks that an earlier message did not pass: the next one that arrives is another.
func (s *stand) nothing(to, from side) {
	s.t.Helper()
	text := `{"jsonrpc":"2.0","method":"session/update","params":{"marker":true}}`
	s.send(to, text)
	if got := s.receive(from); got != text {
		s.t.Fatalf("got %s, want nothing", got)
	}
}

// TestPassesAsItIs checks that messages pass with unknown fields, unusual order and space.
func TestPassesAsItIs(t *testing.T) {
	s := newStand(t, "")
	asked := `{"unknown":[1e400, 9007199254740993],"params":{"sessionId":"s1","_meta":{"x":null}},  "method":"session/prompt","id":"ü","jsonrpc":"2.0"}`
	s.send(s.editor, asked)
	if got := s.receive(s.agent); got != asked {
		t.Errorf("got %s, want %s", got, asked)
	}
	for _, line := range []string{
		`{"method":"session/update","jsonrpc":"2.0","params":{"update":{"sessionUpdate":"new in version 9","n":1.0}},"more":{}}`,
		`{"result":{"stopReason":"end_turn","usage":{"a":1.50}},"id":"ü","jsonrpc":"2.0","extra":1}`,
	} {
		s.send(s.agent, line)
		if got := s.receive(s.editor); got != line {
			t.Errorf("got %s, want %s", got, line)
		}
	}
}

// TestClientIsAbsent checks that the agent learns of no files and terminals of the editor, and
// that golem refuses calls of them and of everything that it does not know.
func TestClientIsAbsent(t *testing.T) {
	s := newVersion(t, "")
	s.send(s.editor, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"clientInfo":{"name":"e"},"capabilities":{"elicitation":{}},"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true,"_meta":{"terminal-auth":true}}}}`)
	s.expect(s.agent, `"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false}`, `"protocolVersion":2`, `"clientInfo":{"name":"e"}`, `"capabilities":{}`)
	s.send(s.agent, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"authMethods":[{"id":"a","name":"A","_meta":{"terminal-auth":{"command":"rm"}}},{"id":"b","type":"terminal","args":["x"]}],"agentInfo":{"v":1}}}`)
	if line := s.expect(s.editor, `"authMethods":[{"id":"a","name":"A"}]`, `"agentInfo":{"v":1}`); strings.Contains(line, "terminal") {
		t.Errorf("the agent names a command for the host: %s", line)
	}
	for i, method := range []string{"fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/kill", "elicitation/create", "_zed/open", "session/prompt", "initialize"} {
		s.send(s.agent, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":{"path":"/etc/passwd"}}`, i, method))
		s.expect(s.agent, fmt.Sprintf(`"id":%d`, i), `"code":-32601`, "golem does not let an agent use "+method)
		s.send(s.agent, fmt.Sprintf(`{"jsonrpc":"2.0","method":"%s","params":{"path":"/etc/passwd"}}`, method)) // as a notification
	}
	s.nothing(s.agent, s.editor)
}

// TestVersions checks which versions golem lets an editor and an agent agree on, once and before
// everything else.
func TestVersions(t *testing.T) {
	offer := func(s *stand, offered, passed string) {
		s.send(s.editor, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":`+offered+`}}`)
		s.expect(s.agent, `"protocolVersion":`+passed+`}`)
	}
	for _, c := range []struct{ offered, passed, answered, want string }{
		{"1", "1", "1", ""}, {"2", "2", "2", ""}, {"2", "2", "1", ""}, {"9", "2", "2", ""}, {`"x"`, "1", "1", ""}, {"0", "1", "1", ""}, {"-3", "1", "1", ""},
		{"1", "1", "2", "speaks no version"}, {"2", "2", "3", "speaks no version"}, {"2", "2", "0", "speaks no version"}, {"2", "2", `"2"`, "speaks no version"}, {"2", "2", "null", "speaks no version"},
	} {
		s := newVersion(t, "")
		offer(s, c.offered, c.passed)
		s.send(s.agent, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":`+c.answered+`}}`)
		if c.want != "" {
			s.expect(s.editor, `"error"`, c.want)
			s.send(s.editor, `{"jsonrpc":"2.0","id":2,"method":"session/new","params":{}}`)
			s.expect(s.editor, `"id":2`, "a connection begins with")
			continue
		}
		s.expect(s.editor, `"protocolVersion":`+c.answered)
		s.send(s.editor, `{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":1}}`)
		s.expect(s.editor, `"id":2`, "initialize begins a connection, once")
	}
	s := newVersion(t, "")
	for _, line := range []string{`"id":1,"method":"session/new"`, `"id":2,"method":"session/prompt"`, `"method":"session/cancel"`} {
		s.send(s.editor, `{"jsonrpc":"2.0",`+line+`,"params":{"sessionId":"s1"}}`)
		if strings.Contains(line, `"id"`) {
			s.expect(s.editor, `"error"`, "a connection begins with")
		}
	}
	offer(s, "2", "2")
	s.send(s.editor, `{"jsonrpc":"2.0","id":3,"method":"session/new","params":{}}`)
	s.expect(s.editor, `"id":3`, "a connection begins with")
	s.send(s.agent, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`)
	s.expect(s.editor, `"id":1`, `"error"`)
	offer(s, "1", "1") // again, after the refusal
}

// TestVersion2 checks what differs in version 2: the form of questions, and options of kinds that
// golem does not know. A batch is no message in either version.
func TestVersion2(t *testing.T) {
	s := newVersion(t, "")
	s.agree(2, 2)
	s.send(s.editor, `[{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"s1"}}]`)
	s.expect(s.editor, `"error"`, `"id":null`)
	s.send(s.agent, `[{"jsonrpc":"2.0","method":"session/update","params":{"n":1}}]`)
	s.send(s.editor, `{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"s1"}}`)
	s.expect(s.agent, `{"jsonrpc":"2.0","id":7,`)
	s.nothing(s.agent, s.editor)
	_, options, replies := s.ask(t.Context())
	s.send(s.editor, `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`)
	s.expect(s.agent, "session/cancel")
	s.expect(s.editor, `"status":"failed"`)
	if reply := <-replies; reply.Verdict == tool.Approved || len(options) != 3 {
		t.Errorf("got %+v, %v", reply, options)
	}
	s.send(s.agent, `{"jsonrpc":"2.0","id":"k","method":"session/request_permission","params":{"sessionId":"s1","title":"t","options":[{"optionId":"a","name":"A","kind":"_new"}]}}`)
	s.expect(s.editor, `"_new"`)
	s.send(s.editor, `{"jsonrpc":"2.0","id":2,"method":"session/close","params":{"sessionId":"s1"}}`)
	s.expect(s.agent, `"id":"k"`, "cancelled")
	s.expect(s.agent, "session/close")
}

// TestAmbiguousMessages checks that nothing passes that two readers may understand differently,
// and that lines that are no messages do not reach the editor.
func TestAmbiguousMessages(t *testing.T) {
	s := newStand(t, "")
	s.begin()
	for _, line := range []string{
		`starting the agent …`, `[]`, `null`, `{}`, `"x"`, `{"jsonrpc":"2.0"`,
		`[{"jsonrpc":"2.0","method":"session/update"}]`,
		`{"jsonrpc":"2.0","method":"session/update","method":"fs/write_text_file","id":1}`,
		`{"jsonrpc":"2.0","method":"session/update","m\u0065thod":"fs/write_text_file"}`,
		`{"jsonrpc":"1.0","method":"session/update"}`,
		`{"jsonrpc":"2.0","method":"session/update","result":{}}`,
		`{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":7}`, `{"jsonrpc":"2.0","id":7.5,"result":{}}`, `{"jsonrpc":"2.0","id":{},"result":{}}`,
		`{"jsonrpc":"2.0","id":"7","result":{}}`, // the id of no request
		`{"jsonrpc":"2.0","id":8,"result":{}}`,
		`{"JSONRPC":"2.0","Method":"fs/write_text_file","id":7,"result":{}}`,
		"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":\"\xff\"}",
		`{"jsonrpc":"2.0","method":"session/update","params":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
	} {
		s.send(s.agent, line)
	}
	s.nothing(s.agent, s.editor)
	s.send(s.agent, `{"jsonrpc":"2.0","id":7,"result":{"stopReason":"end_turn"}}`)
	s.expect(s.editor, `"end_turn"`)
	s.send(s.agent, `{"jsonrpc":"2.0","id":7,"result":{"stopReason":"twice"}}`)
	s.nothing(s.agent, s.editor)
	for _, line := range []string{`{`, `[1]`, `{"jsonrpc":"2.0","id":9,"method":"a","method":"b"}`, `{"jsonrpc":"2.0","id":9,"method":7}`} {
		s.send(s.editor, line)
		s.expect(s.editor, `"error"`, `"code":-32700`)
	}
}

// TestIdInUse checks that the editor cannot begin a request with the id of one that is under
// way: an answer of the agent would belong to either.
func TestIdInUse(t *testing.T) {
	s := newStand(t, "")
	s.begin()
	s.send(s.editor, `{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"s2","prompt":[]}}`)
	s.expect(s.editor, `"id":7`, "a request with this id, or too many, are under way")
	s.nothing(s.editor, s.agent)
	s.send(s.agent, `{"jsonrpc":"2.0","id":7,"result":{"stopReason":"end_turn"}}`)
	s.expect(s.editor, `"end_turn"`)
	s.send(s.editor, `{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}`)
	s.expect(s.agent, `"session/prompt"`)
}

// TestLongMessages checks the limit for the size of a message on both sides.
func TestLongMessages(t *testing.T) {
	s := newStand(t, "")
	s.send(s.editor, `{"jsonrpc":"2.0","method":"session/update","params":"`+strings.Repeat("x", maxMessage)+`"}`)
	s.expect(s.editor, "a message has at most 32 MiB")
	go io.WriteString(s.agent.to, `{"jsonrpc":"2.0","method":"session/update","params":"`+strings.Repeat("x", maxMessage)+"\"}\n")
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		t.Error("the agent continues after a message that is too long")
	}
}

// TestDirectory checks that the editor can name only directories that the agent sees, and that
// the agent gets their real paths.
func TestDirectory(t *testing.T) {
	s := newStand(t, "")
	for _, dir := range []string{"/", "/etc", s.dir + "/..", s.dir + "-other", "relative", "", s.dir + "/missing"} {
		s.send(s.editor, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, dir))
		s.expect(s.editor, `"id":1`, `"code":-32602`)
	}
	real, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	s.send(s.editor, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":%q,"mcpServers":[{"name":"tracker","env":[]}]}}`, s.dir+"/."))
	s.expect(s.agent, fmt.Sprintf(`"cwd":%q`, real))
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.told) != 1 || !strings.Contains(s.told[0], "tracker") {
		t.Errorf("told %q, want the MCP server", s.told)
	}
}

// permissionLine is a request of the agent for permission.
func permissionLine(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t"},"options":[{"optionId":"go","name":"Go","kind":"allow_once"},{"optionId":"stop","name":"Stop","kind":"reject_once"}],"x":1}}`
}

// TestPermission checks which answers of the editor count for a question of the agent.
func TestPermission(t *testing.T) {
	s := newStand(t, "")
	s.begin()
	ask := func(id string) {
		s.send(s.agent, permissionLine(id))
		s.expect(s.editor, `"id":`+id, `"x":1`)
	}
	chosen := func(id, option string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"result":{"outcome":{"outcome":"selected","optionId":"` + option + `"},"more":2}}`
	}
	ask(`"p"`)
	s.send(s.editor, chosen(`"p"`, "go"))
	if got := s.receive(s.agent); got != chosen(`"p"`, "go") {
		t.Errorf("got %s", got)
	}
	s.send(s.editor, chosen(`"p"`, "go")) // twice
	s.send(s.editor, chosen(`"q"`, "go")) // not asked
	for i, answer := range []string{
		chosen("ID", "other"), chosen("ID", ""), `{"jsonrpc":"2.0","id":ID,"result":{}}`, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}`,
		`{"jsonrpc":"2.0","id":ID,"result":{"outcome":{"outcome":"cancelled","optionId":"go"}}}`, `{"jsonrpc":"2.0","id":ID,"result":{"outcome":"selected"}}`,
	} {
		id := fmt.Sprint(100 + i)
		ask(id)
		s.send(s.editor, strings.ReplaceAll(answer, "ID", id))
		if got := s.receive(s.agent); got != `{"id":`+id+`,"jsonrpc":"2.0","result":{"outcome":{"outcome":"cancelled"}}}` {
			t.Errorf("after %s got %s, want a no", answer, got)
		}
	}
	ask("200")
	s.send(s.agent, permissionLine("200")) // the id of an open question
	s.expect(s.agent, `"id":200`, `"error"`)
	s.send(s.editor, `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`)
	s.expect(s.agent, `"id":200`, "cancelled")
	s.expect(s.agent, "session/cancel")
	s.send(s.editor, chosen("200", "go")) // after the cancellation
	s.nothing(s.editor, s.agent)
	for _, line := range []string{
		permissionLine(`"golem-x"`),
		`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s1","options":[]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s1","options":[{"optionId":"a","kind":"allow_once"},{"optionId":"a","kind":"reject_once"}]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s1","options":[{"optionId":"a","kind":"allow_forever"}]}}`,
	} {
		s.send(s.agent, line)
		s.expect(s.agent, `"error"`)
	}
	s.nothing(s.agent, s.editor)
}

// TestMode checks that the approval mode answers the agent's questions before the editor.
func TestMode(t *testing.T) {
	for mode, want := range map[approval.Mode]string{approval.ApproveAll: `"optionId":"go"`, approval.AutoDeny: `"optionId":"stop"`} {
		s := newStand(t, mode)
		s.send(s.agent, permissionLine("1"))
		s.expect(s.agent, want)
		s.nothing(s.agent, s.editor)
	}
}

// ask has golem ask about a host, and returns the question and the reply.
func (s *stand) ask(ctx context.Context) (id string, options map[string]string, reply <-chan approval.Reply) {
	s.t.Helper()
	r, err := tool.NewConnectRequest([]string{"w"}, "api.example.org", []uint16{443}, "curl `x`", "")
	if err != nil {
		s.t.Fatal(err)
	}
	replies := make(chan approval.Reply, 1)
	go func() { replies <- s.Ask(ctx, r) }()
	var q struct {
		ID     json.RawMessage
		Params struct {
			SessionID string
			Options   []struct{ OptionID, Name, Kind string }
		}
	}
	line := s.expect(s.editor, `"title":"golem asks: connect api.example.org:443?"`, r.Digest[:8])
	if err := json.Unmarshal([]byte(line), &q); err != nil || q.Params.SessionID != "s1" {
		s.t.Fatalf("%v: %s", err, line)
	}
	options = make(map[string]string)
	for _, o := range q.Params.Options {
		options[o.Kind] = o.OptionID
		if rule, _ := approval.AlwaysRule(r); o.Kind == allowAlways && o.Name != "Always: "+rule.String() {
			s.t.Errorf("the option is %q, want the rule %q", o.Name, rule)
		}
	}
	return string(q.ID), options, replies
}

// TestHosts checks golem's own questions: what each answer means, and that every other answer is
// a no.
func TestHosts(t *testing.T) {
	s := newStand(t, "")
	r, err := tool.NewConnectRequest([]string{"w"}, "api.example.org", []uint16{443}, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if reply := s.Ask(t.Context(), r); !reply.Unattended || reply.Verdict != tool.Declined {
		t.Errorf("without a session: got %+v, want no answer", reply)
	}
	s.begin()
	answer := func(id, option string) {
		s.send(s.editor, `{"jsonrpc":"2.0","id":`+id+`,"result":{"outcome":{"outcome":"selected","optionId":"`+option+`"}}}`)
	}
	for _, kind := range []string{allowOnce, allowAlways, rejectOnce} {
		id, options, replies := s.ask(t.Context())
		answer(id, options[kind])
		status := map[string]string{allowOnce: "completed", allowAlways: "completed", rejectOnce: "failed"}[kind]
		s.expect(s.editor, `"tool_call_update"`, `"status":"`+status+`"`)
		reply := <-replies
		if yes := kind != rejectOnce; (reply.Verdict == tool.Approved) != yes || (reply.Remember != nil) != (kind == allowAlways) || reply.Front != shownBy || reply.By != "user" {
			t.Errorf("%s: got %+v", kind, reply)
		}
		answer(id, options[allowOnce]) // twice
	}
	id, options, replies := s.ask(t.Context())
	for _, forged := range []string{`"golem-forged"`, "0", `"golem"`} {
		answer(forged, options[allowOnce])
	}
	answer(id, "another option")
	s.expect(s.editor, `"status":"failed"`)
	if reply := <-replies; reply.Verdict == tool.Approved || reply.Unattended || reply.By != "nobody" {
		t.Errorf("after an unknown option: got %+v, want a no", reply)
	}
	id, options, replies = s.ask(t.Context())
	s.send(s.editor, `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`)
	s.expect(s.agent, "session/cancel")
	s.expect(s.editor, `"status":"failed"`)
	answer(id, options[allowOnce])
	if reply := <-replies; reply.Verdict == tool.Approved {
		t.Errorf("after the cancellation: got %+v, want a no", reply)
	}
	ctx, cancel := context.WithCancel(t.Context())
	id, options, replies = s.ask(ctx)
	cancel()
	s.expect(s.editor, `"status":"failed"`)
	answer(id, options[allowOnce])
	if reply := <-replies; reply.Verdict == tool.Approved {
		t.Errorf("after the end of the question: got %+v, want no approval", reply)
	}
	s.nothing(s.editor, s.agent)
}

// TestForgedQuestion checks that the agent cannot answer golem's question, nor have the editor's
// answer to a question of its own count for golem's.
func TestForgedQuestion(t *testing.T) {
	s := newStand(t, "")
	s.begin()
	id, options, replies := s.ask(t.Context())
	s.send(s.agent, `{"jsonrpc":"2.0","id":`+id+`,"result":{"outcome":{"outcome":"selected","optionId":"`+options[allowOnce]+`"}}}`)
	s.send(s.agent, permissionLine(id))
	s.expect(s.agent, `"error"`)
	select {
	case reply := <-replies:
		t.Fatalf("got %+v", reply)
	case <-time.After(50 * time.Millisecond):
	}
	s.send(s.editor, `{"jsonrpc":"2.0","id":`+id+`,"result":{"outcome":{"outcome":"selected","optionId":"`+options[rejectOnce]+`"}}}`)
	s.expect(s.editor, `"status":"failed"`)
	if reply := <-replies; reply.Verdict == tool.Approved {
		t.Errorf("got %+v, want a no", reply)
	}
}

// TestFence checks that no text ends the fence that keeps an editor from reading it as Markdown.
func TestFence(t *testing.T) {
	text := plain("a\n```\n![x](http://evil.example/)\n````")["content"].(map[string]any)["text"].(string)
	if !strings.HasPrefix(text, "`````\n") || !strings.HasSuffix(text, "\n`````") {
		t.Errorf("got %q", text)
	}
}

// TestEnds checks that the end of the editor ends the agent's input and, after a while, the
// agent, and that the end of the agent answers what the editor waits for.
func TestEnds(t *testing.T) {
	s := newStand(t, "")
	s.begin()
	s.agent.to.Close()
	s.expect(s.editor, `"id":7`, "the agent has ended")
	<-s.done

	s = newStand(t, "")
	s.begin()
	_, _, replies := s.ask(t.Context())
	go io.Copy(io.Discard, s.editor.from)
	s.editor.to.Close()
	if reply := <-replies; reply.Verdict == tool.Approved {
		t.Errorf("the editor is gone: got %+v", reply)
	}
	if line, err := s.agent.from.ReadString('\n'); err != io.EOF {
		t.Errorf("the agent reads %q, %v, want the end of its input", line, err)
	}
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		t.Error("an agent that ignores the end of its input continues")
	}
}
