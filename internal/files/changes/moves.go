package changes

import (
	"path"
	"strings"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// An OldFile is a file or symlink in a directory that a change deletes or replaces.
type OldFile struct {
	Path string // relative to the directory
	Kind overlay.Kind
	Mode uint32
	Size int64
}

// MaxOldFiles is how many files of deleted directories are looked at, in all.
const MaxOldFiles = 100_000

// A Move is a deleted directory whose files are in a new one.
type Move struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Files   int    `json:"files"`             // how many files of the old directory have a file of their name in the new one
	Missing int    `json:"missing,omitempty"` // how many have none
}

// FindMoves finds directories that were moved: a deleted directory is moved to a new one that
// has files of the same size at the same relative paths, at least half of them. isSame compares the
// contents of an old file of a directory and a new file: at least one of a few must be the same. The
// caller compares the others. names and changes belong together. old has the files of each
// deleted directory, by name. from has the old name of each new file in a moved directory.
// A new file belongs to one move at most, so no deleted file seems to be where another one is.
func FindMoves(names []string, changes []overlay.PathChange, old map[string][]OldFile, isSame func(dir string, old OldFile, now string) bool) (moves []Move, from map[string]string) {
	if len(old) == 0 {
		return nil, nil
	}
	f := newMoveFinder(names, changes)
	f.isSame = isSame
	found := make(map[string]Move)
	for _, sameName := range []bool{true, false} { // a directory that kept its name comes first
		for i, c := range changes {
			name := names[i]
			if _, done := found[name]; done || c.Op != overlay.Delete || len(old[name]) == 0 {
				continue
			}
			if m, ok := f.claim(name, old[name], sameName); ok {
				found[name] = m
			}
		}
	}
	for _, name := range names {
		if m, ok := found[name]; ok {
			moves = append(moves, m)
		}
	}
	return moves, f.from
}

// A moveFinder finds the new directories of deleted ones.
type moveFinder struct {
	made map[string]int64    // sizes of new files and symlinks
	from map[string]string   // the old names of those that belong to a move
	dirs map[string][]string // the new directories that have a file at a relative path

	isSame func(dir string, old OldFile, now string) bool
}

// maxAbove is how many directories above a new file may be the moved one. A limit keeps very
// deep trees cheap.
const maxAbove = 64

func newMoveFinder(names []string, changes []overlay.PathChange) *moveFinder {
	f := &moveFinder{made: make(map[string]int64), from: make(map[string]string), dirs: make(map[string][]string)}
	isNew := make(map[string]bool)
	for i, c := range changes {
		if c.Op == overlay.Create && c.Kind == overlay.Dir {
			isNew[names[i]] = true
		}
	}
	for i, c := range changes {
		if c.Op != overlay.Create || c.Kind == overlay.Dir {
			continue
		}
		f.made[names[i]] = c.Size
		dir := path.Dir(names[i])
		for above := 0; isNew[dir] && above < maxAbove; above++ {
			below := relative(dir, names[i])
			for _, key := range []string{below, path.Base(dir) + "//" + below} {
				f.dirs[key] = append(f.dirs[key], dir)
			}
			dir = path.Dir(dir)
		}
	}
	return f
}

// claim finds the new directory of a deleted one with some files. If sameName, both have the
// same last name. It looks at a sample of the files, and at a few directories for each.
func (f *moveFinder) claim(name string, files []OldFile, sameName bool) (Move, bool) {
	const sample, most = 16, 64
	hits := make(map[string]int)
	best := ""
	step := max(1, len(files)/sample)
	var looked []OldFile
	for k := 0; k < len(files); k += step {
		looked = append(looked, files[k])
		key := files[k].Path
		if sameName {
			key = path.Base(name) + "//" + key
		}
		for _, dir := range f.candidates(key, files[k], most) {
			if hits[dir]++; best == "" || hits[dir] > hits[best] {
				best = dir
			}
		}
	}
	if best = f.confirm(name, looked, hits, best); best == "" {
		return Move{}, false
	}
	m := Move{From: name, To: best}
	same := 0
	for _, old := range files {
		size := f.size(best, old)
		if size >= 0 {
			m.Files++
		}
		if size >= 0 && (size == old.Size || old.Kind != overlay.File) {
			same++
		}
	}
	if m.Missing = len(files) - m.Files; same*2 < len(files) {
		return Move{}, false
	}
	for _, old := range files {
		if f.size(best, old) >= 0 {
			f.from[path.Join(best, old.Path)] = path.Join(name, old.Path)
		}
	}
	return m, true
}

// confirm returns the new directory with the most hits, best at first, in which one of some files is
// as it was in the old one, "" if there is none. It looks at a few directories.
func (f *moveFinder) confirm(name string, files []OldFile, hits map[string]int, best string) string {
	for range 4 {
		for _, old := range files {
			size := f.size(best, old)
			if best != "" && (size == old.Size || size >= 0 && old.Kind != overlay.File) && f.isSame(name, old, path.Join(best, old.Path)) {
				return best
			}
		}
		delete(hits, best)
		best = ""
		for dir, n := range hits {
			if best == "" || n > hits[best] || n == hits[best] && dir < best {
				best = dir
			}
		}
	}
	return ""
}

// candidates returns the first new directories, at most most, whose file at the relative
// path of key belongs to no move yet. It forgets the others in front of them, so all calls
// together look at each directory about once.
func (f *moveFinder) candidates(key string, old OldFile, most int) []string {
	dirs := f.dirs[key]
	looked, free := 0, 0
	for ; looked < len(dirs) && free < most; looked++ {
		if f.size(dirs[looked], old) >= 0 {
			dirs[free] = dirs[looked]
			free++
		}
	}
	copy(dirs[looked-free:looked], dirs[:free])
	f.dirs[key] = dirs[looked-free:]
	return f.dirs[key][:free]
}

// size returns the size of the new file that may be an old one, in a new directory; -1 if
// there is none, or if it belongs to another move.
func (f *moveFinder) size(dir string, old OldFile) int64 {
	at := path.Join(dir, old.Path)
	size, ok := f.made[at]
	if _, taken := f.from[at]; !ok || taken {
		return -1
	}
	return size
}

// relative returns a path below a directory.
func relative(dir, name string) string { return strings.TrimPrefix(strings.TrimPrefix(name, dir), "/") }
