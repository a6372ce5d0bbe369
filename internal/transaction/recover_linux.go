package transaction

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/claim"
	"github.com/golem-forge/golem/internal/durable"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// Recover completes transactions that were being applied or undone when golem was killed,
// and removes the remains of others. It sets aside transactions that it cannot complete.
// It returns the number of transactions that it applied.
func Recover(dir sandbox.Host) (n int, err error) {
	st := &store{dir: string(dir)}
	list, err := st.findAbandoned()
	if len(list) == 0 {
		return 0, err
	}
	// Another golem may be working here. Wait for it only if a record is half done.
	held, ok := claim.Seize(st.dir)
	if !ok && !slices.ContainsFunc(list, isHalfDone) {
		return 0, nil
	}
	if !ok {
		if held, err = lockDirectory(st.dir); err != nil {
			return 0, err
		}
	}
	defer held.Close()
	if list, err = st.findAbandoned(); len(list) == 0 {
		return 0, err
	}
	err = withHelper(func(h *helper) error {
		more, err := (&store{st.dir, h}).recoverAll()
		n += more
		return err
	})
	return n, ifHalfDone(err, list)
}

// ifHalfDone returns err if a record of a list is still to be applied or undone, and nil
// otherwise. A record that only cannot be removed does no harm.
func ifHalfDone(err error, list []string) error {
	if slices.ContainsFunc(list, isHalfDone) {
		return err
	}
	return nil
}

// isHalfDone reports whether golem still has to apply or undo the changes of a record.
func isHalfDone(dir string) bool { return isUndoing(dir) || (&record{dir: dir}).isDecided() }

// findAbandoned returns the directories of abandoned records. These are records of a
// golem that has ended, records that are half undone, and applied records that golem has
// forgotten.
func (st *store) findAbandoned() (list []string, err error) {
	entries, err := os.ReadDir(st.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	chain := chainIn(st.dir)
	for _, e := range entries {
		dir := filepath.Join(st.dir, e.Name())
		name, applied := strings.CutPrefix(e.Name(), appliedPrefix)
		if applied && (isUndoing(dir) || !slices.Contains(chain, e.Name())) || !applied && claim.IsAbandoned(name) {
			list = append(list, dir)
		}
	}
	return list, err
}

// recoverAll completes or removes all abandoned records. The store is locked.
func (st *store) recoverAll() (n int, err error) {
	list, err := st.findAbandoned()
	for _, dir := range list {
		held, ok := claim.Seize(dir)
		if !ok {
			continue // a golem uses it that cannot be seen from here
		}
		applied, e := st.recover(dir)
		held.Close()
		var later postponed
		if e != nil && !errors.Is(e, jail.ErrEnded) && !errors.Is(e, ErrBusy) && !(errors.As(e, &later) && isHalfDone(dir)) {
			e = durable.Rename(dir, filepath.Join(st.dir, "broken-"+filepath.Base(dir)))
		}
		if e != nil {
			err = e
		} else if applied {
			n++
		}
	}
	return n, ifHalfDone(err, list)
}

// recover applies, undoes or removes an abandoned record, as its golem intended. It
// reports whether it applied the record.
func (st *store) recover(dir string) (applied bool, err error) {
	w, err := readRecord(dir)
	if err != nil {
		return false, os.RemoveAll(dir) // golem was killed while it made the record
	}
	switch {
	case isUndoing(dir):
		_, err := st.undo(w, nil)
		return false, err
	case strings.HasPrefix(filepath.Base(dir), appliedPrefix):
		return false, errors.Join(w.undecide(), st.remove(w)) // golem has forgotten it
	case !w.isDecided():
		if _, err := st.each(w, abortRecord); err != nil {
			return false, err
		}
		if list := w.inPlace(); len(list) > 0 {
			session := &Overlays{dir: filepath.Dir(w.of[list[0]].Store)}
			if err := session.alone(func() error { return st.giveBack(w) }); err != nil {
				return false, err
			}
		}
		return false, st.remove(w)
	}
	clash, err := st.each(w, recoverRecord) // keeps the files that others have changed since
	if err != nil {
		return false, err
	}
	return true, errors.Join(st.settle(w, clash), st.remember(w))
}
