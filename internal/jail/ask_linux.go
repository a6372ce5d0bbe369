package jail

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/overlay"
)

// An ask is a wish of golem to the holder: a cell, whose wire comes with it, or
// something that is to be done with a layer. The holder does it because a command
// may leave folders that the user cannot enter.
type ask struct {
	Do    string
	Layer overlay.Overlay
	Apart bool // of a cell: with a network of its own, which reaches nothing

	Loopback string // of a cell: the network that it shares with others of this name
	Isolated bool   // of a cell: the holder is not in the host's network

	// About layers that a session keeps.
	Tidy  bool            // nobody writes to it now
	Paths []string        // in it
	To    overlay.Overlay // where what is taken comes to
	List  string          // the name of the list that is wanted
	Sums  bool            // with a digest of each file
}

const (
	listWork    = "list"
	prepareWork = "prepare"
	finishWork  = "finish"
	clearWork   = "clear"
	abortWork   = "abort"
	mayUndo     = "may undo"
	recoverWork = "recover"
	removeWork  = "remove"

	showLayer   = "show"
	flushLayer  = "flush"
	recordLayer = "record"
	listKept    = "list kept"
	pickKept    = "pick"
	settleKept  = "settle"
	discardKept = "discard"
	restoreKept = "restore"
	unpickKept  = "unpick"
)

// A reply is what came of it.
type reply struct {
	Error string
	Later bool     // it may be done later: there is no room for it now
	Clash []string // changed meanwhile by others
	More  bool     // and others, which are in a list
	Unfit string   // says of a name that it can be none

	Touched []string // some of what a call has changed in a layer
}

// maxTouched is how many entries of a layer are looked at for what a call has
// changed; of a copy, which holds all, there are more. It is only told.
const (
	maxTouched     = 5_000
	maxTouchedCopy = 100_000
)

// errEnded says that there is no holder any more.
var errEnded = errors.New("the session has ended")

// A postponed is the error of something that may be done later.
type postponed string

// Error implements error.
func (p postponed) Error() string { return string(p) }

// Ended reports whether the session can run no command any more, because its holder
// was killed: the kernel may do that where memory runs out.
func (s *Session) Ended() bool {
	return s.endsWithin(0)
}

