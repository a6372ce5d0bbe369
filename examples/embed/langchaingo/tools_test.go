package langchaingo

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/fake"
)

// An approver looks at every page and approves all files but no.md.
type approver struct{ t *testing.T }

func (a approver) Approve(_ context.Context, r gate.Request) gate.Decision {
	if strings.Contains(string(r.Args()), "no.md") {
		return r.Decline("ann", "not this file")
	}
	view := r.Render(80, 24)
	var text strings.Builder
	view.WriteTo(&text)
	seen, err := view.Seen()
	if err != nil || !strings.Contains(text.String(), "+ hello") {
		a.t.Errorf("got %v, and this text:\n%s", err, &text)
	}
	return seen.Approve("ann")
}

// open returns a gate and the directory that it calls /out.
func open(t *testing.T) (g gate.Gate, dir string) {
	t.Helper()
	dir = t.TempDir()
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/out", Source: sandbox.Host(dir), Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	journal, err := gate.OpenJournal(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { journal.Close() })
	return gate.Gate{Tools: gate.FileTools(), Files: files, Grant: gate.GrantAll(), Approver: approver{t}, Journal: journal}, dir
}

// check compares the directory and the texts that the model got after its calls: an invalid one,
// one for no.md, one for yes.md.
func check(t *testing.T, dir string, got []string) {
	t.Helper()
	want := []string{"content", "not this file", "created"}
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("got %q, want %s", got[i], want[i])
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v", entries, err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "yes.md")); err != nil || string(content) != "hello" {
		t.Errorf("got %q, %v", content, err)
	}
}

// inputs are the arguments of the calls that the model asks for.
var inputs = []string{`{"path": "/out/bad.md"}`, `{"path": "/out/no.md", "content": "hello"}`, `{"path": "/out/yes.md", "content": "hello"}`}

// A recorder keeps what the model of langchaingo's tests gets.
type recorder struct {
	*fake.LLM
	prompts []string
}

func (r *recorder) GenerateContent(ctx context.Context, m []llms.MessageContent, o ...llms.CallOption) (*llms.ContentResponse, error) {
	text, err := json.Marshal(m)
	r.prompts = append(r.prompts, string(text))
	if err != nil {
		return nil, err
	}
	return r.LLM.GenerateContent(ctx, m, o...)
}

// TestOneShotAgent runs an agent whose model asks for tools in its text.
func TestOneShotAgent(t *testing.T) {
	g, dir := open(t)
	list, err := Tools(g)
	if err != nil {
		t.Fatal(err)
	}
	model := &recorder{LLM: fake.NewFakeLLM(nil)}
	for _, input := range inputs {
		model.AddResponse("Action: write_file\nAction Input: " + input)
	}
	model.AddResponse("Final Answer: done")
	answer, err := chains.Run(t.Context(), agents.NewExecutor(agents.NewOneShotAgent(model, list)), "Write.")
	if err != nil || answer != "done" {
		t.Fatalf("got %q, %v", answer, err)
	}
	if !strings.Contains(model.prompts[0], `its whole new text`) {
		t.Errorf("the prompt has no schema:\n%s", model.prompts[0])
	}
	last := strings.Split(model.prompts[3], "Observation: ")
	check(t, dir, last[len(last)-3:])
}

// A caller is a model that asks for tools as models of OpenAI do.
type caller struct {
	asked int
	got   []string // the last results
	tools []llms.Tool
}

func (c *caller) Call(context.Context, string, ...llms.CallOption) (string, error) { return "", nil }

func (c *caller) GenerateContent(_ context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	c.got = nil
	for _, m := range messages {
		for _, p := range m.Parts {
			if response, ok := p.(llms.ToolCallResponse); ok {
				c.got = append(c.got, response.Content)
			}
		}
	}
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	c.tools = o.Tools
	if c.asked == len(inputs) {
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "done"}}}, nil
	}
	c.asked++
	call := llms.ToolCall{ID: "call-" + inputs[c.asked-1], Type: "function", FunctionCall: &llms.FunctionCall{Name: "write_file", Arguments: inputs[c.asked-1]}}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{ToolCalls: []llms.ToolCall{call}}}}, nil
}

// TestFunctionsAgent runs an agent whose model calls functions.
func TestFunctionsAgent(t *testing.T) {
	g, dir := open(t)
	list, err := Tools(g)
	if err != nil {
		t.Fatal(err)
	}
	model := &caller{}
	answer, err := chains.Run(t.Context(), agents.NewExecutor(agents.NewOpenAIFunctionsAgent(model, list)), "Write.")
	if err != nil || answer != "done" {
		t.Fatalf("got %q, %v", answer, err)
	}
	check(t, dir, model.got)
}

// TestWithoutAgent sends the definitions and answers the model in a loop.
func TestWithoutAgent(t *testing.T) {
	g, dir := open(t)
	definitions, err := Definitions(g)
	if err != nil {
		t.Fatal(err)
	}
	model, messages := &caller{}, []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "Write.")}
	for range len(inputs) + 1 {
		response, err := model.GenerateContent(t.Context(), messages, llms.WithTools(definitions))
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, Answer(t.Context(), g, response.Choices[0].ToolCalls)...)
	}
	check(t, dir, model.got)
	sent, err := json.Marshal(model.tools)
	if err != nil || !strings.Contains(string(sent), `"required":["path","content"]`) {
		t.Errorf("got %s, %v", sent, err)
	}
}

// TestOffer keeps back a tool that is not granted.
func TestOffer(t *testing.T) {
	g, _ := open(t)
	g.Grant.Tools = []string{"read_file"}
	list, err := Tools(g)
	if err != nil || len(list) != 1 || list[0].Name() != "read_file" {
		t.Errorf("got %v, %v", list, err)
	}
}
