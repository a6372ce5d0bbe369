package jail

import "runtime"

// A thread is a thread of the kernel that runs one function after the other. No other
// goroutine shares its namespaces, root directory and capabilities.
type thread struct{ work chan func() }

// newThread starts a thread, which first calls become.
func newThread(become func() error) (thread, error) {
	t := thread{make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that no other goroutine runs on it
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

// do runs a function on the thread, and waits for it.
func (t thread) do(what func() error) error {
	done := make(chan error)
	t.work <- func() { done <- what() }
	return <-done
}
