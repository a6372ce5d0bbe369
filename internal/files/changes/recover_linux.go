package changes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/files/claim"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// Recover completes transactions that were being applied or undone when golem was killed, and
// discards of changes, and removes the remains of others. It sets aside transactions that it cannot complete.
// If a transaction is half done and another golem works here for longer than a few
// seconds, the error is ErrBusy.
func Recover(dir sandbox.Host) (done Recovered, err error) {
	st := &store{dir: string(dir)}
	list, err := st.findAbandoned()
	if len(list) == 0 {
		return done, err
	}
	// Another golem may be working here. Wait for it only if a record is half done.
	held, ok := claim.Seize(st.dir)
	if !ok && !slices.ContainsFunc(list, isHalfDone) {
		return done, nil
	}
	if !ok {
		if held, err = lockDirectoryWithin(st.dir, busyWait); err != nil {
			return done, err
		}
	}
	defer held.Close()
	if list, err = st.findAbandoned(); len(list) == 0 {
		return done, err
	}
	err = withHelper(func(h *helper) error {
		more, err := (&store{st.dir, h}).recoverAll()
		done.add(more)
		return err
	})
	return done, ifHalfDone(err, list)
}

// IsInterrupted reports whether a golem was killed while it applied, undid or discarded
// changes, and no other golem completes that now. It is faster than Recover: it does not look for
// remains that only need to be removed.
func IsInterrupted(dir sandbox.Host) bool {
	entries, err := os.ReadDir(string(dir))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		at := filepath.Join(string(dir), e.Name())
		if strings.HasPrefix(e.Name(), appliedPrefix) {
			return isUndoing(at) && !isInUse(at)
		}
		return claim.IsAbandoned(e.Name()) && isHalfDone(at) && !isInUse(at)
	})
}

// Active returns the command of another golem that changes the directories of a program now,
// such as "golem apply", and its process. It is "" if there is none.
func Active(dir sandbox.Host) (command string, process int) {
	entries, err := os.ReadDir(string(dir))
	if err != nil {
		return "", 0
	}
	for _, e := range entries {
		at := filepath.Join(string(dir), e.Name())
		if command = activeCommand(at); command == "" || !isInUse(at) {
			continue
		}
		if process = lockHolder(at); process != os.Getpid() {
			return command, process
		}
	}
	return "", 0
}

// lockHolder returns the process that has locked a directory, 0 if the system shows none.
func lockHolder(dir string) int {
	f, err := os.Open(dir)
	if err != nil {
		return 0
	}
	defer f.Close()
	return state.LockHolder(f)
}

// activeCommand returns the command that has done a half of what a record is for, "" if nothing
// is half done.
func activeCommand(dir string) string {
	applied := strings.HasPrefix(filepath.Base(dir), appliedPrefix)
	switch w, err := readRecord(dir); {
	case isUndoing(dir):
		return "golem undo"
	case applied || err != nil || !isHalfDone(dir):
		return ""
	case len(w.discards) > 0:
		return "golem discard"
	case len(w.of) > 0:
		return "golem apply"
	}
	return "golem"
}

// isInUse reports whether a golem works on a record.
func isInUse(dir string) bool {
	held, ok := claim.Seize(dir)
	held.Close()
	return !ok
}

// ifHalfDone returns err if a record of a list is still to be applied or undone, and nil
// otherwise. A record that only cannot be removed does no harm.
func ifHalfDone(err error, list []string) error {
	if slices.ContainsFunc(list, isHalfDone) {
		return err
	}
	return nil
}

// isHalfDone reports whether golem still has to apply, undo or discard the changes of a
// record, or to put back files that the record took from a session.
func isHalfDone(dir string) bool {
	w := &record{dir: dir}
	if isUndoing(dir) || w.isDecided() {
		return true
	}
	if strings.HasPrefix(filepath.Base(dir), appliedPrefix) {
		return false
	}
	w, err := readRecord(dir)
	return err == nil && (w.isStarted() || len(w.discards) > 0)
}

// isStarted reports whether a record that is not applied has moved files, of a directory
// or of a session.
func (w *record) isStarted() bool {
	return slices.ContainsFunc(w.layers, overlay.Overlay.HasMoves) || w.holdsTaken()
}

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
func (st *store) recoverAll() (done Recovered, err error) {
	list, err := st.findAbandoned()
	for _, dir := range list {
		held, ok := claim.Seize(dir)
		if !ok {
			continue // a golem uses it that cannot be seen from here
		}
		one, e := st.recover(dir)
		held.Close()
		var later postponed
		if e != nil && !errors.Is(e, jail.ErrEnded) && !errors.Is(e, ErrBusy) && !(errors.As(e, &later) && isHalfDone(dir)) {
			to := filepath.Join(st.dir, "broken-"+filepath.Base(dir))
			if isHalfDone(dir) {
				one.Broken = append(one.Broken, aside{sandbox.Host(to), jail.Plain(e)})
			}
			e = durable.Rename(dir, to)
		}
		if e != nil {
			err = e
		} else {
			done.add(one)
		}
	}
	return done, ifHalfDone(err, list)
}

// recover applies, undoes or removes an abandoned record, as its golem intended.
func (st *store) recover(dir string) (done Recovered, err error) {
	w, err := readRecord(dir)
	if err != nil {
		return done, os.RemoveAll(dir) // golem was killed while it made the record
	}
	switch {
	case isUndoing(dir):
		session, err := w.holdSession()
		if err != nil {
			return done, err
		}
		defer session.Close()
		left, err := st.undo(w, nil)
		return Recovered{Undone: 1, Left: left}, err
	case strings.HasPrefix(filepath.Base(dir), appliedPrefix):
		return done, errors.Join(w.undecide(), st.remove(w)) // golem has forgotten it
	case len(w.discards) > 0:
		session := &Overlays{dir: filepath.Dir(w.discards[0].Layer.Store)}
		if _, err := os.Lstat(session.dir); errors.Is(err, fs.ErrNotExist) {
			return done, st.remove(w)
		}
		if err := session.alone(func() error { return st.discard(w, true) }); err != nil {
			return done, err
		}
		return Recovered{Discarded: 1}, st.remove(w)
	case !w.isDecided():
		if w.isStarted() {
			done.Reverted = 1
		}
		if _, err := st.each(w, abortRecord); err != nil {
			return done, err
		}
		if err := st.giveBackAlone(w, nil); err != nil {
			return done, err
		}
		return done, st.remove(w)
	}
	return st.recoverApply(w)
}

// recoverApply completes the apply of a record. It keeps the files that others have changed
// since, and the session has their changes again. They are no part of the record any more.
func (st *store) recoverApply(w *record) (done Recovered, err error) {
	if done.Kept, err = st.each(w, recoverRecord); err != nil {
		return done, err
	}
	if len(done.Kept) > 0 {
		if err := errors.Join(w.skipMore(done.Kept), st.giveBackAlone(w, done.Kept)); err != nil {
			return done, err
		}
	}
	applies, err := w.appliesAny()
	if err != nil {
		return done, err
	}
	if !applies {
		if err := w.undecide(); err != nil {
			return done, err
		}
		_, err := st.each(w, abortRecord)
		return done, errors.Join(err, st.remove(w))
	}
	done.Applied = 1
	return done, errors.Join(st.eachPicked(w, settleChanges), st.remember(w))
}
