package session

import (
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/files/changes"
)

// Examined keeps what reviews of sessions have found in changed files, so that the next
// review reads only files that have changed since. It is for a process that reviews the same
// sessions again and again. It keeps no contents. Nil keeps nothing.
type Examined struct {
	mu       sync.Mutex
	sessions map[string]map[string]examination // by directory of the session and name of the file
}

// maxExamined is how many files of all sessions Examined keeps.
const maxExamined = 100_000

// settling is how long golem waits until it takes the stamp of a file as a sign of its
// content. Clocks of file systems have ticks of up to two seconds.
const settling = 3 * time.Second

// An examination is what a review has found in a file.
type examination struct {
	stamp          uint64
	added, removed int
	binary, unread bool
	emptied        bool
	flags          []review.Flag
}

// of returns what is known about the files of a session.
func (e *Examined) of(one *Session) map[string]examination {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessions[one.dir]
}

// set replaces what is known about the files of a session.
func (e *Examined) set(one *Session, files map[string]examination) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	total := len(files)
	for dir, other := range e.sessions {
		if dir != one.dir {
			total += len(other)
		}
	}
	if e.sessions == nil || total > maxExamined {
		e.sessions = make(map[string]map[string]examination)
	}
	delete(e.sessions, one.dir)
	if len(files) > 0 && len(files) <= maxExamined {
		e.sessions[one.dir] = files
	}
}

// find returns what is known about a change, if its file has not changed since.
func find(known map[string]examination, name string, c changes.Change) (examination, bool) {
	e, ok := known[name]
	return e, ok && c.Stamp != 0 && e.stamp == c.Stamp
}
