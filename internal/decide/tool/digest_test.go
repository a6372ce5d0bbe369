package tool_test

import (
	"encoding/json"
	"testing"

	"github.com/golem-forge/golem/internal/decide/tool"
)

// TestCheckDigests checks that a stored request cannot show another call than its digest means.
func TestCheckDigests(t *testing.T) {
	r, err := tool.NewConnectRequest([]string{"main"}, "harmless.example", []uint16{443}, "curl", "")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*tool.Request){
		"nothing":   func(*tool.Request) {},
		"arguments": func(r *tool.Request) { r.Args = json.RawMessage(`{"host":"collector.example"}`) },
		"tool":      func(r *tool.Request) { r.Tool = "read_file" },
		"effects":   func(r *tool.Request) { r.Effects = nil },
		"taint":     func(r *tool.Request) { r.Taint = "/inbox" },
		"changes":   func(r *tool.Request) { r.Changes = []tool.Change{{Path: "/a", Op: tool.Create}} },
		"omitted arguments": func(r *tool.Request) {
			r.Args, r.Changes = json.RawMessage(`{}`), []tool.Change{{Omitted: tool.OmittedStored}}
		},
	} {
		var stored tool.Request
		if err := json.Unmarshal(text, &stored); err != nil {
			t.Fatal(err)
		}
		change(&stored)
		if err := stored.CheckDigests(); (err == nil) != (name == "nothing") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
