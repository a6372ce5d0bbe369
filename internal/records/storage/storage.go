// Package storage finds, lists, measures and removes what golem keeps for a program: its
// sessions, runs, approvals and journal.
package storage

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// A Storage is what golem keeps for one program.
type Storage struct {
	Sessions  session.Sessions // it names the directories of the program and of its state
	Base      string           // the directory with the state of all programs
	Policy    string           // the hash that remembered approvals are bound to
	UnseenOff string           // the line of a policy that does not allow approving what golem did not show; "" for none
	Histories *Histories       // for a process that looks at the same sessions again and again, nil for others
}

// Dir returns the program's state directory, to be shown to the user.
func (s Storage) Dir() sandbox.Host { return sandbox.Host(s.Sessions.State) }

// Exists reports whether the program has a state directory.
func (s Storage) Exists() bool {
	_, err := os.Lstat(s.Sessions.State)
	return err == nil
}

// OpenJournal opens the directory of the journal, for audit.Read and audit.Verify. It
// returns nil if there is no state, and makes none.
func (s Storage) OpenJournal() (*state.Dir, error) {
	if !s.Exists() {
		return nil, nil
	}
	return state.Open(s.Sessions.State)
}

// TaintFile returns the file that exists once a session has read untrusted input.
// Overlays and logs of the session may hold what was made of it. Without a session it is
// the program's: an agent that is served again may remember what it has read. Asking for a
// new session removes it.
func (s Storage) TaintFile(one *session.Session) string {
	if one == nil {
		return filepath.Join(s.Sessions.State, "untrusted")
	}
	return one.TaintFile()
}

// Measure measures how much golem stores.
func (s Storage) Measure() inventory.Use { return s.limit().Measure(s.Sessions.Now()) }

// CheckLimit returns an error if golem stores too much to start another session.
func (s Storage) CheckLimit() error { return s.limit().Check(s.Sessions.Now()) }

// limit returns how much the user lets golem store.
func (s Storage) limit() inventory.Limit {
	own := s.Sessions.Project.Ceiling.Preferences()
	return inventory.Limit{Base: s.Base, Bytes: own.StateLimit, From: own.StateFrom.String()}
}

// fetchedName is the file with the ids of the jobs whose sessions were brought here.
const fetchedName = "jobs.json"

// FetchedJobs returns the ids of the jobs whose sessions were brought here, also of those that
// are gone again.
func (s Storage) FetchedJobs() (ids []string, err error) {
	data, err := os.ReadFile(filepath.Join(s.Sessions.State, fetchedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &ids)
	}
	return ids, err
}

// NoteFetched notes that the session of a job was brought here.
func (s Storage) NoteFetched(id string) error {
	folder, err := state.Open(s.Sessions.State)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Update(fetchedName, func(old []byte) ([]byte, error) {
		var ids []string
		if len(old) > 0 {
			if err := json.Unmarshal(old, &ids); err != nil {
				return nil, err
			}
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		return json.Marshal(ids)
	})
}
