package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An acpEditor is an editor that runs golem acp.
type acpEditor struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.WriteCloser
	lines   chan string
	errors  strings.Builder
	calls   int
	session string
	// choose returns the kind of the option to choose for a question, "" for none.
	choose func(question acpMessage) string
	seen   []acpMessage // the messages that were no answers
}

// startEditor starts golem acp and opens a session in the directory of the command.
func startEditor(t *testing.T, cmd *exec.Cmd) *acpEditor {
	t.Helper()
	e := &acpEditor{t: t, cmd: cmd, lines: make(chan string, 1000)}
	var err error
	if e.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &e.errors
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.in.Close(); cmd.Process.Kill(); cmd.Wait() })
	go func() {
		defer close(e.lines)
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			e.lines <- line
		}
	}()
	hello := e.call("initialize", object{"protocolVersion": 1, "clientCapabilities": object{"fs": object{"readTextFile": true, "writeTextFile": true}, "terminal": true}})
	if strings.Contains(string(hello.Result), `"readTextFile":true`) {
		t.Errorf("the agent learns of files or terminals of the editor: %s", hello.Result)
	}
	begun := e.call("session/new", object{"cwd": cmd.Dir, "mcpServers": []any{}})
	var s struct{ SessionID string }
	if err := json.Unmarshal(begun.Result, &s); err != nil || s.SessionID == "" {
		t.Fatalf("no session: %v %+v\n%s", err, begun.Error, e.errors.String())
	}
	e.session = s.SessionID
	return e
}

