package mcp

import (
	"slices"
	"sync"
)

// The limits for calls at a time.
const (
	maxCalls = 64 // running calls
	// maxRunning limits the bytes of large calls that run. A call takes many times the memory
	// of its message, for its arguments, its content, the review and the digest.
	maxRunning = maxMessage
	// maxHeld limits the bytes of calls that wait for a slot, and of those that wait for a
	// person.
	maxHeld = 2 * maxMessage
	// maxSmall is the size of the largest message that counts as small. A small call never
	// waits for the bytes of others.
	maxSmall = 64 << 10
)

// slots limits how many calls run at a time, and how many bytes the large ones have. Calls
// that wait get their slots in the order in which they asked.
type slots struct {
	mu      sync.Mutex
	calls   int
	bytes   int
	waiting []*ticket
}

// A ticket is the place of a call that waits for a slot.
type ticket struct {
	size  int
	ready chan struct{} // closed when the call has its slot
}

// weigh returns the bytes that a message counts.
func weigh(size int) int {
	if size <= maxSmall {
		return 0
	}
	return size
}

// fits reports whether a call fits beside those that run. A call with many bytes fits if it
// is the only one with any.
func (s *slots) fits(size int) bool {
	return s.calls < maxCalls && (size == 0 || s.bytes == 0 || s.bytes+size <= maxRunning)
}

// tryEnter takes a slot for a call if one is free and nobody waits. The sizes of all methods
// are those that weigh returns.
func (s *slots) tryEnter(size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 || !s.fits(size) {
		return false
	}
	s.calls++
	s.bytes += size
	return true
}

// ask asks for a slot. The caller waits until the ticket is ready, or gives it up.
func (s *slots) ask(size int) *ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &ticket{size, make(chan struct{})}
	s.waiting = append(s.waiting, t)
	s.grant()
	return t
}

// giveUp ends the wait of a ticket, or frees the slot that it has got.
func (s *slots) giveUp(t *ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, t); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
		s.calls--
		s.bytes -= t.size
	}
	s.grant()
}

// enter waits for a slot. It takes one in any case when done is closed.
func (s *slots) enter(size int, done <-chan struct{}) {
	t := s.ask(size)
	select {
	case <-t.ready:
	case <-done:
		s.giveUp(t)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls++
		s.bytes += size
	}
}

// leave frees a slot and its bytes.
func (s *slots) leave(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	s.bytes -= size
	s.grant()
}

// grant gives free slots to those that wait.
func (s *slots) grant() {
	for len(s.waiting) > 0 && s.fits(s.waiting[0].size) {
		t := s.waiting[0]
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
		s.calls++
		s.bytes += t.size
		close(t.ready)
	}
}
