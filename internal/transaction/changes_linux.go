package transaction

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/overlay"
)

// Changes lists what the session has changed, over the directories as they are now. Names
// that no sandbox can have are skipped; unfit says that there are some.
func (o *Overlays) Changes() (list []SessionChange, unfit string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, l := range o.layers {
		changes, not, err := o.list(l)
		if err != nil {
			return nil, "", err
		}
		unfit = cmp.Or(unfit, not)
		for _, c := range changes {
			list = append(list, SessionChange{c, o.targets[i]})
		}
	}
	return list, unfit, nil
}

// PlanDiscard lists what Discard would discard, with a digest of each file. Unfit is as in
// Changes.
func (o *Overlays) PlanDiscard(names []string) (list []SessionChange, unfit string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.listBelow(o.helpers.any(), names)
}

// listBelow lists the changes at and below names, with a digest of each file.
func (o *Overlays) listBelow(h *helper, names []string) (list []SessionChange, unfit string, err error) {
	for i, l := range o.layers {
		paths := o.pathsIn(i, names)
		if len(paths) == 0 {
			continue
		}
		changes, not, err := h.list(request{Do: listChanges, Layer: l, Paths: paths, Sums: true})
		if err != nil {
			return nil, "", err
		}
		unfit = cmp.Or(unfit, not)
		for _, c := range changes {
			list = append(list, SessionChange{c, o.targets[i]})
		}
	}
	return list, unfit, nil
}

// list lists the changes of one overlay. It starts a helper only if there are changes: the
// helper enters directories that the user cannot enter.
func (o *Overlays) list(l overlay.Overlay) (list []overlay.Change, unfit string, err error) {
	r := request{Do: listChanges, Layer: l}
	if o.helpers.now == nil && isEmpty(l) {
		return (&helper{}).list(r)
	}
	list, unfit, err = o.helpers.any().list(r)
	if errors.Is(err, jail.ErrEnded) { // a machine that runs out of memory ends helpers first
		other := startHelper()
		defer other.close()
		return other.list(r)
	}
	return list, unfit, err
}

// list makes a request for the changes of one overlay.
func (h *helper) list(r request) (list []overlay.Change, unfit string, err error) {
	r.List = changesName + "-" + rand.Text()[:8] // others may list it at the same time
	got, err := h.ask(r)
	if err != nil {
		return nil, "", err
	}
	list, err = readListing(r.Layer, r.List)
	os.Remove(filepath.Join(r.Layer.Store, r.List))
	return list, got.Unfit, err
}

// isEmpty reports whether an overlay has no change.
func isEmpty(l overlay.Overlay) bool {
	if l.IsCopy {
		return false
	}
	dir, err := os.Open(l.UpperDir())
	if err != nil {
		return false
	}
	defer dir.Close()
	_, err = dir.Readdirnames(1)
	return err == io.EOF
}
