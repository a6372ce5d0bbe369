package mcp

// The limits for calls at a time.
const (
	maxCalls = 64       // running calls
	maxHeld  = 64 << 20 // bytes of calls that wait for a slot
)

// slots limits how many calls run at a time.
type slots struct {
	free chan struct{}
	done <-chan struct{}
}

func newSlots(done <-chan struct{}) slots {
	s := slots{make(chan struct{}, maxCalls), done}
	for range maxCalls {
		s.free <- struct{}{}
	}
	return s
}

// enter waits for a slot.
func (s slots) enter() {
	select {
	case <-s.free:
	case <-s.done:
	}
}

// leave frees a slot.
func (s slots) leave() {
	select {
	case s.free <- struct{}{}:
	case <-s.done:
	}
}
