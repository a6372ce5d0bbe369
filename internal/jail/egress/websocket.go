package egress

import (
	"encoding/binary"
	"io"
)

// A socket is the server's side of a websocket, without secrets in the messages that the
// server sends. It keeps the frames as they are, because a placeholder has the length of its
// secret. It looks for secrets over all fragments of a message and over several messages, and
// in the same way over the control frames, which may come in between.
//
// It refuses frames that golem cannot read: with an extension, such as compression, or masked.
type socket struct {
	io.ReadWriteCloser
	data, control []*hiding
	report        func(why string)

	buffer []byte
	head   []byte  // the header of the current frame, as far as it was read
	left   uint64  // bytes of the frame that were not read
	body   []byte  // the content of a control frame
	read   uint64  // bytes of messages that were read
	passed uint64  // how many of them passed
	queue  []extra // what follows bytes of messages that have not passed
	ready  []byte  // bytes to return
	err    error
}

// An extra is a header of a frame or a whole control frame, between bytes of messages.
type extra struct {
	at    uint64 // how many bytes of messages come before it
	bytes []byte
}

func newSocket(c io.ReadWriteCloser, finders []*finder, report func(why string)) *socket {
	s := &socket{ReadWriteCloser: c, report: report, buffer: make([]byte, copySize)}
	for _, f := range finders {
		s.data, s.control = append(s.data, &hiding{finder: f}), append(s.control, &hiding{finder: f})
	}
	return s
}

func (s *socket) Read(b []byte) (int, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		var n int
		n, s.err = s.ReadWriteCloser.Read(s.buffer)
		s.ready = s.ready[:0]
		if err := s.add(s.buffer[:n]); err != nil {
			s.err = err
			s.report(err.Error())
		}
		if s.err != nil {
			s.pass(nil, true)
		}
	}
	n := copy(b, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// add reads bytes of the server.
func (s *socket) add(more []byte) error {
	for len(more) > 0 {
		if s.left == 0 { // in a header
			s.head, more = append(s.head, more[0]), more[1:]
			size, err := s.readHead()
			switch {
			case err != nil:
				return err
			case len(s.head) < size:
				continue
			}
			s.begin()
		} else {
			n := int(min(s.left, uint64(len(more))))
			s.left -= uint64(n)
			if s.isControl() {
				s.body = append(s.body, more[:n]...)
			} else {
				s.read += uint64(n)
				s.pass(more[:n], false)
			}
			more = more[n:]
		}
		if s.left == 0 {
			s.end()
		}
	}
	return nil
}

const (
	finalBit, reservedBits, opcodeBits = 0x80, 0x70, 0x0f
	maskBit, controlBit                = 0x80, 0x08
	maxControl                         = 125
	maxQueue                           = 100 // frames that wait for bytes that are held back
)

func (s *socket) isControl() bool { return s.head[0]&controlBit != 0 }

// readHead returns how long the header of a frame is, as far as that is known.
func (s *socket) readHead() (size int, err error) {
	first := s.head[0]
	switch opcode := first & opcodeBits; {
	case first&reservedBits != 0:
		return 0, refusal("the server sent a websocket frame with an extension, such as compression, that nobody offered; golem cannot keep credentials out of it")
	case opcode > 2 && opcode < 8 || opcode > 10:
		return 0, refusal("the server sent a websocket frame of an unknown kind; golem cannot keep credentials out of it")
	case len(s.head) < 2:
		return 2, nil
	}
	length := s.head[1] &^ maskBit
	switch {
	case s.head[1]&maskBit != 0:
		return 0, refusal("the server sent a masked websocket frame; golem cannot keep credentials out of it")
	case s.isControl() && (first&finalBit == 0 || length > maxControl):
		return 0, refusal("the server sent a websocket control frame that is too long or in parts")
	case length == 126:
		return 4, nil
	case length == 127:
		return 10, nil
	}
	return 2, nil
}

// begin begins the frame whose header was read.
func (s *socket) begin() {
	switch length := s.head[1]; length {
	case 126:
		s.left = uint64(binary.BigEndian.Uint16(s.head[2:]))
	case 127:
		s.left = binary.BigEndian.Uint64(s.head[2:])
	default:
		s.left = uint64(length)
	}
	if !s.isControl() {
		s.insert(s.head)
	}
}

// end ends a frame, and a message with its last frame.
func (s *socket) end() {
	switch {
	case s.isControl():
		s.insert(append(s.head, hideAll(s.control, s.body, true)...))
		s.body = s.body[:0]
	case s.head[0]&finalBit != 0:
		s.pass(nil, true)
	}
	s.head = s.head[:0]
}

// insert passes bytes after all bytes of messages that were read.
func (s *socket) insert(b []byte) {
	s.queue = append(s.queue, extra{s.read, append([]byte(nil), b...)})
	s.pass(nil, len(s.queue) > maxQueue)
}

// pass passes bytes of messages without the secrets. At the end of a message it holds back
// none.
func (s *socket) pass(more []byte, ends bool) {
	if len(more) > 0 || ends {
		more = hideAll(s.data, more, ends)
	}
	for {
		for len(s.queue) > 0 && s.queue[0].at == s.passed {
			s.ready, s.queue = append(s.ready, s.queue[0].bytes...), s.queue[1:]
		}
		if len(more) == 0 {
			return
		}
		n := uint64(len(more))
		if len(s.queue) > 0 {
			n = min(n, s.queue[0].at-s.passed)
		}
		s.ready, more, s.passed = append(s.ready, more[:n]...), more[n:], s.passed+n
	}
}

// hideAll hides several secrets.
func hideAll(list []*hiding, text []byte, ends bool) []byte {
	for _, h := range list {
		text = h.add(text, ends)
	}
	return text
}
