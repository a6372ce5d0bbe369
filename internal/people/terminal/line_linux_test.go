package terminal_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/terminal"
	"github.com/golem-forge/golem/sandbox"
)

// TestMain runs a shell line as golem does if the arguments are "exec" and a line, and the
// tests otherwise.
func TestMain(m *testing.M) {
	if code, is := changes.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
	if len(os.Args) > 2 && os.Args[1] == "exec" {
		os.Exit(golem(os.Args[2]))
	}
	os.Exit(m.Run())
}

// golem runs a shell line as golem does, with the streams of this process.
func golem(line string) int {
	code, err := attach(line)
	if err != nil {
		fmt.Fprintln(os.Stderr, "golem:", err)
		return 99
	}
	return code
}

func attach(line string) (int, error) {
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(dir), Target: jail.Work, Write: true}}}, time.Now)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	l, err := terminal.Open(os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	at := jail.Attached{Stdin: l.Stdin, Stdout: l.Stdout, Stderr: l.Stderr, Signals: l.Signals, Stopped: l.Suspend}
	c := jail.Shell(line)
	if l.Wanted {
		if at.Terminal, err = s.Terminal(); err != nil {
			return 0, err
		}
		defer at.Terminal.Close()
		if err := l.Connect(at.Terminal.Person); err != nil {
			return 0, err
		}
		defer l.Close() // close the line before its terminal
		c.Env = []string{"TERM=" + os.Getenv("TERM")}
	}
	r, err := s.Attach(context.Background(), c, at)
	return r.Code, err
}

// A stage is a terminal on which something runs, seen from the user's side.
type stage struct {
	*testutil.Screen
	t      *testing.T
	dir    string
	master *os.File
	slave  *os.File
	cmd    *exec.Cmd
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newStage opens a terminal.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Screen: testutil.NewScreen(t), t: t, dir: t.TempDir()}
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	must(t, err)
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	s.master = os.NewFile(uintptr(fd), "ptmx")
	s.slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	s.resize(24, 80)
	go s.Watch(s.master)
	t.Cleanup(func() {
		s.slave.Close()
		s.master.Close()
	})
	return s
}

func (s *stage) resize(rows, columns uint16) {
	must(s.t, unix.IoctlSetWinsize(int(s.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
}

// startGolem starts golem with a shell line on a terminal. Change may redirect some streams.
func startGolem(t *testing.T, line string, change ...func(*exec.Cmd)) *stage {
	t.Helper()
	s := newStage(t)
	self, err := os.Executable()
	must(t, err)
	s.run(exec.Command(self, "exec", line), change...)
	return s
}

// shell starts an interactive shell, in which "$golem" runs a line as golem does.
func shell(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	self, err := os.Executable()
	must(t, err)
	s.run(exec.Command("bash", "--norc", "--noprofile", "-i"), func(c *exec.Cmd) { c.Env = append(c.Env, "PS1=ready> ", "HISTFILE=", "golem="+self+" exec") })
	s.Until("ready> ")
	return s
}

func (s *stage) run(cmd *exec.Cmd, change ...func(*exec.Cmd)) {
	s.t.Helper()
	s.cmd = cmd
	cmd.Dir, cmd.Env = s.dir, []string{"TERM=xterm-256color", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + s.t.TempDir()}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.slave, s.slave, s.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
	for _, c := range change {
		c(cmd)
	}
	must(s.t, cmd.Start())
	fuse := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }) // a hang fails this test, not the whole run
	s.t.Cleanup(func() {
		fuse.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	})
}

func (s *stage) types(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// state returns the state of the golem process.
func (s *stage) state() string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	must(s.t, err)
	return string(data)
}

// end waits for golem and checks that the terminal is as before. It returns golem's exit
// code and the output.
func (s *stage) end() (code int, screen string) {
	s.t.Helper()
	s.cmd.Wait()
	s.checkModes()
	if n, err := unix.IoctlGetInt(int(s.slave.Fd()), unix.TIOCINQ); err != nil || n > 0 {
		s.t.Errorf("%d bytes are left to be read, %v", n, err)
	}
	// When this appears, no other output is pending.
	must(s.t, func() error { _, err := s.slave.WriteString("\x04end"); return err }())
	s.Until("\x04end")
	screen, _ = s.Seen()
	screen, _, _ = strings.Cut(screen, "\x04end")
	return s.cmd.ProcessState.ExitCode(), strings.ReplaceAll(screen, "\r\n", "\n")
}

// checkModes checks that the terminal has its usual modes.
func (s *stage) checkModes() {
	s.t.Helper()
	modes, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	must(s.t, err)
	if modes.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != unix.ICANON|unix.ECHO|unix.ISIG || modes.Oflag&unix.OPOST == 0 || modes.Iflag&unix.ICRNL == 0 {
		s.t.Errorf("the terminal is not as it was: %+v", modes)
	}
}

// findProcesses returns the processes whose command line contains a word.
func findProcesses(word string) (list []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		data, _ := os.ReadFile(name)
		if program := string(data); strings.Contains(program, word) && (strings.HasPrefix(program, "sleep") || strings.HasPrefix(program, "bash\x00-c")) {
			list = append(list, filepath.Dir(name))
		}
	}
	return list
}

