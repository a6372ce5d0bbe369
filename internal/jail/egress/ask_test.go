package egress_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
)

// A user answers questions, each when the test says so.
type user struct {
	mu      sync.Mutex
	asked   []egress.Question
	arrived chan egress.Question
	answers chan egress.Answer
}

func newUser() *user {
	return &user{arrived: make(chan egress.Question, 100), answers: make(chan egress.Answer, 100)}
}

func (u *user) ask(ctx context.Context, q egress.Question) egress.Answer {
	u.mu.Lock()
	u.asked = append(u.asked, q)
	u.mu.Unlock()
	u.arrived <- q
	select {
	case a := <-u.answers:
		return a
	case <-ctx.Done():
		return egress.Later
	}
}

func (u *user) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.asked)
}

// echo puts a server on the Internet that repeats what it gets.
func (w *world) echo(name string, port uint16) {
	l := listen(w.t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { io.Copy(c, c); c.Close() })
		}
	})
	w.t.Cleanup(func() { l.Close(); w.network.Close(); serving.Wait() })
	w.host(name, port, l.Addr())
}

func newAskingWorld(t *testing.T, patience time.Duration, hosts ...policy.HostRule) (*world, *user) {
	w, u := newWorld(t, hosts...), newUser()
	w.options.Ask, w.options.Patience = u.ask, patience
	w.echo("new.org", 7)
	w.echo("new.org", 8)
	return w.open(), u
}

// passes reports whether a connection is served. It stays open until the answer comes: a
// program that closes its side gives up.
func passes(c net.Conn) bool { return repeated(c, "\x01", 1) == "\x01" }

// repeated sends a text, and returns so many bytes of the echo, then closes the connection.
func repeated(c net.Conn, text string, most int) string {
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	io.WriteString(c, text)
	b := make([]byte, most)
	n, _ := io.ReadFull(c, b)
	return string(b[:n])
}

// TestAskOnce checks that several connections wait for one question, that it names who
// asks and for what, and that the answer for the session needs no second one.
func TestAskOnce(t *testing.T) {
	w, u := newAskingWorld(t, time.Hour)
	var conns []net.Conn
	for range 5 {
		conns = append(conns, w.mustDial("new.org", 7))
	}
	q := <-u.arrived
	if q.Host != "new.org" || q.String() != "new.org (port 7)" || q.Program != "curl" || q.Listed {
		t.Errorf("got %+v", q)
	}
	u.answers <- egress.Session
	for _, c := range append(conns, w.mustDial("new.org", 7)) {
		if !passes(c) {
			t.Error("a connection was refused")
		}
	}
	if u.count() != 1 {
		t.Errorf("%d questions", u.count())
	}
	if r := w.awaitStep(egress.Opened, "new.org"); r.Decision != "allowed for the session" {
		t.Errorf("got %+v", r)
	}
	// Another port is another question: the first did not show it.
	c := w.mustDial("new.org", 8)
	if q := <-u.arrived; q.Ports[0] != 8 {
		t.Errorf("got %+v", q)
	}
	u.answers <- egress.No
	if passes(c) || passes(w.mustDial("new.org", 8)) || u.count() != 2 {
		t.Errorf("a declined port passes, or golem asked again: %d questions", u.count())
	}
}

// TestLateAnswer checks that a connection is refused when nobody answers in time, and
// that an answer that comes later lets the next try through.
func TestLateAnswer(t *testing.T) {
	for _, answer := range []egress.Answer{egress.Once, egress.Session} {
		w, u := newAskingWorld(t, time.Millisecond)
		if passes(w.mustDial("new.org", 7)) {
			t.Fatal("the connection passed without an answer")
		}
		if r := w.awaitStep(egress.Refused, "new.org"); !strings.Contains(r.Why, "the next try passes") {
			t.Errorf("got %+v", r)
		}
		u.answers <- answer
		for !passes(w.mustDial("new.org", 7)) { // the answer may still be on its way
			if t.Context().Err() != nil || u.count() > 1 {
				t.Fatalf("no try passed; %d questions", u.count())
			}
		}
		if answer == egress.Once {
			if passes(w.mustDial("new.org", 7)) {
				t.Error("a second connection passed after Once")
			}
			<-u.arrived
			<-u.arrived
		}
	}
}

// TestAskAgain checks that a question without an answer is asked again with the next try.
func TestAskAgain(t *testing.T) {
	w, u := newAskingWorld(t, time.Hour)
	for i, answer := range []egress.Answer{egress.Later, egress.Later, egress.Once, egress.Later} {
		u.answers <- answer
		if got, want := passes(w.mustDial("new.org", 7)), answer == egress.Once; got != want {
			t.Errorf("try %d: got %v", i, got)
		}
	}
	if u.count() != 4 {
		t.Errorf("%d questions", u.count())
	}
}

