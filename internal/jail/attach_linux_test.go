package jail_test

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// hang is a time that no step of these tests needs.
const hang = time.Minute

// A userTerminal is the user's side of a terminal.
type userTerminal struct {
	*testutil.Screen
	t    *testing.T
	term *jail.Terminal
}

func (p testSession) seat(t *testing.T) *userTerminal {
	t.Helper()
	term, err := p.Terminal()
	check(t, err)
	check(t, unix.IoctlSetWinsize(int(term.Person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	s := &userTerminal{testutil.NewScreen(t), t, term}
	go s.Watch(term.Person)
	t.Cleanup(func() {
		if !t.Failed() {
			<-s.Over()
		}
		term.Close()
	})
	return s
}

func (s *userTerminal) types(text string) {
	s.t.Helper()
	if _, err := s.term.Person.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// screen returns everything that the terminal showed, after it has ended.
func (s *userTerminal) screen() string {
	<-s.Over()
	text, _ := s.Seen()
	return strings.ReplaceAll(text, "\r", "")
}

// attached is the outcome of a command.
type attached struct {
	jail.Result
	err error
}

// attach runs a line at a terminal.
func (p testSession) attach(s *userTerminal, line string, at jail.Attached) <-chan attached {
	at.Terminal = s.term
	done := make(chan attached, 1)
	go func() {
		r, err := p.Attach(context.Background(), jail.Shell(line), at)
		done <- attached{r, err}
	}()
	return done
}

// waitForValue waits for a value from a channel.
func waitForValue[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(hang):
		t.Fatal("it hangs")
	}
	return v
}

// tty is a program that prints the properties of its terminal, and tries attacks on it.
const tty = `
import fcntl, os, signal, struct, sys, termios, time
def tell(name, what):
    try: what()
    except OSError as e: print(name, os.strerror(e.errno).lower())
    else: print(name, "done")
print(os.isatty(0), os.isatty(1), os.isatty(2), os.getpgrp() == os.getpid() == os.tcgetpgrp(0))
print(os.get_terminal_size(0).lines, os.get_terminal_size(0).columns)
letter = b"x"
for request in "TIOCSTI", "TIOCLINUX", "TIOCSETD", "TIOCCONS":
    tell(request, lambda: fcntl.ioctl(0, getattr(termios, request, 0x541c), letter))
tell("tty", lambda: os.write(os.open("/dev/tty", os.O_RDWR), b"by its name\n"))
sys.stdout.flush()
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"%d %d\n" % os.get_terminal_size(0)[::-1]))
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"a key\n"))
signal.signal(signal.SIGHUP, lambda *_: sys.exit(5))
print("ready", flush=True)
while True: time.sleep(0.05)
`

// program writes a Python program to a directory that commands see.
func (p testSession) program(text string) string {
	p.t.Helper()
	check(p.t, os.WriteFile(p.dir+"/program.py", []byte(text), 0o644))
	return "exec python3 program.py"
}

// TestAttachTerminal checks that a command at a terminal gets its size, keys and signals.
// The command cannot type into the terminal.
func TestAttachTerminal(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{Time: time.Millisecond, CPU: time.Minute}) // the time limit does not apply to an attached command
		s := p.seat(t)
		signals := make(chan os.Signal)
		done := p.attach(s, p.program(tty), jail.Attached{Signals: signals})
		s.Until("True True True True\r\n24 80\r\nTIOCSTI operation not permitted\r\nTIOCLINUX operation not permitted\r\n" +
			"TIOCSETD operation not permitted\r\nTIOCCONS operation not permitted\r\nby its name\r\ntty done\r\nready\r\n")
		check(t, unix.IoctlSetWinsize(int(s.term.Person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 120}))
		s.Until("50 120\r\n")
		s.types("\x03")
		s.Until("a key\r\n")
		signals <- unix.SIGINT
		s.Until("a key\r\n")
		signals <- unix.SIGHUP
		if a := waitForValue(t, done); a.err != nil || a.Code != 5 || a.Level != m.level() || len(a.Hit) > 0 || a.Limits.Time != 0 || a.Stdout.Head != nil {
			t.Errorf("%v, %+v: want exit code 5 and no output", a.err, a)
		}
		if a := waitForValue(t, p.attach(s, "true", jail.Attached{})); a.err == nil {
			t.Error("a terminal was used twice")
		}
	})
}

