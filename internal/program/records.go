package program

import (
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/inventory"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/records"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/sandbox"
)

// OpenRecords opens the records of the program, and makes them if they are missing.
func (p *Program) OpenRecords() (*records.Records, error) {
	return records.Open(records.Options{State: p.state, Root: p.root, Policy: policyHash(p), UnseenOff: UnseenOff(p), Now: p.options.Now})
}

// OpenHubRecords opens the records of the user's decisions at the hub that has a public key.
func OpenHubRecords(o Options, key string) (*records.Records, error) {
	unseenOff, err := o.UnseenOff()
	if err != nil {
		return nil, err
	}
	return records.Open(records.Options{State: filepath.Join(o.stateBase(), inventory.HubStateName(key)), UnseenOff: unseenOff, Now: o.Now})
}

// UnseenOff returns the line of a policy of this machine that does not allow approving what
// golem did not show, "" for none.
func (o Options) UnseenOff() (string, error) {
	c, err := o.ceiling()
	return unseenOff(c), err
}

// UnseenOff returns the line of a policy that does not allow approving what golem did not
// show, for a program, "" for none.
func UnseenOff(p *Program) string { return unseenOff(p.Project.Ceiling) }

func unseenOff(c project.Ceiling) string {
	if place, off := c.UnseenOff(); off {
		return place.String()
	}
	return ""
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
