package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A psList is what golem ps --json prints.
type psList struct {
	Activities []struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		State    string `json:"state"`
		Command  string `json:"command"`
		Process  int    `json:"pid"`
		Doing    string `json:"doing"`
		Detached *struct {
			Running bool `json:"running"`
			Killed  bool `json:"killed"`
			Code    int  `json:"exit_code"`
			Process int  `json:"pid"`
		} `json:"detached"`
		Waiting []struct {
			ID string `json:"id"`
		} `json:"waiting"`
	} `json:"activities"`
}

// ps returns the list of golem ps --json.
func (p *pickTest) ps() (list psList) {
	p.t.Helper()
	out, code := p.golem("ps", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 {
		p.t.Fatalf("ps: code %d, %v\n%s", code, err, out)
	}
	return list
}

// await waits until a condition holds.
func (p *pickTest) await(what string, is func() bool) {
	p.t.Helper()
	for end := time.Now().Add(3 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			out, _ := p.golem("ps")
			p.t.Fatalf("not %s:\n%s", what, out)
		}
	}
}

// detach starts a shell line in the background, at a terminal that is then closed. It returns
// the session, and the process of the golem there.
func (p *pickTest) detach(line string, flags ...string) (id string, process int) {
	p.t.Helper()
	p.startAt(80, append(append([]string{"exec", "-d"}, flags...), "sh", "-c", line)...)
	p.screen.Until("sh runs in the background, session ")
	if code, seen := p.waitForEnd(); code != 0 {
		p.t.Fatalf("exec -d: code %d\n%s", code, seen)
	}
	p.person.Close()
	seen, _ := p.screen.Seen()
	_, rest, _ := strings.Cut(seen, "sh runs in the background, session ")
	id, _, _ = strings.Cut(rest, ";")
	for _, a := range p.ps().Activities {
		if a.Name == id && a.Detached != nil {
			process = a.Detached.Process
		}
	}
	if process == 0 {
		p.t.Fatalf("golem ps has no session %q:\n%s", id, seen)
	}
	p.t.Cleanup(func() { syscall.Kill(process, syscall.SIGKILL) })
	return id, process
}

// ended waits for the end of the program in the background of a session, and returns how it
// ended.
func (p *pickTest) ended(id string) (code int, killed bool) {
	p.t.Helper()
	p.await("ended", func() bool {
		for _, a := range p.ps().Activities {
			if a.Name == id && !a.Detached.Running {
				code, killed = a.Detached.Code, a.Detached.Killed
				return true
			}
		}
		return false
	})
	return code, killed
}

