package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
)

// inTerminal marks a test process that acts as golem at a terminal.
const inTerminal = "GOLEM_TEST_IN_TERMINAL"

func TestMain(m *testing.M) {
	if os.Getenv(inTerminal) != "" {
		actAsGolem()
		return
	}
	os.Exit(m.Run())
}

// A terminalScript describes what the process at the terminal does.
type terminalScript struct {
	Questions  []scriptedQuestion
	AtOnce     bool // ask all questions at once
	KeepsRules bool
	TypeAhead  bool // start after something was typed
	Raw        bool // leave the terminal in raw mode first
	Background bool // another process group has the terminal
	Log        bool // golem prints to no terminal
	Slow       bool // use golem's real settling time
	Flood      int  // lines of other output while the first question is open
}

// A scriptedQuestion is one question. SIGUSR1 ends its context.
type scriptedQuestion struct {
	Request tool.Request
	Wait    time.Duration // for each line; 0 means a minute
	Once    bool
}

// A scriptResult is the result of a terminalScript.
type scriptResult struct {
	Replies      []approval.Reply
	Found, Taken bool // findTerminal(false) and findTerminal(true) found one
	Restored     bool // the terminal has its old modes again
}

// actAsGolem acts as golem. It reads the script from file 3, and writes the result to file 4.
func actAsGolem() {
	var p terminalScript
	if err := gob.NewDecoder(os.NewFile(3, "play")).Decode(&p); err != nil {
		panic(err)
	}
	// If the terminal closes, only the question ends. The process still has to write the
	// outcome.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	o := scriptResult{Found: findTerminal(false) != nil}
	in := findTerminal(true)
	o.Taken = in != nil
	if in == nil {
		in = os.Stdin
	}
	if len(p.Questions) > 0 {
		p.perform(in, &o)
	}
	for i := range o.Replies {
		o.Replies[i].Display = nil // JSON has no form of a hostile request
	}
	if err := json.NewEncoder(os.NewFile(4, "outcome")).Encode(o); err != nil {
		panic(err)
	}
}

func (p terminalScript) perform(in *os.File, o *scriptResult) {
	fd := int(in.Fd())
	if p.Raw {
		if _, err := term.MakeRaw(fd); err != nil {
			panic(err)
		}
	}
	if p.TypeAhead {
		unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
	}
	if p.Background {
		other := exec.Command("cat")
		other.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: fd}
		if hold, err := other.StdinPipe(); err != nil || other.Start() != nil {
			panic(err)
		} else {
			defer other.Wait()
			defer hold.Close()
		}
	}
	console := newConsole(os.Stdout, os.Stderr)
	defer console.close()
	var out io.Writer = visible.NewWriter(console.errs)
	if p.Log {
		out = io.Discard
	}
	before, _ := unix.IoctlGetTermios(fd, unix.TCGETS)
	a := newAsker(in, out, 0)
	a.keepsRules = p.KeepsRules
	if !p.Slow {
		a.settle = time.Millisecond
	}
	if p.Flood > 0 {
		fmt.Fprint(newGutter(visible.NewWriter(console.out), "kid1"), "half a line")
		flood := sync.WaitGroup{}
		defer flood.Wait()
		defer close(p.flood(console, &flood))
	}
	o.Replies = make([]approval.Reply, len(p.Questions))
	var all sync.WaitGroup
	for i, s := range p.Questions {
		ask := func() {
			ctx, cancel := context.WithCancel(context.Background())
			end := make(chan os.Signal, 1)
			signal.Notify(end, syscall.SIGUSR1)
			go func() { <-end; cancel() }()
			defer cancel()
			if s.Once {
				o.Replies[i] = a.AskOnce(ctx, s.Request)
			} else {
				o.Replies[i] = a.Ask(ctx, s.Request)
			}
		}
		if p.AtOnce {
			a.wait = time.Minute
			all.Go(ask)
			continue
		}
		if a.wait = s.Wait; a.wait == 0 {
			a.wait = time.Minute
		}
		ask()
	}
	all.Wait()
	after, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	o.Restored = err == nil && *before == *after
}

// flood prints like two workers that continue while a question is open, until the channel
// is closed.
func (p terminalScript) flood(console *console, all *sync.WaitGroup) chan struct{} {
	over := make(chan struct{})
	for _, to := range []io.Writer{newGutter(visible.NewWriter(console.out), "kid2"), visible.NewWriter(console.errs)} {
		all.Go(func() {
			for i := 0; i < p.Flood; i++ {
				select {
				case <-over:
					return
				case <-time.After(time.Millisecond):
				}
				fmt.Fprintf(to, "noise %d: wants to create /out/readme.txt … [y]es\n", i)
			}
		})
	}
	return over
}

