package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// askHosts are a directory with network.ask, and an internet that answers for all hosts.
type askHosts struct {
	t      *testing.T
	golem  func(args ...string) *exec.Cmd
	person *os.File
	screen *testutil.Screen
	cmd    *exec.Cmd
}

func newAskHosts(t *testing.T) *askHosts {
	_, _, golem := newTrustedProgram(t, map[string]string{"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay}\nnetwork: {allow: [api.example.org], ask: true}\n"})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "the internet got %s\n", r.URL) }))
	t.Cleanup(proxy.Close)
	a := &askHosts{t: t}
	a.golem = func(args ...string) *exec.Cmd {
		cmd := golem(args...)
		cmd.Env = append(cmd.Env, "HTTP_PROXY="+proxy.URL, "TERM=xterm", "NO_COLOR=1")
		return cmd
	}
	return a
}

// start runs a shell line in the jail, at a terminal.
func (a *askHosts) start(line string) {
	a.t.Helper()
	a.startAt("exec", "--", "sh", "-c", line)
}

// attach takes the terminal of a session in the background.
func (a *askHosts) attach(id string) {
	a.t.Helper()
	a.startAt("attach", id)
}

// startAt runs golem at a terminal.
func (a *askHosts) startAt(args ...string) {
	a.t.Helper()
	person, terminal := newTerminal(a.t)
	a.person, a.screen = person, testutil.NewScreen(a.t)
	go a.screen.Watch(person)
	a.cmd = a.golem(args...)
	a.cmd.Stdin, a.cmd.Stdout, a.cmd.Stderr = terminal, terminal, terminal
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	terminal.Close()
}

func (a *askHosts) press(keys string) {
	a.t.Helper()
	if _, err := a.person.WriteString(keys); err != nil {
		a.t.Fatal(err)
	}
}

// answer waits for the question about a host, and types an answer.
func (a *askHosts) answer(host, keys string) {
	a.t.Helper()
	a.screen.Until("project wants to connect " + host)
	a.screen.Until("┃ > ")
	a.press(keys)
}

// end waits for the end of golem, and returns the screen.
func (a *askHosts) end() string {
	a.cmd.Wait()
	<-a.screen.Over()
	seen, _ := a.screen.Seen()
	return seen
}

// output runs a command without a terminal.
func (a *askHosts) output(args ...string) string {
	out, _ := a.golem(args...).CombinedOutput()
	return string(out)
}

// TestAskHostFullScreen: a question about a host interrupts a program that uses the whole
// screen. Afterwards the program draws again, and has its settings and keys.
func TestAskHostFullScreen(t *testing.T) {
	t.Parallel()
	a := newAskHosts(t)
	a.start(`printf '\033[?1049h\033[?2004h\033[?25l\033[3;9rdrawn\n'
trap 'echo redrawn $(stty size)' WINCH
curl -sS http://more.example/ >out 2>&1 &
for i in 1 2 3 4 5 6; do wait $! && break; done
cat out; read key; echo "it read $key"; stty -a`)
	a.screen.Until("drawn")
	a.screen.Until("\x1b[?2004l") // the program's settings do not apply to the question
	a.answer("more.example", "y\r")
	a.screen.Until("\x1b[3;9r\x1b[?25l\x1b[?2004h")
	a.screen.Until("redrawn 24 80")
	a.screen.Until("the internet got http://more.example/")
	a.press("letters\r")
	a.screen.Until("it read letters")
	seen := a.end()
	for _, want := range []string{"because of a connection of curl (pid ", " in session ", "[y]es  [n]o  [e] yes, until the command ends  [a]lways in this project"} {
		if !strings.Contains(seen, want) {
			t.Errorf("the screen lacks %q:\n%s", want, seen)
		}
	}
	if entered, left := strings.Count(seen, "\x1b[?1049h"), strings.Count(seen, "\x1b[?1049l"); entered != 1 || left != 1 {
		t.Errorf("the alternate screen was entered %d times and left %d times, want 1 and 1:\n%q", entered, left, seen)
	}
}

