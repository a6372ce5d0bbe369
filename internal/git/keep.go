package git

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/durable"
)

// packs is the directory of what was staged.
func (s *Store) packs() string { return filepath.Join(s.repository(), "objects", "pack") }

// adopt moves the pack of a stage from where it was made to the others. Its name
// tells the commit, and that it is this stage's and no other's: git takes any
// name. The index comes last, for without it there is no pack.
func (s *Store) adopt(room string, commit Hash) error {
	made, _ := filepath.Glob(filepath.Join(room, "pack", "pack-*.pack"))
	if len(made) != 1 {
		return trouble(errors.New("git has made no pack of what was staged"))
	}
	name := filepath.Join(s.packs(), "pack-"+string(commit)+"-"+rand.Text())
	for _, part := range []string{".pack", ".idx"} {
		if err := durable.Move(strings.TrimSuffix(made[0], ".pack")+part, name+part); err != nil {
			return trouble(err)
		}
	}
	return settle(s.packs())
}

// settle has the names in a directory on the disk. Where a system cannot do that to a
// directory, it is done with the files.
func settle(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return trouble(err)
	}
	defer f.Close()
	f.Sync()
	return nil
}

// Drop removes what was staged as a commit. What git reads at the moment it has
// open.
func (s *Store) Drop(commit Hash) {
	if commit.Valid() {
		s.drop(func(of Hash, _ time.Time) bool { return of == commit })
	}
}

// drop removes the packs of stages that are unwanted: the index first.
func (s *Store) drop(unwanted func(of Hash, since time.Time) bool) {
	list, _ := os.ReadDir(s.packs())
	for _, e := range list {
		name, isPack := strings.CutSuffix(e.Name(), ".pack")
		of, mark, ours := strings.Cut(strings.TrimPrefix(name, "pack-"), "-")
		info, err := e.Info()
		if !isPack || !ours || mark == "" || !Hash(of).Valid() || err != nil || !unwanted(Hash(of), info.ModTime()) {
			continue
		}
		for _, part := range []string{".idx", ".pack"} {
			os.Remove(filepath.Join(s.packs(), name+part))
		}
	}
}

// Tidy removes what killed processes have left of their work and stages that
// nobody keeps, if they are older than a time.
func (s *Store) Tidy(before time.Time, keep map[Hash]bool) {
	for _, pattern := range []string{"new-*", "views/new-*", "*.git/fast_import_crash_*", "*.git/objects/pack/tmp_*"} {
		list, _ := filepath.Glob(filepath.Join(s.dir, pattern))
		for _, name := range list {
			if info, err := os.Lstat(name); err == nil && info.ModTime().Before(before) {
				os.RemoveAll(name)
			}
		}
	}
	s.drop(func(of Hash, since time.Time) bool { return !keep[of] && since.Before(before) })
}