func (p *pickTest) press(keys string) {
	p.t.Helper()
	if _, err := p.person.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

func newDetachTest(t *testing.T) *pickTest {
	t.Helper()
	return &pickTest{t: t, dir: t.TempDir(), env: append(os.Environ(), "GOLEM_STATE="+t.TempDir(), "NO_COLOR=1", "TERM=xterm")}
}

// TestDetached starts a program in the background, closes its terminal, and attaches two
// others of different sizes. Both see the output, the one that attached or typed last sets the
// size, and Ctrl-] d leaves.
func TestDetached(t *testing.T) {
	t.Parallel()
	p := newDetachTest(t)
	id, process := p.detach(`trap 'echo size $(stty size)' WINCH; echo begun; echo x >new.txt; while :; do read -r line || continue; echo "read $line at $(stty size)"; [ "$line" = end ] && exit 7; done`)
	if session, err := unix.Getsid(process); err != nil || session != process {
		t.Errorf("the golem %d in the background is in the session %d of another process, %v", process, session, err)
	}
	list := p.ps().Activities
	if len(list) != 1 || list[0].State != "running" || list[0].Command != "sh" || list[0].Process != process || list[0].Doing != "begun" {
		t.Errorf("golem ps lists %+v", list)
	}
	if out, _ := p.golem("status"); !strings.Contains(out, id+"  ") || !strings.Contains(out, "in the background") {
		t.Errorf("golem status lists\n%s", out)
	}

	one, two := p.forTest(t), p.forTest(t)
	one.startAt(90, "attach", id)
	one.screen.Until("begun") // from before it attached
	one.screen.Until("size 24 90")
	two.startAt(70, "attach", id)
	two.screen.Until("begun")
	one.screen.Until("size 24 70")
	two.screen.Until("size 24 70")
	one.press("from one\r")
	for _, each := range []*pickTest{one, two} {
		each.screen.Until("read from one at 24 90") // it typed last
	}
	two.press("\x1d\x1d\x1dd") // a Ctrl-] for the program, and then it leaves
	if code, seen := two.waitForEnd(); code != 0 || !strings.Contains(seen, "session "+id+" continues in the background") {
		t.Errorf("leaving: code %d\n%s", code, seen)
	}
	one.screen.Until("^]")
	one.press("\x15end\r")
	one.screen.Until("read end")
	if code, seen := one.waitForEnd(); code != 7 || !strings.Contains(seen, "session "+id+" has ended, exit code 7") {
		t.Errorf("code %d\n%s", code, seen)
	}
	if code, killed := p.ended(id); code != 7 || killed {
		t.Errorf("golem ps: exit code %d, killed %v", code, killed)
	}
	if out, _ := p.golem("diff", "--stat"); !strings.Contains(out, "new.txt") {
		t.Errorf("its changes: %s", out)
	}
	if out, code := p.golem("attach", "--log", id); code != 0 || !strings.Contains(out, "read from one") || !strings.Contains(out, "read end") {
		t.Errorf("the log: code %d\n%s", code, out)
	}
	other := *p
	other.dir = t.TempDir()
	if out, code := other.golem("attach", "--log", "@"+id); code != 0 || !strings.Contains(out, "golem: session "+id+" is in "+p.dir) || !strings.Contains(out, "read end") {
		t.Errorf("the log from another directory: code %d\n%s", code, out)
	}
	if out, _ := p.golem("attach", "--log", "@"+id); strings.Contains(out, " is in ") {
		t.Errorf("the log from this directory: %s", out)
	}
	if out, code := p.golem("attach", id); code == 0 || !strings.Contains(out, "ended, exit code 7") {
		t.Errorf("attach after the end: code %d\n%s", code, out)
	}
}

// TestDetachedSettings checks that leaving resets what a full-screen program set, that
// attaching sets it and makes the program draw, and that sequences that reach more than the
// screen do not pass.
func TestDetachedSettings(t *testing.T) {
	t.Parallel()
	p := newDetachTest(t)
	id, _ := p.detach(`trap 'printf "drawn\033]52;c;aGk=\007 again"' WINCH; printf '\033[?1049h\033[?1003h\033[6nold'; stty raw -echo; while :; do sleep 0.1; done`)
	p.await("drawn", func() bool { return strings.Contains(p.ps().Activities[0].Doing, "old") })
	p.startAt(80, "attach", id)
	p.screen.Until("\x1b[?1049h")
	p.screen.Until("\x1b[?1003h")
	p.screen.Until("drawn\x1b\\ again")
	before, err := unix.IoctlGetTermios(int(p.person.Fd()), unix.TCGETS)
	if err != nil || before.Lflag&unix.ICANON != 0 {
		t.Errorf("an attached terminal passes on lines, not keys: %v", err)
	}
	p.press("\x1b[93;5ud") // as a terminal sends it with the kitty protocol
	p.screen.Until("\x1b[?1003l")
	p.screen.Until("\x1b[?1049l")
	p.cmd.Wait()
	after, err := unix.IoctlGetTermios(int(p.person.Fd()), unix.TCGETS)
	if err == nil && after.Lflag&(unix.ICANON|unix.ECHO) != unix.ICANON|unix.ECHO {
		t.Errorf("the terminal is left with %+v", after)
	}
	if seen, _ := p.screen.Seen(); strings.Contains(seen, "]52;") || strings.Contains(seen, "\x1b[6n") {
		t.Errorf("a sequence passed: %q", seen)
	}
}

// TestDetachedKilled kills the golem in the background. It is listed as ended, and its changes
// wait.
func TestDetachedKilled(t *testing.T) {
	t.Parallel()
	p := newDetachTest(t)
	id, process := p.detach(`echo x >new.txt; echo written; sleep 1000`)
	p.await("written", func() bool { return p.ps().Activities[0].Doing == "written" })
	one := p.forTest(t)
	one.startAt(80, "attach")
	one.screen.Until("written")
	if err := syscall.Kill(process, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code, seen := one.waitForEnd(); code == 0 || !strings.Contains(seen, "its golem was killed") {
		t.Errorf("the attached terminal: code %d\n%s", code, seen)
	}
	if _, killed := p.ended(id); !killed {
		t.Error("golem ps does not say that golem was killed")
	}
	if out, _ := p.golem("ps"); !strings.Contains(out, "ended: golem was killed") || !strings.Contains(out, "written") {
		t.Errorf("golem ps lists\n%s", out)
	}
	p.await("released", func() bool {
		out, _ := p.golem("diff", "--stat", "--session", id)
		return strings.Contains(out, "new.txt")
	})
}

// TestDetachedOutput checks that a program in the background never waits for a terminal, not
// even for one whose golem is stopped, and that its output has a limit on the disk.
func TestDetachedOutput(t *testing.T) {
	t.Parallel()
	p := newDetachTest(t)
	id, _ := p.detach(`echo ready; read line; head -c 60000000 /dev/zero | tr '\0' a | fold -w 99; echo; echo "all of it"; touch done; read line; exit 3`)
	one, two := p.forTest(t), p.forTest(t)
	one.startAt(80, "attach", id)
	one.screen.Until("ready")
	two.startAt(80, "attach", id)
	two.screen.Until("ready")
	two.screen.Keep(1 << 20)
	if err := one.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	two.press("go\r")
	p.await("printed", func() bool { return p.ps().Activities[0].Doing == "all of it" })
	kept, _ := filepath.Glob(filepath.Join(p.env[len(p.env)-3][len("GOLEM_STATE="):], "*", "sessions", "*", "detached", "output*"))
	var all int64
	for _, name := range kept {
		if info, err := os.Stat(name); err == nil {
			all += info.Size()
		}
	}
	if len(kept) != 2 || all > 16<<20 || all < 8<<20 {
		t.Errorf("%d bytes of output are kept in %q", all, kept)
	}
	one.cmd.Process.Signal(syscall.SIGCONT)
	one.screen.Until("all of it") // it was behind, and is drawn again
	one.cmd.Process.Kill()        // in the middle
	two.screen.Until("all of it")
	two.press("end\r")
	if code, _ := two.waitForEnd(); code != 3 {
		t.Errorf("code %d", code)
	}
	if out, _ := p.golem("attach", "--log", id); !strings.Contains(out, "all of it") || len(out) > 16<<20 {
		t.Errorf("the log has %d bytes", len(out))
	}
}

// TestDetachedStop ends programs that obey a signal, and one that ignores it.
func TestDetachedStop(t *testing.T) {
	t.Parallel()
	p := newDetachTest(t)
	id, _ := p.detach(`trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done`)
	p.await("ready", func() bool { return p.ps().Activities[0].Doing == "ready" })
	if out, code := p.golem("ps", "stop", id); code != 0 || !strings.Contains(out, "session "+id+" has ended, exit code 9") {
		t.Errorf("code %d\n%s", code, out)
	}
	stubborn, _ := p.detach(`trap '' TERM INT HUP; echo kept >new.txt; echo ready; while :; do sleep 0.1; done`)
	p.await("ready", func() bool {
		for _, a := range p.ps().Activities {
			if a.Name == stubborn && a.Doing == "ready" {
				return true
			}
		}
		return false
	})
	if out, code := p.golem("ps", "stop", "--now", stubborn); code != 0 || !strings.Contains(out, "session "+stubborn+" has ended, exit code ") {
		t.Errorf("code %d\n%s", code, out)
	}
	if out, _ := p.golem("diff", "--session", stubborn); !strings.Contains(out, "+kept") {
		t.Errorf("its changes: %s", out)
	}
	if out, code := p.golem("ps", "stop", stubborn); code == 0 || !strings.Contains(out, "no golem works in it now") {
		t.Errorf("code %d\n%s", code, out)
	}
}

// TestDetachedWithoutTerminal starts programs in the background from a script.
func TestDetachedWithoutTerminal(t *testing.T) {
	t.Parallel()
	p := newDetachTest(t)
	cmd := exec.Command("golem", "exec", "-d", "sh", "-c", "test -t 0 && test -t 1 && echo at a terminal of $(stty size); exit 4")
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.Output()
	id, _, ok := strings.Cut(strings.TrimPrefix(string(out), "sh runs in the background, session "), ";")
	if err != nil || !ok {
		t.Fatalf("%v\n%s", err, out)
	}
	if code, _ := p.ended(id); code != 4 {
		t.Errorf("exit code %d", code)
	}
	if out, _ := p.golem("attach", "--log", id); !strings.Contains(out, "at a terminal of 24 80") {
		t.Errorf("the log is\n%s", out)
	}
	if out, code := p.golem("exec", "-d", "no-such-program"); code != 127 {
		t.Errorf("code %d\n%s", code, out)
	}
	if out, code := p.golem("exec", "-d", "--session", "nothere", "true"); code == 0 || strings.Contains(out, "runs in the background") {
		t.Errorf("code %d\n%s", code, out)
	}
	if out, code := p.golem("attach", "nothere"); code == 0 || strings.Contains(out, "panic") {
		t.Errorf("code %s\n%s", strconv.Itoa(code), out)
	}
}

// TestDetachedQuestions checks that questions of a run in the background wait for golem
// approve, and that golem asks them in a terminal that attaches.
func TestDetachedQuestions(t *testing.T) {
	t.Parallel()
	p := newDetachTest(t)
	p.write("model.yaml", "- calls: [{tool: write_file, args: {path: /one.txt, content: x}}]\n- calls: [{tool: write_file, args: {path: /two.txt, content: x}}]\n- text: I wrote both.\n")
	cmd := exec.Command("golem", "run", "-d", "--model", "scripted:model.yaml", "--set", "sandbox.approval={write: ask}", ".", "Write")
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.CombinedOutput()
	_, rest, ok := strings.Cut(string(out), "the worker runs in the background, session ")
	id, _, _ := strings.Cut(rest, ";")
	if err != nil || !ok {
		t.Fatalf("%v\n%s", err, out)
	}
	waits := ""
	p.await("waiting for the first approval", func() bool {
		list := p.ps().Activities
		if len(list) == 1 && len(list[0].Waiting) == 1 {
			waits = list[0].Waiting[0].ID
		}
		return waits != ""
	})
	if out, code := p.golem("approve", waits); code != 0 {
		t.Fatalf("approve: code %d\n%s", code, out)
	}
	p.await("waiting for the second approval", func() bool {
		list := p.ps().Activities
		return len(list) == 1 && len(list[0].Waiting) == 1 && list[0].Waiting[0].ID != waits
	})
	p.startAt(100, "attach", id)
	p.answer("wants to create /two.txt", "y\r")
	if code, seen := p.waitForEnd(); code != 0 || !strings.Contains(seen, "I wrote both.") {
		t.Errorf("code %d\n%s", code, seen)
	}
	if out, _ := p.golem("diff", "--stat"); !strings.Contains(out, "one.txt") || !strings.Contains(out, "two.txt") {
		t.Errorf("its changes: %s", out)
	}
}

// TestDetachedHosts checks the same for hosts. A terminal that leaves takes its question with
// it, and the next one gets it.
func TestDetachedHosts(t *testing.T) {
	t.Parallel()
	a := newAskHosts(t)
	out := a.output("exec", "-d", "--", "sh", "-c", "curl -sS http://one.example/; curl -sS http://two.example/; read line")
	_, rest, ok := strings.Cut(out, "sh runs in the background, session ")
	id, _, _ := strings.Cut(rest, ";")
	if !ok {
		t.Fatal(out)
	}
	t.Cleanup(func() { a.output("ps", "stop", "--now", id) })
	request := ""
	for end := time.Now().Add(3 * time.Minute); request == "" && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var list psList
		json.Unmarshal([]byte(a.output("ps", "--json")), &list)
		for _, one := range list.Activities {
			for _, w := range one.Waiting {
				request = w.ID
			}
		}
	}
	if out := a.output("approve", request); !strings.Contains(out, "one.example") {
		t.Fatalf("approve %s:\n%s", request, out)
	}
	attach := func() {
		a.attach(id)
		a.screen.Until("project wants to connect two.example")
		a.screen.Until("┃ > ")
	}
	attach()
	a.person.Close() // the terminal is gone
	a.cmd.Wait()
	attach()
	// The terminal may show the former question until golem asks again. Keys do nothing then, and
	// golem asks only after a second without keys.
	pressed := time.Time{}
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if seen, _ := a.screen.Seen(); strings.Contains(seen, "the internet got http://two.example/") {
			break
		}
		if time.Since(pressed) > 5*time.Second {
			a.person.WriteString("y\r")
			pressed = time.Now()
		}
	}
	a.screen.Until("the internet got http://two.example/")
	a.person.WriteString("\r") // unless the program has read one before
	if seen := a.end(); !strings.Contains(seen, "session "+id+" has ended") {
		t.Errorf("%s", seen)
	}
}
