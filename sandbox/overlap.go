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
	in    *mount
	place string
	with  *mount
	at    string // what the other calls the place; "" where it shows nothing
}

// overlaps compares the host directories of every two mounts. A mount that stands
// at its own place inside another hides what it shares with it: no overlap.
func overlaps(mounts []*mount) []overlap {
	var found []overlap
	ladders := make([][]rung, len(mounts))
	for i, m := range mounts {
		ladders[i] = ladder(string(m.traits.Host))
	}
	for i, outer := range mounts {
		for k, inner := range mounts {
			if inner == outer {
				continue
			}
			rel, ok := standsIn(ladders[i], ladders[k])
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
			found = append(found, overlap{inner, inner.Target, outer, place}, overlap{outer, place, inner, inner.Target})
		}
	}
	return found
}

// A rung is a directory of the host that a mount's own is or lies in.
type rung struct {
	folder string
	info   fs.FileInfo // nil where it cannot be looked at
	rel    string      // the mount's directory seen from here, with slashes
}

// ladder returns the directory of a mount and all those above it, each looked at
// once. A mount without one has no rungs.
func ladder(folder string) []rung {
	var rungs []rung
	for rel := "."; folder != ""; {
		info, err := os.Stat(folder)
		if err != nil {
			info = nil
		}
		rungs = append(rungs, rung{folder, info, filepath.ToSlash(rel)})
		up := filepath.Dir(folder)
		if up == folder {
			break
		}
		rel = filepath.Join(filepath.Base(folder), rel)
		folder = up
	}
	return rungs
}

// standsIn returns where the first rung of inner lies in the first of outer. It
// compares directories, not spellings, so that another case or a bind mount on the
// way does not hide the overlap.
func standsIn(outer, inner []rung) (rel string, ok bool) {
	if len(outer) == 0 {
		return "", false
	}
	top := outer[0]
	for _, r := range inner {
		if r.folder == top.folder || top.info != nil && r.info != nil && os.SameFile(top.info, r.info) {
			return r.rel, true
		}
	}
	return "", false
}

// kernelFolders hides the directories of the kernel where a mount would show them:
// what lies there are no files.
func kernelFolders(mounts []*mount) []overlap {
	hidden := &mount{}
	var found []overlap
	for _, m := range mounts {
		top := ladder(string(m.traits.Host))
		for _, folder := range kernelNames {
			if rel, ok := standsIn(top, ladder(folder)); ok && rel != "." {
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
	for _, o := range s.shared {
		if o.at == "" || !within(o.place, name) || s.lookup(name).mount != o.in {
			continue
		}
		alias := o.at
		if rel := relative(o.place, name); rel != "." {
			alias = join(o.at, rel)
		}
		if alias = s.table.spelled.spell(alias); s.lookup(alias).mount == o.with && !slices.Contains(names, alias) {
			names = append(names, alias)
		}
	}
	return names
}