// endsWithin reports whether the holder has ended, and waits for that up to a time.
func (s *Session) endsWithin(most time.Duration) bool {
	if s.holder == nil {
		return false
	}
	holder := []unix.PollFd{{Fd: int32(s.holder.fd)}}
	n, err := unix.Poll(holder, int(most.Milliseconds()))
	return err == nil && n > 0 && holder[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
}

// ask asks the holder to do something with a layer.
func (s *Session) ask(a ask) (reply, error) {
	got, _, err := s.askFor(a)
	return got, err
}

// askFor is ask with files that go along, and those that come back.
func (s *Session) askFor(a ask, with ...int) (got reply, files []int, err error) {
	switch {
	case s.holder != nil:
		got, files, err = s.holder.asked(a, with...)
	case a.Do == showLayer:
		got, files = show(a.Layer)
	default:
		got = a.carryOut()
	}
	switch {
	case err != nil:
		return got, nil, fmt.Errorf("jail: %w: %w", errEnded, err)
	case got.Error != "" && got.Later:
		return got, files, postponed("jail: " + got.Error)
	case got.Error != "":
		return got, files, errors.New("jail: " + got.Error)
	case got.More:
		got.Clash, _ = readList[string](a.Layer, clashName)
	}
	return got, files, nil
}

// asked sends a wish, and receives what came of it.
func (k *keeper) asked(a ask, with ...int) (got reply, files []int, err error) {
	k.asking.Lock()
	defer k.asking.Unlock()
	if err := k.send(a, with...); err != nil {
		return got, nil, err
	}
	files, err = k.receive(&got)
	return got, files, err
}

// unheld returns a session without a holder, which runs no command: what is asked of it
// this process does itself, with the rights that it has.
func unheld(p Policy, now func() time.Time) *Session { return &Session{policy: p, now: now} }

// startHelper starts a holder for what is to be done with layers. Where none is to be
// had it is done without.
func startHelper(p Policy, now func() time.Time) *Session {
	s, err := startHolder(p, now)
	if err != nil {
		return unheld(p, now)
	}
	return s
}

// carryOut does what is asked for. Another holder may be at it, whose golem was
// killed: it is waited for.
func (a ask) carryOut() (got reply) {
	defer func() { // the holder is needed for others
		if v := recover(); v != nil {
			got = reply{Error: fmt.Sprint("broken: ", v)}
		}
	}()
	var err error
	switch a.Do {
	case prepareWork, finishWork, clearWork, abortWork, recoverWork, removeWork:
		if held, err := lockFolder(a.Layer.Store); err == nil {
			defer held.Close()
		}
	}
	switch a.Do {
	case listWork:
		var list []overlay.Change
		if list, err = a.Layer.Changes(); err == nil {
			err = writeChanges(a.Layer, list)
		}
	case prepareWork:
		var list []overlay.Change
		if list, err = readChanges(a.Layer); err == nil {
			var dropped []string
			if dropped, err = readList[string](a.Layer, droppedName); err == nil {
				err = a.Layer.PrepareApply(list, dropped)
			}
		}
	case finishWork:
		err = a.Layer.FinishApply()
	case clearWork:
		err = a.Layer.RemoveStaging()
	case abortWork:
		err = a.Layer.AbortApply()
	case mayUndo:
		err = a.Layer.CheckUndo()
	case recoverWork:
		_, err = a.Layer.Recover()
	case removeWork:
		err = a.Layer.Remove()
	case flushLayer:
		if !a.Layer.IsCopy { // which shows nothing but itself
			err = flush(a.Layer.SessionDir())
		}
	case recordLayer:
		if err = a.Layer.RecordBases(a.Tidy); err == nil {
			most := maxTouched
			if a.Layer.IsCopy {
				most = maxTouchedCopy
			}
			got.Touched, err = a.Layer.RecentPaths(most)
		}
	case listKept:
		list, unfit := a.Layer.SessionChanges()
		if a.Sums {
			list = overlay.Within(list, a.Paths)
			overlay.AddDigests(a.Layer, list)
		}
		if err = writeStanding(a.Layer, a.List, list); err == nil {
			err = unfit
		}
	case pickKept:
		var list []overlay.Change
		var picks []overlay.Pick
		if picks, err = readList[overlay.Pick](a.To, picksName); err == nil {
			list, err = a.Layer.Pick(a.To, picks)
		}
		if err == nil {
			err = writeChanges(a.To, list)
		}
	case settleKept:
		var paths, left []string
		if paths, err = readList[string](a.To, picksName); err == nil {
			left, err = readList[string](a.To, droppedName)
		}
		if err == nil {
			err = a.Layer.MarkApplied(paths, left)
		}
	case unpickKept:
		var paths []string
		if paths, err = readList[string](a.To, picksName); err == nil {
			err = a.Layer.Unpick(paths)
		}
	case restoreKept:
		var list []overlay.Change
		if list, err = readChanges(a.To); err == nil {
			var dropped []string
			if dropped, err = readList[string](a.To, droppedName); err == nil {
				err = a.Layer.Restore(a.To, overlay.Applicable(list, dropped))
			}
		}
	case discardKept:
		err = a.Layer.Discard(a.Paths)
	default:
		err = errors.New("no such wish")
	}
	var conflict *overlay.ConflictError
	var unfit *overlay.NameError
	switch {
	case errors.As(err, &conflict):
		got.Clash = some(conflict.Paths)
		got.More = len(got.Clash) < len(conflict.Paths) && writeList(a.Layer, clashName, conflict.Paths) == nil
	case errors.As(err, &unfit):
		got.Unfit = unfit.Error()
	case err != nil:
		got.Error, got.Later = Plain(err), noRoom(err)
	}
	return got
}

// some returns as many names as a message takes, whatever is in them.
func some(names []string) []string {
	size := 0
	for i, name := range names {
		if size += len(name); size > maxMessage/16 {
			return names[:i]
		}
	}
	return names
}

// noRoom reports whether something failed for want of what there may be again.
func noRoom(err error) bool {
	for _, e := range []error{unix.ENOSPC, unix.EDQUOT, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EROFS, unix.EIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// The lists that are kept in a layer: what was changed, what of it does not land, and
// what others have changed meanwhile.
const (
	changesName = "changes"
	droppedName = "left-out"
	clashName   = "clash"
	picksName   = "picks"
)

func writeChanges(l overlay.Overlay, list []overlay.Change) error {
	return writeList(l, changesName, list)
}

func readChanges(l overlay.Overlay) ([]overlay.Change, error) {
	return readList[overlay.Change](l, changesName)
}

// writeList writes a list to a file of a layer. A message has no room for it.
func writeList[T any](l overlay.Overlay, name string, list []T) error {
	f, err := os.OpenFile(filepath.Join(l.Store, name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	e := json.NewEncoder(w)
	for _, one := range list {
		if err := e.Encode(one); err != nil {
			return err
		}
	}
	return w.Flush()
}

// readList reads it; without a file it is empty.
func readList[T any](l overlay.Overlay, name string) (list []T, err error) {
	f, err := os.Open(filepath.Join(l.Store, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(bufio.NewReader(f)); d.More(); {
		var one T
		if err := d.Decode(&one); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}
