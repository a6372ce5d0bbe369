package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// An overlap says that below place, which lies in one mount, the host's files
// are also those of another, so that what limits the other holds there too.
type overlap struct {
	in       *mount
	location string
	with     *mount
	at       string // what the other calls the place; "" where it shows nothing
}

// overlaps compares the host directories of every two mounts. A mount that stands
// at its own place inside another hides what it shares with it: no overlap.
func findOverlaps(mounts []*mount) []overlap {
	var found []overlap
	chains := make([][]ancestor, len(mounts))
	for i, m := range mounts {
		chains[i] = ancestors(string(m.traits.Host))
	}
	for i, outer := range mounts {
		for k, inner := range mounts {
			if inner == outer {
				continue
			}
			rel, ok := relativeTo(chains[i], chains[k])
			if !ok {
				continue
			}
			location := outer.Target
			if rel != "." {
				location = join(outer.Target, rel)
			}
			if location == inner.Target {
				continue
			}
			found = append(found, overlap{inner, inner.Target, outer, location}, overlap{outer, location, inner, inner.Target})
		}
	}
	return found
}

// A rung is a directory of the host that a mount's own is or lies in.
type ancestor struct {
	dir  string
	info fs.FileInfo // nil where it cannot be looked at
	rel  string      // the mount's directory seen from here, with slashes
}

// ladder returns the directory of a mount and all those above it, each looked at
// once. A mount without one has no list.
func ancestors(dir string) []ancestor {
	var list []ancestor
	for rel := "."; dir != ""; {
		info, err := os.Stat(dir)
		if err != nil {
			info = nil
		}
		list = append(list, ancestor{dir, info, filepath.ToSlash(rel)})
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		rel = filepath.Join(filepath.Base(dir), rel)
		dir = up
	}
	return list
}

// standsIn returns where the first rung of inner lies in the first of outer. It
// compares directories, not spellings, so that another case or a bind mount on the
// way does not hide the overlap.
func relativeTo(outer, inner []ancestor) (rel string, ok bool) {
	if len(outer) == 0 {
		return "", false
	}
	top := outer[0]
	for _, r := range inner {
		if r.dir == top.dir || top.info != nil && r.info != nil && os.SameFile(top.info, r.info) {
			return r.rel, true
		}
	}
	return "", false
}

// kernelFolders hides the directories of the kernel where a mount would show them:
// what lies there are no files.
func kernelDirs(mounts []*mount) []overlap {
	hidden := &mount{}
	var found []overlap
	for _, m := range mounts {
		top := ancestors(string(m.traits.Host))
		for _, dir := range kernelNames {
			if rel, ok := relativeTo(top, ancestors(dir)); ok && rel != "." {
				found = append(found, overlap{m, join(m.Target, rel), hidden, ""})
			}
		}
	}
	return found
}

// Aliases returns the other names by which the files at a canonical name are
// shown, because the directories of mounts overlap. Who decides by names decides
// about all of them.
func (s *Sandbox) Aliases(name string) []string {
	var names []string
	for _, o := range s.overlaps {
		if o.at == "" || !within(o.location, name) || s.lookup(name).mount != o.in {
			continue
		}
		alias := o.at
		if rel := relative(o.location, name); rel != "." {
			alias = join(o.at, rel)
		}
		if alias = s.table.spellings.spell(alias); s.lookup(alias).mount == o.with && !slices.Contains(names, alias) {
			names = append(names, alias)
		}
	}
	return names
}
