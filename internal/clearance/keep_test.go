package clearance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// countPacks returns how many stages the store keeps.
func (s *scene) countPacks() int {
	list, _ := filepath.Glob(filepath.Join(s.state, "git/store.git/objects/pack/*.pack"))
	return len(list)
}

// TestUnusedCommitsAreDropped checks that the store drops discarded and pushed commits,
// and that other stages do not need them.
func TestUnusedCommitsAreDropped(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	first := s.stage("bare", "a.txt=secret\n", "b=b")
	second := s.stage("bare", "a.txt=secret\n", "c=c") // git need not keep a second copy of it
	twin := s.stage("local", "a.txt=secret\n", "b=b")  // the same commit as the first
	if first.Commit != twin.Commit || s.countPacks() != 3 {
		t.Fatalf("got %s and %s, %d packs", first.Commit, twin.Commit, s.countPacks())
	}
	if err := s.desk.Discard(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*clearance.StagedCommit{second, twin} {
		if err := s.desk.Diff(t.Context(), c, func(clearance.FileDiff) error { return nil }); err != nil {
			t.Error(err)
		}
		if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
			t.Error(err)
		}
	}
	if n := s.countPacks(); n != 0 {
		t.Errorf("got %d packs", n)
	}
}

// TestLeftoversAreRemoved checks that a later stage removes leftovers of a killed process, and
// keeps waiting commits.
func TestLeftoversAreRemoved(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	kept := s.stage("bare", "a.txt=kept\n")
	store, err := git.Open(t.Context(), filepath.Join(s.state, "git"), "git")
	if err != nil {
		t.Fatal(err)
	}
	r := newRequest("bare", "x=y")
	// This commit was staged and never recorded.
	if _, err := store.Stage(t.Context(), "", git.Commit{Message: "m", Author: r.Author, Committer: r.Author, Time: r.Time, Files: r.Files}); err != nil {
		t.Fatal(err)
	}
	waste := filepath.Join(s.state, "git/new-waste")
	writeFile(t, waste+"/x", "x")
	old := time.Unix(1600000000, 0)
	all, _ := filepath.Glob(filepath.Join(s.state, "git/store.git/objects/pack/*"))
	for _, name := range append(all, waste) {
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if s.countPacks() != 2 {
		t.Fatalf("%d packs", s.countPacks())
	}
	s.stage("bare", "b=b")
	if n := s.countPacks(); n != 2 {
		t.Errorf("got %d packs, want the waiting one and the new one", n)
	}
	if _, err := os.Lstat(waste); err == nil {
		t.Error("leftovers still exist")
	}
	if _, err := s.desk.Push(t.Context(), kept.ID, ""); err != nil {
		t.Error(err)
	}
}

// TestDiscardWithoutATarget checks that a commit can be discarded when its target is
// gone, and that the error says if a push was begun.
func TestDiscardWithoutATarget(t *testing.T) {
	for _, how := range []string{"the folder went", "it is no longer configured"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := setUp(t)
			waiting, begun := s.stage("bare", "a.txt=1\n"), s.stage("bare", "a.txt=2\n")
			recordBegun(t, s, begun.ID)
			if how == "the folder went" {
				os.RemoveAll(s.bare)
			} else {
				s.desk = s.open(git.Credentials{}, clearance.Target{Name: "other", Type: "bare", Path: sandbox.Host(s.bare), Branch: "main"})
			}
			if err := s.desk.Discard(t.Context(), waiting.ID); err != nil {
				t.Errorf("discard of a commit without a push: got %v", err)
			}
			s.checkRefused(s.desk.Discard(t.Context(), begun.ID), clearance.ErrUncertain)
			if list, err := s.desk.List(); err != nil || len(list) != 0 {
				t.Errorf("the commit was not discarded: %v, %v", list, err)
			}
		})
	}
}

// recordBegun records that a push was begun, as if it was interrupted.
func recordBegun(t *testing.T, s *scene, id string) {
	t.Helper()
	name := filepath.Join(s.state, "staged.json")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(data), `"id":"`+id+`","phase":"staged"`)
	if !ok {
		t.Fatalf("%s is not in %s", id, data)
	}
	writeFile(t, name, before+`"id":"`+id+`","phase":"pushing"`+after)
}
