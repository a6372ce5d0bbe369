package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/run"
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

// TestReportAnswer checks that a pipe and JSON get the answer of a model as it is, except
// for control characters, and that a full disk is noticed.
func TestReportAnswer(t *testing.T) {
	const said = "❤\ufe0f 10\u202f000\u00a0€ 👩\u200d👧 שלום!\u200f \x1b[2J"
	want := strings.ReplaceAll(said, "\x1b", `\x1b`)
	for _, asJSON := range []bool{true, false} {
		var out bytes.Buffer
		to := visible.NewWriter(&out)
		r := &report{out: to, errs: to, json: asJSON, args: make(map[string]run.Event)}
		if asJSON {
			r.tell(run.Event{Type: run.Message, Worker: "main", Chain: []string{"main"}, Text: said})
		}
		r.answered(run.Outcome{End: run.Finished, Text: said})
		got := strings.TrimSuffix(out.String(), "\n")
		if asJSON {
			var e run.Event
			if err := json.Unmarshal(out.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			got = e.Text
		}
		if got != want {
			t.Errorf("json %v: got %q, want %q", asJSON, got, want)
		}
	}
	full := visible.NewWriter(failing{})
	(&report{out: full, errs: full}).answered(run.Outcome{End: run.Finished, Text: said})
	if full.Err() == nil {
		t.Error("a failure to write the answer was lost")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }
