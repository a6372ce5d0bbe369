package jail

import (
	"cmp"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// Take makes a transaction of some of the changes, which lands or is dropped as
// one of a command: works are kept in the folder of layers meanwhile. The names of
// those that others have changed since are its Clash.
func (k *Kept) Take(layers sandbox.Host, picks []Pick) (t *Transaction, err error) {
	err = k.alone(func(helper func() *Session) error {
		t, err = k.take(helper(), layers, picks)
		return err
	})
	return t, err
}

func (k *Kept) take(helper *Session, layers sandbox.Host, picks []Pick) (*Transaction, error) {
	s := &Session{policy: Policy{Layers: layers}, now: k.now, holder: helper.holder}
	for i, l := range k.layers {
		s.policy.Mounts = append(s.policy.Mounts, Mount{Source: sandbox.Host(l.Dir), Target: commandName(k.target[i]), Write: true})
	}
	if err := os.MkdirAll(string(layers), 0o700); err != nil {
		return nil, err
	}
	w, err := s.newWork()
	if err != nil {
		return nil, err
	}
	w.of, w.picked = k.layers, make([][]string, len(k.layers))
	t := &Transaction{session: s, work: w, settle: func() error { return k.alone(func(func() *Session) error { return s.settle(w, nil) }) },
		unpick: func() error { return k.alone(func(func() *Session) error { return s.unpick(w) }) }}
	for i, l := range k.layers {
		a := ask{Do: pickKept, Layer: l, To: w.layers[i]}
		var list []overlay.Pick
		for n, p := range picks {
			rel, ok := k.below(i, p.Name)
			if !ok {
				continue
			}
			pick := overlay.Pick{Path: rel, Force: p.Over, Complete: p.Whole}
			if p.Text != nil {
				pick.ContentFile = filepath.Join(w.dir, "given-"+strconv.Itoa(n))
				if err := os.WriteFile(pick.ContentFile, p.Text, 0o600); err != nil {
					return nil, errors.Join(err, s.forget(w))
				}
			}
			list, w.picked[i] = append(list, pick), append(w.picked[i], rel)
		}
		if len(list) == 0 {
			continue
		}
		if err := writeList(a.To, picksName, list); err != nil {
			return nil, errors.Join(err, s.forget(w))
		}
		got, err := s.ask(a)
		if err != nil {
			return nil, errors.Join(err, s.forget(w))
		}
		t.Unfit = cmp.Or(t.Unfit, got.Unfit)
		for _, name := range got.Clash {
			t.Clash = append(t.Clash, path.Join(commandName(k.target[i]), name))
		}
		changes, err := readChanges(w.layers[i])
		if err != nil {
			return nil, errors.Join(err, s.forget(w))
		}
		for _, c := range changes {
			t.Changes = append(t.Changes, Change{c, commandName(k.target[i])})
		}
	}
	return t, w.describe()
}

// commandName is what commands call the target of a mount.
func commandName(target string) string {
	if target == "/" {
		return Work
	}
	return target
}
