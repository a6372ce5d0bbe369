package clearance

import (
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/git"
)

// grace is how old something must be before it is taken for what a killed process
// has left.
const grace = time.Hour

// tidy removes from the store what nobody waits for. It may fail: the next stage
// tries again.
func (d *Desk) tidy(now time.Time) {
	list, err := d.list()
	if err != nil {
		return
	}
	keep := map[git.Hash]bool{}
	for _, e := range list {
		if e.Phase != pushed {
			keep[e.Commit] = true
		}
	}
	d.store.Tidy(now.Add(-grace), keep)
}

// drop removes a commit from the store, unless it waits under another id too, as
// one does that was staged for two targets.
func (d *Desk) drop(commit git.Hash) {
	list, err := d.list()
	if err != nil || slices.ContainsFunc(list, func(e entry) bool { return e.Phase != pushed && e.Commit == commit }) {
		return
	}
	d.store.Drop(commit)
}
