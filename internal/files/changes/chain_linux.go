package changes

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// Applied records form a chain: the file lastName names the last one, and each names the
// one before it. golem undoes the last one first.

const (
	maxApplied     = 20        // how many applied records golem keeps
	maxAppliedSize = 512 << 20 // the size of the old files in all of them; golem keeps the last one in any case
)

// linkName is a file in an applied record. Its time is the time of the apply.
const linkName = "applied.json"

// A link connects an applied record with the one before it.
type link struct {
	Previous string // the name of the record that was applied before, "" for none
	Size     int64  // the size of the old files
}

// readLink reads the link of a record. A record of an older golem has none. If golem was
// killed while it remembered the record, the record still has its old name.
func readLink(dir, name string) (l link, at time.Time) {
	for _, name := range []string{name, strings.TrimPrefix(name, appliedPrefix)} {
		file := filepath.Join(dir, name, linkName)
		data, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(data, &l) != nil || l.Previous != filepath.Base(l.Previous) && l.Previous != "" {
			l = link{}
			continue
		}
		if info, err := os.Stat(file); err == nil {
			return l, info.ModTime()
		}
	}
	for _, file := range []string{filepath.Join(dir, name, decidedName), filepath.Join(dir, lastName)} {
		if info, err := os.Stat(file); err == nil {
			return l, info.ModTime()
		}
	}
	return l, time.Time{}
}

// chainIn returns the names of the applied records that can be undone, the last one first.
func chainIn(dir string) (names []string) {
	for name := lastIn(dir); strings.HasPrefix(name, appliedPrefix) && len(names) < 2*maxApplied; {
		l, _ := readLink(dir, name)
		if isApplied(dir, name) {
			names = append(names, name)
		}
		name = l.Previous
	}
	return names
}

// isApplied reports whether an applied record can be undone. A golem that was killed while it
// removed the record may have left a part.
func isApplied(dir, name string) bool { return (&record{dir: filepath.Join(dir, name)}).isDecided() }

// link writes the link of a record that is about to become the last one.
func (w *record) link(previous string) error {
	l := link{Previous: previous}
	for _, o := range w.layers {
		l.Size += overlay.UndoSize(o)
	}
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(w.dir, linkName), data)
}

// unlink makes the record before w the last one, if w is. The caller has locked the store.
func (st *store) unlink(name string) error {
	if lastIn(st.dir) != name {
		return nil
	}
	l, _ := readLink(st.dir, name)
	if l.Previous == "" || !isApplied(st.dir, l.Previous) {
		return os.Remove(filepath.Join(st.dir, lastName))
	}
	return replaceFile(filepath.Join(st.dir, lastName), []byte(l.Previous))
}

// trim removes the oldest applied records if there are too many, or if they are too large.
func (st *store) trim() {
	size := int64(0)
	for i, name := range chainIn(st.dir) {
		l, _ := readLink(st.dir, name)
		if size += l.Size; i == 0 || i < maxApplied && size <= maxAppliedSize {
			continue
		}
		w, err := readRecord(filepath.Join(st.dir, name))
		if err != nil || isUndoing(w.dir) {
			continue
		}
		w.undecide()
		st.remove(w) // if this fails, the next golem removes the rest
	}
}

// older returns the overlays of the records that were applied before one.
func (st *store) older(name string) (list []overlay.Overlay) {
	found := false
	for _, other := range chainIn(st.dir) {
		if found {
			if w, err := readRecord(filepath.Join(st.dir, other)); err == nil {
				list = append(list, w.layers...)
			}
		}
		found = found || other == name
	}
	return list
}

// AppliedAt returns when changes were last applied that can be undone. It returns the
// zero time if there are none.
func AppliedAt(dir sandbox.Host) time.Time {
	if name := lastIn(string(dir)); name != "" {
		_, at := readLink(string(dir), name)
		return at
	}
	return time.Time{}
}

// History returns the applied transactions that can be undone, the last one first.
func History(dir sandbox.Host) ([]*AppliedTransaction, error) {
	var list []*AppliedTransaction
	if _, err := readLast(string(dir)); err != nil {
		return nil, err
	}
	for _, name := range chainIn(string(dir)) {
		a, err := readApplied(string(dir), name)
		if err != nil {
			return list, err
		}
		list = append(list, a)
	}
	return list, nil
}

// NeedsSession reports whether an undo would restore changes in the session whose overlays
// are in session. dir is as for History.
func NeedsSession(dir, session sandbox.Host) bool {
	for _, name := range chainIn(string(dir)) {
		if w, err := readRecord(filepath.Join(string(dir), name)); err == nil && w.session() == string(session) {
			return true
		}
	}
	return false
}

// At returns when the transaction was applied.
func (a *AppliedTransaction) At() time.Time {
	_, at := readLink(a.dir, a.Name())
	return at
}

// Session returns the directory of the session that the changes came from, "" for none.
func (a *AppliedTransaction) Session() sandbox.Host { return sandbox.Host(a.record.session()) }

// LostSession returns the id of the session that the changes came from if it had been removed
// when the transaction was read, "" otherwise. An undo cannot put the changes back into such a
// session.
func (a *AppliedTransaction) LostSession() string {
	if !a.lost {
		return ""
	}
	return filepath.Base(a.record.session())
}

// session returns the directory of the session that the changes of a record came from, "" for
// none.
func (w *record) session() string {
	for _, l := range w.of {
		if l.Store != "" {
			return filepath.Dir(l.Store)
		}
	}
	return ""
}

// isSessionLost reports whether the session that the changes came from was removed.
func (w *record) isSessionLost() bool {
	dir := w.session()
	if dir == "" {
		return false
	}
	_, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// holdSession keeps others from removing the session that the changes came from until the
// file is closed. The file is nil if there is no session.
func (w *record) holdSession() (*os.File, error) {
	f, err := os.Open(w.session())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if foreign := state.CheckOwner(w.session()); err != nil && foreign != nil {
		err = foreign
	}
	if err == nil {
		err = lock(f, unix.LOCK_SH, busyWait)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// UndoInto reports whether golem undo returns changes to a session, and in which process. The
// process is 0 if that golem was killed, or if the system does not show it. dir and session
// are as for NeedsSession.
func UndoInto(dir, session sandbox.Host) (process int, is bool) {
	entries, err := os.ReadDir(string(dir))
	if err != nil {
		return 0, false
	}
	for _, e := range entries {
		at := filepath.Join(string(dir), e.Name())
		if !strings.HasPrefix(e.Name(), appliedPrefix) || !isUndoing(at) {
			continue
		}
		if w, err := readRecord(at); err == nil && w.session() == string(session) {
			return lockHolder(at), true
		}
	}
	return 0, false
}
