package session

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/durable"
	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/people/detached"
	"github.com/golem-forge/golem/sandbox"
)

// IsUnused reports whether a session holds nothing. It then has no change, no commit, and
// no change that golem undo would restore. Its homes have only files that a profile puts
// there, unless the only programs that ran in it had no profile or a built-in one without
// conversations: what npm or go leave at home are caches and logs.
func (s Sessions) IsUnused(one *Session, ran profile.Profile) bool {
	if one == nil || one.hasCommits() {
		return false
	}
	if NeedsSession(s, one) || isNews(one, s.Now()) {
		s.uncheck(one, ran.Name)
		return false
	}
	l, err := s.ListChanges(one)
	if err != nil {
		return false
	}
	has := l.hasWork()
	l.Close()
	onlyCaches := ran.Name != "" && ran.File == "" && !ran.Net && len(ran.Private) == 0 && (one.Begun || one.isAbandoned())
	return !has && (onlyCaches || one.hasOnlyProfileFiles(ran))
}

// newsTime is how long the end of a program in the background is news. Its session then shows
// the exit code and the output, also without a change.
const newsTime = 24 * time.Hour

// isNews reports whether a program runs in the background of a session, or has just ended.
func isNews(one *Session, now time.Time) bool {
	dir := filepath.Join(one.dir, detached.Name)
	d, ok := detached.Read(dir)
	return ok && (d.Running || now.Sub(d.LastUsed(dir)) < newsTime)
}

// NeedsSession reports whether golem undo can return changes to a session.
func NeedsSession(s Sessions, one *Session) bool {
	return changes.NeedsSession(s.pending().dir, sandbox.Host(one.dir))
}

// UndoInto reports whether golem undo returns changes to a session: see changes.UndoInto.
func UndoInto(s Sessions, one *Session) (process int, is bool) {
	return changes.UndoInto(s.pending().dir, sandbox.Host(one.dir))
}

// HasWork reports whether a session has changes or commits that were not applied, or
// cannot be read.
func (s Sessions) HasWork(one *Session) bool {
	l, err := s.ListChanges(one)
	if err != nil {
		return true
	}
	defer l.Close()
	return l.hasWork() || one.hasCommits()
}

// hasWork reports whether there are changes. The mount may show another directory now than
// the one with the changes.
func (l *ChangeList) hasWork() bool {
	return len(l.changes) > 0 || l.unfit != "" || len(l.overlays.OtherTargets()) > 0
}

// IsBusy reports whether another golem works on the files of a session now.
func (s Sessions) IsBusy(one *Session) bool {
	if !changes.MayBeBusy(sandbox.Host(one.dir)) {
		return false
	}
	k, err := s.Open(one)
	if err != nil {
		return false
	}
	defer k.Close()
	return k.IsBusy()
}

// Holder returns the golem that works on the files of a session now. ok is false if there
// is none.
func (s Sessions) Holder(one *Session) (h changes.Holder, ok bool) {
	if !changes.MayBeBusy(sandbox.Host(one.dir)) {
		return h, false
	}
	k, err := s.Open(one)
	if err != nil {
		return h, false
	}
	defer k.Close()
	return k.Holder()
}

// AwaitCalls waits until no call of another golem works on a session: see
// changes.AwaitCalls.
func (s Sessions) AwaitCalls(ctx context.Context, one *Session, tell func(changes.Holder)) error {
	k, err := s.Open(one)
	if err != nil {
		return err
	}
	defer k.Close()
	return changes.AwaitCalls(ctx, k, tell)
}

// golem exec removes earlier sessions that hold nothing any more. To find them without
// looking at every session, golem keeps a list: the file STATE/unchecked/ID says that
// golem worked in the session ID since somebody last looked whether it holds something.

// uncheckedName is the directory with the list.
const uncheckedName = "unchecked"

func uncheckedFile(s Sessions, id string) string { return filepath.Join(s.State, uncheckedName, id) }

// uncheck adds a session of golem exec to the list. profile is the one that ran in it, if
// the session is kept only for golem undo. If this fails, the session stays.
func (s Sessions) uncheck(one *Session, profile string) {
	if one.Command == "" {
		return
	}
	file := uncheckedFile(s, one.ID)
	if was, err := os.ReadFile(file); err == nil && (profile == "" || profile == string(was)) {
		return
	}
	if err := os.WriteFile(file, []byte(profile), 0o600); errors.Is(err, fs.ErrNotExist) && makeUnchecked(s) == nil {
		os.WriteFile(file, []byte(profile), 0o600)
	}
}

// makeUnchecked makes the list, if there is none. It begins with all sessions, because
// sessions from another machine come without the list.
func makeUnchecked(s Sessions) error {
	if exists(uncheckedFile(s, "")) {
		return nil
	}
	list, _ := s.List() // without those that golem cannot read, and so cannot remove
	if err := os.MkdirAll(s.State, 0o700); err != nil {
		return stateError("the sessions", err)
	}
	temp, err := os.MkdirTemp(s.State, ".unchecked-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	for _, one := range list {
		if one.Command == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(temp, one.ID), nil, 0o600); err != nil {
			return err
		}
	}
	if err := durable.Rename(temp, uncheckedFile(s, "")); err != nil && !exists(uncheckedFile(s, "")) {
		return err
	}
	return nil
}

// EachUnchecked calls yield with each session of golem exec that was worked in since
// somebody last looked at it, and that has no changed file: all changes were applied or
// discarded, or its golem was killed. profile is the name of the
// profile that ran in it, "" if golem does not know it.
func (s Sessions) EachUnchecked(yield func(one *Session, profile string)) {
	if makeUnchecked(s) != nil {
		return
	}
	entries, err := os.ReadDir(uncheckedFile(s, ""))
	if err != nil {
		return
	}
	for _, e := range entries {
		one, err := s.at(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			os.Remove(uncheckedFile(s, e.Name()))
		}
		if err != nil || !slices.Equal(one.Mounts, s.Given) { // the mounts decide what its changes are
			continue
		}
		profile, err := os.ReadFile(uncheckedFile(s, one.ID))
		if err != nil || s.IsBusy(one) {
			continue
		}
		k, err := s.Open(one)
		if err != nil {
			continue
		}
		files, _ := k.Usage()
		k.Close()
		switch {
		case files > 0: // the next golem that works in it adds it again
			os.Remove(uncheckedFile(s, one.ID))
		case len(profile) > 0 || one.isAbandoned() || s.Now().Sub(one.LastUsed) > time.Hour:
			yield(one, string(profile))
			if !NeedsSession(s, one) && !isNews(one, s.Now()) {
				os.Remove(uncheckedFile(s, one.ID)) // it is removed now, or holds something else
			}
		}
	}
}
