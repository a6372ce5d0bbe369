package testutil

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"time"
)

// A Screen collects what a terminal shows. Only one goroutine may wait at a time.
type Screen struct {
	t    *testing.T
	more chan struct{} // new output arrived
	over chan struct{} // the output has ended

	mu    sync.Mutex
	most  int // minimum number of bytes to keep, 0 for all
	seen  []byte
	count int // number of bytes so far, including dropped ones
	at    int // offset after the last text that Until found
}

// NewScreen returns an empty screen.
func NewScreen(t *testing.T) *Screen {
	return &Screen{t: t, more: make(chan struct{}, 1), over: make(chan struct{})}
}

// Watch collects the output of a terminal until it ends.
func (s *Screen) Watch(terminal io.Reader) {
	defer close(s.over)
	var buf [64 << 10]byte
	for {
		n, err := terminal.Read(buf[:])
		s.add(buf[:n])
		if err != nil {
			return
		}
	}
}

func (s *Screen) add(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.count = append(s.seen, text...), s.count+len(text)
	if s.most > 0 && len(s.seen) > 2*s.most {
		dropped := len(s.seen) - s.most
		s.seen, s.at = append(s.seen[:0], s.seen[dropped:]...), max(0, s.at-dropped)
	}
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Keep sets how many of the last bytes to keep at least; older output may be dropped.
func (s *Screen) Keep(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
}

// Until waits for a text after the one that it found before.
func (s *Screen) Until(text string) {
	s.t.Helper()
	late := time.After(20 * time.Second)
	for over := false; !s.past(text); {
		if over {
			seen, _ := s.Seen()
			s.t.Fatalf("the screen lacks %q, after what was waited for before: %q", text, seen)
		}
		select {
		case <-s.more:
		case <-s.over:
			over = true
		case <-late:
			over = true
		}
	}
}

// past reports whether the text has appeared, and advances behind it.
func (s *Screen) past(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := bytes.Index(s.seen[s.at:], []byte(text))
	if i >= 0 {
		s.at += i + len(text)
	}
	return i >= 0
}

// Seen returns the kept output, and the number of bytes of all output so far.
func (s *Screen) Seen() (text string, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.seen), s.count
}

// Over returns a channel that is closed when the output has ended.
func (s *Screen) Over() <-chan struct{} { return s.over }
