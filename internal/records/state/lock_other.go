//go:build !unix && !windows

package state

import (
	"os"
	"sync"
)

// nonblock is only needed where a directory can hold pipes.
const nonblock = 0

// locks exclude other goroutines of this process; the system has no locks. They are kept
// by name, because each user opens the file anew.
type locks struct {
	mu   sync.Mutex
	held map[string]bool
}

// take locks an open file and reports whether it could.
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

// free releases the lock of an open file.
func (l *locks) free(file *os.File) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, file.Name())
	return nil
}

// guard excludes other changes of the directory by this process.
func (f *Dir) guard(string) (free func() error, err error) {
	file, err := f.lock("folder.lock", nil, true)
	if err != nil {
		return nil, err
	}
	return func() error { return f.unlock(file) }, nil
}

// sync does nothing on this system.
func (f *Dir) sync() error { return nil }

// ownerOf returns false: golem does not ask this system for owners.
func ownerOf(os.FileInfo) (id int, ok bool) { return 0, false }
