package desk

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestRemoveLeft checks that a desk removes the directories of killed desks, and no others.
func TestRemoveLeft(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	now := time.Now()
	for name, age := range map[string]time.Duration{"golem-desk-left": 0, "golem-new-desk-left": time.Hour, "golem-new-desk-new": 0, "other": time.Hour} {
		dir := filepath.Join(tmp, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "desk.html"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("other", filepath.Join(tmp, "golem-desk-link")); err != nil {
		t.Fatal(err)
	}
	used, held, err := makeDir()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	removeLeft(now)
	entries, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if want := []string{filepath.Base(used), "golem-desk-link", "golem-new-desk-new", "other"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
