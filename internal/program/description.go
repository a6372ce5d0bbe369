package program

import (
	"github.com/golem-forge/golem/internal/inventory"
	"github.com/golem-forge/golem/internal/session"
)

// KnownPrograms returns all directories that golem keeps state for, sorted by name.
func KnownPrograms(o Options) ([]inventory.Known, error) {
	return inventory.Programs(o.stateBase(), func(state string) (sources []string) {
		list, err := session.Store{State: state}.List()
		if err != nil {
			return nil
		}
		for _, s := range list {
			for _, m := range s.Mounts {
				sources = append(sources, m.Source)
			}
		}
		return sources
	})
}

// Journals returns the journals of all programs, sorted by name.
func Journals(o Options) ([]inventory.Journal, error) { return inventory.Journals(o.stateBase()) }

// MeasureState measures how much golem stores.
func MeasureState(p *Program) inventory.Use { return stateLimit(p).Measure(p.options.Now()) }

// CheckStateLimit returns an error if golem stores too much to start another session.
func CheckStateLimit(p *Program) error { return stateLimit(p).Check(p.options.Now()) }

// stateLimit returns how much the user lets golem store.
func stateLimit(p *Program) inventory.Limit {
	own := p.Project.Ceiling.Preferences()
	return inventory.Limit{Base: p.options.stateBase(), Bytes: own.StateLimit, From: own.StateFrom.String()}
}
