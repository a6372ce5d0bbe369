package mcp

// How many calls there are at a time.
const (
	maxCalls = 64       // under way
	maxHeld  = 64 << 20 // bytes of those that wait for a slot
)

// Slots are for calls that are under way.
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
