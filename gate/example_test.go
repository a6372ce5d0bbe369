package gate_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
)

// ask asks a person about every call that a rule does not approve in advance.
func ask(_ context.Context, r gate.Request) gate.Decision {
	view := r.Render(72, 24)
	view.WriteTo(os.Stdout) // here somebody reads it
	seen, err := view.Seen()
	if err != nil {
		return r.Decline("ann", err.Error())
	}
	return seen.Approve("ann")
}

func Example() {
	dir, err := os.MkdirTemp("", "gate")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/out", Source: sandbox.Host(dir), Access: sandbox.ReadWrite}}})
	if err != nil {
		log.Fatal(err)
	}
	state, err := os.MkdirTemp("", "journal") // not among the files of the gate
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(state)
	journal, err := gate.OpenJournal(state, time.Now)
	if err != nil {
		log.Fatal(err)
	}
	defer journal.Close()
	g := gate.Gate{Tools: gate.FileTools(), Files: files, Grant: gate.GrantAll(), Approver: gate.ApproverFunc(ask), Journal: journal, Worker: "writer"}
	result := g.Do(context.Background(), gate.Model, gate.Call{Tool: "write_file", Args: []byte(`{"path": "/out/note.md", "content": "hello\n"}`)})
	fmt.Println("done:", result.Err == nil)
	// Output:
	//   writer wants to create /out/note.md (1 line; 6 bytes)
	//   (tool write_file, network off, asked by default)
	//   @ @@ -0,0 +1 @@
	//   + hello
	// done: true
}

func ExampleEdit() {
	type arguments struct {
		Line string `json:"line" jsonschema:"what to add"`
	}
	tool := gate.New(gate.Tool{Name: "add_note", Description: "Adds a line to the notes."}, func(_ context.Context, a arguments) (gate.Plan, error) {
		return gate.Edit("/out/notes.md", func(old []byte) ([]byte, error) { return append(old, a.Line+"\n"...), nil }), nil
	})
	schema, err := tool.Schema()
	fmt.Println(string(schema), err)
	// Output: {"type":"object","properties":{"line":{"type":"string","description":"what to add"}},"required":["line"],"additionalProperties":false} <nil>
}
