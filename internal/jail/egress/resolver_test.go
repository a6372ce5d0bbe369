package egress_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/golem-forge/golem/internal/jail/egress"
)

// send sends a question by UDP or TCP and returns the answer.
func (w *world) send(network string, question []byte) (dnsmessage.Message, int) {
	w.t.Helper()
	address := w.resolver.LocalAddr().String()
	if network == "tcp" {
		address = w.streams.Addr().String()
	}
	c, err := net.Dial(network, address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	b := make([]byte, 4096)
	size := 0
	if network == "tcp" {
		c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...))
		var n uint16
		if err = binary.Read(c, binary.BigEndian, &n); err == nil {
			size, err = io.ReadFull(c, b[:n])
		}
	} else {
		c.Write(question)
		size, err = c.Read(b)
	}
	if err != nil {
		w.t.Fatalf("%s: %v", network, err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(b[:size]); err != nil {
		w.t.Fatalf("%s: answer %x: %v", network, b[:size], err)
	}
	return m, size
}

func question(name string, kind dnsmessage.Type) dnsmessage.Message {
	return dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
}

func TestResolver(t *testing.T) {
	w := newWorld(t, rules("example.org", "*.example.com", "ssh.example.net:22")...).open()
	for _, network := range []string{"udp", "tcp"} {
		for _, test := range []struct {
			name    string
			kind    dnsmessage.Type
			want    dnsmessage.RCode
			answers int
		}{
			{"example.org.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
			{"eXample.ORG.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
			{"example.org.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, 0},
			{"example.org.", 65, dnsmessage.RCodeSuccess, 0}, // HTTPS, with addresses and keys
			{"example.org.", dnsmessage.TypeALL, dnsmessage.RCodeSuccess, 0},
			{"example.org.", dnsmessage.TypeTXT, dnsmessage.RCodeSuccess, 0},
			{"a.b.example.com.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
			{"ssh.example.net.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
			{"example.com.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
			{"evilexample.com.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
			{"example.org.evil.com.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
			{"evil.com.", dnsmessage.TypeAAAA, dnsmessage.RCodeNameError, 0},
			{"127.0.0.1.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
			{"0x7f.1.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
			{"com.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
			{".", dnsmessage.TypeA, dnsmessage.RCodeFormatError, 0},
			{"a_b.example.com.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
			{"a_b.evil.org.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
			{"a b.example.com.", dnsmessage.TypeA, dnsmessage.RCodeFormatError, 0},
			{"evil.org\x00.example.com.", dnsmessage.TypeA, dnsmessage.RCodeFormatError, 0},
			{"evil/.example.com.", dnsmessage.TypeA, dnsmessage.RCodeFormatError, 0},
			{"ex\u0430mple.example.com.", dnsmessage.TypeA, dnsmessage.RCodeFormatError, 0},
			{"*.example.com.", dnsmessage.TypeA, dnsmessage.RCodeFormatError, 0},
		} {
			q := question(test.name, test.kind)
			b, err := q.Pack()
			if err != nil {
				t.Fatal(err)
			}
			m, size := w.send(network, b)
			if m.RCode != test.want || len(m.Answers) != test.answers || m.ID != 7 || !m.Response || m.Truncated || size > 512 {
				t.Errorf("%s %q %v: got %v with %d answers in %d bytes, want %v with %d", network, test.name, test.kind, m.RCode, len(m.Answers), size, test.want, test.answers)
			}
		}
		for name, change := range map[string]func(*dnsmessage.Message){
			"opcode":        func(m *dnsmessage.Message) { m.OpCode = 4 },
			"class":         func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS },
			"no question":   func(m *dnsmessage.Message) { m.Questions = nil },
			"two questions": func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) },
		} {
			q := question("example.org.", dnsmessage.TypeA)
			change(&q)
			b, err := q.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if m, _ := w.send(network, b); m.RCode == dnsmessage.RCodeSuccess || len(m.Answers) > 0 {
				t.Errorf("%s %s: got %v", network, name, m)
			}
		}
	}
	one, err := w.lookUp("example.org")
	two, err2 := w.lookUp("EXAMPLE.org")
	three, err3 := w.lookUp("a.b.example.com")
	if err != nil || err2 != nil || err3 != nil || one != two || one == three || !netip.MustParsePrefix("198.18.0.0/15").Contains(one) {
		t.Errorf("got %v, %v, %v; %v, %v, %v", one, two, three, err, err2, err3)
	}
}

// TestResolverIgnoresNoise checks that the resolver survives bytes that are no question:
// it answers the next one.
func TestResolverIgnoresNoise(t *testing.T) {
	w := newWorld(t, rules("example.org")...).open()
	c, err := net.Dial("udp", w.resolver.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q := question("example.org.", dnsmessage.TypeA)
	good, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	for size := range good {
		c.Write(good[:size])
	}
	c.Write([]byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1}) // a name that points to itself
	c.Write(append([]byte{0, 7, 0x80}, good[3:]...))                          // an answer
	c.Write(make([]byte, 60000))
	if a, err := w.lookUp("example.org"); err != nil || !a.IsValid() {
		t.Errorf("got %v, %v", a, err)
	}
}

// TestManyNames checks that a program cannot exhaust golem's memory with names, nor the
// room for names of the list with names that are not on it.
func TestManyNames(t *testing.T) {
	w := newWorld(t, rules("*.example.com")...)
	w.options.Ask = func(context.Context, egress.Question) egress.Answer { return egress.No }
	w.open()
	c, err := net.Dial("udp", w.resolver.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	ask := func(name string) (dnsmessage.RCode, netip.Addr) {
		q := question(name, dnsmessage.TypeA)
		b, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		c.Write(b)
		b = make([]byte, 512)
		size, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		var m dnsmessage.Message
		if err := m.Unpack(b[:size]); err != nil {
			t.Fatal(err)
		}
		if len(m.Answers) == 0 {
			return m.RCode, netip.Addr{}
		}
		return m.RCode, netip.AddrFrom4(m.Answers[0].Body.(*dnsmessage.AResource).A)
	}
	before := heap()
	refused := 0
	for i := range 20_000 {
		if code, _ := ask(fmt.Sprintf("%0200d.evil%d.org.", 0, i)[150:]); code == dnsmessage.RCodeServerFailure {
			refused++
		}
	}
	if refused == 0 {
		t.Error("golem stored all 20,000 names that are not on the list")
	}
	seen := map[netip.Addr]bool{}
	for i := range 10_000 {
		code, a := ask(fmt.Sprintf("name%d.example.com.", i))
		if code != dnsmessage.RCodeSuccess || seen[a] {
			t.Fatalf("name %d of the list: %v, %v", i, code, a)
		}
		seen[a] = true
	}
	if _, again := ask("name77.example.com."); !seen[again] {
		t.Error("a name has another address than before")
	}
	seen = nil
	if grown := heap() - before; grown > 20<<20 {
		t.Errorf("30,000 names took %d bytes", grown)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
