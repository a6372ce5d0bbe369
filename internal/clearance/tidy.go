package clearance

import (
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/clearance/git"
)

// grace is the minimum age of leftovers of killed processes before they are removed.
const grace = time.Hour

// tidy removes unused objects from the store. It may fail: the next stage tries again.
func (d *Commits) tidy(now time.Time) {
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

// drop removes a commit from the store, unless it also waits under another ID, for
// example for a second target.
func (d *Commits) drop(commit git.Hash) {
	list, err := d.list()
	if err != nil || slices.ContainsFunc(list, func(e entry) bool { return e.Phase != pushed && e.Commit == commit }) {
		return
	}
	d.store.Drop(commit)
}
