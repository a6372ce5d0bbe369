// Package ignored finds new files that git ignores, so that lists have one line for many of them.
package ignored

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/visible"
)

// A Finder returns those new files of a directory that git ignores, with the ignored place of
// each: see git.IgnoreFinder.
type Finder func(dir string, names []string) (places map[string]string, ok bool, err error)

// Mark marks those changes that are new files in ignored places. sourceOf returns the user's
// directory of a mount. Whatever a session has done to the rules does not count, and neither does
// a file that was there before. A directory that takes the place of a file or symlink is applied
// whole, so what is in it is not ignored. Without a finder, or if the directory is in no repository, only
// the directories of package managers are ignored, and those of a project that the user trusts: own returns
// their names.
func Mark(list []changes.Change, sourceOf func(target string) string, find Finder, own func() []string) {
	names, at := make(map[string][]string), make(map[string][]int) // by the target of a mount
	replaced := make(map[string]bool)                              // directories in place of something else
	for _, c := range list {
		if c.Kind == overlay.Dir && c.OldKind != overlay.Dir && c.OldKind != overlay.Nothing {
			replaced[c.Name()] = true
		}
	}
	for i, c := range list {
		if isWithin(c.Name(), replaced) || c.Op != overlay.Create || c.OldKind != overlay.Nothing || c.Conflict || strings.Contains("/"+c.Path+"/", "/.git/") {
			continue
		}
		name := c.Path
		if c.Kind == overlay.Dir {
			name += "/"
		}
		names[c.Target], at[c.Target] = append(names[c.Target], name), append(at[c.Target], i)
	}
	for target, all := range names {
		source := sourceOf(target)
		if source == "" {
			continue
		}
		places, ok, err := map[string]string(nil), false, error(nil)
		if find != nil {
			places, ok, err = find(source, all)
		}
		if !ok && err == nil { // if git cannot say it, every file has its line
			var more []string
			if own != nil {
				more = own()
			}
			places = ownedByPackages(source, all, more)
		}
		for i, name := range all {
			place, is := places[name]
			if !is {
				continue
			}
			full := path.Join(target, place)
			if strings.HasSuffix(place, "/") {
				full += "/"
			}
			c := &list[at[target][i]]
			c.IgnoredIn, c.IgnoredByGit = full, ok
		}
	}
}

// isWithin reports whether one of the directories above a path is in the set.
func isWithin(name string, set map[string]bool) bool {
	for len(set) > 0 && len(name) > 1 {
		if name = path.Dir(name); set[name] {
			return true
		}
	}
	return false
}

// ownedByPackages returns those names that are in a directory of a package manager, or in one of more.
func ownedByPackages(source string, names, more []string) map[string]string {
	found, cargo := make(map[string]string), make(map[string]bool)
	for _, name := range names {
		for i := range len(name) {
			if name[i] != '/' {
				continue
			}
			dir, base := path.Split(name[:i])
			is := review.IsPackageDir(base) || slices.Contains(more, base)
			if base == "target" { // of cargo
				known, ok := cargo[dir]
				if !ok {
					info, err := os.Lstat(filepath.Join(source, filepath.FromSlash(dir), "Cargo.toml"))
					known = err == nil && info.Mode().IsRegular()
					cargo[dir] = known
				}
				is = known
			}
			if is {
				found[name] = name[:i] + "/"
				break
			}
		}
	}
	return found
}

// Files are the new files of an ignored place. golem applies them only if somebody asks for it.
type Files struct {
	// Path is a directory with ignored files only, a directory and "/*" if it has others too,
	// or the only file.
	Path  string   `json:"path"`
	Files int      `json:"files"`
	Size  int64    `json:"size"`
	Git   bool     `json:"git"`                    // git ignores them
	Code  []string `json:"becomes_code,omitempty"` // those that become code, without files of packages; the first few
	Codes int      `json:"become_code,omitempty"`  // how many there are
}

// Describe describes the files, without their place. shown returns a path for the reader.
func (f Files) Describe(shown func(path string) string) string {
	text := visible.Count(f.Files, "file") + ", "
	if f.Git {
		text += "ignored by git"
	} else {
		text += "of a package manager"
	}
	if f.Codes > 0 {
		text += "; " + visible.Number(f.Codes) + " " + visible.Verb(f.Codes, "becomes", "become") + " code: " + strings.Join(visible.Each(f.Code, shown), ", ")
		if f.Codes > len(f.Code) {
			text += ", …"
		}
	}
	return text
}

// maxCode is how many files that become code are named.
const maxCode = 3

// A Collector collects ignored changes. The zero Collector is empty.
type Collector struct{ groups map[string]*group }

type group struct {
	Files
	flags review.Collector
}

// Add adds an ignored change.
func (l *Collector) Add(c changes.Change) {
	key := c.IgnoredIn
	if !strings.HasSuffix(key, "/") {
		key = strings.TrimSuffix(path.Dir(key), "/") + "/*"
	}
	if l.groups == nil {
		l.groups = make(map[string]*group)
	}
	g := l.groups[key]
	if g == nil {
		g = &group{Files: Files{Path: c.IgnoredIn, Git: c.IgnoredByGit}}
		l.groups[key] = g
	} else if key != c.IgnoredIn {
		g.Path = key
	}
	if c.Kind == overlay.Dir {
		return
	}
	g.Files.Files++
	g.Size += c.Size
	g.flags.Add(approval.ReviewChange(c.Name(), c.PathChange, nil, nil, "", true))
}

// List returns what was added: first what has files that become code.
func (l *Collector) List() []Files {
	var list []Files
	for _, g := range l.groups {
		seen := make(map[string]bool)
		for _, f := range g.flags.Flags() {
			if !f.BecomesCode() || f.Installed || f.Path == "" || seen[f.Path] {
				continue
			}
			seen[f.Path] = true
			if g.Codes++; len(g.Code) < maxCode {
				g.Code = append(g.Code, f.Path)
			}
		}
		if g.Files.Files > 0 {
			list = append(list, g.Files)
		}
	}
	slices.SortFunc(list, func(a, b Files) int {
		if (a.Codes > 0) != (b.Codes > 0) {
			return b.Codes - a.Codes
		}
		return strings.Compare(a.Path, b.Path)
	})
	return list
}
