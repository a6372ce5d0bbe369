package cli

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/decide/tool"
)

// TestEarlyAnswersDoNotCount checks that golem ignores a y that arrives a few
// milliseconds after the question is drawn. It also ignores a y before the prompt that an
// Enter follows.
func TestEarlyAnswersDoNotCount(t *testing.T) {
	p := terminalScript{Slow: true}
	early := []string{"y\r", "y", "y\ry\ry\ry\r", "yes\r"}
	for range early {
		p.Questions = append(p.Questions, scriptedQuestion{Request: newRequest("/a")})
	}
	s := startScript(t, p, setting{env: []string{"NO_COLOR=1"}})
	for _, keys := range early {
		s.until("[?]\r\n")
		drawn := time.Now()
		time.Sleep(8 * time.Millisecond)
		s.types(keys)
		s.until("┃ keys that were pressed before this line were ignored\r\n")
		s.until(ready)
		if took := time.Since(drawn); took < 300*time.Millisecond {
			t.Errorf("an answer was accepted after %v", took)
		}
		s.types("\r")
	}
	o, screen := s.end()
	for i, got := range o.Replies {
		if got.Verdict != tool.Declined {
			t.Errorf("after %q: got %+v", early[i], got)
		}
	}
	if strings.Contains(screen, "y\n") || !o.Restored {
		t.Errorf("ignored input is shown, or the terminal is not restored: %q", screen)
	}
}

// TestQuestionOwnsTheTerminal checks that nothing else is printed to either stream
// while a question is open, and that the output follows afterwards.
func TestQuestionOwnsTheTerminal(t *testing.T) {
	const flood = 300
	s := startScript(t, terminalScript{Flood: flood, Questions: []scriptedQuestion{{Request: newRequest("/out/0")}, {Request: newRequest("/out/1")}}}, setting{env: []string{"NO_COLOR=1"}})
	for range 2 {
		s.until(ready)
		time.Sleep(100 * time.Millisecond)
		s.types("y\r")
	}
	o, screen := s.end()
	for i, got := range o.Replies {
		if got.Verdict != tool.Approved {
			t.Errorf("question %d: got %+v", i, got)
		}
	}
	for i := range 2 {
		_, rest, found := strings.Cut(screen, fmt.Sprintf("\n┃ main › summarise wants to create /out/%d ", i))
		question, after, answered := strings.Cut(rest, "> y\n")
		if !found || !answered || strings.Contains(question, "noise") || strings.Count(question, "\n") > 6 {
			t.Fatalf("question %d is mixed with other output:\n%s", i, screen)
		}
		if i == 0 && (!strings.Contains(after, "kid2│ noise") || !strings.Contains(after, "\nnoise")) {
			t.Errorf("waiting output is not printed:\n%s", screen)
		}
	}
	if !strings.Contains(screen, "kid1│ half a line\n") {
		t.Errorf("the open line was not ended:\n%s", screen)
	}
	for _, line := range regexp.MustCompile(`(?m)^.*noise.*$`).FindAllString(screen, -1) {
		if strings.Count(line, "noise") != 1 {
			t.Errorf("lines are mixed: %q", line)
		}
	}
}

// readSoon returns the output of a terminal within a time.
func readSoon(t *testing.T, master *os.File, long time.Duration) string {
	t.Helper()
	must(t, master.SetReadDeadline(time.Now().Add(long)))
	var all []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := master.Read(buf)
		if all = append(all, buf[:n]...); err != nil {
			return strings.ReplaceAll(string(all), "\r\n", "\n")
		}
	}
}

// TestWaitingOutputIsLimited checks that golem keeps the beginning and the end of
// much waiting output, and counts the dropped lines.
func TestWaitingOutputIsLimited(t *testing.T) {
	master, terminal := openPTY(t)
	defer master.Close()
	defer terminal.Close()
	c := newConsole(terminal, terminal)
	_, release := c.own()
	const lines = 100_000
	for i := range lines {
		fmt.Fprintf(c.out, "line %d\n", i)
	}
	fmt.Fprint(c.errs, strings.Repeat("x", 1<<20)+"\n")
	fmt.Fprint(c.errs, "the end\n")
	if kept := c.waits.size[0] + c.waits.size[1]; kept > maxWaiting {
		t.Errorf("%d bytes are waiting, want at most %d", kept, maxWaiting)
	}
	got := make(chan string)
	go func() { got <- readSoon(t, master, 3*time.Second) }()
	release()
	screen := <-got
	dropped := regexp.MustCompile(`(?m)^golem: ([\d,]+) lines of output dropped while a question was open$`).FindStringSubmatch(screen)
	if !strings.HasPrefix(screen, "line 0\nline 1\n") || !strings.HasSuffix(screen, "\nthe end\n") || dropped == nil {
		t.Fatalf("got %.200q … %.200q", screen, screen[max(0, len(screen)-200):])
	}
	if n, _ := strconv.Atoi(strings.ReplaceAll(dropped[1], ",", "")); n+strings.Count(screen, "\n")-1 != lines+2 {
		t.Errorf("%d lines dropped, %d shown, want %d in all", n, strings.Count(screen, "\n")-1, lines+2)
	}
}

