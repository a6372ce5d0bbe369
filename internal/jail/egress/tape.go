package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// A tape is a connection whose first bytes can be read again.
type tape struct {
	net.Conn
	recording bool
	bytes     []byte // what was read so far
	at        int    // how much of it was read again
	budget    *budget
	held      int64 // what the tape took of the budget
}

// maxTape is more than crypto/tls accepts as a hello, in records of any size.
const maxTape = 256 << 10

func (t *tape) Read(b []byte) (int, error) {
	if t.at < len(t.bytes) {
		n := copy(b, t.bytes[t.at:])
		t.at += n
		if !t.recording && t.at == len(t.bytes) {
			t.bytes, t.at = nil, 0
		}
		return n, nil
	}
	if !t.recording {
		return t.Conn.Read(b)
	}
	if len(t.bytes) > maxTape {
		return 0, refusal("the first message is too long")
	}
	n, err := t.Conn.Read(b)
	if full := t.budget.take(int64(n)); full != nil {
		return 0, full
	}
	t.held += int64(n)
	t.bytes = append(t.bytes, b[:n]...)
	t.at += n
	return n, err
}

// rewind makes the next Read start at the first byte.
func (t *tape) rewind() { t.at = 0 }

// play ends the recording. Reads start at the first byte.
func (t *tape) play() {
	t.recording, t.at = false, 0
	t.release()
}

// release gives back what the tape took of the budget.
func (t *tape) release() {
	if t.held > 0 {
		t.budget.give(t.held)
		t.held = 0
	}
}

// peek returns at least the first byte, without moving on.
func (t *tape) peek() (byte, error) {
	defer t.rewind()
	var b [4096]byte
	n, err := t.Read(b[:])
	if n == 0 {
		return 0, err
	}
	return b[0], nil
}

// maxWatched is how much watch reads of a connection.
const maxWatched = 64 << 10

// watch reads ahead until stop is called. Gone is closed if the other side closes the
// connection before. Afterwards reads start at the first byte.
func (t *tape) watch() (gone <-chan struct{}, stop func()) {
	closed, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		var b [4096]byte
		for len(t.bytes) < maxWatched {
			if _, err := t.Read(b[:]); errors.Is(err, os.ErrDeadlineExceeded) {
				return
			} else if err != nil {
				close(closed)
				return
			}
		}
	}()
	return closed, func() {
		t.SetReadDeadline(time.Unix(1, 0)) // ends the Read
		<-over
		t.SetReadDeadline(time.Time{})
		t.rewind()
	}
}

const tlsHandshake = 0x16 // the first byte of a TLS connection

// readHello reads a TLS hello and returns the server name in it. The tape can be played
// afterwards.
func (t *tape) readHello(ctx context.Context) (name string, err error) {
	defer t.rewind()
	var hello *tls.ClientHelloInfo
	seen := errors.New("seen")
	err = tls.Server(silent{t}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hello = h
		return nil, seen
	}}).HandshakeContext(ctx)
	if hello == nil {
		return "", refusal("not a valid TLS hello: " + err.Error())
	}
	return lower(hello.ServerName), nil
}

// silent is a connection that sends nothing.
type silent struct{ net.Conn }

func (silent) Write(b []byte) (int, error) { return len(b), nil }
