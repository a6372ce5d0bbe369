package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// An overlap says that the files below location, in one mount, are also files of another
// mount on the host. So the limits of the other mount apply there, too.
type overlap struct {
	in       *mount
	location string
	with     *mount
	at       string // name of the location in the other mount; "" if it shows nothing
}

// findOverlaps compares the host directories of every two mounts. There is no overlap if
// a mount's target is the path that its directory has in the other mount, because it
// hides the shared files there.
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

// An ancestor is the host directory of a mount, or a directory above it.
type ancestor struct {
	dir  string
	info fs.FileInfo // nil if Stat failed
	rel  string      // path of the mount's directory from here, with slashes
}

// ancestors returns the host directory of a mount and all directories above it. It calls
// Stat once for each. A mount without a host directory has none.
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

// relativeTo returns the path of the first directory of inner from the first of outer. It
// compares directories and not only their names, so that another case or a bind mount
// does not hide an overlap.
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

// kernelDirs hides the directories of the kernel in mounts that contain them.
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

// Aliases returns the other names of the files at a canonical name. There are other names
// if the host directories of mounts overlap. A caller that decides by name must check all
// of them.
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