func (e *acpEditor) send(m object) {
	e.t.Helper()
	m["jsonrpc"] = "2.0"
	data, err := json.Marshal(m)
	if err == nil {
		_, err = e.in.Write(append(data, '\n'))
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

// next returns the next message of golem. It answers questions.
func (e *acpEditor) next() (m acpMessage, ok bool) {
	e.t.Helper()
	select {
	case line, open := <-e.lines:
		if !open {
			return m, false
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			e.t.Fatalf("golem prints %q: %v", line, err)
		}
	case <-time.After(time.Minute):
		e.t.Fatalf("golem says nothing:\n%s", e.errors.String())
	}
	if m.Method == "session/request_permission" {
		var p struct {
			Options []struct{ OptionID, Kind string }
		}
		json.Unmarshal(m.Params, &p)
		outcome := object{"outcome": "cancelled"}
		kind := "allow_once"
		if e.choose != nil {
			kind = e.choose(m)
		}
		for _, o := range p.Options {
			if o.Kind == kind {
				outcome = object{"outcome": "selected", "optionId": o.OptionID}
			}
		}
		e.send(object{"id": m.ID, "result": object{"outcome": outcome}})
	}
	if m.Method != "" {
		e.seen = append(e.seen, m)
	}
	return m, true
}

// call makes a request and waits for its answer.
func (e *acpEditor) call(method string, params any) acpMessage {
	e.t.Helper()
	e.calls++
	e.send(object{"id": e.calls, "method": method, "params": params})
	for {
		m, ok := e.next()
		if !ok {
			e.cmd.Wait()
			e.t.Fatalf("golem has ended:\n%s", e.errors.String())
		}
		if m.Method == "" && string(m.ID) == fmt.Sprint(e.calls) {
			return m
		}
	}
}

// prompt has the agent do something, and returns what it said.
func (e *acpEditor) prompt(orders ...string) string {
	e.t.Helper()
	e.seen = nil
	e.call("session/prompt", object{"sessionId": e.session, "prompt": []object{{"type": "text", "text": strings.Join(orders, "\n")}}})
	return e.said()
}

// said returns the text of the updates so far.
func (e *acpEditor) said() string {
	var all strings.Builder
	for _, m := range e.seen {
		var p struct {
			Update struct{ Content struct{ Text string } }
		}
		if json.Unmarshal(m.Params, &p) == nil {
			all.WriteString(p.Update.Content.Text + "\n")
		}
	}
	return all.String()
}

// end closes the connection and returns what golem printed for the user.
func (e *acpEditor) end() string {
	e.t.Helper()
	e.in.Close()
	for range e.lines { // until golem has ended
	}
	e.cmd.Wait()
	return e.errors.String()
}

// TestACP has an editor work with an agent in the jail: at the real path of the project, with
// its changes in a session, and without the files and terminals of the editor.
func TestACP(t *testing.T) {
	t.Parallel()
	dir, _, golem := newTrustedProgram(t, map[string]string{"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay}\n", "old.txt": "old\n", "sub/in.txt": "in\n"})
	e := startEditor(t, golem("acp", "--name", "fix", "--", "acpagent"))
	said := e.prompt("write "+dir+"/made.txt made by the agent", "read "+dir+"/sub/in.txt", "sh pwd; ls -d "+filepath.Dir(dir)+"/*; cat /work/made.txt; mv sub moved; ls "+dir,
		"call fs/read_text_file", "call terminal/create", "ask", "print no message")
	for _, want := range []string{"wrote " + dir + "/made.txt", "in\n<nil>", dir + "\n" + dir + "\nmade by the agent\ngolem-forge.config.yaml\nmade.txt\nmoved\nold.txt\n",
		"golem does not let an agent use fs/read_text_file of the editor", "golem does not let an agent use terminal/create", `"optionId":"yes"`, "printed"} {
		if !strings.Contains(said, want) {
			t.Errorf("the editor does not see %q:\n%s", want, said)
		}
	}
	errs := e.end()
	for _, want := range []string{"and at its own path", "session fix (acpagent)", "the agent starts\\x1b[2J", "the agent printed a line that is no message"} {
		if !strings.Contains(errs, want) {
			t.Errorf("golem does not print %q:\n%s", want, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "made.txt")); err == nil {
		t.Error("the agent has changed the directory")
	}
	out, _ := golem("diff", "--name-only", "--session", "fix").CombinedOutput()
	if got := string(out); !strings.Contains(got, "made.txt") || !strings.Contains(got, "moved/in.txt") {
		t.Errorf("golem diff: %s", got)
	}
	if out, err := golem("apply", "--yes", "--session", "fix").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "made.txt")); string(data) != "made by the agent\n" {
		t.Errorf("applied: %q, %v", data, err)
	}
}

// TestACPReadWrite: with mode rw, changes reach the directory. What is read-only in it is so at
// both paths.
func TestACPReadWrite(t *testing.T) {
	t.Parallel()
	dir, _, golem := newTrustedProgram(t, map[string]string{"golem-forge.config.yaml": "sandbox: {root: ., mode: rw, mounts: [{source: ./kept, target: /kept, mode: ro}]}\n", "kept/file": "kept\n"})
	e := startEditor(t, golem("acp", "--approval", "approve_all", "--", "acpagent"))
	said := e.prompt("write "+dir+"/made.txt one", "sh cat /work/made.txt "+dir+"/kept/file", "write "+dir+"/kept/file two", "sh mv "+dir+"/kept "+dir+"/found; ls "+dir)
	if !strings.Contains(said, "one\nkept\n") || !strings.Contains(said, "kept/file: read-only file system") || strings.Contains(said, "found\n") {
		t.Errorf("the agent says:\n%s", said)
	}
	errs := e.end()
	if data, err := os.ReadFile(filepath.Join(dir, "made.txt")); string(data) != "one\n" {
		t.Errorf("got %q, %v\n%s", data, err, errs)
	}
}

// TestACPHosts: a question about a host goes to the editor, and its answer counts.
func TestACPHosts(t *testing.T) {
	t.Parallel()
	_, _, golem := newTrustedProgram(t, map[string]string{"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay}\nnetwork: {allow: [api.example.org], ask: true}\n"})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "the internet got %s\n", r.URL) }))
	t.Cleanup(proxy.Close)
	cmd := golem("acp", "--", "acpagent")
	cmd.Env = append(cmd.Env, "HTTP_PROXY="+proxy.URL)
	e := startEditor(t, cmd)
	kinds := map[string]string{"once.example": "allow_once", "no.example": "reject_once", "always.example": "allow_always", "cancelled.example": ""}
	asked := map[string]int{}
	e.choose = func(q acpMessage) string {
		for host, kind := range kinds {
			if strings.Contains(string(q.Params), host) {
				asked[host]++
				return kind
			}
		}
		return ""
	}
	var orders []string
	for host := range kinds {
		orders = append(orders, "get http://"+host+"/a", "get http://"+host+"/b")
	}
	said := e.prompt(orders...)
	for host, kind := range kinds {
		if yes := strings.HasPrefix(kind, "allow"); strings.Contains(said, "the internet got http://"+host) != yes {
			t.Errorf("%s: the agent reaches it: %v, want %v\n%s", host, !yes, yes, said)
		}
	}
	if asked["always.example"] != 1 || asked["no.example"] != 1 || asked["once.example"] < 1 {
		t.Errorf("golem asked %v times", asked)
	}
	e.end()
	out, _ := golem("audit", "export").CombinedOutput()
	if n := strings.Count(string(out), `"front":"shown by the editor"`); n < 3 {
		t.Errorf("the journal names the editor %d times:\n%s", n, out)
	}
	if out, _ := golem("approvals").CombinedOutput(); !strings.Contains(string(out), "may connect always.example, in this project") {
		t.Errorf("the rule is missing:\n%s", out)
	}
}

