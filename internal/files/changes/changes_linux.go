package changes

import (
	"cmp"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
)

// Changes lists the session's changes relative to the current state of the directories.
// It skips names that no sandbox can have. unfit describes one of them, if there are any.
func (o *Overlays) Changes() (list []Change, unfit string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, l := range o.layers {
		changes, not, err := o.list(l)
		if err != nil {
			return nil, "", err
		}
		unfit = cmp.Or(unfit, not)
		list = slices.Grow(list, len(changes))
		for _, c := range changes {
			list = append(list, Change{PathChange: c, Target: o.targets[i], layer: i})
		}
	}
	return list, unfit, nil
}

// PlanDiscard lists the changes that Discard would discard, with a digest of each file.
// unfit is as in Changes.
func (o *Overlays) PlanDiscard(names []string) (list []Change, unfit string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.listBelow(o.helpers.any(), names)
}

// listBelow lists the changes at and below names, with a digest of each file.
func (o *Overlays) listBelow(h *helper, names []string) (list []Change, unfit string, err error) {
	for i, l := range o.layers {
		paths := pathsIn(o.targets, i, names)
		if len(paths) == 0 {
			continue
		}
		changes, not, err := h.list(request{Do: listChanges, Layer: l, Paths: paths, Sums: true})
		if err != nil {
			return nil, "", err
		}
		unfit = cmp.Or(unfit, not)
		for _, c := range changes {
			list = append(list, Change{PathChange: c, Target: o.targets[i], layer: i})
		}
	}
	return list, unfit, nil
}

// list lists the changes of one overlay. It starts a helper only if this process may not
// access something: starting one takes longer than listing a thousand changes.
func (o *Overlays) list(l overlay.Overlay) (list []overlay.PathChange, unfit string, err error) {
	if o.helpers.now == nil {
		var name *overlay.NameError
		list, err := overlay.SessionChangesHere(l)
		switch {
		case errors.As(err, &name):
			return list, name.Error(), nil
		case err == nil:
			return list, "", nil
		}
	}
	r := request{Do: listChanges, Layer: l}
	list, unfit, err = o.helpers.any().list(r)
	if errors.Is(err, jail.ErrEnded) { // a machine that runs out of memory kills helpers first
		other := startHelper()
		defer other.close()
		return other.list(r)
	}
	return list, unfit, err
}

// list asks the helper for the changes of one overlay.
func (h *helper) list(r request) (list []overlay.PathChange, unfit string, err error) {
	r.List = changesName + "-" + rand.Text()[:8] // another golem may list the changes at the same time
	got, err := h.ask(r)
	if err != nil {
		return nil, "", err
	}
	list, err = readListing(r.Layer, r.List)
	os.Remove(filepath.Join(r.Layer.Store, r.List))
	return list, got.Unfit, err
}
