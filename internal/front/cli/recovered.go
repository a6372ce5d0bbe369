package cli

import (
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/golem-forge/golem/internal/session"
)

// recovered is what golem has completed because an earlier golem was killed while it
// applied or undid changes. A nil recovered has nothing.
type recovered struct {
	errs func() io.Writer

	mu     sync.Mutex
	told   []string // the lines that were printed
	undone bool     // golem has completed an undo
}

// add prints what golem has completed, each line once.
func (d *recovered) add(r session.Recovery) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.undone = d.undone || r.Undone
	for _, note := range r.Notes {
		if !slices.Contains(d.told, note) {
			d.told = append(d.told, note)
			fmt.Fprintln(d.errs(), "golem: "+note)
		}
	}
}

// hasUndone reports whether golem has completed an undo.
func (d *recovered) hasUndone() bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.undone
}