// TestACPDirectories: the editor cannot name a directory that the agent does not see, and golem
// refuses a project at a path that commands have themselves.
func TestACPDirectories(t *testing.T) {
	t.Parallel()
	dir, _, golem := newTrustedProgram(t, map[string]string{"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay}\n"})
	e := startEditor(t, golem("acp", "--", "acpagent"))
	if m := e.call("session/new", object{"cwd": filepath.Dir(dir), "mcpServers": []any{}}); m.Error == nil || !strings.Contains(m.Error.Message, "the agent sees only "+dir) {
		t.Errorf("got %+v", m)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if m := e.call("session/new", object{"cwd": link, "mcpServers": []any{}}); m.Error != nil {
		t.Errorf("by a symlink: %s", m.Error.Message)
	}
	e.end()
	cmd := golem("acp", "--", "acpagent")
	cmd.Dir = "/usr/share"
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "commands have /usr of their own") {
		t.Errorf("in /usr/share: %v\n%s", err, out)
	}
}

// TestACPKilled: when the editor or the agent ends, or golem is killed, nothing keeps running,
// and the changes are in the session.
func TestACPKilled(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"the editor", "golem", "golem at once", "the agent"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			_, _, golem := newTrustedProgram(t, map[string]string{"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay}\n"})
			cmd := golem("acp", "--name", "cut", "--", "acpagent")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			e := startEditor(t, cmd)
			e.prompt("write made.txt text")
			number := fmt.Sprint(100_000_000 + rand.IntN(100_000_000))
			order := "hang " + number
			if how == "the agent" {
				order = "exit"
			}
			e.send(object{"id": 99, "method": "session/prompt", "params": object{"sessionId": e.session, "prompt": []object{{"type": "text", "text": order}}}})
			if order != "exit" {
				for !strings.Contains(e.said(), "hanging") {
					e.next()
				}
				for !findProcess(number) {
					time.Sleep(10 * time.Millisecond)
				}
			} else if m, _ := e.next(); m.Error == nil || string(m.ID) != "99" {
				t.Errorf("got %+v, want the error of the prompt", m)
			}
			switch how {
			case "the editor":
				e.in.Close()
			case "golem":
				cmd.Process.Signal(syscall.SIGTERM)
			case "golem at once":
				cmd.Process.Kill()
			}
			e.end()
			for i := 0; findProcess(number); i++ {
				if i == 300 {
					t.Fatal("a process of the agent is left")
				}
				time.Sleep(50 * time.Millisecond)
			}
			if out, _ := golem("diff", "--name-only", "--session", "cut").CombinedOutput(); !strings.Contains(string(out), "made.txt") {
				t.Errorf("golem diff: %s", out)
			}
		})
	}
}

// findProcess reports whether a process has a text in its command line.
func findProcess(text string) bool {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil && strings.Contains(string(data), "sleep") && strings.Contains(string(data), text) {
			return true
		}
	}
	return false
}
