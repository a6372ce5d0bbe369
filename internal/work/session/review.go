package session

import (
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/ignored"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

// A Review lists the changes of a session file by file, for a person who decides what to
// apply. It has no file of a git repository: golem never applies changes there.
type Review struct {
	Files   []FileChange    // in the order of Flags, and last those that were only moved
	First   int             // how many of Files belong to the first flags: see review.Order
	Flags   []review.Flag   // in the order of review.Order
	Moves   []changes.Move  // directories that were moved
	Ignored []ignored.Files // new files that git ignores, which are not among Files
	Git     int             // changed files of git repositories, which are not among Files
	Refs    bool            // the session has changed a branch or a tag of a repository
	Unfit   string          // not "" if there are names that are no text
	Others  []string        // targets of directories with changes that are not mounted now
}

// Review reviews the changes of a session at and below some names; without names, all of
// them. With diffs it compares every file; without, it counts the lines of the first files
// only, and looks at the others by their names. report, if not nil, is called with the number
// of changes that were read.
func (s Sessions) Review(one *Session, names []string, diffs bool, report func(done, total int)) (*Review, error) {
	l, err := s.ListChanges(one)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.review(names, diffs, report)
}

// Review reviews all changes of the workspace's session, without their diffs. It calls
// report as Sessions.Review does.
func (w *Workspace) Review(report func(done, total int)) (*Review, error) {
	if w.changes == nil {
		return w.store.Review(w.Session, nil, false, report)
	}
	w.tracker.mu.Lock()
	ended := w.tracker.ended
	w.tracker.mu.Unlock()
	if ended != nil { // nothing ran since golem recorded what the last command changed
		l := &ChangeList{storeOf(w.store, w.Session), w.Session, w.changes, ended.changes, ended.unfit}
		return l.review(nil, false, report)
	}
	l, err := newChangeList(w.store, w.changes, w.Session)
	if err != nil {
		return nil, err
	}
	return l.review(nil, false, report)
}

// A ChangeList is the list of a session's changes at one time, to review them and to read their
// contents.
type ChangeList struct {
	store    Sessions
	session  *Session
	overlays *changes.Overlays
	changes  []changes.Change
	unfit    string
}

// ListChanges lists the changes of a session.
func (s Sessions) ListChanges(one *Session) (*ChangeList, error) {
	k, err := s.Open(one)
	if err != nil {
		return nil, err
	}
	l, err := newChangeList(s, k, one)
	if err != nil {
		k.Close()
	}
	return l, err
}

func newChangeList(s Sessions, k *changes.Overlays, one *Session) (*ChangeList, error) {
	list, unfit, err := k.Changes()
	if err != nil {
		return nil, jail.CommandError(err)
	}
	return &ChangeList{storeOf(s, one), one, k, list, unfit}, nil
}

// resolve returns the files of the program, and replaces paths by their names for them.
func (l *ChangeList) resolve(paths []string) (*sandbox.Sandbox, error) {
	files, err := l.store.Project.Sandbox(explain.ProbeMount)
	for i := range paths {
		if err == nil {
			paths[i], err = files.Canonical(paths[i])
		}
	}
	return files, err
}

// Close closes the files.
func (l *ChangeList) Close() { l.overlays.Close() }

// Review reviews the listed changes as Sessions.Review does.
func (l *ChangeList) Review(names []string, diffs bool) (*Review, error) {
	return l.review(names, diffs, nil)
}

func (l *ChangeList) review(names []string, diffs bool, report func(done, total int)) (*Review, error) {
	r := &Review{Unfit: l.unfit, Others: l.overlays.OtherTargets(), Refs: l.session.hasCommits()}
	standing := l.changes
	if len(names) == 0 {
		r.Files = make([]FileChange, 0, len(standing))
	}
	if len(names) == 0 && len(standing) == 0 {
		return r, nil
	}
	names = slices.Clone(names)
	files, err := l.resolve(names)
	if err != nil {
		return nil, err
	}
	texts := changes.OpenTexts(l.overlays)
	defer texts.Close()
	var flags review.Collector
	if len(names) == 0 {
		flags.Grow(len(standing))
	}
	ofGit, protectedBy := repositoriesAmong(files, standing), approval.Protection(files, texts.Open)
	filled := make(map[string]bool) // new directories with something in them
	for _, c := range standing {
		name := c.Name()
		filled[name[:max(0, strings.LastIndexByte(name, '/'))]] = true
	}
	known := l.store.Examined.of(l.session)
	examined := make(map[string]examination)
	settled := l.store.Now().Add(-settling).UnixNano()
	lost := newLosses(texts)
	ignored.Mark(standing, l.store.sourceOf, l.store.Ignored, l.store.OwnIgnored)
	isHidden := func(c changes.Change) bool {
		return c.IgnoredIn != "" && !l.store.Unfolded && !slices.ContainsFunc(names, func(n string) bool { return settle.Within(c.IgnoredIn, n) })
	}
	var hidden ignored.Collector
	lost.FindMoves(slices.DeleteFunc(slices.Clone(standing), func(c changes.Change) bool {
		name := c.Name() // a change that golem does not apply is no part of a move
		return isHidden(c) || protectedBy(c) != "" || ofGit(name) || len(names) > 0 && !anyWithin(names, name) || isDirectoryGone(c) && lost.protected(c, files) != ""
	}))
	r.Moves = lost.Moves
	moved := reading{len(lost.Was), 4 * maxCountedBytes} // a move of many files is one thing to look at
	reads := make([]bool, len(standing))
	if !diffs {
		reads = readable(standing, func(c changes.Change) bool {
			_, isMoved := lost.Was[c.Name()]
			_, isKnown := find(known, c.Name(), c)
			return !isHidden(c) && (len(names) == 0 || anyWithin(names, c.Name())) && !isMoved && !isKnown && !ofGit(c.Name())
		})
	}
	for i, c := range standing {
		if report != nil {
			report(i, len(standing))
		}
		name := c.Name()
		switch {
		case len(names) > 0 && !anyWithin(names, name):
			continue
		case isHidden(c):
			hidden.Add(c)
			continue
		case protectedBy(c) == ".git" || ofGit(name):
			if c.Kind != overlay.Dir {
				r.Git++
				r.Refs = r.Refs || strings.Contains(name, "/.git/refs/") || strings.HasSuffix(name, "/.git/packed-refs")
			}
			continue
		}
		before, isKnown := find(known, name, c)
		file, isMoved := lost.Was[name]
		isKnown = isKnown && !diffs && !isMoved
		read := diffs || reads[i] || isMoved && moved.reads(c)
		d, t := changedOf(texts, c, protectedBy(c), read, diffs)
		was := c.PathChange
		if isMoved && read && c.Kind == overlay.File {
			was = lost.compare(c, file, &d, &t, diffs)
		}
		d.Ignored = c.IgnoredIn != ""
		lost.add(c, &d, files)
		if read && c.Op == overlay.Mode && c.Kind == overlay.File && c.Mode&^c.OldMode&0o111 != 0 {
			_, own, _ := texts.Content(c, maxRead)
			t.own = approval.ScriptLine(own)
		}
		if isKnown {
			d.Added, d.Removed, d.Binary, d.Unread, d.Enough = before.added, before.removed, before.binary, before.unread, false
		}
		if c.Kind == overlay.Dir && c.Op == overlay.Create && !d.UnusualMode && filled[name] {
			continue // the files in it show that it is new
		}
		if r.Files = append(r.Files, d); c.Kind == overlay.Dir && c.Op != overlay.Delete {
			continue // a new directory is as risky as the files in it
		}
		change := approval.ReviewChange(name, was, t.real, t.own, t.diff, d.Unread)
		change.Ignored = d.Ignored
		change.Files, change.Emptied = d.Files, change.Emptied || isKnown && before.emptied
		switch {
		case isKnown:
			flags.AddKnown(change, before.flags)
		case d.isOnlyMoved():
			flags.AddKnown(change, nil)
		case d.MovedTo != "" && d.Files == 0: // all its files are in another directory
		default:
			before = examination{c.Stamp, d.Added, d.Removed, d.Binary, d.Unread, change.Emptied, flags.Add(change)}
		}
		if c.Stamp != 0 && c.Changed < settled && l.store.Examined != nil && (read || isKnown) && !isMoved {
			examined[name] = before
		}
	}
	if len(names) == 0 && !diffs && !l.store.Unfolded {
		l.store.Examined.set(l.session, examined)
	}
	r.Flags, r.Ignored = flags.Flags(), hidden.List()
	slices.SortStableFunc(r.Files, func(a, b FileChange) int { return b.priority() - a.priority() })
	folded := slices.IndexFunc(r.Files, FileChange.IsFolded)
	if folded < 0 {
		folded = len(r.Files)
	}
	r.First = review.Sort(r.Files[:folded], func(d FileChange) string { return d.Path }, r.Flags)
	return r, nil
}

// isOnlyMoved reports whether a file is in a moved directory, and is as it was.
func (d FileChange) isOnlyMoved() bool { return d.From != "" && !d.Edited }

// priority puts ignored files behind the others, and behind those files that were only moved and
// directories that are only gone from their old place.
func (d FileChange) priority() int {
	switch {
	case d.IsFolded():
		return 0
	case d.Ignored:
		return 1
	}
	return 2
}

// IsFolded reports whether the line of a moved directory says everything about a change. A
// conflict has a line of its own.
func (d FileChange) IsFolded() bool {
	return !d.Conflict && (d.isOnlyMoved() || d.MovedTo != "" && d.Files == 0)
}

// A Total is how much changes.
type Total struct {
	Files          int // with those in deleted directories
	Added, Removed int // lines
	Unread         int // files whose lines are not counted
	Moved          int // files that were only moved
}

// Total returns how much the changes of a review are.
func (r *Review) Total() (t Total) {
	for _, c := range r.Files {
		n := 1
		if c.OldKind == overlay.Dir && c.Kind != overlay.Dir {
			n = c.Files
			if n == 0 && c.MovedTo == "" {
				n = 1
			}
		}
		t.Files, t.Added, t.Removed = t.Files+n, t.Added+c.Added, t.Removed+c.Removed
		if c.Unread {
			t.Unread += n
		}
		if c.isOnlyMoved() {
			t.Moved++
		}
	}
	return t
}

// String describes how much changes: "3 files changed, +10 -2".
func (t Total) String() string {
	text := visible.Count(t.Files, "file") + " changed, "
	if text += visible.LineCounts(t.Added, t.Removed); t.Unread > 0 {
		text += " without " + visible.Count(t.Unread, "file") + " that golem did not read"
	}
	if t.Moved > 0 {
		text += ", " + visible.Number(t.Moved) + " only moved"
	}
	return text
}

// HasChanges reports whether a session has changed something outside git repositories.
func (s Sessions) HasChanges(one *Session) (bool, error) {
	l, err := s.ListChanges(one)
	if err != nil {
		return false, err
	}
	defer l.Close()
	files, err := l.resolve(nil)
	if err != nil || l.unfit != "" || len(l.overlays.OtherTargets()) > 0 {
		return err == nil, err
	}
	ofGit, protectedBy := repositoriesAmong(files, l.changes), files.Protection()
	return slices.ContainsFunc(l.changes, func(c changes.Change) bool {
		return protectedBy(c.Name()) != ".git" && !ofGit(c.Name())
	}), nil
}