// resize changes the size of the terminal.
func (s *terminalProcess) resize(columns, rows uint16) {
	s.t.Helper()
	must(s.t, unix.IoctlSetWinsize(int(s.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
}

// A terminalProcess is a process at its own terminal, seen from the other side.
type terminalProcess struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	result *os.File

	mu   sync.Mutex
	more *sync.Cond
	seen []byte
	done bool
	at   int // end of the last expected text
}

// A setting describes how to start a process.
type setting struct {
	env     []string
	stdin   *os.File // nil for the terminal
	before  string   // text typed before the play starts
	loose   bool     // the terminal is not the controlling terminal of the process
	columns uint16
	rows    uint16
	shell   string // command line that runs the process as "$0"
}

// openPTY returns both sides of a terminal, that of the person first.
func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	must(t, err)
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	return os.NewFile(uintptr(fd), "ptmx"), slave
}

// startScript starts a process at a terminal.
func startScript(t *testing.T, p terminalScript, set setting) *terminalProcess {
	t.Helper()
	s := &terminalProcess{t: t}
	s.more = sync.NewCond(&s.mu)
	master, slave := openPTY(t)
	must(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: cmp.Or(set.rows, 24), Col: cmp.Or(set.columns, 80)}))
	s.master = master
	defer slave.Close()
	script, say, err := os.Pipe()
	must(t, err)
	defer script.Close()
	result, told, err := os.Pipe()
	must(t, err)
	defer told.Close()
	s.result = result

	self, err := os.Executable()
	must(t, err)
	s.cmd = exec.Command(self)
	if set.shell != "" {
		s.cmd = exec.Command("sh", "-c", set.shell, self)
	}
	s.cmd.Env = append([]string{inTerminal + "=1", "TERM=xterm", "PATH=" + os.Getenv("PATH")}, set.env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	if set.stdin != nil {
		s.cmd.Stdin = set.stdin
	}
	s.cmd.ExtraFiles = []*os.File{script, told}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: !set.loose, Ctty: 2}
	if set.loose {
		s.cmd.SysProcAttr.Ctty = 0
	}
	must(t, s.cmd.Start())
	fuse := time.AfterFunc(20*time.Second, func() { s.cmd.Process.Kill() }) // a hang fails only this test
	t.Cleanup(func() {
		fuse.Stop()
		s.cmd.Process.Kill()
		s.cmd.Wait()
		s.master.Close()
		s.result.Close()
	})
	go s.watch()
	if set.before != "" {
		s.types(set.before)
	}
	must(t, gob.NewEncoder(say).Encode(p))
	must(t, say.Close())
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *terminalProcess) watch() {
	var buf [4096]byte
	for {
		n, err := s.master.Read(buf[:])
		s.mu.Lock()
		s.seen = append(s.seen, buf[:n]...)
		s.done = s.done || err != nil
		s.more.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// until waits for the first of some texts on the screen, after the last expected text.
func (s *terminalProcess) until(texts ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		first := len(s.seen) + 1
		for _, text := range texts {
			if i := bytes.Index(s.seen[s.at:], []byte(text)); i >= 0 {
				first = min(first, s.at+i+len(text))
			}
		}
		if first <= len(s.seen) {
			s.at = first
			return
		}
		if s.done {
			s.t.Fatalf("the screen ended without %q: %q", texts, s.seen[s.at:])
		}
		s.more.Wait()
	}
}

func (s *terminalProcess) types(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// end returns the outcome, and all text that was on the screen.
func (s *terminalProcess) end() (o scriptResult, screen string) {
	s.t.Helper()
	if err := json.NewDecoder(s.result).Decode(&o); err != nil {
		s.t.Fatalf("the process reported nothing: %v\n%s", err, s.seen)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.done {
		s.more.Wait()
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("the process ended with %v: %q", err, s.seen)
	}
	return o, strings.ReplaceAll(string(s.seen), "\r\n", "\n")
}

// newRequest returns a request like the one in the tour.
func newRequest(path string) tool.Request {
	write := []policy.Effect{{Verb: policy.Write, Target: path}}
	return tool.Request{Digest: strings.Repeat("0123abcd", 8), CallDigest: "same", Origin: policy.Model, Workers: []string{"main", "summarise"}, Tool: "write_file",
		Args: []byte(`{"path":"x"}`), Effects: write, ToApprove: write, Rule: "golem-forge.config.yaml:4",
		Changes: []tool.Change{{Path: path, Op: tool.Create, Diff: "--- /dev/null\n+++ b\n@@ -0,0 +1,2 @@\n+# Three findings\n+\n"}}}
}
