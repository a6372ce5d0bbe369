package session

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/ignored"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

// A Workspace holds the files that one gate works on. It has the open session with the
// changes to mounts with mode: overlay. It also has the directory where changes of
// commands to other mounts wait for approval.
type Workspace struct {
	store      Sessions
	pending    pendingChanges
	Session    *Session          // nil if there is no overlay mount, or none can be mounted; a run and golem exec always have one
	changes    *changes.Overlays // the changes of the session, nil if there is none
	Notes      []string
	StartNotes []string // notes about a session that has just started
	copyLimit  int64    // bytes, 0 for no limit
	isForCall  bool     // it is for one call: see Options.SingleCall

	workTrees []workTree  // git work trees whose repositories are outside the mounts
	gitFiles  []jail.File // files of git that name directories by their paths on the host

	mu            sync.Mutex
	hasRun        bool  // a command ran
	noOverlay     bool  // no overlay can be mounted
	canCopyMounts *bool // nil if not tried yet

	tracker  tracker
	diskLook diskLook

	ports      *jail.Ports      // that are published while golem has the workspace
	portServer *jail.PortServer // serves them to golem ports, nil before the first command
}

// OpenWorkspace opens the workspace of a gate. If no overlay can be mounted, the session
// works on copies of the mounts with mode: overlay, and a note says what that costs. On a
// system without copies these mounts are read-only.
func (s Sessions) OpenWorkspace(o Options) (*Workspace, error) {
	w := &Workspace{pending: s.pending(), store: s, isForCall: o.SingleCall, copyLimit: maxImplicitCopy, ports: new(jail.Ports)}
	if o.Exec != nil {
		w.ports = &o.Exec.Ports
	}
	if o.Copy {
		w.copyLimit = 0
	}
	over := s.OverlayMounts()
	if len(over) == 0 && o.Exec == nil && !o.Run {
		if o.Name != "" {
			return nil, &sandbox.Error{Op: "--name", Path: o.Name, Code: sandbox.ErrInvalid, Hint: "there is no session to name, because no mount of the program has mode: overlay"}
		}
		return w, nil
	}
	if err := state.CheckOwner(s.State); err != nil {
		return nil, fmt.Errorf("the session: %w", err)
	}
	if err := makeUnchecked(s); err != nil {
		return nil, err
	}
	can := w.canOverlay()
	found, begun, err := s.begin(o, can || len(over) == 0 && !o.Copy) // without an overlay mount the session needs no overlay
	if err != nil {
		return nil, err
	}
	if !can && (found == nil || !found.Copy) {
		for _, m := range over {
			w.Notes = append(w.Notes, sandbox.Shown(m.Target)+" is read-only: its mode is overlay, and this system has neither overlays nor copies; golem doctor says why")
		}
		over = nil
	}
	if direct := s.directMounts(); !can && len(direct) > 0 && w.canCopy() {
		w.Notes = append(w.Notes, "no overlay can be mounted here, so each command works on a copy of "+strings.Join(direct, ", ")+"; golem doctor says why")
	}
	if found == nil {
		return w, nil
	}
	for _, m := range over {
		if err := os.MkdirAll(string(m.Host), 0o777); err != nil {
			return nil, visible.FileError("mount "+m.Target, err)
		}
	}
	w.Session, w.tracker.isNew = found, begun
	if !begun {
		os.Remove(filepath.Join(found.dir, makerName)) // it continues, so nobody removes it as abandoned
	}
	if found.Copy {
		err = w.openCopies(over, o)
	} else {
		err = w.openOverlays(over, o.Network)
	}
	if err == nil {
		holder := changes.Holder{Process: os.Getpid(), Since: s.Now()}
		if o.Exec != nil {
			holder.Command = o.Exec.Command
		}
		w.changes.SetHolder(holder)
	}
	if err == nil && o.Exec != nil {
		w.changes.StartHelper()
	}
	if err != nil && begun { // it has no changes
		found.unmarkMaker()
		w.changes.Remove(func() error { return nil })
		os.RemoveAll(found.dir)
		ForgetName(s, found)
	}
	if errors.Is(err, changes.ErrBusy) {
		err = busyError("session", w.changes)
	}
	return w, err
}

// directMounts returns the writable mounts that are in no session.
func (s Sessions) directMounts() (names []string) {
	for _, m := range s.Project.Mounts {
		if m.Mode != project.Overlay && m.Access() >= sandbox.ReadWrite {
			names = append(names, sandbox.Shown(m.Target))
		}
	}
	return names
}

