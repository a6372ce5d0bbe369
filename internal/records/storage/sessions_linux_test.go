package storage_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

func TestMain(m *testing.M) {
	if code, is := changes.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestRemoveSession checks that golem records in the journal that the user removes a session,
// before it removes it, and that it removes an unused one without a record.
func TestRemoveSession(t *testing.T) {
	t.Parallel()
	s := storage.Storage{Sessions: session.Sessions{State: filepath.Join(t.TempDir(), "state"), Root: t.TempDir(), Now: time.Now,
		Project: &project.Project{Mounts: []project.Mount{{Target: "/", Source: sandbox.Host(t.TempDir()), Mode: project.Overlay}}}}}
	start := func() *session.Session {
		w, err := s.Sessions.OpenWorkspace(session.Options{ID: session.New, Run: true})
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		return w.Session
	}
	removed := func() (ids []string) {
		dir, err := s.OpenJournal()
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		err = audit.Last(dir, audit.Filter{}, 10, func(r audit.Record, _ []byte) error {
			ids = append(ids, r.Session)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	unused, used := start(), start()
	if err := s.RemoveUnused(unused); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveSession(used, true, nil); err != nil {
		t.Fatal(err)
	}
	if got := removed(); !slices.Equal(got, []string{used.ID}) {
		t.Errorf("the journal has records of %q, want only %s", got, used.ID)
	}
	if list, err := s.Sessions.List(); err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	changed := start()
	over, err := changes.Open(sandbox.Host(filepath.Join(s.Sessions.State, "sessions", changed.ID)), s.Sessions.OverlayMounts(), false)
	if err != nil {
		t.Fatal(err)
	}
	over.Close()
	upper := filepath.Join(s.Sessions.State, "sessions", changed.ID, "0", "upper", "new")
	if err := os.WriteFile(upper, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveSession(changed, true, nil); !errors.Is(err, storage.ErrChanged) {
		t.Errorf("a session with changes was removed as clean: %v", err)
	}
	if err := s.RemoveUnused(changed); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(upper); err != nil || !slices.Equal(removed(), []string{used.ID}) {
		t.Errorf("the changes are gone, or the journal says so: %v, %q", err, removed())
	}
	if err := s.RemoveSession(changed, false, nil); err != nil {
		t.Error(err)
	}
	kept := start()
	journal := filepath.Join(s.Sessions.State, "journal.jsonl")
	if err := os.Remove(journal); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(journal, 0o700); err != nil { // nobody can write to it
		t.Fatal(err)
	}
	if err := s.RemoveSession(kept, true, nil); err == nil {
		t.Error("removed without a record")
	}
	if list, err := s.Sessions.List(); err != nil || len(list) != 1 {
		t.Errorf("the session is gone without a record: %v, %v", list, err)
	}
}