// waitStopped waits until there are such processes and all of them are stopped. A process
// that has just started may stop a moment later.
func waitStopped(t *testing.T, word string) {
	t.Helper()
	states := map[string]int{}
	for range 2000 {
		clear(states)
		for _, dir := range findProcesses(word) {
			stat, _ := os.ReadFile(dir + "/stat")
			if fields := strings.Fields(string(stat)); len(fields) > 2 {
				states[fields[2]]++
			}
		}
		if len(states) == 1 && states["T"] > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the program is in states %v, want it stopped", states)
}

// waitGone waits until there are no such processes.
func waitGone(t *testing.T, word string) {
	t.Helper()
	for range 2000 {
		if len(findProcesses(word)) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("still exists: %q", findProcesses(word))
}

// TestTerminal checks that a program has an ordinary terminal, and that golem returns its
// exit code.
func TestTerminal(t *testing.T) {
	t.Parallel()
	s := startGolem(t, `test -t 0 && test -t 1 && test -t 2 && echo all; tty; stty size; ls --color=auto -d /usr; echo $TERM; exit 7`)
	code, screen := s.end()
	if want := "all\n/dev/pts/0\n24 80\n\x1b[0m\x1b[01;34m/usr\x1b[0m\nxterm-256color\n\x1b\\"; code != 7 || screen != want {
		t.Errorf("exit code %d, %q; want 7, %q", code, screen, want)
	}
	for line, want := range map[string]int{"kill -TERM $$": 143, "exit 0": 0, "trap '' TERM; kill -9 $$": 137} {
		if code, screen := startGolem(t, line).end(); code != want || screen != "" {
			t.Errorf("%s: exit code %d, %q; want %d", line, code, screen, want)
		}
	}
}

// TestKeys checks that keys reach only the program.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := startGolem(t, `trap 'echo caught; hit=1' INT; echo ready; until [ $hit ]; do sleep 0.01; done; read x; trap - INT; echo "[$x]"; cat; echo end; stty raw -echo; echo raw; head -c 4 | od -An -c; stty sane; trap 'stty size; exit 3' WINCH; echo size; while :; do sleep 0.01; done`)
	s.Until("ready\r\n")
	s.types("\x03")
	s.Until("caught\r\n")
	s.types("a line\r")
	s.Until("[a line]\r\n")
	s.types("more\r\x04") // ends the input of cat
	s.Until("more\r\nmore\r\n")
	s.Until("end\r\n")
	s.Until("raw")
	s.types("\x03\x1a\x04\x1c")
	s.Until(`003 032 004 034`)
	s.Until("size\r\n")
	s.resize(50, 132)
	s.Until("50 132\r\n")
	if code, screen := s.end(); code != 3 {
		t.Errorf("exit code %d, %q", code, screen)
	}
}

// TestSettingsAreReset checks that golem resets what a program leaves set, also when the program
// is killed, and that the program cannot write to the clipboard.
func TestSettingsAreReset(t *testing.T) {
	t.Parallel()
	s := startGolem(t, `stty raw -echo -isig; printf '\033[?1049h\033[?25l\033[?2004h\033[?1003h\033]5'; printf '2;c;aGk=\007\033[31mred'; kill -9 $$`)
	s.Until("\x1b[c")
	s.types("\x1b[?62;1;4c")
	code, screen := s.end()
	if want := "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?1003h\x1b\\\x1b[31mred" + "\x1b\\\x1b[m\x1b[?25h\x1b[?1003l\x1b[?2004l\x1b[?1049l\x1b[m\x1b(B\x0f\x1b[J\x1b[c"; code != 137 || screen != want {
		t.Errorf("exit code %d, %q; want %q", code, screen, want)
	}
}

// TestLateAnswers checks that golem drops answers of the terminal that arrive after the
// program has ended.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	s := shell(t)
	s.types("$golem 'printf \"\\033[6n\\033[c\\033]11;?\\007\"'\n")
	s.Until("\x1b]11;?\x07")
	s.types("\x1b[1;1R\x1b[?62c") // no program is left to read it
	s.Until("\x1b[c")
	s.types("\x1b]11;rgb:0000/0000/0000\x07echo evil\r\x1b[?62c")
	s.Until("ready> ")
	s.types("echo $((1+1))\n")
	s.Until("2\r\n")
	s.types("exit\n")
	if _, screen := s.end(); strings.Contains(screen, "rgb") || strings.Contains(screen, "evil") || !strings.Contains(screen, "ready> echo $((1+1))\n") {
		t.Errorf("input reached the shell: %q", screen)
	}
	// The same holds when the program has stopped itself.
	s = shell(t)
	s.types("$golem 'printf \"\\033[?1003h\\033[6n\"; kill -STOP $$; echo went on'\n")
	s.Until("\x1b[?1003h\x1b[6n")
	s.Until("\x1b[?1003l")
	s.Until("\x1b[c")
	s.types("\x1b[1;1Recho evil\r\x1b[?62c")
	s.Until("ready> ")
	s.types("fg\n")
	s.Until("went on\r\n")
	s.Until("\x1b[c")
	s.types("\x1b[?62c")
	s.Until("ready> ")
	s.types("exit\n")
	if _, screen := s.end(); strings.Contains(screen, "evil") || strings.Contains(screen, "1R") {
		t.Errorf("input reached the shell: %q", screen)
	}
	// golem does not wait for a terminal that never answers.
	if code, screen := startGolem(t, `printf '\033[c'`).end(); code != 0 || screen != "\x1b[c\x1b\\\x1b[c" {
		t.Errorf("exit code %d, %q", code, screen)
	}
}

