package jail

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/overlay"
)

// Changes lists what the session keeps, over the folders as they are now. Names that
// can be none are left out; the text says that there are some.
func (k *Kept) Changes() (list []Standing, unfit string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, l := range k.layers {
		changes, not, err := k.standing(l)
		if err != nil {
			return nil, "", err
		}
		unfit = cmp.Or(unfit, not)
		for _, c := range changes {
			list = append(list, Standing{c, k.target[i]})
		}
	}
	return list, unfit, nil
}

// listOf asks a session for the changes of one layer.
func listOf(s *Session, a ask) (list []overlay.Change, unfit string, err error) {
	a.List = changesName + "-" + rand.Text()[:8] // others may list it at the same time
	got, err := s.ask(a)
	if err != nil {
		return nil, "", err
	}
	list, err = readStanding(a.Layer, a.List)
	os.Remove(filepath.Join(a.Layer.Store, a.List))
	return list, got.Unfit, err
}

// Lost lists what Discard would give up, with a digest of each file. As in Changes, the
// text says that there is something with a name that can be none.
func (k *Kept) Lost(names []string) (list []Standing, unfit string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost(k.helper(), names)
}

// lost is Lost for who has the lock.
func (k *Kept) lost(s *Session, names []string) (list []Standing, unfit string, err error) {
	for i, l := range k.layers {
		paths := k.within(i, names)
		if len(paths) == 0 {
			continue
		}
		changes, not, err := listOf(s, ask{Do: listKept, Layer: l, Paths: paths, Sums: true})
		if err != nil {
			return nil, "", err
		}
		unfit = cmp.Or(unfit, not)
		for _, c := range changes {
			list = append(list, Standing{c, k.target[i]})
		}
	}
	return list, unfit, nil
}

// standing lists the changes of one layer. It starts a holder only if there are changes:
// the holder enters directories that the user cannot enter.
func (k *Kept) standing(l overlay.Overlay) (list []overlay.Change, unfit string, err error) {
	a := ask{Do: listKept, Layer: l}
	if k.holder == nil && hasNothing(l) {
		return listOf(unheld(Policy{}, k.now), a)
	}
	list, unfit, err = listOf(k.helper(), a)
	if errors.Is(err, errEnded) { // a machine that runs out of memory ends holders first
		other := startHelper(Policy{}, k.now)
		defer other.Close()
		return listOf(other, a)
	}
	return list, unfit, err
}

// hasNothing reports whether an overlay keeps no change.
func hasNothing(l overlay.Overlay) bool {
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
