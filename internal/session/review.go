package session

import (
	"path"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/explain"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/internal/transaction"
)

// A Review lists the changes of a session file by file, for a person who decides what to
// apply. It has no file of a git repository: golem never applies changes there.
type Review struct {
	Files  []FileChange  // the riskiest first
	Flags  []review.Flag // the riskiest first
	Git    int           // changed files of git repositories, which are not among Files
	Refs   bool          // the session has changed a branch or a tag of a repository
	Unfit  string        // not "" if there are names that are no text
	Others []string      // targets of directories with changes that are not mounted now
}

// Review reviews the changes of a session at and below some names; without names, all of
// them. With diffs it compares every file; without, it counts the lines of the first files
// only, and looks at the others by their names.
func (s Store) Review(one *Session, names []string, diffs bool) (*Review, error) {
	return s.ReviewWith(one, names, diffs, nil)
}

// ReviewWith reviews changes as Review does. report, if not nil, is called with the number
// of changes that were read.
func (s Store) ReviewWith(one *Session, names []string, diffs bool, report func(done, total int)) (*Review, error) {
	k, err := s.Open(one)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	return storeOf(s, one).review(k, one, names, diffs, report)
}

// Review reviews all changes of the workspace's session, without their diffs. It calls
// report as Store.ReviewWith does.
func (w *Workspace) Review(report func(done, total int)) (*Review, error) {
	if w.changes == nil {
		return w.store.ReviewWith(w.Session, nil, false, report)
	}
	return w.store.review(w.changes, w.Session, nil, false, report)
}

func (s Store) review(k *transaction.Overlays, one *Session, names []string, diffs bool, report func(done, total int)) (*Review, error) {
	files, err := s.Project.Sandbox(explain.ProbeMount)
	if err != nil {
		return nil, err
	}
	names = slices.Clone(names)
	for i := range names {
		if names[i], err = files.Canonical(names[i]); err != nil {
			return nil, err
		}
	}
	standing, unfit, err := k.Changes()
	if err != nil {
		return nil, jail.CommandError(err)
	}
	r := &Review{Unfit: unfit, Others: k.OtherTargets(), Refs: one.HasCommits()}
	ofGit := repositoriesAmong(files, standing)
	filled := make(map[string]bool) // new directories with something in them
	for _, c := range standing {
		filled[path.Dir(c.Name())] = true
	}
	var flags review.Collector
	size := int64(0)
	for i, c := range standing {
		if report != nil {
			report(i, len(standing))
		}
		switch {
		case len(names) > 0 && !anyWithin(names, c.Name()):
			continue
		case files.ProtectedBy(c.Name()) == ".git" || ofGit(c.Name()):
			if c.Kind != overlay.Dir {
				r.Git++
				r.Refs = r.Refs || strings.Contains(c.Name(), "/.git/refs/") || strings.HasSuffix(c.Name(), "/.git/packed-refs")
			}
			continue
		}
		size += c.Size
		d, t := changedOf(k, files, c, diffs || len(r.Files) < maxCounted && size < maxCountedBytes, diffs)
		if c.Kind == overlay.Dir && c.Op == overlay.Create && !d.UnusualMode && filled[c.Name()] {
			continue // the files in it show that it is new
		}
		if r.Files = append(r.Files, d); c.Kind == overlay.Dir && c.Op != overlay.Delete {
			continue // a new directory is as risky as the files in it
		}
		flags.Add(approval.ReviewChange(c.Name(), c.PathChange, t.real, t.own, t.diff, d.Unread))
	}
	r.Flags = flags.Flags()
	review.Sort(r.Files, func(d FileChange) string { return d.Path }, r.Flags)
	return r, nil
}

// HasChanges reports whether a session has changed something outside git repositories.
func (s Store) HasChanges(one *Session) (bool, error) {
	k, err := s.Open(one)
	if err != nil {
		return false, err
	}
	defer k.Close()
	files, err := storeOf(s, one).Project.Sandbox(explain.ProbeMount)
	if err != nil {
		return false, err
	}
	standing, unfit, err := k.Changes()
	if err != nil {
		return false, jail.CommandError(err)
	}
	if unfit != "" || len(k.OtherTargets()) > 0 {
		return true, nil
	}
	ofGit := repositoriesAmong(files, standing)
	return slices.ContainsFunc(standing, func(c transaction.SessionChange) bool {
		return files.ProtectedBy(c.Name()) != ".git" && !ofGit(c.Name())
	}), nil
}