// openOverlays opens the overlays of the session.
func (w *Workspace) openOverlays(over []changes.Directory, network bool) (err error) {
	for _, o := range over {
		if names := jail.Foreign(o.Host); len(names) > 0 {
			w.Notes = append(w.Notes, "nothing can be created in "+listNames(o.Target, names)+": these directories belong to a group that is not yours, which an overlay cannot keep; chgrp -R gives them your group")
		}
	}
	w.changes, err = changes.Open(sandbox.Host(w.Session.dir), over, network)
	return err
}

// maxImplicitCopy is how many bytes golem copies without --copy.
const maxImplicitCopy = 2 << 30

// openCopies opens the copies of the session, and makes those that are missing.
func (w *Workspace) openCopies(over []changes.Directory, o Options) (err error) {
	how := changes.CopyOptions{Without: make(map[string][]string), Report: o.OnCopy, Most: w.copyLimit}
	var cost *overlay.Progress // nil if nothing is copied
	if !o.Copy {
		how.Report = func(far overlay.Progress) error {
			if cost = &far; o.OnCopy == nil {
				return nil
			}
			return o.OnCopy(far)
		}
	}
	var names []string
	for _, at := range over {
		names = append(names, sandbox.Shown(at.Target))
		for _, m := range w.store.Project.Mounts {
			if rel, err := filepath.Rel(at.Target, m.Target); err == nil && rel != "." && filepath.IsLocal(rel) {
				how.Without[at.Target] = append(how.Without[at.Target], rel)
			}
		}
	}
	var left []changes.Skip
	began := w.store.Now()
	w.changes, left, err = changes.OpenCopies(sandbox.Host(w.Session.dir), over, how)
	if cost != nil {
		w.StartNotes = append(w.StartNotes, fmt.Sprintf("no overlay can be mounted here, so the session works on a copy of %s: %d files, %s, copied in %.1f s; golem doctor says why",
			strings.Join(names, ", "), cost.Files, visible.Amount(cost.Bytes), w.store.Now().Sub(began).Seconds()))
	}
	for i, l := range left {
		if i == maxNamed {
			w.StartNotes = append(w.StartNotes, fmt.Sprintf("not in the copy: %d more", len(left)-i))
			break
		}
		w.StartNotes = append(w.StartNotes, "not in the copy: "+sandbox.Shown(l.Name)+": "+l.Why)
	}
	return copyError(err, strings.Join(names, ", "))
}

// copyError adds advice to the error of a copy that is too large or does not fit on the
// disk.
func copyError(err error, what string) error {
	var large *changes.TooLarge
	if errors.As(err, &large) {
		return &sandbox.Error{Op: "copy", Code: sandbox.ErrLimit, Hint: "no overlay can be mounted here, so golem would work on a copy of " + what + ", which is larger than " +
			fmt.Sprintf("%d GiB", large.Most>>30) + "; nothing was copied; --copy copies any size; golem doctor says why there is no overlay"}
	}
	var full *overlay.NoSpaceError
	if errors.As(err, &full) {
		return &sandbox.Error{Op: "copy", Code: sandbox.ErrLimit, Hint: "a copy needs " + visible.Amount(full.Needed) + ", and " + visible.Amount(full.Free) +
			" are free where the state directory is; nothing was copied; choose another state directory: --state DIR or GOLEM_STATE"}
	}
	return err
}

// listNames lists the first few names in a directory.
func listNames(folder string, names []string) string {
	more := ""
	if len(names) > maxNamed {
		names, more = names[:maxNamed], " and more"
	}
	var list []string
	for _, name := range names {
		list = append(list, sandbox.Shown(path.Join(folder, name)))
	}
	return strings.Join(list, ", ") + more
}

// Mount returns the sandbox mount for a mount with mode: overlay. Without a session it is
// read-only.
func (w *Workspace) Mount(m project.Mount) (sandbox.Mount, error) {
	if w.changes == nil || w.changes.Path(overlayMount(m)) == "" {
		b, err := sandbox.DirIn(m.Base, m.Source)
		return sandbox.Mount{Backend: b, Access: sandbox.ReadOnly}, err
	}
	return sandbox.Mount{Backend: newOverlayBackend(w.changes, overlayMount(m)), Access: m.Access()}, nil
}

