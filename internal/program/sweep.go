package program

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/sandbox"
)

// A process that is killed while it writes a file leaves an unfinished one
// behind, which no tool shows and nobody misses, but which lies in the user's
// folder. So doors that change something sign a list, and leave it when they are
// closed; the first door that finds only the signatures of dead ones sweeps.

// signatures is the document with the list.
const writersFile = "doors.json"

// A signer is a journal that signs the list before the first change, and knows which
// changes were made.
type journalWriter struct {
	*audit.Journal
	sign func() error
	done *doneCalls
}

// Write implements tool.Journal.
func (s journalWriter) Write(r audit.Record, wait audit.Wait) error {
	if wait == audit.Durable {
		if err := s.sign(); err != nil {
			return err
		}
	}
	err := s.Journal.Write(r, wait)
	if err == nil && wait == audit.Durable && r.Kind == audit.Intent {
		s.done.begin(r)
	}
	if r.Kind == audit.Outcome { // it has happened, whether or not the journal took it
		s.done.end(r)
	}
	return err
}

// A doorman keeps the list for one door.
type writerList struct {
	folder  *state.Folder
	leases  state.Leases
	name    string
	release func() error // of the lease that shows that the door lives
}

// newWriterList sweeps, where only dead doors have signed, and returns who signs
// for a new one.
func newWriterList(folder *state.Folder, name string, files *sandbox.Sandbox) (*writerList, error) {
	leases, err := folder.Leases()
	if err != nil {
		return nil, err
	}
	d := &writerList{folder: folder, leases: leases, name: name}
	if list, err := d.read(); err != nil || len(list) == 0 {
		return d, err
	}
	return d, d.update(func(list []string) []string {
		if slices.ContainsFunc(list, d.isAlive) {
			return list
		}
		// While the list is held nobody else can sign and begin to write.
		files.Sweep(context.Background(), time.Unix(1<<40, 0))
		return nil
	})
}

// isAlive reports whether the door of a name is still held.
func (d *writerList) isAlive(name string) bool {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	release, err := d.leases.Take(ended, "door-"+name, name)
	if err != nil {
		return true
	}
	release()
	return false
}

// signer returns how to sign the list, once.
func (d *writerList) signer() func() error {
	return sync.OnceValue(func() (err error) {
		if d.release, err = d.leases.Take(context.Background(), "door-"+d.name, d.name); err != nil {
			return err
		}
		return d.update(func(list []string) []string { return append(list, d.name) })
	})
}

// remove takes the name off the list, if it is there.
func (d *writerList) remove() error {
	if d.release == nil {
		return nil
	}
	err := d.update(func(list []string) []string {
		return slices.DeleteFunc(list, func(name string) bool { return name == d.name })
	})
	if freed := d.release(); err == nil {
		err = freed
	}
	return err
}

func (d *writerList) read() ([]string, error) {
	data, err := d.folder.Read(writersFile)
	if err != nil {
		return nil, err
	}
	return parseNames(data), nil
}

// parseNames reads the list. A damaged one is of nobody who lives.
func parseNames(data []byte) (list []string) {
	if json.Unmarshal(data, &list) != nil {
		return nil
	}
	return list
}

func (d *writerList) update(do func([]string) []string) error {
	return d.folder.Update(writersFile, func(old []byte) ([]byte, error) { return json.Marshal(do(parseNames(old))) })
}