// TestJobs checks that a shell can stop and continue golem with its program, like any
// job.
func TestJobs(t *testing.T) {
	s := shell(t)
	s.types("$golem \"printf '\\033[?1049h'; echo beg''un; read x; printf '\\033[?1049l'; echo got \\$x\"; echo code $?\n")
	s.Until("\x1b[?1049hbegun\r\n")
	s.types("\x1a")
	s.Until("Stopped")
	s.Until("ready> ")
	s.types("echo the shell has $(stty -a | grep -o ' icanon')\n")
	s.Until("the shell has icanon")
	s.types("fg\n")
	s.Until("fg\r\n")
	s.types("more\r")
	s.Until("got more\r\n")
	s.Until("ready> ")
	// In the background the program prints, and stops only when it has to read.
	s.types("$golem \"echo f''irst; sleep 0.3; echo l''ast\" &\n")
	s.Until("first")
	s.Until("last")
	s.types("wait $!; echo c''ode $?\n") // a shell that waits does not always print Done as well
	s.Until("code 0\r\n")
	// With its output redirected, golem leaves the keys to other programs.
	s.types("$golem 'while :; do echo; sleep 0.01; done; : 1000.4' | sed s/^/th''rough-/\n")
	s.Until("through-")
	s.types("\x1a")
	s.Until("Stopped")
	waitStopped(t, "1000.4")
	s.types("fg\n")
	s.Until("fg\r\n")
	s.Until("through-")
	s.types("\x03")
	s.Until("ready> ")
	s.types("exit\n")
	s.end()
	waitGone(t, "1000.4")
}

