package session

import (
	"encoding/json"
	"os"
	"path/filepath"

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
	if last, err := transaction.Last(s.pending().dir); err == nil && last.IsFrom(sandbox.Host(one.dir)) {
		one.writeFile(appliedName, profile.Name) // checked again after the next apply
		return false
	}
	list, unfit, err := s.Changes(one, nil, false)
	if err != nil || len(list) > 0 || unfit != "" {
		return false
	}
	k, err := s.Open(one)
	if err != nil {
		return false
	}
	others := k.OtherTargets() // the mount may show another directory now
	k.Close()
	if len(others) > 0 {
		return false
	}
	return one.hasOnlyProfileFiles(profile)
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
