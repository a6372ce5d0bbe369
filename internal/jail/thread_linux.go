package jail

import "runtime"

// A thread is one of the kernel's that does what it is told, one thing after the
// other. What it has become by then, in namespaces, folders and rights, no other
// goroutine shares.
type thread struct{ work chan func() }

// newThread starts one, and lets it become what it is to be.
func newThread(become func() error) (thread, error) {
	t := thread{make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: nobody else gets it
		err := become()
		ready <- err
		if err != nil {
			return
		}
		for do := range t.work {
			do()
		}
	}()
	return t, <-ready
}

// do lets the thread do something, and waits for it.
func (t thread) do(what func() error) error {
	done := make(chan error)
	t.work <- func() { done <- what() }
	return <-done
}