// TestAttachStop checks that a key stops the command, that Stopped is called, and that
// the command continues when it returns.
func TestAttachStop(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		s := p.seat(t)
		heard, on := make(chan bool), make(chan bool)
		done := p.attach(s, `echo begun; read x; echo $x; kill -STOP $$; sh -c 'kill -TTIN 0; kill -TTOU 0'; echo over; kill -9 $$`, jail.Attached{Stopped: func() {
			heard <- true
			waitForValue(t, on)
		}})
		s.Until("begun\r\n")
		s.types("\x1a")
		waitForValue(t, heard)
		s.types("typed meanwhile\n")
		on <- true
		s.Until("typed meanwhile\r\ntyped meanwhile\r\n")
		waitForValue(t, heard)
		on <- true
		s.Until("over")
		if a := waitForValue(t, done); a.err != nil || a.Signal != "SIGKILL" || a.Code != 137 {
			t.Errorf("%v, %+v: want it killed", a.err, a)
		}
		// A shell stops and continues its jobs itself.
		s = p.seat(t)
		done = p.attach(s, `exec bash --norc --noprofile -i`, jail.Attached{Stopped: func() { t.Error("the shell was stopped") }})
		s.types("PS1=ready'> '\n")
		s.Until("ready> ")
		s.types("sed -u s/^/got-/\nline\n")
		s.Until("got-line\r\n")
		s.types("\x1a")
		s.Until("Stopped")
		s.Until("ready> ")
		s.types("fg\n")
		s.types("again\n")
		s.Until("got-again\r\n")
		s.types("\x03")
		s.Until("ready> ")
		s.types("exit 3\n")
		if a := waitForValue(t, done); a.err != nil || a.Code != 3 {
			t.Errorf("%v, %+v: want exit code 3", a.err, a)
		}
	})
}

// TestAttachTerminals checks that only the command can see the terminals that it opens.
func TestAttachTerminals(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		const show = `ls /dev/pts; tty; python3 -c 'import pty; pty.spawn(["sh", "-c", "tty; echo in another"])' < /dev/null; ls -l /proc/self/fd/ | grep -c ^l`
		var all sync.WaitGroup
		for range 3 { // at once, each in its own cell
			s := p.seat(t)
			all.Go(func() {
				a := waitForValue(t, p.attach(s, show, jail.Attached{}))
				if got, want := s.screen(), "0  ptmx\n/dev/pts/0\n/dev/pts/1\nin another\n4\n"; a.err != nil || got != want {
					t.Errorf("%v, %+v: got %q, want %q", a.err, a, got, want)
				}
			})
		}
		all.Wait()
		if r := p.sh("ls /dev/pts /dev/ptmx /dev/tty"); len(r.Stdout.Head) > 0 {
			t.Errorf("a command without a terminal has %s", r.Stdout.Head)
		}
		dir := t.TempDir()
		with, err := jail.Start(jail.Policy{Terminals: true, Mounts: []jail.Mount{{Source: sandbox.Host(dir), Target: jail.Work}}}, time.Now)
		check(t, err)
		defer with.Close()
		r, err := with.Run(context.Background(), jail.Shell(`python3 -c 'import pty; pty.spawn(["tty"])'; ls /dev/tty`))
		if err != nil || string(r.Stdout.Head) != "/dev/pts/0\r\n" || r.Code != 2 {
			t.Errorf("%v, %+v, %s%s: want a terminal that it opened, and no /dev/tty", err, r, r.Stdout.Head, r.Stderr.Head)
		}
	})
}

// pipe returns the end of a pipe for writing. out returns its content after all writers
// have closed it.
func pipe(t *testing.T) (in *os.File, out func() string) {
	t.Helper()
	r, w, err := os.Pipe()
	check(t, err)
	text := make(chan string)
	go func() {
		data, _ := io.ReadAll(r)
		r.Close()
		text <- string(data)
	}()
	return w, func() string {
		w.Close()
		return <-text
	}
}

