//go:build !unix && !windows

package state

import (
	"os"
	"sync"
)

// nonblock is for systems whose directories hold pipes.
const nonblock = 0

// locks are this process's own: the system has none. They are by name, as
// others open a file anew.
type locks struct {
	mu   sync.Mutex
	held map[string]bool
}

// take takes the lock of an open file, and reports whether it could.
func (l *locks) take(file *os.File) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[file.Name()] {
		return false, nil
	}
	if l.held == nil {
		l.held = map[string]bool{}
	}
	l.held[file.Name()] = true
	return true, nil
}

// free gives the lock of an open file back.
func (l *locks) free(file *os.File) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, file.Name())
	return nil
}

// guard keeps others in this process from changing what is in the directory.
func (f *Folder) guard(string) (free func() error, err error) {
	file, err := f.lock("folder.lock", nil, true)
	if err != nil {
		return nil, err
	}
	return func() error { return f.unlock(file) }, nil
}

// sync does nothing: what such a system keeps, it keeps by itself.
func (f *Folder) sync() error { return nil }

// ours is true: such a system knows one user.
func ours(os.FileInfo) bool { return true }
