package transaction

import (
	"path"
	"strings"

	"github.com/golem-forge/golem/internal/overlay"
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
// has files of the same size at the same relative paths, at least half of them. The caller
// compares the contents. names and changes belong together. old has the files of each
// deleted directory, by name. from has the old name of each new file in a moved directory.
func FindMoves(names []string, changes []overlay.PathChange, old map[string][]OldFile) (moves []Move, from map[string]string) {
	if len(old) == 0 {
		return nil, nil
	}
	made := make(map[string]int64) // sizes of new files and symlinks
	var dirs []string              // new directories
	for i, c := range changes {
		switch {
		case c.Op != overlay.Create:
		case c.Kind == overlay.Dir:
			dirs = append(dirs, names[i])
		default:
			made[names[i]] = c.Size
		}
	}
	const sample = 16
	taken := make(map[string]bool)
	from = make(map[string]string)
	for i, c := range changes {
		files := old[names[i]]
		if c.Op != overlay.Delete || len(files) == 0 {
			continue
		}
		best, most := "", 0
		step := max(1, len(files)/sample)
		for _, dir := range dirs {
			if taken[dir] {
				continue
			}
			hits, tried := 0, 0
			for k := 0; k < len(files); k += step {
				tried++
				if _, ok := made[path.Join(dir, files[k].Path)]; ok {
					hits++
				}
			}
			if hits*2 >= tried && hits > most {
				best, most = dir, hits
			}
		}
		if best == "" {
			continue
		}
		m := Move{From: names[i], To: best}
		same := 0
		for _, f := range files {
			size, ok := made[path.Join(best, f.Path)]
			if ok {
				m.Files++
			}
			if ok && (size == f.Size || f.Kind != overlay.File) {
				same++
			}
		}
		if m.Missing = len(files) - m.Files; same*2 < len(files) {
			continue
		}
		taken[best] = true
		for _, f := range files {
			name := path.Join(best, f.Path)
			if _, ok := made[name]; ok {
				from[name] = path.Join(names[i], f.Path)
			}
		}
		moves = append(moves, m)
	}
	return moves, from
}

// relative returns a path below a directory.
func relative(dir, name string) string { return strings.TrimPrefix(strings.TrimPrefix(name, dir), "/") }
