package detached

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Name is the directory of a detached program in that of its session.
const Name = "detached"

// The files in the directory of a detached program.
const (
	recordName = "record.json"
	socketName = "socket"
	outputName = "output"
	olderName  = "output.old"
)

// A Record says what a golem in the background runs, and how it ended.
type Record struct {
	Command string    `json:"command,omitempty"` // the program, without its arguments: these may hold secrets
	Process int       `json:"pid"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Code    int       `json:"exit_code"` // if it has ended
}

// A Status is the state of a detached program.
type Status struct {
	Record
	Running bool `json:"running"`
	// Killed is true if its golem ended without a last word: it was killed, or the machine
	// went down.
	Killed bool   `json:"killed,omitempty"`
	Last   string `json:"last_line,omitempty"` // of its output, as visible text
}

// Read returns the state of the program in a directory. ok is false if there was none.
func Read(dir string) (s Status, ok bool) {
	data, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil || json.Unmarshal(data, &s.Record) != nil {
		return s, false
	}
	s.Running = isHeld(dir)
	if !s.Running && s.Ended.IsZero() { // it may have ended since the first look
		if data, err := os.ReadFile(filepath.Join(dir, recordName)); err == nil {
			json.Unmarshal(data, &s.Record)
		}
		s.Killed = s.Ended.IsZero()
	}
	s.Last = lastLine(dir)
	return s, true
}

// String says that the program runs, or how it ended.
func (s Status) String() string {
	switch {
	case s.Running:
		return "in the background"
	case s.Killed:
		return "ended: golem was killed"
	}
	return fmt.Sprintf("ended, exit code %d", s.Code)
}

// LastUsed returns when the program ended. For a killed golem it is the time of its last
// output.
func (s Status) LastUsed(dir string) time.Time {
	if !s.Killed {
		return s.Ended
	}
	last := s.Started
	if info, err := os.Stat(filepath.Join(dir, outputName)); err == nil && info.ModTime().After(last) {
		last = info.ModTime()
	}
	return last
}
