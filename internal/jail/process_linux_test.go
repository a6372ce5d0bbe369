package jail_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail"
)

// TestInput checks that a command can read its input, all of it or a part.
func TestInput(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		long := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // more than a pipe holds
		for _, test := range []struct {
			line  string
			input []byte
			want  string
		}{
			{"cat", []byte("given\n"), "given\n"},
			{"cat", nil, ""},
			{"wc -c", long, "1048576\n"},
			{"head -c 3", long, "012"},
			{"exec <&-; echo unread", long, "unread\n"},
			{"cat >/dev/null & echo left", long, "left\n"},
		} {
			c := jail.Shell(test.line)
			c.Input = test.input
			r, err := p.Run(t.Context(), c)
			if got := string(r.Stdout.Head); err != nil || r.Code != 0 || got != test.want {
				t.Errorf("%s: got %q, %+v, %v, want %q", test.line, got, r, err, test.want)
			}
		}
		c := jail.Shell("sleep 1000")
		c.Input, c.Time = long, 100*time.Millisecond
		if r, err := p.Run(t.Context(), c); err != nil || !r.Late {
			t.Errorf("a process that does not read: %+v, %v", r, err)
		}
	})
}

// TestProcess checks that the caller can talk to a process while it runs, and that it
// ends when it is closed or its context ends, whatever it does.
func TestProcess(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{Time: time.Millisecond}) // the time limit does not apply to an open process
		opened := func(line string) *jail.Process {
			t.Helper()
			o, err := p.Open(jail.Shell(line))
			check(t, err)
			return o
		}
		echo := opened(`while read x; do echo "err $x" >&2; echo "got $x"; done`)
		lines := bufio.NewReader(echo)
		for _, word := range []string{"one", "two"} {
			_, err := io.WriteString(echo, word+"\n")
			check(t, err)
			if got, err := lines.ReadString('\n'); err != nil || got != "got "+word+"\n" {
				t.Errorf("got %q, %v", got, err)
			}
		}
		if echo.Ended() {
			t.Error("the process has ended")
		}
		if r, err := echo.Close(); err != nil || !r.Stopped || string(r.Stderr.Head) != "err one\nerr two\n" {
			t.Errorf("%+v, %s, %v", r, r.Stderr.Head, err)
		}

		// a process that ends by itself
		short := opened("echo bye; echo why >&2; exit 3")
		if got, err := io.ReadAll(short); err != nil || string(got) != "bye\n" {
			t.Errorf("got %q, %v", got, err)
		}
		if r, err := short.Close(); err != nil || r.Code != 3 || string(r.Stderr.Head) != "why\n" {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := io.WriteString(short, "x"); err == nil {
			t.Error("a write to an ended process succeeded")
		}

		// a process that neither reads nor answers, and leaves children
		deaf := opened("trap '' TERM INT HUP; echo begun; setsid sleep 1000 & sleep 1000")
		lines = bufio.NewReader(deaf)
		if got, err := lines.ReadString('\n'); err != nil || got != "begun\n" {
			t.Errorf("got %q, %v", got, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		undo := deaf.Until(ctx)
		wrote := make(chan error)
		go func() {
			_, err := deaf.Write(bytes.Repeat([]byte("x"), 1<<20))
			wrote <- err
		}()
		cancel()
		if err := <-wrote; err == nil {
			t.Error("a write to a process that does not read succeeded")
		}
		if got, err := io.ReadAll(lines); err != nil || len(got) > 0 {
			t.Errorf("got %q, %v", got, err)
		}
		if undo() {
			t.Error("the call back for the end did not run")
		}
		if r, err := deaf.Close(); err != nil || !r.Stopped {
			t.Errorf("%+v, %v", r, err)
		}

		// when the session ends, open processes end too
		left := opened("echo begun; sleep 1000")
		if got, err := bufio.NewReader(left).ReadString('\n'); err != nil || got != "begun\n" {
			t.Errorf("got %q, %v", got, err)
		}
		check(t, p.Close())
		if got, err := io.ReadAll(left); err != nil || len(got) > 0 {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := left.Close(); err == nil || !strings.Contains(err.Error(), "ended") {
			t.Errorf("closed after its session: %v", err)
		}
	})
}
