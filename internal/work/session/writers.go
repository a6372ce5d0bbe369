package session

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// A process that is killed while it writes a file leaves an unfinished file in the user's
// directory. No tool shows it. So a gate that changes files adds its name to a list, and
// removes it when it is closed. The first gate that finds only names of dead gates
// removes the unfinished files.

// writersFile is the state document with the list.
const writersFile = "doors.json"

// A WriterList is the list as one gate uses it.
type WriterList struct {
	folder  *state.Dir
	leases  state.Leases
	name    string
	release func() error // releases the lease that shows that the gate is alive
}

// NewWriterList returns the list for a new gate. If it has only names of dead gates, it
// removes their unfinished files first.
func NewWriterList(folder *state.Dir, name string, files *sandbox.Sandbox) (*WriterList, error) {
	leases, err := folder.Leases()
	if err != nil {
		return nil, err
	}
	d := &WriterList{folder: folder, leases: leases, name: name}
	if list, err := d.read(); err != nil || len(list) == 0 {
		return d, err
	}
	return d, d.update(func(list []string) []string {
		if slices.ContainsFunc(list, d.isAlive) {
			return list
		}
		// Update holds a lock: no other gate can add its name and write meanwhile.
		files.Sweep(context.Background(), time.Unix(1<<40, 0))
		return nil
	})
}

// isAlive reports whether the gate with a name still holds its lease.
func (d *WriterList) isAlive(name string) bool {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	release, err := d.leases.Take(ended, "door-"+name, name)
	if err != nil {
		return true
	}
	release()
	return false
}

// Signer returns a function that adds the name of the gate to the list. Only its first
// call does so.
func (d *WriterList) Signer() func() error {
	return sync.OnceValue(func() (err error) {
		if d.release, err = d.leases.Take(context.Background(), "door-"+d.name, d.name); err != nil {
			return err
		}
		return d.update(func(list []string) []string { return append(list, d.name) })
	})
}

// Remove removes the name from the list, if it is there.
func (d *WriterList) Remove() error {
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

func (d *WriterList) read() ([]string, error) {
	data, err := d.folder.Read(writersFile)
	if err != nil {
		return nil, err
	}
	return parseNames(data), nil
}

// parseNames parses the list. A damaged list counts as empty.
func parseNames(data []byte) (list []string) {
	if json.Unmarshal(data, &list) != nil {
		return nil
	}
	return list
}

// update changes the list. An empty list needs no document, and no sync: if a crash of the
// machine brings the document back, its names are those of dead gates.
func (d *WriterList) update(do func([]string) []string) error {
	return d.folder.Update(writersFile, func(old []byte) ([]byte, error) {
		list := do(parseNames(old))
		if len(list) == 0 {
			return nil, nil
		}
		return json.Marshal(list)
	})
}
