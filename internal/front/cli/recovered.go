package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/session"
)

// recovered is what golem has completed because an earlier golem was killed while it
// applied or undid changes. A nil recovered has nothing.
type recovered struct {
	errs func() io.Writer
	dir  func() (string, error) // the directory of the command

	mu     sync.Mutex
	told   []string // the lines that were printed
	undone bool     // golem has completed an undo
}

// add prints what golem has completed, each line once, and the directory if the command is
// for another one.
func (d *recovered) add(r session.Recovery) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.undone = d.undone || r.Undone
	in := ""
	if dir, err := d.dir(); err == nil {
		if rel, err := filepath.Rel(r.Root, dir); err != nil || !filepath.IsLocal(rel) {
			in = "in " + visible.Text(r.Root) + ": "
		}
	}
	for _, note := range r.Notes {
		note = in + note
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
