package changes

import (
	"bytes"
	"path"
	"strings"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// A Move is a deleted directory whose files are in a new one.
type Move struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Files   int    `json:"files"`             // how many files of the old directory have a file of their name in the new one
	Missing int    `json:"missing,omitempty"` // how many have none
}

// FindMoves finds directories that were moved: a deleted directory is moved to a new one that
// has files of the same size at the same relative paths, at least half of them. At least one of
// a few files must have the same content. The caller compares the others. A new file belongs to
// one move at most, so no deleted file seems to be where another one is.
func (l *Losses) FindMoves(list []Change) {
	var deleted []Change
	for _, c := range list {
		if c.Op == overlay.Delete && c.OldKind == overlay.Dir && len(l.List(c)) > 0 {
			deleted = append(deleted, c)
		}
	}
	if len(deleted) == 0 {
		return
	}
	l.Moved, l.Was, l.Kept = make(map[string]Move), make(map[string]OldFile), make(map[string]bool)
	f := newMoveFinder(l, list)
	for _, whole := range []bool{true, false} { // a directory that is whole in the new one comes first
		for _, sameName := range []bool{true, false} { // then one that kept its name
			for _, c := range deleted {
				if name := c.Name(); l.Moved[name].From == "" {
					f.claim(name, l.List(c), sameName, whole)
				}
			}
		}
	}
	for _, c := range deleted {
		if m, ok := l.Moved[c.Name()]; ok {
			l.Moves = append(l.Moves, m)
		}
	}
}

// A moveFinder finds the new directories of deleted ones.
type moveFinder struct {
	*Losses
	made map[string]Change   // new files and symlinks
	dirs map[string][]string // the new directories that have a file at a relative path
}

// maxAbove is how many directories above a new file may be the moved one. A limit keeps very
// deep trees cheap.
const maxAbove = 64

func newMoveFinder(l *Losses, list []Change) *moveFinder {
	f := &moveFinder{l, make(map[string]Change), make(map[string][]string)}
	isNew := make(map[string]bool)
	for _, c := range list {
		if c.Op == overlay.Create && c.Kind == overlay.Dir {
			isNew[c.Name()] = true
		}
	}
	for _, c := range list {
		if c.Op != overlay.Create || c.Kind == overlay.Dir {
			continue
		}
		name := c.Name()
		f.made[name] = c
		dir := path.Dir(name)
		for above := 0; isNew[dir] && above < maxAbove; above++ {
			below := relative(dir, name)
			for _, key := range []string{below, path.Base(dir) + "//" + below} {
				f.dirs[key] = append(f.dirs[key], dir)
			}
			dir = path.Dir(dir)
		}
	}
	return f
}

// claim finds the new directory of a deleted one with some files, and adds the move. If sameName, both have the
// same last name. If whole, all files that it looks at are as they were. It looks at a sample of
// the files, and at a few directories for each.
func (f *moveFinder) claim(name string, files []OldFile, sameName, whole bool) {
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
	least := 1
	if whole {
		least = len(looked)
	}
	if best = f.confirm(looked, hits, best, least); best == "" {
		return
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
		return
	}
	f.Moved[name] = m
	for _, old := range files {
		if f.size(best, old) >= 0 {
			f.Was[path.Join(best, old.Path)], f.Kept[old.Name()] = old, true
		}
	}
}

// confirm returns the new directory with the most hits, best at first, in which at least least of
// some files are as they were in the old one, "" if there is none. It looks at a few directories.
func (f *moveFinder) confirm(files []OldFile, hits map[string]int, best string, least int) string {
	for range 4 {
		if best == "" || hits[best] < least {
			return ""
		}
		same := 0
		for i, old := range files {
			size := f.size(best, old)
			if (size == old.Size || size >= 0 && old.Kind != overlay.File) && f.isSame(old, f.made[path.Join(best, old.Path)]) {
				same++
			}
			if same == least {
				return best
			}
			if same+len(files)-1-i < least {
				break
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
	c, ok := f.made[at]
	if _, taken := f.Was[at]; !ok || taken {
		return -1
	}
	return c.Size
}

// isSame reports whether an old file and a new one have the same content, as far as golem
// compares them.
func (f *moveFinder) isSame(old OldFile, c Change) bool {
	if old.Kind != overlay.File || old.Size > f.most {
		return true
	}
	was := f.Read(old)
	_, is, err := f.files.Content(c, f.most)
	return was != nil && err == nil && bytes.Equal(was, is)
}

// relative returns a path below a directory.
func relative(dir, name string) string { return strings.TrimPrefix(strings.TrimPrefix(name, dir), "/") }
