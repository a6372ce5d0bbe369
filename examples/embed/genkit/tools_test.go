package genkit

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"
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

// generate runs a model that asks for one call after the other. It returns the last request that
// the model got, and the results in it.
func generate(t *testing.T, g gate.Gate, name string, inputs ...string) (last *ai.ModelRequest, results []string) {
	t.Helper()
	list, err := Tools(g)
	if err != nil {
		t.Fatal(err)
	}
	kit, asked := genkit.Init(t.Context()), 0
	model := genkit.DefineModel(kit, "test/caller", &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true}},
		func(_ context.Context, r *ai.ModelRequest, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
			last = r
			if asked == len(inputs) {
				return &ai.ModelResponse{Request: r, Message: ai.NewModelTextMessage("done")}, nil
			}
			var input any
			if err := json.Unmarshal([]byte(inputs[asked]), &input); err != nil {
				return nil, err
			}
			asked++
			call := ai.NewToolRequestPart(&ai.ToolRequest{Name: name, Input: input})
			return &ai.ModelResponse{Request: r, Message: ai.NewModelMessage(call)}, nil
		})
	response, err := genkit.Generate(t.Context(), kit, ai.WithModel(model), ai.WithPrompt("Write."), ai.WithTools(list...))
	if err != nil || response.Text() != "done" {
		t.Fatalf("got %v, %v", response, err)
	}
	for _, m := range last.Messages {
		for _, p := range m.Content {
			if p.IsToolResponse() {
				text, _ := p.ToolResponse.Output.(string)
				results = append(results, text)
			}
		}
	}
	return last, results
}

// TestGenerate has a model write files.
func TestGenerate(t *testing.T) {
	g, dir := open(t)
	_, got := generate(t, g, "write_file", inputs...)
	check(t, dir, got)
}

// TestNoArguments has a model call a tool without arguments.
func TestNoArguments(t *testing.T) {
	g, _ := open(t)
	if _, got := generate(t, g, "list_files", "null"); len(got) != 1 || !strings.Contains(got[0], "out/") {
		t.Errorf("got %q", got)
	}
}

// TestSchemas compares the schemas that a model gets with those of the gate.
func TestSchemas(t *testing.T) {
	g, _ := open(t)
	request, _ := generate(t, g, "")
	sent := map[string]*ai.ToolDefinition{}
	for _, d := range request.Tools {
		sent[d.Name] = d
	}
	if len(sent) != len(gate.FileTools()) {
		t.Errorf("got %d tools", len(sent))
	}
	for _, offered := range g.Offer(gate.Model) {
		original, err := offered.Schema()
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal(original, &want); err != nil {
			t.Fatal(err)
		}
		if got := sent[offered.Name]; got == nil || got.Description != offered.Description || !reflect.DeepEqual(got.InputSchema, want) {
			t.Errorf("%s: got %+v", offered.Name, got)
		}
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
