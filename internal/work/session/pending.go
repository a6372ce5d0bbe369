package session

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/editor"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// pendingChanges is the directory where changes of commands stay until they are applied.
type pendingChanges struct {
	dir sandbox.Host
	now func() time.Time
}

func (s Sessions) pending() pendingChanges {
	return pendingChanges{sandbox.Host(filepath.Join(s.State, "layers")), s.Now}
}

// lastApplied returns when changes were last applied that can be undone, the zero time
// for never.
func (l pendingChanges) lastApplied() time.Time { return changes.AppliedAt(l.dir) }

// canOverlay reports whether overlays can be mounted. It tries once after each boot.
func (l pendingChanges) canOverlay() bool {
	if _, err := os.Stat(l.probeFile()); err == nil {
		return true
	}
	try := filepath.Join(string(l.dir), "work-tried")
	if err := os.MkdirAll(try, 0o700); err != nil {
		return false
	}
	s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(try), Target: jail.Work, Write: true}}, Recorder: changes.Recorder{Dir: l.dir}, Least: jail.Namespaces}, l.now)
	if err != nil {
		return false
	}
	defer s.Close()
	return os.WriteFile(l.probeFile(), nil, 0o600) == nil
}

// forgetProbe makes the next call of canOverlay try again.
func (l pendingChanges) forgetProbe() { os.Remove(l.probeFile()) }

// probeFile returns the file that exists if overlays could be mounted since the last
// boot.
func (l pendingChanges) probeFile() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return filepath.Join(string(l.dir), "work-"+strings.TrimSpace(string(boot)))
}

// A Recovery says what golem did about changes that a killed golem was applying, undoing or
// discarding.
type Recovery struct {
	Root   string   // the directory of the program
	Undone bool     // golem has completed an undo
	Notes  []string // lines for the user
}

// recover completes what a killed golem was applying, undoing or discarding. See changes.Recover.
func (l pendingChanges) recover() (r Recovery, err error) {
	done, err := changes.Recover(l.dir)
	return Recovery{Undone: done.Undone > 0, Notes: recoveryNotes(done, l.undoHint)}, err
}

// recoveryNotes says what golem has completed.
func recoveryNotes(done changes.Recovered, undoHint func(what string) string) (notes []string) {
	switch {
	case done.Applied > 0 && len(done.Kept) > 0:
		notes = append(notes, "golem was killed while it applied changes, and has now applied the rest"+except(done.Kept)+undoHint("the others"))
	case done.Applied > 0:
		notes = append(notes, "golem was killed while it applied changes, and has now applied the rest"+undoHint("them"))
	case len(done.Kept) > 0:
		notes = append(notes, "golem was killed while it applied changes, and has applied none of them, because the files changed since: "+someNames(done.Kept))
	}
	if done.Undone > 0 {
		note := "golem was killed while it undid changes, and has now undone the rest"
		if len(done.Left) > 0 {
			note += except(done.Left) + "; golem undo --list lists them"
		}
		notes = append(notes, note)
	}
	if done.Discarded > 0 {
		notes = append(notes, "golem was killed while it discarded changes, and has now discarded the rest")
	}
	if done.Reverted > 0 {
		notes = append(notes, "golem was killed before it had applied any change, and nothing is applied now; golem diff shows the changes")
	}
	for _, b := range done.Broken {
		notes = append(notes, "golem was killed while it applied, undid or discarded changes, and cannot complete that: "+visible.Text(b.Why)+"; your directory may have a part of them, and "+visible.Text(string(b.Dir))+" keeps the files; delete it when you no longer need them")
	}
	return notes
}

// except names files that golem left as they are.
func except(names []string) string {
	return ", except for " + visible.Count(len(names), "file") + " that changed since: " + someNames(names)
}

// someNames lists the first of some names.
func someNames(names []string) string {
	const most = 3
	list := visible.Each(names[:min(most, len(names))], sandbox.Shown)
	if len(names) > most {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// undoHint says that golem undo undoes the changes that were applied last, if it can. what
// stands for the changes.
func (l pendingChanges) undoHint(what string) string {
	if last, err := changes.Last(l.dir); err == nil && last.WhyFinal() == "" {
		return "; golem undo undoes " + what
	}
	return ""
}

// Recover completes what a killed golem was applying, undoing or discarding in the directories
// of the program. Everything that lists sessions or changes calls it first, because a session
// lacks changes that are half applied. It calls OnRecover with what it did, and with the
// reason if it failed. It reports whether there was something to complete. It also removes the
// copies for a diff tool that a killed golem left.
func Recover(s Sessions) bool {
	if state.CheckOwner(s.State) != nil {
		return false // the owner of the directory completes it
	}
	editor.RemoveLeft(editor.CopiesDir(s.State))
	l := s.pending()
	if !changes.IsInterrupted(l.dir) {
		if command, process := changes.Active(l.dir); command != "" && s.OnRecover != nil {
			doing := map[string]string{"golem undo": "undoing", "golem discard": "discarding"}[command]
			note := fmt.Sprintf("%s (process %d) is %s changes now, so lists of changes are incomplete until it has ended", command, process, cmp.Or(doing, "applying"))
			s.OnRecover(Recovery{Root: realPath(s.Root), Notes: []string{note}})
		}
		return false
	}
	r, err := l.recover()
	if err != nil {
		r.Notes = append(r.Notes, "golem was killed while it applied, undid or discarded changes, and cannot complete that now ("+visible.Text(jail.Plain(err))+"), so lists of changes are incomplete; golem completes it when you type the command again and this no longer fails")
	}
	if r.Root = realPath(s.Root); s.OnRecover != nil {
		s.OnRecover(r)
	}
	return true
}
