package session

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/profile"
	"github.com/golem-forge/golem/sandbox"
)

// IsUnused reports whether a session keeps nothing: no change, no commit, no change that golem
// undo would give back to it, and a home with nothing but what a profile has put there.
func (s Store) IsUnused(one *Session, profile profile.Profile) bool {
	if one == nil || one.HasCommits() {
		return false
	}
	if last, err := jail.Last(s.pending().dir); err == nil && last.Of(sandbox.Host(one.dir)) {
		one.writeFile(appliedName, profile.Name) // it is looked at again when something else was applied
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
	others := k.Others() // the folder may have become another one meanwhile
	k.Close()
	if len(others) > 0 {
		return false
	}
	return one.hasOnlyProfileFiles(profile)
}

// appliedName is a file of a session that is kept for golem undo, with the profile of the
// program that ran in it.
const appliedName = "applied.json"

// EachApplied calls yield with the sessions that were kept for golem undo and keep no file, and
// with the names of the profiles that ran in them.
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
