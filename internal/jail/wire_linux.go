package jail

import (
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/claim"
)

// A wire carries messages with open files between golem, the holder and a cell. It
// preserves the boundaries of messages.
type wire struct {
	fd   int
	peer int // the process of the last message, if identifyPeer was called
}

const (
	maxMessage = 1 << 20
	maxFiles   = maxPorts + 3 // open files in one message
)

// newWires returns the two ends of a wire to a new part.
func newWires() (a, b *wire, err error) {
	if err := checkStarter(); err != nil {
		return nil, nil, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	for _, fd := range fds {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, maxMessage+1<<16)
	}
	return &wire{fd: fds[0]}, &wire{fd: fds[1]}, nil
}

func (w *wire) Close() error {
	if w == nil || w.fd < 0 {
		return nil
	}
	fd := w.fd
	w.fd = -1
	return unix.Close(fd)
}

// finish asks the other side to end, waits for that, and closes the wire. It waits at
// most two seconds for each message of the other side.
func (w *wire) finish() error {
	if w == nil || w.fd < 0 {
		return nil
	}
	unix.Shutdown(w.fd, unix.SHUT_WR)
	w.wait(2 * time.Second)
	for {
		_, files, err := w.receiveBytes()
		for _, fd := range files {
			unix.Close(fd)
		}
		if err != nil {
			return w.Close()
		}
	}
}

// send sends a message with open files.
func (w *wire) send(message any, files ...int) error {
	data, err := encode(message)
	if err != nil {
		return err
	}
	if len(data) > maxMessage {
		return fmt.Errorf("a message of %d bytes; at most %d are allowed", len(data), maxMessage)
	}
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	for {
		err := unix.Sendmsg(w.fd, data, rights, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}

// receive waits for a message and its files. The error is io.EOF if the other side has
// closed the wire.
func (w *wire) receive(message any) (files []int, err error) {
	data, files, err := w.receiveBytes()
	if err != nil {
		return nil, err
	}
	return files, decode(data, message)
}

// receiveBytes does the same as receive without decoding the message.
func (w *wire) receiveBytes() (data []byte, files []int, err error) {
	size, err := w.next()
	if err != nil {
		return nil, nil, err
	}
	data = make([]byte, size)
	rights := make([]byte, unix.CmsgSpace(4*maxFiles)+unix.CmsgSpace(unix.SizeofUcred))
	var n, r int
	for {
		n, r, _, _, err = unix.Recvmsg(w.fd, data, rights, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:r])
	if err != nil {
		return nil, nil, err
	}
	for _, m := range messages {
		if m.Header.Type == unix.SCM_CREDENTIALS {
			if from, err := unix.ParseUnixCredentials(&m); err == nil {
				w.peer = int(from.Pid)
			}
			continue
		}
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, fds...)
	}
	return data[:n], files, nil
}

// next waits for a message, and returns its size.
func (w *wire) next() (int, error) {
	for {
		n, _, err := unix.Recvfrom(w.fd, nil, unix.MSG_PEEK|unix.MSG_TRUNC)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ECONNRESET:
			continue // the kernel reports it once, before the last messages of the other side
		case err == nil && n == 0:
			return 0, io.EOF
		case n > maxMessage:
			return 0, fmt.Errorf("a message of %d bytes; at most %d are allowed", n, maxMessage)
		}
		return n, err
	}
}

// identifyPeer makes the kernel add the sender to each message.
func (w *wire) identifyPeer() { unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }

// awaitRunning waits for a message. If the process on the other side is stopped, for example by a
// debugger, it does not wait for long: the error names the process.
func (w *wire) awaitRunning() error {
	for stopped := 0; ; {
		poll := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, int(stoppedEvery.Milliseconds()))
		if n > 0 || err != nil && err != unix.EINTR {
			return nil // receive returns the message or the error
		}
		is := claim.Stat(w.peer)
		if n < 0 || w.peer == 0 || len(is) == 0 || is[0] != "T" && is[0] != "t" {
			stopped = 0
			continue
		}
		// After Ctrl-Z and fg, the other side may continue a moment later.
		if stopped++; stopped == 2 {
			return fmt.Errorf("golem's helper process %d is stopped; kill -CONT %d continues it", w.peer, w.peer)
		}
	}
}

// stoppedEvery is how often awaitRunning looks whether the other side is stopped.
const stoppedEvery = 2 * time.Second

// wait sets how long receive waits for a message; 0 is forever.
func (w *wire) wait(d time.Duration) {
	limit := unix.NsecToTimeval(int64(d))
	unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
}
