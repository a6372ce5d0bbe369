package program

import (
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/inventory"
	"github.com/golem-forge/golem/internal/records"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/sandbox"
)

// OpenRecords opens the records of the program, and makes them if they are missing.
func (p *Program) OpenRecords() (*records.Records, error) {
	o := records.Options{State: p.state, Root: p.root, Policy: policyHash(p), Now: p.options.Now}
	if place, off := p.Project.Ceiling.UnseenOff(); off {
		o.UnseenOff = place.String()
	}
	return records.Open(o)
}

// OpenHubRecords opens the records of the user's decisions at the hub that has a public key.
func OpenHubRecords(o Options, key string) (*records.Records, error) {
	c, err := o.ceiling()
	if err != nil {
		return nil, err
	}
	r := records.Options{State: filepath.Join(o.stateBase(), inventory.HubStateName(key)), Now: o.Now}
	if place, off := c.UnseenOff(); off {
		r.UnseenOff = place.String()
	}
	return records.Open(r)
}

// State returns the program's state directory, to be shown to the user.
func (p *Program) State() sandbox.Host { return sandbox.Host(p.state) }

// HasState reports whether the program has a state directory.
func (p *Program) HasState() bool {
	_, err := os.Lstat(p.state)
	return err == nil
}

// OpenJournal opens the directory of the journal, for audit.Read and audit.Verify. It
// returns nil if there is no state, and makes none.
func (p *Program) OpenJournal() (*state.Dir, error) {
	if !p.HasState() {
		return nil, nil
	}
	return state.Open(p.state)
}
