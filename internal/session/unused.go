package session

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/golem-forge/golem/internal/profile"
	"github.com/golem-forge/golem/internal/transaction"
	"github.com/golem-forge/golem/sandbox"
)

// IsUnused reports whether a session holds nothing. It then has no change, no commit, and
// no change that golem undo would restore. Its homes have only files that a profile puts
// there.
func (s Store) IsUnused(one *Session, profile profile.Profile) bool {
	if one == nil || one.HasCommits() {
		return false
	}
	if transaction.NeedsSession(s.pending().dir, sandbox.Host(one.dir)) {
		one.writeFile(appliedName, profile.Name) // checked again later
		return false
	}
	l, err := s.Look(one)
	if err != nil {
		return false
	}
	has := l.hasWork()
	l.Close()
	return !has && one.hasOnlyProfileFiles(profile)
}

// HasWork reports whether a session has changes or commits that were not applied, or
// cannot be read.
func (s Store) HasWork(one *Session) bool {
	l, err := s.Look(one)
	if err != nil {
		return true
	}
	defer l.Close()
	return l.hasWork() || one.HasCommits()
}

// hasWork reports whether there are changes. The mount may show another directory now than
// the one with the changes.
func (l *Look) hasWork() bool {
	return len(l.changes) > 0 || l.unfit != "" || len(l.overlays.OtherTargets()) > 0
}

// IsBusy reports whether another golem works on the files of a session now.
func (s Store) IsBusy(one *Session) bool {
	k, err := s.Open(one)
	if err != nil {
		return false
	}
	defer k.Close()
	return k.IsBusy()
}

// Holder returns the golem that works on the files of a session now. ok is false if there
// is none.
func (s Store) Holder(one *Session) (h transaction.Holder, ok bool) {
	k, err := s.Open(one)
	if err != nil {
		return h, false
	}
	defer k.Close()
	return k.Holder()
}

// Process returns the process of the golem that works on the files of a session now, as the
// kernel shows it: 0 if there is none.
func Process(s Store, one *Session) int {
	k, err := s.Open(one)
	if err != nil {
		return 0
	}
	defer k.Close()
	return transaction.Process(k)
}

// AwaitCalls waits until no call of another golem works on a session: see
// transaction.AwaitCalls.
func (s Store) AwaitCalls(ctx context.Context, one *Session, tell func(transaction.Holder)) error {
	k, err := s.Open(one)
	if err != nil {
		return err
	}
	defer k.Close()
	return transaction.AwaitCalls(ctx, k, tell)
}

// EachAbandoned calls yield with each session that golem exec started more than an hour
// ago and that has no changed file: its golem was killed.
func (s Store) EachAbandoned(yield func(one *Session)) {
	list, err := s.List()
	if err != nil {
		return
	}
	for _, one := range list {
		if one.Command != "" && s.Now().Sub(one.LastUsed) > time.Hour && !s.IsBusy(one) {
			yield(one)
		}
	}
}

// appliedName is a file of a session that is kept for golem undo. It holds the profile of
// the program that ran in the session.
const appliedName = "applied.json"

// EachApplied calls yield with each session that was kept for golem undo and has no
// changed file, and with the name of the profile that ran in it.
func (s Store) EachApplied(yield func(one *Session, profile string)) {
	list, err := s.List()
	if err != nil {
		return
	}
	for _, one := range list {
		var profile string
		data, err := os.ReadFile(filepath.Join(one.dir, appliedName))
		if err != nil || json.Unmarshal(data, &profile) != nil {
			continue
		}
		k, err := s.Open(one)
		if err != nil {
			continue
		}
		files, _ := k.Usage()
		k.Close()
		if files == 0 {
			yield(one, profile)
		}
	}
}
