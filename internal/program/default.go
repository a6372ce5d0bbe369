package program

import (
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/starter"
	"github.com/golem-forge/golem/internal/worker"
)

// defaultFile stands for the file of the default worker in messages.
const defaultFile = "(default)/main.worker"

// LoadDefault returns the program of golem run in a directory without one: these mounts
// and the default worker. It is golem's own, so there is nothing to trust.
func LoadDefault(o Options, mounts []session.Mount) (*Program, error) {
	p, err := LoadMounts(o, mounts)
	if err != nil {
		return nil, err
	}
	return p, addDefaultWorker(p)
}

// LoadDefaultSession is like LoadDefault, with the mounts that a session was started with.
func LoadDefaultSession(o Options, id string) (*Program, error) {
	p, err := LoadSession(o, id)
	if err != nil {
		return nil, err
	}
	return p, addDefaultWorker(p)
}

func addDefaultWorker(p *Program) error {
	w, err := worker.Parse(defaultFile, starter.DefaultWorker())
	if err != nil {
		return err
	}
	p.Workers, p.Entry = []*worker.Worker{w}, w
	p.bindStorage()
	return nil
}

// IsDefault reports whether a program has only the default worker.
func IsDefault(p *Program) bool { return p.Entry != nil && p.Entry.File == defaultFile }
