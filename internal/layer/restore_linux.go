package layer

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Restore gives a layer back what was picked from it, has landed, and was undone: it
// is where it landed from. Where the layer has something by now, that stays. Nobody
// may write to the layer meanwhile. It can be done again.
func (l Layer) Restore(from Layer, list []Change) error {
	if err := l.Record(false); err != nil {
		return err
	}
	if err := l.Stamp(); err != nil { // what it is based on is what is there now
		return err
	}
	k, err := l.kept(unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer k.own().close()
	upper, err := openTree(from.Upper())
	if err != nil {
		return err
	}
	defer upper.close()
	return k.restore(upper, list)
}

func (k *keeper) restore(from *tree, list []Change) error {
	for _, c := range list {
		if c.In != "" || c.Op == Mode || c.Kind == Special {
			continue
		}
		if _, err := k.upper.stat(c.Path); !errors.Is(err, unix.ENOENT) {
			continue
		}
		if err := k.giveBack(from, c); err != nil && !k.away(err) {
			return err
		}
	}
	return k.record()
}

// giveBack brings one thing back, with the folders that it is in.
func (k *keeper) giveBack(from *tree, c Change) error {
	for _, dir := range folders(c.Path) {
		if _, err := k.upper.stat(dir); !errors.Is(err, unix.ENOENT) {
			continue
		}
		if err := k.hold(dir); err != nil {
			return err
		}
	}
	if c.Op == Delete {
		return k.bury(c.Path)
	}
	return from.within(c.Path, func(dir int, base string) error {
		return k.upper.within(c.Path, func(to int, _ string) error {
			return unix.Renameat2(dir, base, to, base, unix.RENAME_NOREPLACE)
		})
	})
}
