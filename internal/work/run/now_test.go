package run_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/run"
)

// TestNow checks that another process can read what a run does at the moment, without
// secrets and without much text.
func TestNow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := run.NewNow(dir, []string{"sesame-open"})
	wait := func(title, text string) {
		t.Helper()
		gotTitle, gotText := "", ""
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if gotTitle, gotText = run.ReadNow(dir); gotTitle == title && gotText == text {
				return
			}
		}
		t.Fatalf("got %q, %q; want %q, %q", gotTitle, gotText, title, text)
	}
	n.Tell(run.Event{Type: run.Piece, Worker: "main", Text: "I am "})
	n.Tell(run.Event{Type: run.Piece, Worker: "main", Text: "here"})
	wait("main writes", "I am here")
	n.Tell(run.Event{Type: run.Message, Worker: "main"})
	wait("", "")
	n.Tell(run.Event{Type: run.ToolCall, Worker: "main", Tool: "shell"})
	n.Output([]byte("the word is sesame-open\n"))
	wait("main calls shell", "the word is [a secret of the user's]\n")
	n.Output([]byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 10000)))
	n.Output([]byte("end\n"))
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, text := run.ReadNow(dir)
		if strings.HasSuffix(text, "x\nend\n") && len(text) < 40<<10 && len(text) > 30<<10 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a long output: got %d bytes", len(text))
		}
	}
	n.Tell(run.Event{Type: run.ToolResult, Worker: "main"})
	n.Close()
	time.Sleep(300 * time.Millisecond)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the file is still there: %v, %v", left, err)
	}
}