// TestAskHostLines: a program that prints lines keeps its screen. A yes until the end of
// the command, a rule, a no, and no more questions have the effects that the keys promise.
func TestAskHostLines(t *testing.T) {
	t.Parallel()
	a := newAskHosts(t)
	a.start(`echo before; curl -sS http://one.example/; curl -sS http://one.example/again
curl -sS http://two.example/; curl -sS http://three.example/; curl -sS http://three.example/again; curl -sS http://four.example/; echo after`)
	a.screen.Until("before")
	a.screen.Until("\x1b[?1049h")
	a.answer("one.example", "x\r")
	a.screen.Until("please answer")
	a.screen.Until("┃ > ")
	a.press("e\r")
	a.screen.Until("\x1b[?1049l")
	a.screen.Until("the internet got http://one.example/again")
	a.answer("two.example", "a\r")
	a.screen.Until("the internet got http://two.example/")
	a.answer("three.example", "n\r")
	a.answer("four.example", "never\r")
	a.screen.Until("after")
	seen := a.end()
	if n := strings.Count(seen, "wants to connect"); n != 4 {
		t.Errorf("%d questions, want 4:\n%s", n, seen)
	}
	if out := a.output("exec", "--", "curl", "-sS", "http://two.example/"); !strings.Contains(out, "the internet got http://two.example/") {
		t.Errorf("the rule does not count: %s", out)
	}
	if out := a.output("exec", "--", "curl", "-sS", "http://one.example/"); strings.Contains(out, "the internet got") {
		t.Errorf("a yes until the end of the command counts later: %s", out)
	}
	if out := a.output("exec", "--", "curl", "-sS", "http://four.example/"); strings.Contains(out, "the internet got") || strings.Contains(out, "it asked for four.example") {
		t.Errorf("golem asks again after never: %s", out)
	}
	if out := a.output("approvals"); !strings.Contains(out, "may never connect four.example") {
		t.Errorf("the rules are not listed:\n%s", out)
	}
	if out := a.output("audit", "show", "--kind", "answer"); !strings.Contains(out, "connect one.example  yes (user") || !strings.Contains(out, "connect three.example  no (user") {
		t.Errorf("the journal has no approvals:\n%s", out)
	}
}

// TestAskHostStop: Ctrl-C at a question is no, and ends the questions. It does not reach
// the program.
func TestAskHostStop(t *testing.T) {
	t.Parallel()
	a := newAskHosts(t)
	a.start(`curl -sS http://one.example/; curl -sS http://two.example/; echo after`)
	a.answer("one.example", "\x03")
	a.screen.Until("after")
	seen := a.end()
	if strings.Contains(seen, "connect two.example") || a.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("code %d:\n%s", a.cmd.ProcessState.ExitCode(), seen)
	}
	if out := a.output("approvals"); !strings.Contains(out, "connect two.example") || strings.Contains(out, "one.example") {
		t.Errorf("approvals: %s", out)
	}
}

// TestAskHostLate: a connection waits as long as the question is open. If the program gives
// up before, a yes lets its next connection pass.
func TestAskHostLate(t *testing.T) {
	t.Parallel()
	a := newAskHosts(t)
	a.start(`curl -sS --max-time 1 http://one.example/; until curl -sS --max-time 1 http://one.example/again; do sleep 0.1; done; echo after`)
	a.screen.Until("wants to connect one.example")
	a.screen.Until("┃ > ")
	for range 300 {
		if strings.Contains(a.output("audit", "show", "--net"), "nobody allowed one.example in time") {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	a.press("y\r")
	a.screen.Until("the internet got http://one.example/again")
	a.screen.Until("after")
	if seen := a.end(); strings.Count(seen, "wants to connect") != 1 {
		t.Errorf("golem asked twice:\n%s", seen)
	}
}

// TestAskHostAfterEnd: golem waits for the answer to a question that is open when the
// program ends, so that the keys do not reach the user's shell.
func TestAskHostAfterEnd(t *testing.T) {
	t.Parallel()
	a := newAskHosts(t)
	a.start(`curl -sS --max-time 1 http://one.example/; echo ended >end`)
	a.screen.Until("wants to connect one.example")
	a.screen.Until("┃ > ")
	for range 300 {
		if strings.Contains(a.output("audit", "show", "--net"), "one.example:80  refused") {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	a.press("a\r")
	a.screen.Until("\x1b[?1049l")
	a.end()
	if out := a.output("exec", "--", "curl", "-sS", "http://one.example/"); !strings.Contains(out, "the internet got http://one.example/") {
		t.Errorf("the rule does not count: %s", out)
	}
}
