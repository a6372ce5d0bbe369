package detached

import (
	"encoding/binary"
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// The two ends of a connection send frames: a byte for the kind, four bytes for the length,
// and the content.
const (
	frameSize  = 's' // to the host: rows and columns; the first one attaches a person's terminal
	frameWatch = 'w' // to the host: shows the output without a person's terminal
	frameKeys  = 'k' // to the host
	frameShown = 'o' // from the host: output
	frameOwner = 'c' // from the host: 1 if this terminal answers the program's questions, 0 if not
	frameBegun = 'b' // from the host: the program runs; the session
	frameEnd   = 'e' // from the host: golem has ended; its exit code
)

// maxFrame is the most bytes of a frame's content.
const maxFrame = 64 << 10

// A frame is one message.
type frame struct {
	kind byte
	data []byte
}

// appendFrames appends content as frames of at most maxFrame bytes.
func appendFrames(to []byte, kind byte, data []byte) []byte {
	for first := true; first || len(data) > 0; first = false {
		n := min(len(data), maxFrame)
		to = append(to, kind)
		to = binary.BigEndian.AppendUint32(to, uint32(n))
		to = append(to, data[:n]...)
		data = data[n:]
	}
	return to
}

// readFrame reads a frame.
func readFrame(r io.Reader) (f frame, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return f, errors.New("the frame is too long")
	}
	f = frame{head[0], make([]byte, n)}
	_, err = io.ReadFull(r, f.data)
	return f, err
}

// numbersFrame returns the content of a frame with numbers.
func numbersFrame(list ...uint16) (data []byte) {
	for _, n := range list {
		data = binary.BigEndian.AppendUint16(data, n)
	}
	return data
}

// numberAt returns the i-th number of a frame, 0 if there is none.
func (f frame) numberAt(i int) uint16 {
	if len(f.data) < 2*i+2 {
		return 0
	}
	return binary.BigEndian.Uint16(f.data[2*i:])
}

// isOwn reports whether the process at the other end of a connection belongs to the user of
// this process.
func isOwn(c *net.UnixConn, user int) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	is := false
	err = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		is = err == nil && int(peer.Uid) == user
	})
	return err == nil && is
}