// TestAttachStreams checks how a command uses the streams of the caller.
func TestAttachStreams(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		name := t.TempDir() + "/given"
		check(t, os.WriteFile(name, []byte("from a file\n"), 0o600))
		file, err := os.Open(name)
		check(t, err)
		defer file.Close()
		null, err := os.Open("/dev/null")
		check(t, err)
		defer null.Close()
		read, write, err := os.Pipe()
		check(t, err)
		write.WriteString("from a pipe\n")
		write.Close()
		defer read.Close()
		// A command gets no file of the host as a stream, because it could change that
		// file.
		const kind = `stat -Lc %F /dev/fd/0 /dev/fd/1 /dev/fd/2; `
		for _, test := range []struct {
			stdin *os.File
			line  string
			want  string
			code  int
		}{
			{file, kind + "cat; chmod 777 /dev/fd/0 2> /dev/null; exit 4", "fifo\nfifo\nfifo\nfrom a file\n", 4},
			{read, kind + "cat; echo error >&2", "fifo\nfifo\nfifo\nfrom a pipe\nerror\n", 0},
			{null, kind + "cat", "character special file\nfifo\nfifo\n", 0},
			{nil, kind + "cat; (: < /dev/tty) 2> /dev/null && echo there; kill -TERM $$", "character special file\nfifo\nfifo\n", 143},
			{nil, "setsid sleep 1000 & nohup sleep 1000 & (sleep 1000 &) & echo $!", "", 0},
		} {
			if m.refused {
				test.line = strings.Replace(test.line, kind, "", 1) // /proc cannot be read
				test.want = test.want[strings.LastIndex(test.want, "fifo\n")+1:]
				test.want = strings.TrimPrefix(test.want, "ifo\n")
			}
			w, out := pipe(t)
			r, err := p.Attach(context.Background(), jail.Shell(test.line), jail.Attached{Stdin: test.stdin, Stdout: w, Stderr: w})
			if got := out(); err != nil || r.Code != test.code || got != test.want && test.want != "" || r.Stdout.Head != nil {
				t.Errorf("%s: %v, %+v: got %q, want %q", test.line, err, r, got, test.want)
			}
		}
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("the file is %v, %v", info, err)
		}
		into, err := os.Create(t.TempDir() + "/into")
		check(t, err)
		defer into.Close()
		r, err := p.Attach(context.Background(), jail.Shell("head -c 1000000 /dev/zero"), jail.Attached{Stdout: into})
		if info, _ := into.Stat(); err != nil || r.Code != 0 || info.Size() != 1_000_000 {
			t.Errorf("%v, %+v: a file of %d bytes", err, r, info.Size())
		}
		s := p.seat(t)
		if _, err := p.Attach(context.Background(), jail.Shell("true"), jail.Attached{Stdout: s.term.Person}); err == nil || !strings.Contains(err.Error(), "terminal") {
			t.Errorf("a terminal as a stream: %v", err)
		}
		w, out := pipe(t)
		a := waitForValue(t, p.attach(s, "test -t 0 && test -t 2 && echo both > /dev/stderr; echo elsewhere", jail.Attached{Stdout: w}))
		if got := out(); a.err != nil || got != "elsewhere\n" || s.screen() != "both\n" {
			t.Errorf("%v, %+v: got %q and %q", a.err, a, got, s.screen())
		}
		c := jail.Shell("sleep 1000")
		c.Time = 50 * time.Millisecond
		if r, err := p.Attach(context.Background(), c, jail.Attached{}); err != nil || !r.Late {
			t.Errorf("%v, %+v: want it ended by time", err, r)
		}
		ctx, cancel := context.WithCancel(context.Background())
		begun, said, err := os.Pipe()
		check(t, err)
		defer begun.Close()
		go func() {
			defer cancel()
			begun.Read(make([]byte, 1))
		}()
		r, err = p.Attach(ctx, jail.Shell("trap '' TERM INT HUP; echo begun; sleep 1000 & sleep 1000"), jail.Attached{Stdout: said})
		said.Close()
		if err != nil || !r.Stopped || r.Signal != "SIGKILL" {
			t.Errorf("%v, %+v: want it ended by the caller", err, r)
		}
		p.sh("true")
	})
}

// TestAttachSignals checks that signals sent before the command starts are not lost, and
// that a command without a terminal can be stopped.
func TestAttachSignals(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		signals := make(chan os.Signal, 1)
		signals <- unix.SIGTERM
		r, err := p.Attach(context.Background(), jail.Shell("exec sleep 1000"), jail.Attached{Signals: signals})
		if err != nil || r.Signal != "SIGTERM" {
			t.Errorf("%v, %+v: want it terminated", err, r)
		}
		w, out := pipe(t)
		heard := 0
		signals <- unix.SIGTSTP
		r, err = p.Attach(context.Background(), jail.Shell("trap 'exit 6' USR1; echo begun; while :; do sleep 0.01; done"), jail.Attached{Stdout: w, Signals: signals, Stopped: func() {
			heard++
			signals <- unix.SIGUSR1
		}})
		if err != nil || r.Code != 6 && r.Signal != "SIGUSR1" || heard != 1 { // the signal may arrive before the trap is set
			t.Errorf("%v, %+v, %q: stopped %d times, want exit code 6 after once", err, r, out(), heard)
		}
	})
}
