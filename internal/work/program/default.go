package program

import (
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/starter"
	"github.com/golem-forge/golem/internal/work/worker"
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
	if p.Entry, err = worker.Parse(defaultFile, starter.DefaultWorker()); err != nil {
		return nil, err
	}
	p.Workers = []*worker.Worker{p.Entry}
	p.bindStorage()
	return p, nil
}

// LoadDefaultSession is like LoadDefault, with the mounts that a session was started with.
func LoadDefaultSession(o Options, id string) (*Program, error) {
	mounts, err := o.sessionMounts(id)
	if err != nil {
		return nil, err
	}
	return LoadDefault(o, mounts)
}