// TestAskNothingElse checks what is refused without a question: addresses, and more
// questions than a person can answer.
func TestAskNothingElse(t *testing.T) {
	w, u := newAskingWorld(t, time.Millisecond)
	mustEnd(t, w.mustDial("203.0.113.1", 7))
	mustEnd(t, w.mustDial("198.18.99.1", 7))
	if u.count() != 0 {
		t.Errorf("golem asked %+v", u.asked)
	}
	for port := range uint16(40) {
		mustEnd(t, w.mustDial("new.org", port+100))
	}
	if u.count() != 16 {
		t.Errorf("%d questions are open at once", u.count())
	}
}

// TestTainted checks that a tainted session asks about hosts of the list that take more
// than reads.
func TestTainted(t *testing.T) {
	tainted := false
	w, u := newWorld(t, append(rules("new.org:7"), policy.HostRule{Host: "example.com", Methods: []string{"GET", "HEAD"}})...), newUser()
	w.options.Ask, w.options.Patience, w.options.Tainted = u.ask, time.Hour, func() bool { return tainted }
	w.echo("new.org", 7)
	var log requestLog
	w.site("example.com", &log)
	w.open()
	if !passes(w.mustDial("new.org", 7)) || u.count() != 0 {
		t.Fatal("golem asked about a host of the list")
	}
	tainted = true
	c := w.mustDial("new.org", 7)
	if q := <-u.arrived; !q.Listed || q.Host != "new.org" {
		t.Errorf("got %+v", q)
	}
	u.answers <- egress.No
	if passes(c) {
		t.Error("a declined host passes")
	}
	if code, _, err := get(w.client(nil), "http://example.com/"); err != nil || code != http.StatusOK || u.count() != 1 {
		t.Errorf("a host for reading: got %d, %v, %d questions", code, err, u.count())
	}
}

// TestOptionalHost checks that golem refuses a host that a program does not need without a
// question, unless the list has it.
func TestOptionalHost(t *testing.T) {
	w, u := newWorld(t, rules("listed.org:7")...), newUser()
	w.options.Ask, w.options.Optional = u.ask, []string{"new.org", "listed.org"}
	w.echo("new.org", 7)
	w.echo("listed.org", 7)
	w.open()
	if passes(w.mustDial("new.org", 7)) || u.count() != 0 {
		t.Errorf("the host passed, or golem asked: %d questions", u.count())
	}
	if r := w.awaitStep(egress.Refused, "new.org"); !strings.Contains(r.Why, "does not need new.org; to allow it, use --net +new.org") {
		t.Errorf("got %+v", r)
	}
	if !passes(w.mustDial("listed.org", 7)) {
		t.Error("the list does not count")
	}
}

// TestSSHOfGit checks that golem refuses ssh to a host from which git reads over HTTPS, without a
// question: the key for it is outside. Other hosts and ports are asked about.
func TestSSHOfGit(t *testing.T) {
	w, u := newWorld(t, policy.HostRule{Host: "git.org", GitRead: true}), newUser()
	w.options.Ask = u.ask
	w.echo("git.org", 22)
	w.echo("other.org", 22)
	w.open()
	if passes(w.mustDial("git.org", 22)) || u.count() != 0 {
		t.Errorf("the host passed, or golem asked: %d questions", u.count())
	}
	if r := w.awaitStep(egress.Refused, "git.org"); !strings.Contains(r.Why, "to allow it, use --net +git.org:22") {
		t.Errorf("got %+v", r)
	}
	c := w.mustDial("other.org", 22)
	if q := <-u.arrived; q.Host != "other.org" {
		t.Errorf("got %+v", q)
	}
	u.answers <- egress.No
	if passes(c) {
		t.Error("a declined host passes")
	}
}

// TestQuestionStaysOpen checks that a connection waits for its question, that what the
// program sends meanwhile arrives, and that an answer after the program gave up is for its
// next connection.
func TestQuestionStaysOpen(t *testing.T) {
	w, u := newAskingWorld(t, 0)
	c := w.mustDial("new.org", 7)
	if _, err := c.Write([]byte("\x01hello")); err != nil {
		t.Fatal(err)
	}
	<-u.arrived
	u.answers <- egress.Once
	if got := repeated(c, "!", 7); got != "\x01hello!" {
		t.Errorf("got %q, want hello!", got)
	}
	gone := w.mustDial("new.org", 7)
	<-u.arrived
	gone.Close()
	if r := w.awaitStep(egress.Refused, "new.org"); !strings.Contains(r.Why, "the next try passes") {
		t.Errorf("got %+v", r)
	}
	u.answers <- egress.Once
	for !passes(w.mustDial("new.org", 7)) { // the answer may still be on its way
		if t.Context().Err() != nil || u.count() > 2 {
			t.Fatalf("no try passed; %d questions", u.count())
		}
	}
}
