package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
)

// An overlap says that below place, which lies in one mount, the host's files
// are also those of another, so that what limits the other holds there too.
type overlap struct {
	in    *mount
	place string
	with  *mount
}

// overlaps compares the host folders of every two mounts. A mount that stands
// at its own place inside another hides what it shares with it: no overlap.
func overlaps(mounts []*mount) []overlap {
	var found []overlap
	for _, outer := range mounts {
		for _, inner := range mounts {
			if inner == outer {
				continue
			}
			rel, ok := standsIn(string(outer.traits.Host), string(inner.traits.Host))
			if !ok {
				continue
			}
			place := outer.Target
			if rel != "." {
				place = join(outer.Target, rel)
			}
			if place == inner.Target {
				continue
			}
			found = append(found, overlap{inner, inner.Target, outer}, overlap{outer, place, inner})
		}
	}
	return found
}

// standsIn returns where the host folder inner lies in outer, with slashes. It
// compares folders, not spellings, so that another case or a bind mount on the
// way does not hide the overlap.
func standsIn(outer, inner string) (rel string, ok bool) {
	if outer == "" || inner == "" {
		return "", false
	}
	top, err := os.Stat(outer)
	for at, rel := inner, "."; ; {
		if at == outer || err == nil && sameFolder(top, at) {
			return filepath.ToSlash(rel), true
		}
		up := filepath.Dir(at)
		if up == at {
			return "", false
		}
		rel = filepath.Join(filepath.Base(at), rel)
		at = up
	}
}

func sameFolder(a fs.FileInfo, folder string) bool {
	b, err := os.Stat(folder)
	return err == nil && os.SameFile(a, b)
}