// TestSignals checks that signals reach the program, and that golem ends when it ends.
func TestSignals(t *testing.T) {
	t.Parallel()
	s := startGolem(t, `trap 'echo terminated; exit 4' TERM; echo ready; while :; do sleep 0.01; done`)
	s.Until("ready\r\n")
	must(t, s.cmd.Process.Signal(unix.SIGTERM))
	s.Until("terminated\r\n")
	if code, screen := s.end(); code != 4 {
		t.Errorf("exit code %d, %q", code, screen)
	}
	// A sender that stops golem itself may have given the terminal to a shell.
	s = startGolem(t, `trap 'echo caught; exit 6' INT; echo ready; while :; do sleep 0.01; done`)
	s.Until("ready\r\n")
	must(t, s.cmd.Process.Signal(unix.SIGSTOP))
	for !strings.Contains(s.state(), "(stopped)") {
		time.Sleep(time.Millisecond)
	}
	modes, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	must(t, err)
	raw := *modes
	modes.Lflag |= unix.ICANON | unix.ECHO | unix.ISIG
	must(t, unix.IoctlSetTermios(int(s.slave.Fd()), unix.TCSETS, modes))
	must(t, s.cmd.Process.Signal(unix.SIGCONT))
	for *modes != raw {
		time.Sleep(time.Millisecond)
		modes, err = unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
		must(t, err)
	}
	s.types("\x03")
	s.Until("caught\r\n")
	if code, screen := s.end(); code != 6 {
		t.Errorf("exit code %d, %q", code, screen)
	}
	// The terminal hangs up.
	s = startGolem(t, `trap 'echo > left; exit 5' HUP; echo ready; while :; do sleep 0.01; done`)
	s.Until("ready\r\n")
	s.slave.Close()
	s.master.Close()
	s.cmd.Wait()
	if _, err := os.Stat(s.dir + "/left"); err != nil || s.cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("%v, %v: the program got no signal", s.cmd.ProcessState, err)
	}
}

// TestStreams checks that without a terminal the streams are pipes, and that the program
// cannot get a terminal.
func TestStreams(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	run := func(line string, change func(*exec.Cmd)) (string, string, int) {
		cmd := exec.Command(self, "exec", line)
		cmd.Dir, cmd.SysProcAttr = t.TempDir(), &syscall.SysProcAttr{Setsid: true}
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		change(cmd)
		cmd.Run()
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	out, errs, code := run("cat; echo error >&2; test -t 0 -o -t 1 -o -t 2 && echo a terminal; (: < /dev/tty) 2> /dev/null && echo another; exit 9", func(c *exec.Cmd) { c.Stdin = strings.NewReader("x\n") })
	if out != "x\n" || errs != "error\n" || code != 9 {
		t.Errorf("got %q, %q, %d", out, errs, code)
	}
	if out, _, code := run("cat", func(c *exec.Cmd) {}); out != "" || code != 0 {
		t.Errorf("got %q, %d", out, code)
	}
	if _, _, code := run("yes", func(c *exec.Cmd) {
		r, w, err := os.Pipe()
		must(t, err)
		r.Close()
		c.Stdout = w
	}); code != 141 {
		t.Errorf("code %d: want SIGPIPE", code)
	}
	// Input from a pipe, and a terminal for the rest.
	r, w, err := os.Pipe()
	must(t, err)
	w.WriteString("piped\n")
	w.Close()
	s := startGolem(t, `cat; test -t 0 || echo none; read x < /dev/tty; echo "[$x]"`, func(c *exec.Cmd) { c.Stdin = r })
	s.Until("piped\r\nnone\r\n")
	s.types("typed\r")
	s.Until("[typed]\r\n")
	if code, screen := s.end(); code != 0 {
		t.Errorf("exit code %d, %q", code, screen)
	}
	// Errors go to the terminal, but the program does not get the terminal for that.
	s = startGolem(t, `test -t 2 || printf 'none\033]52;c;x\007\n' >&2`, func(c *exec.Cmd) { c.Stdout = nil })
	if code, screen := s.end(); code != 0 || screen != "none\x1b\\\n\x1b\\" {
		t.Errorf("exit code %d, %q", code, screen)
	}
}

// TestFlood checks that golem's memory does not grow with the output of a program, and
// that processes it leaves behind end with it.
func TestFlood(t *testing.T) {
	s := startGolem(t, `setsid sleep 1000.6 & nohup sleep 1000.6 > /dev/null & head -c 100M /dev/zero | tr '\0' 'x'; echo; echo done`)
	s.Keep(1 << 20)
	code, screen := s.end()
	if _, count := s.Seen(); code != 0 || !strings.HasSuffix(screen, "x\ndone\n") || count < 100<<20 {
		t.Errorf("exit code %d, %d bytes, %.80q", code, count, screen[max(0, len(screen)-80):])
	}
	if most := s.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; most > 64<<10 {
		t.Errorf("golem grew to %d KiB", most)
	}
	if list := findProcesses("1000.6"); len(list) > 0 {
		t.Errorf("leftovers: %q", list)
	}
}

// TestGolemKilled checks that the program ends when golem is killed.
func TestGolemKilled(t *testing.T) {
	t.Parallel()
	s := startGolem(t, `trap '' HUP TERM INT; setsid sleep 1000.8 & echo ready; sleep 1000.8`)
	s.Until("ready")
	must(t, s.cmd.Process.Kill())
	waitGone(t, "1000.8")
}
