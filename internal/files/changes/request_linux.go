package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
)

// A request asks a helper to do something with an overlay.
type request struct {
	Do    string
	Layer overlay.Overlay

	// For an overlay of a record: the overlays that were applied before it.
	Older []overlay.Overlay `json:",omitempty"`

	// For the overlays of a session.
	Tidy  bool            // nothing writes to the overlay now
	Paths []string        // paths in the overlay
	To    overlay.Overlay // the overlay of the record that gets the picked changes
	List  string          // the name of the list to write
	Sums  bool            // with a digest of each file
	Rest  bool            // some of the paths may be discarded already
	// InPlace is true if nobody works in the session, so that files can stay there until
	// they are taken.
	InPlace bool
}

// The kinds of requests.
const (
	// For an overlay of a record.
	listRecord    = "list"
	prepareRecord = "prepare"
	finishRecord  = "finish"
	clearRecord   = "clear"
	abortRecord   = "abort"
	checkUndo     = "may undo"
	undoRecord    = "undo"
	recoverRecord = "recover"
	removeRecord  = "remove"

	// For an overlay of a session.
	showOverlay    = "show"
	flushOverlay   = "flush"
	recordChanges  = "record"
	listChanges    = "list kept"
	pickChanges    = "pick"
	takeChanges    = "take"
	returnChanges  = "return"
	settleChanges  = "settle"
	discardChanges = "discard"
	restoreChanges = "restore"
	unpickChanges  = "unpick"

	// For the first of Paths, a directory on the host.
	measureDisk = "measure"
)

// A reply is the answer to a request.
type reply struct {
	Error string
	Busy  string   // the file that another process has locked; nothing was done
	Later bool     // a resource is short now, so a retry may succeed
	Clash []string // names that others changed meanwhile
	More  bool     // a list file holds more of them
	Unfit string   // describes a name that no sandbox can have

	Touched []string // some of the names that a call changed in an overlay

	Bytes   int64 // on the disk
	Partial bool  // Bytes does not have everything
}

// The number of entries of an overlay that golem examines for Touched. A copy has more
// entries.
const (
	maxTouched     = 5_000
	maxTouchedCopy = 100_000
)

// maxNames is the maximum size in bytes of the names in a reply.
const maxNames = 64 << 10

// show mounts the overlay of a session in this process, and opens the mounted directory.
func (r request) show() (reply, []int) {
	fd, err := open(r.Layer)
	if err != nil {
		return failed(err), nil
	}
	return reply{}, []int{fd}
}

func open(l overlay.Overlay) (int, error) {
	if !l.IsCopy {
		if err := overlay.RemoveUnfinished(l); err != nil {
			return -1, err
		}
		// A call may have been killed before golem recorded its changes.
		if err := l.RecordBases(true); err != nil {
			return -1, err
		}
	}
	if err := l.MarkStart(); err != nil {
		return -1, err
	}
	return jail.MountOverlay(l)
}

// failed returns the reply for an error.
func failed(err error) reply {
	if busy := (*overlay.BusyError)(nil); errors.As(err, &busy) {
		return reply{Busy: busy.File}
	}
	return reply{Error: jail.Plain(err), Later: isShortage(err)}
}

