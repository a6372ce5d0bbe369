package state

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// How long a process waits for the locks of a directory, and between two tries. A
// blocking lock call would wait forever if the process that holds the lock is stopped.
const (
	patience = 10 * time.Second
	minPause = 20 * time.Microsecond
	maxPause = 2 * time.Millisecond
	// After this many pauses, await tries this often between two pauses: processes that
	// take the lock again and again release it only for microseconds.
	pauses, looks = 16, 500
)

// waits is the time that the users of a directory may wait for all its locks together.
// One call takes several locks. If it waited in vain for the first, it does not wait as
// long again for each of the others.
type waits struct {
	patience time.Duration

	mu   sync.Mutex
	vain map[string]time.Duration // how long each lock was waited for in vain
}

// left returns how long the next wait may take: the rest of the time, and at least a
// moment.
func (w *waits) left() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.patience
	for _, d := range w.vain {
		left -= d
	}
	return max(left, w.patience/100)
}

// failed records a lock that could not be taken, and returns how long it was waited for.
func (w *waits) failed(name string, d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.vain == nil {
		w.vain = make(map[string]time.Duration)
	}
	w.vain[name] += d
	return w.vain[name]
}

// got records that a lock could be taken.
func (w *waits) got(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.vain, name)
}

// await locks an open file.
func (f *Dir) await(file *os.File) error {
	var end <-chan time.Time
	var left time.Duration
	pause := minPause
	for look := 1; ; look++ {
		got, err := f.locks.take(file)
		if got {
			f.waits.got(file.Name())
		}
		if got || err != nil {
			return err
		}
		if look > pauses && look%looks != 0 {
			continue
		}
		if end == nil {
			left = f.waits.left()
			end = time.After(left)
		}
		select {
		case <-end:
			return locked(holder(file), f.waits.failed(file.Name(), left))
		default:
			time.Sleep(pause)
			pause = min(2*pause, maxPause)
		}
	}
}

// A process is a process that holds a lock.
type process struct {
	id   int
	name string
}

// locked is the error for a lock that another process did not release. The process is 0
// if it is unknown.
func locked(by process, waited time.Duration) error {
	who, end := "another process", "end it"
	if by.id > 0 {
		who, end = fmt.Sprintf("process %d", by.id), fmt.Sprintf("end it with kill %d", by.id)
		if by.name != "" {
			who += " (" + by.name + ")"
		}
	}
	return fmt.Errorf("locked by %s; golem waited %v; wait until that process is done or %s, and try again; delete nothing", who, waited, end)
}
