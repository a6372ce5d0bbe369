package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestChat types messages at a terminal: of several lines, pasted, from the history and with
// completion. golem reads lines at a terminal that cannot move the cursor.
func TestChat(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, nil, "true")
	p.write("main.worker", "---\nsandbox: inherit\ntoolsets: [filesystem]\nmax_context_tokens: 1000\n---\nTalk.\n")
	p.write("golem-forge.config.yaml", "sandbox: {root: ., mode: overlay}\n")
	p.write("demo.yaml", `main:
  - expect: (?s)first\nsecond$
    text: two lines
    usage: {input: 200, output: 50}
  - expect: (?s)one\n    two\nthree$
    text: pasted
    usage: {input: 300, output: 50}
  - expect: (?s)one\n    two\nthree$
    text: again
    usage: {input: 400, output: 50}
`)
	if out, code := p.golem("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	p.startAt(100, "run", ".", "--model", "scripted:demo.yaml")
	modes := func() *unix.Termios {
		t.Helper()
		m, err := unix.IoctlGetTermios(int(p.person.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	before := *modes()
	p.typeKeys("type a message", "")
	p.typeKeys("> ", "wrong")
	p.typeKeys("wrong", "\x03") // Ctrl-C deletes the line
	p.typeKeys("", "/too\tread_f\t")
	p.typeKeys("/tool read_file", "\x03")
	p.typeKeys("", "first\nsecond")
	p.typeKeys("first␤second", "\r")
	p.typeKeys("two lines", "")
	p.typeKeys("; 25 % of the context", "")
	p.typeKeys("> ", "\x1b[200~one\r\n\ttwo\nthree\x1b[201~")
	p.typeKeys("one␤    two␤three", "\r")
	p.typeKeys("pasted", "")
	p.typeKeys("; 35 % of the context", "")
	p.typeKeys("> ", "\x1b[A")
	p.typeKeys("one␤    two␤three", "\r")
	p.typeKeys("again", "")
	p.typeKeys("; 45 % of the context", "")
	p.typeKeys("> ", "\x03")
	p.typeKeys("Ctrl-C again ends the chat", "\x03")
	code, seen := p.waitForEnd()
	if code != 130 || !strings.Contains(seen, "200 tokens in, 50 out") || !strings.Contains(seen, "--resume") {
		t.Errorf("code %d\n%q", code, seen)
	}
	if after := *modes(); after.Lflag != before.Lflag || after.Iflag != before.Iflag || after.Oflag != before.Oflag {
		t.Errorf("the modes of the terminal: got %+v, want %+v", after, before)
	}

	plain := p.forTest(t)
	plain.env = append(plain.env, "TERM=dumb")
	plain.startAt(100, "run", ".", "--model", "scripted:demo.yaml")
	plain.typeKeys("type a message", "/help\r")
	plain.typeKeys("/tool NAME", "/compact\r")
	plain.typeKeys("there is nothing to summarise yet", "/exit\r")
	if code, seen := plain.waitForEnd(); code != 0 || strings.Contains(seen, "\x1b[?2004h") {
		t.Errorf("without a cursor: code %d\n%q", code, seen)
	}
}

// TestChatCommands reviews, applies and undoes the changes of a chat in it, attaches a file, and
// lets another model answer.
func TestChatCommands(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, nil, "true")
	p.write("main.worker", `---
sandbox: inherit
toolsets: [filesystem]
compatible_models: ["scripted:one.yaml", "scripted:two.yaml"]
---
Talk.
`)
	p.write("golem-forge.config.yaml", "sandbox:\n  root: .\n  mode: overlay\n  mounts:\n    - {source: ./blocked, target: /blocked, approval: {read: blocked}}\n")
	p.write("note.txt", "the words of the note")
	p.mkdir("blocked")
	p.write("blocked/b.txt", "blocked words")
	p.write("../outside.txt", "words outside")
	if err := os.Symlink("../outside.txt", filepath.Join(p.dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	p.write("one.yaml", `main:
  - calls: [{tool: write_file, args: {path: /a.txt, content: "made\n"}}]
  - text: the file is there
`)
	p.write("forbidden.yaml", "main:\n  - text: no\n")
	p.write("two.yaml", "main:\n  - text: \"1\"\n  - text: \"2\"\n  - expect: look at @note.txt, and @gone.txt\n    text: the second model\n  - text: the third answer\n")
	if out, code := p.golem("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	p.env = append(p.env, "TERM=dumb", "GOLEM_PAGER=cat")
	p.startAt(100, "run", ".", "--model", "scripted:one.yaml", "--record", "../record.jsonl")
	p.typeKeys("type a message", "write it\r")
	p.typeKeys("the file is there", "")
	p.typeKeys("> ", "/diff\r")
	p.typeKeys("+ made", "/apply\r")
	p.typeKeys("┃ > ", "y\r")
	p.typeKeys("applied", "")
	if got := p.read("a.txt"); got != "made\n" {
		t.Errorf("after /apply: %q", got)
	}
	p.typeKeys("> ", "/undo\r")
	p.typeKeys("┃ > ", "y\r")
	p.typeKeys("undone", "")
	if got := p.read("a.txt"); got != "" {
		t.Errorf("after /undo: %q", got)
	}
	p.write("a.txt", "mine\n")
	p.typeKeys("> ", "/apply a.txt\r")
	p.typeKeys("/apply --overwrite a.txt takes the session's", "/discard\r")
	p.typeKeys("┃ > ", "y\r")
	p.typeKeys("discarded", "/apply\r")
	p.typeKeys("has no changes to apply", "fail\r")
	p.typeKeys("another is asked for", "/model\r")
	p.typeKeys("scripted:one.yaml answers", "/model scripted:forbidden.yaml\r")
	p.typeKeys("scripted:one.yaml still answers", "/model scripted:two.yaml\r")
	p.typeKeys("scripted:two.yaml answers from now on", "look at @note.txt, and @gone.txt\r")
	p.typeKeys("attached note.txt, 21 bytes", "")
	p.typeKeys("@gone.txt is sent as text", "")
	outside := filepath.Join(filepath.Dir(p.dir), "outside.txt")
	p.typeKeys("the second model", "also @blocked/b.txt @../outside.txt @"+outside+" @link.txt @/outside.txt\r")
	p.typeKeys("@blocked/b.txt is sent as text", "")
	p.typeKeys("@../outside.txt is sent as text", "")
	p.typeKeys("@"+outside+" is sent as text", "")
	p.typeKeys("@link.txt is sent as text", "")
	p.typeKeys("the third answer", "/exit\r")
	code, seen := p.waitForEnd()
	if code != 0 || strings.Count(seen, "the file is there") != 1 || !strings.Contains(seen, "it is written for") {
		t.Errorf("code %d\n%q", code, seen)
	}
	record := p.read("../record.jsonl")
	if note := base64.StdEncoding.EncodeToString([]byte("the words of the note")); strings.Count(record, note) != 2 { // once in each of the two requests after it
		t.Errorf("the models got the file %d times, want it once in each request", strings.Count(record, note))
	}
	for _, text := range []string{"blocked words", "words outside"} {
		if strings.Contains(record, text) || strings.Contains(record, base64.StdEncoding.EncodeToString([]byte(text))) {
			t.Errorf("a model got a file that the worker may not read: %s", text)
		}
	}
}

// TestCompactChat summarises a chat with a model of its own. The next answer comes from the
// shorter conversation, and golem sessions show says what was done.
func TestCompactChat(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, nil, "true")
	p.write("main.worker", "---\nsandbox: inherit\n---\nTalk.\n")
	p.write("golem-forge.config.yaml", "sandbox: {root: ., mode: overlay}\nsummary_model: scripted:summary.yaml\n")
	long := strings.Repeat("much to say ", 200)
	p.write("demo.yaml", "main:\n  - text: one "+long+"\n  - text: two "+long+"\n  - text: three\n  - text: the end\n")
	p.write("summary.yaml", "- expect: the worker writes. one much to say\n  text: it said much\n")
	if out, code := p.golem("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	p.env = append(p.env, "TERM=dumb")
	p.startAt(100, "run", ".", "--model", "scripted:demo.yaml")
	p.typeKeys("type a message", "first\r")
	p.typeKeys("one much", "")
	p.typeKeys("> ", "second\r")
	p.typeKeys("two much", "")
	p.typeKeys("> ", "third\r")
	p.typeKeys("three", "")
	p.typeKeys("> ", "/compact\r")
	p.typeKeys("golem: summarised 0 calls, ", "last\r")
	p.typeKeys("the end", "")
	p.typeKeys("> ", "/exit\r")
	if code, seen := p.waitForEnd(); code != 0 {
		t.Errorf("code %d\n%q", code, seen)
	}
	if out, code := p.golem("sessions", "show"); code != 0 || !strings.Contains(out, "summarised 0 calls, ") {
		t.Errorf("code %d\n%s", code, out)
	}
}

// TestRecordedSummary records a run with a summary by another model, and plays it again
// without either model.
func TestRecordedSummary(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 1500)
	script := "main:\n"
	for i := range 6 {
		script += fmt.Sprintf("  - calls: [{tool: read_file, args: {path: /long.txt, limit: %d}}]\n", i+1)
	}
	_, _, golem := newTrustedProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay}\nsummary_model: scripted:summary.yaml\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets: [filesystem]\nmax_context_tokens: 3000\n---\nWork.\n",
		"demo.yaml":               script + "  - text: all done\n",
		"summary.yaml":            "golem summary:\n  each:\n    - text: it read a file\n",
		"long.txt":                long + "\n",
	})
	for _, args := range [][]string{{"--model", "scripted:demo.yaml", "--record", "../record.jsonl"}, {"--model", "replay:../record.jsonl"}} {
		out, err := golem(append([]string{"run", ".", "go"}, args...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "all done") || !strings.Contains(string(out), "summarised ") || strings.Contains(string(out), "could not") {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
}
