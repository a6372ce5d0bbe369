package git

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/files/durable"
)

// packs returns the directory with the packs of what was staged.
func (s *ObjectStore) packs() string { return filepath.Join(s.repository(), "objects", "pack") }

// keepPack moves the pack of a stage to the packs of the store. The name of the pack
// holds the commit and a random part, so that each stage has its own pack. Git accepts
// any name. The index moves last, because git ignores a pack without an index.
func (s *ObjectStore) keepPack(scratch string, commit Hash) error {
	made, _ := filepath.Glob(filepath.Join(scratch, "pack", "pack-*.pack"))
	if len(made) != 1 {
		return storeError(errors.New("git has made no pack of what was staged"))
	}
	name := filepath.Join(s.packs(), "pack-"+string(commit)+"-"+rand.Text())
	for _, part := range []string{".pack", ".idx"} {
		if err := durable.Move(strings.TrimSuffix(made[0], ".pack")+part, name+part); err != nil {
			return storeError(err)
		}
	}
	return syncDirectory(s.packs())
}

// copyObjects copies the wanted objects, which it gets as the input of git rev-list, from
// one repository to another. Git checks them on the way. packErr is the failure to read
// them, indexErr that to check and store them.
func (s *ObjectStore) copyObjects(ctx context.Context, from, to place, wanted string, flags ...string) (packErr, indexErr error) {
	pack := s.command(ctx, from, "pack-objects", "--quiet", "--revs", "--thin", "--stdout", "--delta-base-offset")
	pack.Stdin = strings.NewReader(wanted)
	index := s.command(ctx, to, append([]string{"index-pack", "--stdin", "--fix-thin", "--strict"}, flags...)...)
	var packSaid, indexSaid tail
	pack.Stderr, index.Stderr = &packSaid, &indexSaid
	pipe, err := pack.StdoutPipe()
	if err != nil {
		return nil, err
	}
	index.Stdin = pipe
	if err := pack.Start(); err != nil {
		return nil, err
	}
	if indexErr = index.Run(); indexErr != nil {
		indexErr = s.failed(index, indexErr, indexSaid)
	}
	pipe.Close()
	// If a signal ended pack-objects, index-pack stopped reading, and its error says why.
	if err := pack.Wait(); err != nil && (indexErr == nil || pack.ProcessState.Exited()) {
		packErr = s.failed(pack, err, packSaid)
	}
	return packErr, indexErr
}

// syncDirectory writes the names in a directory to the disk, where the system can do
// that.
func syncDirectory(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return storeError(err)
	}
	defer f.Close()
	f.Sync()
	return nil
}

// Drop removes the packs that were staged as a commit. A git that reads them now has them
// open already.
func (s *ObjectStore) Drop(commit Hash) {
	if commit.Valid() {
		s.drop(func(of Hash, _ time.Time) bool { return of == commit })
	}
}

// drop removes the packs of unwanted stages, each index first.
func (s *ObjectStore) drop(unwanted func(of Hash, since time.Time) bool) {
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

// Tidy removes leftovers of killed processes, and stages that are not in keep, if they
// are older than a time.
func (s *ObjectStore) Tidy(before time.Time, keep map[Hash]bool) {
	for _, pattern := range []string{"new-*", "import-*", "views/new-*", "*.git/fast_import_crash_*", "*.git/objects/pack/tmp_*"} {
		list, _ := filepath.Glob(filepath.Join(s.dir, pattern))
		for _, name := range list {
			if info, err := os.Lstat(name); err == nil && info.ModTime().Before(before) {
				os.RemoveAll(name)
			}
		}
	}
	s.drop(func(of Hash, since time.Time) bool { return !keep[of] && since.Before(before) })
}
