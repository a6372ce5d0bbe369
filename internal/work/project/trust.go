package project

import (
	"os"
	"path/filepath"
	"strings"
)

// The values of the key trust.
const (
	trusted   = "trusted"
	untrusted = "untrusted"
)

// settleTrust computes which names are untrusted, once all mounts are known. Trust
// belongs to a directory of the host, under all of its names. The innermost directory
// with a trust setting decides. If two mounts of one directory disagree, it is untrusted.
func (p *Project) settleTrust() {
	p.trust = make(map[string]bool)
	for i, m := range p.Mounts {
		p.Mounts[i].Untrusted = p.Untrusted(m.hostDir()) != ""
		p.trust[m.Target] = p.Mounts[i].Untrusted
	}
	for _, inner := range p.Mounts {
		for j, outer := range p.Mounts {
			if inner.trust == "" {
				break
			}
			if rel, ok := relativeInside(outer.hostDir(), inner.hostDir()); ok {
				// If a third mount covers the place, this one does not show it.
				if name := joinBelow(outer.Target, filepath.ToSlash(rel)); p.mountOf(name) == j {
					p.trust[name] = p.Untrusted(inner.hostDir()) != ""
				}
			}
		}
	}
}

// Trust returns every name at which trust may change. The value is true if the name and
// everything below it, up to the next name, is untrusted.
func (p *Project) Trust() map[string]bool { return p.trust }

// Untrusted returns the mount that makes a file of the host untrusted, "" for none. The
// path has no symlinks.
func (p *Project) Untrusted(file string) string {
	var best *Mount
	far := 0
	for i, m := range p.Mounts {
		if m.trust == "" {
			continue
		}
		rel, ok := relativeInside(m.hostDir(), file)
		if !ok {
			continue
		}
		if n := depth(rel); best == nil || n < far || n == far && m.trust == untrusted {
			best, far = &p.Mounts[i], n
		}
	}
	if best == nil || best.trust != untrusted {
		return ""
	}
	return best.Target
}

// depth returns the number of names in a relative path.
func depth(rel string) int {
	if rel == "." {
		return 0
	}
	return 1 + strings.Count(rel, string(filepath.Separator))
}

// relativeInside returns the path of a file relative to a directory that contains it. It compares
// directories by identity, so that another case or a bind mount does not hide one.
func relativeInside(folder, file string) (rel string, ok bool) {
	top, err := os.Stat(folder)
	rel = "."
	for at := file; ; at = filepath.Dir(at) {
		if at == folder {
			return rel, true
		}
		if info, look := os.Stat(at); look == nil && err == nil && os.SameFile(top, info) {
			return rel, true
		}
		if at == filepath.Dir(at) {
			return "", false
		}
		rel = filepath.Join(filepath.Base(at), rel)
	}
}
