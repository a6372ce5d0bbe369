package changes

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// Begin makes a transaction of some of the changes, with its record in dir, a directory
// of golem's. Clash of the transaction names the picked files that others have changed
// since.
func (o *Overlays) Begin(dir sandbox.Host, picks []Pick) (t *Transaction, err error) {
	err = o.alone(func() error {
		unused, busy := o.lockUnused()
		if busy == nil {
			defer unused.Close()
		}
		t, err = o.begin(&store{string(dir), o.helpers.any()}, picks, busy == nil)
		return err
	})
	return t, err
}

// lockUnused keeps others from mounting the overlays until the file is closed. If they
// are mounted, the error is ErrBusy.
func (o *Overlays) lockUnused() (*os.File, error) {
	if o.used != nil {
		return nil, ErrBusy
	}
	f, err := lockFile(filepath.Join(o.dir, usedName), unix.LOCK_EX, 0)
	if err == nil { // it names the golem that worked in the session before
		writeHolder(f, Holder{Command: "golem apply", Process: os.Getpid(), Since: o.holder.Since})
	}
	return f, err
}

// aloneUnused runs do while no call works on the overlays and nobody has mounted them.
func (o *Overlays) aloneUnused(do func() error) error {
	return o.alone(func() error {
		unused, err := o.lockUnused()
		if err != nil {
			return err
		}
		defer unused.Close()
		return do()
	})
}

// begin makes a transaction. If nobody has mounted the overlays, files may stay in them
// until the transaction is applied.
func (o *Overlays) begin(st *store, picks []Pick, unused bool) (*Transaction, error) {
	var layers []overlay.Overlay
	for _, l := range o.layers {
		layers = append(layers, overlay.Overlay{Dir: l.Dir})
	}
	if err := os.MkdirAll(st.dir, 0o700); err != nil {
		return nil, err
	}
	w, err := st.newRecord(layers, o.targets, 1)
	if err != nil {
		return nil, err
	}
	w.of, w.picked = o.layers, make([][]string, len(o.layers))
	t := &Transaction{store: st, record: w,
		settle: func() error { return o.alone(func() error { return st.eachPicked(w, settleChanges) }) },
		unpick: func(st *store) error { return o.alone(func() error { return st.eachPicked(w, unpickChanges) }) }}
	for i := range o.layers {
		if err := o.pick(t, i, picks, unused); err != nil {
			return nil, errors.Join(err, st.remove(w))
		}
		paths, err := w.transfer(i).Paths()
		if err != nil {
			return nil, errors.Join(err, st.remove(w))
		}
		inPlace := make(map[string]bool)
		for _, p := range paths {
			inPlace[p] = true
		}
		if t.inPlace = append(t.inPlace, inPlace); len(inPlace) > 0 {
			t.alone = o.aloneUnused
			t.settle = func() error { return st.eachPicked(w, settleChanges) } // Apply calls it in alone
		}
	}
	return t, w.describe()
}

// pick copies the picks in an overlay to the record of a transaction, except those that
// stay in the overlay until they are applied.
func (o *Overlays) pick(t *Transaction, i int, picks []Pick, unused bool) error {
	w := t.record
	var list []overlay.Pick
	for n, p := range picks {
		rel, ok := pathIn(o.targets, i, p.Name)
		if !ok {
			continue
		}
		pick := overlay.Pick{Path: rel, Force: p.Over, Complete: p.Whole, NewMode: p.Mode}
		if p.Text != nil {
			pick.ContentFile = filepath.Join(w.dir, "content-"+strconv.Itoa(n))
			if err := os.WriteFile(pick.ContentFile, p.Text, 0o600); err != nil {
				return err
			}
		}
		list, w.picked[i] = append(list, pick), append(w.picked[i], rel)
	}
	if len(list) == 0 {
		return nil
	}
	if err := writeList(w.layers[i], picksName, list); err != nil {
		return err
	}
	got, err := t.store.helper.ask(request{Do: pickChanges, Layer: o.layers[i], To: w.layers[i], InPlace: unused})
	if err != nil {
		return err
	}
	return t.add(i, got)
}