// TestOtherGolemsWait checks that output waits for a question of another golem process
// at the same terminal.
func TestOtherGolemsWait(t *testing.T) {
	master, terminal := openPTY(t)
	defer master.Close()
	defer terminal.Close()
	release, err := newKeyboard(terminal).take(context.Background(), 0)
	must(t, err)
	other, err := os.OpenFile(terminal.Name(), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	defer other.Close()
	c := newConsole(other, other)
	fmt.Fprint(c.out, "one\n")
	fmt.Fprint(c.errs, "two\n")
	if got := readSoon(t, master, 200*time.Millisecond); got != "" {
		t.Errorf("printed while another golem asks: %q", got)
	}
	release()
	fmt.Fprint(c.out, "three\n")
	c.close()
	if got := readSoon(t, master, time.Second); got != "one\ntwo\nthree\n" {
		t.Errorf("got %q", got)
	}
}

// TestResizeDrawsAgain checks that golem draws the question again after the window size
// changed. Input from before does not count.
func TestResizeDrawsAgain(t *testing.T) {
	r := newLongRequest(strings.Repeat("+x\n", 10))
	for _, test := range []struct {
		columns, rows uint16
		answer        string
		want          tool.Verdict
	}{{40, 30, "\r", tool.Declined}, {40, 30, "y\r", tool.Approved}, {60, 6, "\r", tool.Declined}, {30, 24, "n\r", tool.Declined}, {200, 60, "y\r", tool.Approved}} {
		s := startScript(t, terminalScript{Questions: []scriptedQuestion{{Request: r}}}, setting{env: []string{"NO_COLOR=1"}})
		s.until("[y]es  [n]o")
		s.until(ready)
		s.types("y") // without Enter
		s.resize(test.columns, test.rows)
		s.until("┃ main › summarise")
		s.until(ready)
		s.types(test.answer)
		o, screen := s.end()
		if got := o.Replies[0]; got.Verdict != test.want {
			t.Errorf("%+v: got %+v\n%s", test, got, screen)
		}
		_, again, _ := strings.Cut(screen, "> y\n")
		for line := range strings.Lines(again) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > int(test.columns) {
				t.Errorf("%+v: a line of %d columns: %q", test, n, line)
			}
		}
	}
}

// TestSuspendedQuestionFreesTheTerminal checks that Ctrl-Z at a question suspends golem, and that
// other golem processes can use the terminal meanwhile. Then golem draws the question
// again.
func TestSuspendedQuestionFreesTheTerminal(t *testing.T) {
	s := startScript(t, terminalScript{Questions: []scriptedQuestion{{Request: newRequest("/a")}}}, setting{env: []string{"NO_COLOR=1"}})
	s.until(ready)
	s.types("\x1a")
	stat := fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		data, err := os.ReadFile(stat)
		must(t, err)
		if _, state, _ := strings.Cut(string(data), ") "); strings.HasPrefix(state, "T") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("golem is not suspended: %s", data)
		}
	}
	number, err := unix.IoctlGetInt(int(s.master.Fd()), unix.TIOCGPTN)
	must(t, err)
	other, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	defer other.Close()
	release, err := newKeyboard(other).take(context.Background(), 0)
	if err != nil {
		t.Fatalf("a suspended golem keeps the terminal: %v", err)
	}
	release()
	must(t, s.cmd.Process.Signal(syscall.SIGCONT))
	s.until("┃ main › summarise wants to create /a")
	s.until(ready)
	s.types("y\r")
	other.Close()
	if o, _ := s.end(); o.Replies[0].Verdict != tool.Approved || !o.Restored {
		t.Errorf("got %+v", o)
	}
}

// TestSmallScreens checks that a question is readable on any screen, and that no line is
// too wide. A plain yes counts only if the whole question fits on the screen, or after
// the user viewed all of it.
func TestSmallScreens(t *testing.T) {
	small, big := newRequest("/out/summary.md"), newLongRequest(strings.Repeat("+echo\n", 30))
	for _, test := range []struct {
		columns, rows uint16
		request       tool.Request
		fits          bool
	}{
		{20, 6, small, false}, {40, 6, small, false}, {80, 3, small, false}, {12, 10, small, false},
		{40, 16, small, true}, {80, 8, small, true}, {200, 7, small, true}, {20, 30, small, true},
		{20, 6, big, false}, {80, 24, big, false}, {80, 30, big, false}, {80, 40, big, true}, {200, 60, big, true},
	} {
		s := startScript(t, terminalScript{Questions: []scriptedQuestion{{Request: test.request}}}, setting{columns: test.columns, rows: test.rows, env: []string{"TERM=dumb"}})
		s.until("[?]\r\n")
		s.until(ready)
		s.types("y\r")
		if !test.fits {
			s.until("[?]\r\n")
			s.until(ready)
			s.types("v\r")
			for paging := true; paging; {
				s.until(ready)
				seen := string(s.seen[:s.at])
				paging = strings.LastIndex(seen, "[?]") < strings.LastIndex(seen, "[q]uit")
				if paging {
					s.types("\r")
				}
			}
			s.types("y\r")
		}
		o, screen := s.end()
		if got := o.Replies[0]; got.Verdict != tool.Approved || got.DigestPrefix != "" {
			t.Errorf("%d columns, %d rows: got %+v\n%s", test.columns, test.rows, got, screen)
		}
		if paged := strings.Contains(screen, "> v"); paged == test.fits {
			t.Errorf("%d columns, %d rows: paged: %v\n%s", test.columns, test.rows, paged, screen)
		}
		for line := range strings.Lines(screen) {
			line = strings.TrimSuffix(line, "\n")
			if n := len([]rune(line)); n > int(test.columns) || line != "" && !strings.HasPrefix(line, "┃ ") {
				t.Errorf("%d columns, %d rows: a line of %d: %q", test.columns, test.rows, n, line)
			}
		}
	}
}
