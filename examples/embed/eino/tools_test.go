package eino

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"
	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
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

// A caller is a model that asks for one call after the other.
type caller struct {
	asked int
	got   []string // the last results
	tools []*schema.ToolInfo
}

func (c *caller) WithTools(list []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	c.tools = list
	return c, nil
}

func (c *caller) Generate(_ context.Context, messages []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	c.got = nil
	for _, m := range messages {
		if m.Role == schema.Tool {
			c.got = append(c.got, m.Content)
		}
	}
	if c.asked == len(inputs) {
		return schema.AssistantMessage("done", nil), nil
	}
	c.asked++
	call := schema.ToolCall{ID: "call-" + inputs[c.asked-1], Type: "function", Function: schema.FunctionCall{Name: "write_file", Arguments: inputs[c.asked-1]}}
	return schema.AssistantMessage("", []schema.ToolCall{call}), nil
}

func (c *caller) Stream(ctx context.Context, messages []*schema.Message, o ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	m, err := c.Generate(ctx, messages, o...)
	return schema.StreamReaderFromArray([]*schema.Message{m}), err
}

// TestAgent runs the ReAct agent of eino, which answers at once or as a stream.
func TestAgent(t *testing.T) {
	for _, stream := range []bool{false, true} {
		g, dir := open(t)
		list, err := Tools(g)
		if err != nil {
			t.Fatal(err)
		}
		m := &caller{}
		agent, err := react.NewAgent(t.Context(), &react.AgentConfig{ToolCallingModel: m, ToolsConfig: compose.ToolsNodeConfig{Tools: list}})
		if err != nil {
			t.Fatal(err)
		}
		question, answer := []*schema.Message{schema.UserMessage("Write.")}, (*schema.Message)(nil)
		if stream {
			reader, failed := agent.Stream(t.Context(), question)
			if failed != nil {
				t.Fatal(failed)
			}
			answer, err = reader.Recv()
		} else {
			answer, err = agent.Generate(t.Context(), question)
		}
		if err != nil || answer.Content != "done" {
			t.Fatalf("got %v, %v", answer, err)
		}
		check(t, dir, m.got)
		if len(m.tools) != len(list) {
			t.Errorf("the model got %d tools, want %d", len(m.tools), len(list))
		}
	}
}

// TestSchemas compares the schemas that a model gets with those of the gate.
func TestSchemas(t *testing.T) {
	g, _ := open(t)
	list, err := Tools(g)
	if err != nil || len(list) != len(gate.FileTools()) {
		t.Fatalf("got %d, %v", len(list), err)
	}
	for i, offered := range g.Offer(gate.Model) {
		info, err := list[i].Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		parameters, err := info.ToJSONSchema()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(parameters)
		if err != nil {
			t.Fatal(err)
		}
		original, err := offered.Schema()
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if json.Unmarshal(text, &got) != nil || json.Unmarshal(original, &want) != nil || !reflect.DeepEqual(got, want) || info.Name != offered.Name {
			t.Errorf("%s: got\n%s\nwant\n%s", info.Name, text, original)
		}
	}
}

// TestOffer keeps back a tool that is not granted.
func TestOffer(t *testing.T) {
	g, _ := open(t)
	g.Grant.Tools = []string{"read_file"}
	list, err := Tools(g)
	if err != nil || len(list) != 1 {
		t.Fatalf("got %v, %v", list, err)
	}
	if info, err := list[0].Info(t.Context()); err != nil || info.Name != "read_file" {
		t.Errorf("got %v, %v", info, err)
	}
}