// carryOut carries out a request. If the helper of a killed golem still works on the same
// overlay of a record for longer than stoppedWait, the reply is Busy.
func (r request) carryOut() (got reply) {
	defer func() { // a panic must not end the helper, which others need
		if v := recover(); v != nil {
			got = reply{Error: fmt.Sprint("broken: ", v)}
		}
	}()
	store := ""
	switch r.Do {
	case takeChanges, returnChanges:
		store = r.To.Store
	case prepareRecord, finishRecord, clearRecord, abortRecord, undoRecord, recoverRecord, removeRecord:
		store = r.Layer.Store
	}
	if held, err := os.Open(store); err == nil {
		defer held.Close()
		if err := overlay.Lock(held, unix.LOCK_EX, stoppedWait); err != nil {
			return failed(err)
		}
	}
	var err error
	switch r.Do {
	case measureDisk:
		var whole bool
		got.Bytes, whole = overlay.DiskUse(r.Paths[0], r.Layer)
		got.Partial = !whole
	case listRecord:
		var list []overlay.PathChange
		if list, err = r.Layer.Changes(); err == nil {
			err = writeChanges(r.Layer, list)
		}
	case prepareRecord:
		var list []overlay.PathChange
		if list, err = readChanges(r.Layer); err == nil {
			var skipped []string
			if skipped, err = readList[string](r.Layer, skippedName); err == nil {
				err = r.Layer.PrepareApply(list, skipped)
			}
		}
	case finishRecord:
		err = r.Layer.FinishApply()
	case clearRecord:
		err = r.Layer.RemoveStaging()
	case abortRecord:
		err = r.Layer.AbortApply()
	case checkUndo:
		err = r.Layer.CheckUndo()
	case undoRecord:
		err = overlay.UndoApply(r.Layer, r.Older)
	case recoverRecord:
		err = r.Layer.Recover()
	case removeRecord:
		err = r.Layer.Remove()
	case flushOverlay:
		err = jail.FlushOverlay(r.Layer)
	case recordChanges:
		if err = r.Layer.RecordBases(r.Tidy); err == nil {
			most := maxTouched
			if r.Layer.IsCopy {
				most = maxTouchedCopy
			}
			got.Touched, err = r.Layer.RecentPaths(most)
		}
	case listChanges:
		list, unfit := r.Layer.SessionChanges()
		if r.Sums {
			list = overlay.Within(list, r.Paths)
			overlay.AddDigests(r.Layer, list)
		}
		if err = writeListing(r.Layer, r.List, timedListingMark, list); err == nil {
			err = unfit
		}
	case pickChanges:
		var list []overlay.PathChange
		var picks []overlay.Pick
		if picks, err = readList[overlay.Pick](r.To, picksName); err == nil {
			if r.InPlace {
				list, err = overlay.Transfer{Session: r.Layer, To: r.To}.Pick(picks)
			} else {
				list, err = r.Layer.Pick(r.To, picks)
			}
		}
		if err == nil {
			err = writeChanges(r.To, list)
		}
	case takeChanges:
		var list []overlay.PathChange
		var skipped []string
		if list, err = readChanges(r.To); err == nil {
			skipped, err = readList[string](r.To, skippedName)
		}
		if err == nil {
			err = overlay.Transfer{Session: r.Layer, To: r.To}.Take(list, skipped)
		}
	case returnChanges:
		err = overlay.Transfer{Session: r.Layer, To: r.To}.Return(r.Paths)
	case settleChanges:
		var paths, skipped []string
		if paths, err = readList[string](r.To, picksName); err == nil {
			skipped, err = readList[string](r.To, skippedName)
		}
		if err == nil {
			err = r.Layer.MarkApplied(paths, skipped)
		}
	case unpickChanges:
		var paths []string
		if paths, err = readList[string](r.To, picksName); err == nil {
			err = r.Layer.Unpick(paths)
		}
	case restoreChanges:
		var list []overlay.PathChange
		if list, err = readApplicable(r.To); err == nil {
			err = r.Layer.Restore(r.To, list)
		}
	case discardChanges:
		if err = r.Layer.Discard(r.Paths); r.Rest && errors.Is(err, fs.ErrNotExist) {
			err = r.discardRest()
		}
	default:
		err = errors.New("no such request")
	}
	var conflict *overlay.ConflictError
	var unfit *overlay.NameError
	switch {
	case errors.As(err, &conflict):
		got.Clash = some(conflict.Paths)
		got.More = len(got.Clash) < len(conflict.Paths) && writeList(r.Layer, clashName, conflict.Paths) == nil
	case errors.As(err, &unfit):
		got.Unfit = unfit.Error()
	case err != nil:
		return failed(err)
	}
	return got
}

// discardRest discards the changes at those paths that still have some.
func (r request) discardRest() (err error) {
	for _, p := range r.Paths {
		if e := r.Layer.Discard([]string{p}); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// some returns as many names as fit in a reply.
func some(names []string) []string {
	size := 0
	for i, name := range names {
		if size += len(name); size > maxNames {
			return names[:i]
		}
	}
	return names
}

// isShortage reports whether an error comes from a shortage that may pass.
func isShortage(err error) bool {
	for _, e := range []error{unix.ENOSPC, unix.EDQUOT, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EROFS, unix.EIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
