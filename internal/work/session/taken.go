package session

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/files/overlay"
)

// takenName is a file of a session with the versions of files that are in commits which
// the user has taken.
const takenName = "taken.json"

// MarkTaken implements changes.Committer.
func (c *Commits) MarkTaken(versions map[string][]string) error {
	all := c.session.taken()
	for name, list := range versions {
		all[name] = append(all[name], list...)
	}
	return c.session.writeFile(takenName, all)
}

// taken returns the versions of files that are in taken commits, by the names of the files.
func (s *Session) taken() map[string][]string {
	all := make(map[string][]string)
	if data, err := os.ReadFile(filepath.Join(s.dir, takenName)); err != nil || json.Unmarshal(data, &all) != nil {
		return make(map[string][]string)
	}
	return all
}

// HasOnlyTaken reports whether all changes of a session are in commits that the user has
// taken. It reads the changes only if there are such commits.
func (s Sessions) HasOnlyTaken(one *Session) bool {
	if len(one.taken()) == 0 {
		return false
	}
	r, err := s.Review(one, nil, false, nil)
	return err == nil && s.IsTaken(one, r)
}

// IsTaken reports whether every change in a review of a session is also in commits that the
// user has taken. Such a session does not wait for the user.
func (s Sessions) IsTaken(one *Session, r *Review) bool {
	taken := one.taken()
	if len(taken) == 0 || r.Unfit != "" || len(r.Others) > 0 {
		return false
	}
	contents, err := s.OpenContents(one)
	if err != nil {
		return false
	}
	defer contents.Close()
	return !slices.ContainsFunc(r.Files, func(f FileChange) bool {
		version := ""
		if f.Op != overlay.Delete {
			_, own, err := contents.Read(f.Path, maxCountedBytes)
			if err != nil || own == nil || f.OldMode != "" || f.UnusualMode {
				return true
			}
			version = string(git.BlobHash(int64(len(own)), bytes.NewReader(own)))
		}
		return !slices.Contains(taken[f.Path], version)
	})
}
