package scan

import (
	"bytes"
	"context"
	be "encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// socket returns an address that is short enough for a socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "scan")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// fakeClamd speaks clamd's protocol, and answers what a function returns for the bytes it
// got. An empty answer closes the connection.
func fakeClamd(t *testing.T, largest int, answer func(data []byte) string) Dial {
	t.Helper()
	address := socket(t)
	listener, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = listener.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, answerClamd(conn, largest, answer))
			_ = conn.Close()
		}
	}()
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", address)
	}
}

func answerClamd(conn net.Conn, largest int, answer func([]byte) string) string {
	command := make([]byte, len("zINSTREAM\x00"))
	if _, err := io.ReadFull(conn, command); err != nil || string(command) != "zINSTREAM\x00" {
		return "UNKNOWN COMMAND\x00"
	}
	var data []byte
	for {
		var length [4]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return "INSTREAM: cut off. ERROR\x00"
		}
		n := be.BigEndian.Uint32(length[:])
		if n == 0 {
			return answer(data)
		}
		if len(data)+int(n) > largest {
			return "INSTREAM size limit exceeded. ERROR\x00"
		}
		block := make([]byte, n)
		if _, err := io.ReadFull(conn, block); err != nil {
			return "INSTREAM: cut off. ERROR\x00"
		}
		data = append(data, block...)
	}
}

// TestClamd checks how answers of clamd are read.
func TestClamd(t *testing.T) {
	large := bytes.Repeat([]byte("words and words\n"), 20_000)
	for _, c := range []struct {
		name   string
		answer func([]byte) string
		want   string
	}{
		{"clean", func([]byte) string { return "stream: OK\x00" }, ""},
		{"gets all bytes", func(data []byte) string {
			if !bytes.Equal(data, large) {
				return "stream: Changed FOUND\x00"
			}
			return "stream: OK\x00"
		}, ""},
		{"found", func([]byte) string { return "stream: Win.Test.EICAR_HDB-1 FOUND\x00" }, "clamd hold=true line=0 offset=0: Win.Test.EICAR_HDB-1\n"},
		{"error", func([]byte) string { return "stream: Can't allocate memory ERROR\x00" }, "cannot tell: clamd says"},
		{"garbage", func([]byte) string { return "OK" }, "cannot tell: clamd says"},
		{"half an answer", func([]byte) string { return "stream: O" }, "cannot tell: clamd says"},
		{"two answers", func([]byte) string { return "stream: OK\x00stream: OK\x00" }, "cannot tell: clamd says"},
		{"no answer", func([]byte) string { return "" }, "cannot tell: clamd gave no answer"},
		{"hangs", nil, "cannot tell: it took too long"},
		{"has enough", nil, "cannot tell: clamd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			largest, limits := 1<<30, Limits{}
			switch c.name {
			case "has enough":
				largest = 1000
			case "hangs":
				limits.Time = 500 * time.Millisecond
				c.answer = func([]byte) string { <-t.Context().Done(); return "" }
			}
			s := newSet(t, Options{Limits: limits, Clamd: fakeClamd(t, largest, c.answer)})
			v := s.Scan(t.Context(), of("a.txt", large))
			if got := describeVerdict(v); v.Held != (c.want != "") || !strings.Contains(got, c.want) || v.Held && !strings.Contains(got, "clamd hold=true") {
				t.Errorf("want %q, got held=%v:\n%s", c.want, v.Held, got)
			}
		})
	}
	address := socket(t)
	gone := newSet(t, Options{Clamd: func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", address) }})
	v := gone.Scan(t.Context(), of("a", []byte("x")))
	if got := describeVerdict(v); !v.Held || !strings.Contains(got, "clamd hold=true line=0 offset=0: cannot tell: clamd cannot be reached") || strings.Contains(got, address) {
		t.Errorf("got %s", got)
	}
}
