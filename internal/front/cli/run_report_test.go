package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/run"
	"github.com/golem-forge/golem/internal/visible"
)

// TestReportHostile checks that each event is one line of JSON or of the tree, for any
// name and arguments of a tool.
func TestReportHostile(t *testing.T) {
	no := false
	for _, text := range []string{"a\nmain  write_file /etc/passwd  created", "\x1b[2J", "\U000e0041", "\x7f", "\u202e", "\u009b", "\xff\xfe", "\r", "\u2028", strings.Repeat("\u0301", 9)} {
		args, err := json.Marshal(map[string]string{"path": text})
		if err != nil {
			t.Fatal(err)
		}
		raw := json.RawMessage(`{"path":"` + strings.NewReplacer("\n", `\n`, "\r", `\r`, "\x1b", `\u001b`).Replace(text) + `"}`)
		for _, args := range []json.RawMessage{args, raw} {
			for _, asJSON := range []bool{true, false} {
				var out bytes.Buffer
				to := visible.NewWriter(&out)
				r := &report{out: to, errs: to, json: asJSON, args: make(map[string]run.Event)}
				r.tell(run.Event{Type: run.ToolCall, Worker: "main", Chain: []string{"main"}, Call: "1", Tool: text, Args: args})
				r.tell(run.Event{Type: run.ToolResult, Worker: "main", Chain: []string{"main"}, Call: "1", Tool: text, OK: &no, Code: "blocked", Hint: text})
				if err := to.Close(); err != nil {
					t.Fatal(err)
				}
				lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
				if want := map[bool]int{true: 2, false: 1}[asJSON]; len(lines) != want {
					t.Errorf("%q: %d lines, want %d: %q", text, len(lines), want, lines)
				}
				for _, line := range lines {
					if asJSON && !json.Valid([]byte(line)) {
						t.Errorf("%q: no JSON: %s", text, line)
					}
				}
			}
		}
	}
}
