package inbox

import (
	"os"
	"slices"

	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/sandbox"
)

// A WaitingPlace is a directory in which something waits for the user.
type WaitingPlace struct {
	Directory sandbox.Host
	Calls     []string // the ids of calls that wait for approval
	Paused    []string // the sessions of paused runs
}

// WaitingElsewhere returns the directories in which calls wait for approval or runs are
// paused, except the directory of the options. It skips directories that it cannot read:
// it serves hints only.
func WaitingElsewhere(o program.Options) []WaitingPlace {
	known, err := program.KnownPrograms(o)
	if err != nil {
		return nil
	}
	here, err := os.Stat(o.Dir)
	if err != nil {
		return nil
	}
	var list []WaitingPlace
	for _, k := range known {
		info, err := os.Stat(string(k.Directory))
		if k.Directory == "" || err != nil || os.SameFile(info, here) || slices.ContainsFunc(list, func(w WaitingPlace) bool { return w.Directory == k.Directory }) {
			continue
		}
		there := o
		there.Dir = string(k.Directory)
		place := WaitingPlace{Directory: k.Directory}
		if p, _ := program.Load(there); p != nil && p.Project != nil && p.Content.Hash != "" && p.Root() == k.Directory {
			place.add(p)
		}
		if p, err := program.LoadMounts(there, nil); err == nil {
			place.add(p)
		}
		if len(place.Calls)+len(place.Paused) > 0 {
			list = append(list, place)
		}
	}
	return list
}

// add adds the calls that wait in a program, and its paused runs.
func (w *WaitingPlace) add(p *program.Program) {
	if !p.HasState() {
		return
	}
	r, err := p.OpenRecords()
	if err != nil {
		return
	}
	defer r.Close()
	pending, err := r.Pending(p.Sessions())
	if err != nil {
		return
	}
	for _, one := range pending {
		if one.Answer == nil {
			w.Calls = append(w.Calls, one.ID)
		}
		if !slices.Contains(w.Paused, one.Session) && p.Runs().IsPaused(one.Session) {
			w.Paused = append(w.Paused, one.Session)
		}
	}
}
