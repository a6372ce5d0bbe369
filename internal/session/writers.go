package session

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/sandbox"
)

// A process that is killed while it writes a file leaves an unfinished one
// behind, which no tool shows and nobody misses, but which lies in the user's
// folder. So doors that change something sign a list, and leave it when they are
// closed; the first door that finds only the signatures of dead ones sweeps.

// signatures is the document with the list.
const writersFile = "doors.json"

// A doorman keeps the list for one door.
type WriterList struct {
	folder  *state.Folder
	leases  state.Leases
	name    string
	release func() error // of the lease that shows that the door lives
}

// NewWriterList sweeps, where only dead doors have signed, and returns who signs
// for a new one.
func NewWriterList(folder *state.Folder, name string, files *sandbox.Sandbox) (*WriterList, error) {
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
		// While the list is held nobody else can sign and begin to write.
		files.Sweep(context.Background(), time.Unix(1<<40, 0))
		return nil
	})
}

// isAlive reports whether the door of a name is still held.
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

// signer returns how to sign the list, once.
func (d *WriterList) Signer() func() error {
	return sync.OnceValue(func() (err error) {
		if d.release, err = d.leases.Take(context.Background(), "door-"+d.name, d.name); err != nil {
			return err
		}
		return d.update(func(list []string) []string { return append(list, d.name) })
	})
}

// remove takes the name off the list, if it is there.
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

// parseNames reads the list. A damaged one is of nobody who lives.
func parseNames(data []byte) (list []string) {
	if json.Unmarshal(data, &list) != nil {
		return nil
	}
	return list
}

func (d *WriterList) update(do func([]string) []string) error {
	return d.folder.Update(writersFile, func(old []byte) ([]byte, error) { return json.Marshal(do(parseNames(old))) })
}