// Enter returns the function that the gate calls around each call, nil if there are no
// overlays.
func (w *Workspace) Enter() func(fresh, changes bool) (leave func() error, err error) {
	if w.changes == nil {
		return nil
	}
	return w.changes.Enter
}

// Keeper returns the changes of the session for the tools that apply and discard them,
// nil if there are none. golemState is the state directory, which records the files that were
// pulled into the session.
func (w *Workspace) Keeper(golemState *state.Dir) settle.Keeper {
	if w.changes == nil {
		return nil
	}
	return keeper{w.changes, storeOf(w.store, w.Session), w.pending.dir, func() error { return clearance.Forget(golemState, w.Session.ID) }}
}

// A keeper is the changes of a session, with the directory for transactions.
type keeper struct {
	*changes.Overlays
	store        Sessions
	pending      sandbox.Host
	forgetPulled func() error
}

// Discard implements settle.Keeper. It also forgets the record of pulled files, of which
// some may be discarded. If all files are discarded, the commits go with them.
func (k keeper) Discard(names []string, check func([]changes.Change) error) error {
	var commits []string
	if slices.Contains(names, "/") {
		commits = []string{gitName, stampsName}
	}
	return k.Overlays.Discard(k.pending, names, func(list []changes.Change) error {
		if err := check(list); err != nil {
			return err
		}
		return k.forgetPulled()
	}, commits)
}

// Changes implements settle.Keeper. It marks ignored files.
func (k keeper) Changes() (list []changes.Change, unfit string, err error) {
	list, unfit, err = k.Overlays.Changes()
	ignored.Mark(list, k.store.sourceOf, k.store.Ignored, k.store.OwnIgnored)
	return list, unfit, err
}

// PlanDiscard implements settle.Keeper. It marks ignored files.
func (k keeper) PlanDiscard(names []string) (list []changes.Change, unfit string, err error) {
	list, unfit, err = k.Overlays.PlanDiscard(names)
	ignored.Mark(list, k.store.sourceOf, k.store.Ignored, k.store.OwnIgnored)
	return list, unfit, err
}

// Begin implements settle.Keeper.
func (k keeper) Begin(picks []changes.Pick) (*changes.Transaction, error) {
	return k.Overlays.Begin(k.pending, picks)
}

func (w *Workspace) Close() error {
	err := w.closePorts()
	if w.changes == nil {
		return err
	}
	if w.isForCall && (w.hasRun || len(w.changes.Touched()) > 0) {
		err = errors.Join(err, w.Session.markUsed(w.store.Now()))
	}
	if w.Session != nil {
		w.store.uncheck(w.Session, "")
	}
	err = errors.Join(err, w.changes.Close())
	if w.Session != nil {
		err = errors.Join(err, w.Session.unmarkMaker())
	}
	return err
}

// canOverlay reports whether overlays can be mounted. After a no it stays no.
func (w *Workspace) canOverlay() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noOverlay = w.noOverlay || !w.pending.canOverlay()
	return !w.noOverlay
}

// canCopy reports whether commands can work on copies of mounts that they would write to
// directly. At the level landlock, golem cannot mount a copy at the path of the original.
func (w *Workspace) canCopy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.canCopyMounts == nil {
		s, err := jail.Start(jail.Policy{Least: jail.Namespaces}, w.pending.now)
		can := changes.CanCopy && err == nil
		if w.canCopyMounts = &can; can {
			s.Close()
		}
	}
	return *w.canCopyMounts
}

// HasOverlays reports whether the session keeps the changes to mounts with mode: overlay.
func (w *Workspace) HasOverlays() bool { return w.changes != nil }

// Recover completes what a killed golem was applying or undoing, and adds notes about it.
func (w *Workspace) Recover() error {
	r, err := w.pending.recover()
	w.Notes = append(w.Notes, r.Notes...)
	return err
}

// IsBusy reports whether another golem works on the session now: calls that use its files
// fail until it ends.
func (w *Workspace) IsBusy() bool { return w.Session != nil && w.changes.IsBusy() }

// PendingNote says of the last call that its changes are in the session and not in the
// user's directory; "" if it has changed nothing there.
func (w *Workspace) PendingNote() string {
	if w.Session == nil {
		return ""
	}
	names := w.changes.Touched()
	if len(names) == 0 {
		return ""
	}
	return "kept in session " + naming.Label(w.Session) + ", not in your directory: " + listNames("/", names) + "; golem diff shows it"
}

// maxNamed is how many names a note lists.
const maxNamed = 5
