package inbox

import (
	"cmp"
	"os"
	"slices"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/records/inventory"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// A WaitingPlace is a directory in which something waits for the user.
type WaitingPlace struct {
	Directory sandbox.Host
	Calls     []string           // the ids of calls that wait for approval
	Paused    []*session.Session // those of paused runs
}

// WaitingElsewhere returns the directories in which calls wait for approval or runs are
// paused, except the directory of the options. It skips directories that it cannot read:
// it serves hints only.
func WaitingElsewhere(o program.Options) []WaitingPlace {
	known, err := inventory.Programs(o.StateBase())
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
	var pending []approval.PendingRequest
	withRecords(p, func(r *storage.Records) (err error) { // without them there is nothing to add
		pending, err = r.Pending(p.Storage.Sessions)
		return err
	})
	for _, one := range pending {
		if one.Answer == nil {
			w.Calls = append(w.Calls, one.ID)
		}
		known := slices.ContainsFunc(w.Paused, func(s *session.Session) bool { return s.ID == one.Session })
		if s, err := p.Storage.Sessions.Find(one.Session); err == nil && !known && p.Storage.Runs().IsPaused(s.ID) {
			w.Paused = append(w.Paused, s)
		}
	}
}

// A ChangedPlace is a directory with sessions that have changes.
type ChangedPlace struct {
	Directory sandbox.Host
	Sessions  []ProgramSession // the last used one first
}

// ChangedBelow returns the directories below dir whose sessions have changes. It skips
// directories that it cannot read: it serves hints only.
func ChangedBelow(o program.Options, dir string) (list []ChangedPlace) {
	known, err := inventory.Programs(o.StateBase())
	if err != nil {
		return nil
	}
	for _, k := range known {
		at := string(k.Directory)
		if at == "" || at == dir || !IsBelow(dir, at) || slices.ContainsFunc(list, func(c ChangedPlace) bool { return c.Directory == k.Directory }) {
			continue
		}
		all, _, err := sessionsIn(o, at)
		if err != nil {
			continue
		}
		slices.SortStableFunc(all, func(a, b ProgramSession) int { return b.LastUsed.Compare(a.LastUsed) })
		place := ChangedPlace{Directory: k.Directory}
		for _, s := range all {
			store := s.Program.Storage.Sessions
			if has, err := store.HasChanges(s.Session); err == nil && has && !store.HasOnlyTaken(s.Session) {
				place.Sessions = append(place.Sessions, s)
			}
		}
		if len(place.Sessions) > 0 {
			list = append(list, place)
		}
	}
	slices.SortFunc(list, func(a, b ChangedPlace) int { return cmp.Compare(a.Directory, b.Directory) })
	return list
}
