//go:build !unix && !windows

package state

import (
	"os"
	"sync"
	"time"
)

// nonblock is for systems whose folders hold pipes.
const nonblock = 0

// locks are this process's own: the system has none. They are by name, as
// others open a file anew.
type locks struct {
	mu   sync.Mutex
	held map[string]bool
}

// take takes the lock of an open file. Without wait, it reports whether it could.
func (l *locks) take(file *os.File, wait bool) (bool, error) {
	for {
		l.mu.Lock()
		busy := l.held[file.Name()]
		if !busy {
			if l.held == nil {
				l.held = map[string]bool{}
			}
			l.held[file.Name()] = true
		}
		l.mu.Unlock()
		if !busy || !wait {
			return !busy, nil
		}
		time.Sleep(time.Millisecond)
	}
}

// free gives the lock of an open file back.
func (l *locks) free(file *os.File) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, file.Name())
	return nil
}

// sync does nothing: what such a system keeps, it keeps by itself.
func (f *Folder) sync() error { return nil }

// ours is true: such a system knows one user.
func ours(os.FileInfo) bool { return true }
