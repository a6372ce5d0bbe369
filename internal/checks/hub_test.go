package checks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHubGuide runs the transcripts of docs/hub.md. Blocks of the language sh start the hub and
// the node, which run until the end. Before each transcript the jobs have come to rest.
func TestHubGuide(t *testing.T) {
	const document = "docs/hub.md"
	s := newStage(t, golem(t))
	build(t, filepath.Join(s.bin, "golem-hub"), "./cmd/golem-hub")
	commands, started := 0, 0
	for _, b := range blocks(t, document) {
		if b.lang == "sh" {
			started++
			s.begin(strings.TrimSpace(b.text))
			continue
		}
		if b.lang == "console" || b.lang == "terminal" {
			s.settle(b.text)
		}
		commands += s.block(document, b)
	}
	if commands < 8 || started != 2 {
		t.Errorf("%s: found %d commands and %d programs to start: the test checks nothing", document, commands, started)
	}
}

// begin starts a program in the background. A hub listens at any free port: the credentials name
// it.
func (s *stage) begin(line string) {
	s.Helper()
	words := strings.Fields(line)
	if words[1] == "hub" {
		words = append(words, "--listen", "127.0.0.1:0")
	}
	cmd := s.command(s.Context(), filepath.Join(s.bin, words[0]), words[1:]...)
	log := filepath.Join(s.bin, words[1]+".log")
	out, err := os.Create(log)
	if err != nil {
		s.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { end(cmd) })
	for range 200 {
		if text, _ := os.ReadFile(log); strings.Contains(string(text), "\n") {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(log)
	s.Fatalf("%s does not start: %s", line, text)
}

// end ends a program as Ctrl-C does.
func end(cmd *exec.Cmd) {
	cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer late.Stop()
	cmd.Wait()
}

// settle waits until the jobs have come as far as the transcript shows: a call waits, or all are
// done.
func (s *stage) settle(transcript string) {
	s.Helper()
	want := ""
	switch {
	case strings.Contains(transcript, "1 call waits"):
		want = "1 call waits"
	case strings.Contains(transcript, "  done  "):
		want = "  done  "
	default:
		return
	}
	got := ""
	for range 200 {
		if got, _ = s.run(filepath.Join(s.bin, "golem"), "jobs"); strings.Contains(got, want) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.Fatalf("the jobs do not come so far:\n%s\nwant: %s", got, want)
}
