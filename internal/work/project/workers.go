package project

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/workerfile"
	"github.com/golem-forge/golem/sandbox"
)

// protectWorkers returns the rule that protects YAML files which golem would read as workers,
// in every mount that shows a place for workers.
func (p *Project) protectWorkers() sandbox.ContentRule {
	r := sandbox.ContentRule{Name: "the rule for workers", Matches: workerfile.HasKey}
	root := RealDir(string(p.Root))
	var dirs, links []string
	add := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for _, dir := range p.WorkerPaths {
		at := filepath.Join(root, filepath.FromSlash(dir))
		for _, host := range []string{at, RealDir(at)} {
			if rel, err := filepath.Rel(root, host); err == nil && filepath.IsLocal(rel) {
				add(&dirs, LiteralPattern(filepath.ToSlash(rel)))
			}
		}
	}
	for _, dir := range dirs {
		for ; dir != "."; dir = path.Dir(dir) {
			add(&links, dir)
		}
	}
	for _, m := range p.Mounts {
		for _, place := range workerfile.Places(dirs) {
			r.Names = append(r.Names, showPattern(m, root, place)...)
		}
		for _, link := range links {
			r.Links = append(r.Links, showPattern(m, root, link)...)
		}
	}
	return r
}

// showPattern returns the pattern for the names that a mount shows for a pattern of names in
// the program, none if it shows no such name.
func showPattern(m Mount, root, pattern string) []string {
	dir := RealDir(m.HostDir())
	if rel, err := filepath.Rel(dir, root); err == nil && filepath.IsLocal(rel) {
		return []string{path.Join(LiteralPattern(m.Target), LiteralPattern(filepath.ToSlash(rel)), pattern)}
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return nil
	}
	for part := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		first, rest, more := strings.Cut(pattern, "/")
		if ok, _ := path.Match(strings.ToLower(first), strings.ToLower(part)); !ok || !more {
			return nil
		}
		pattern = rest
	}
	return []string{path.Join(LiteralPattern(m.Target), pattern)}
}

// LiteralPattern returns a name as a pattern that matches it.
func LiteralPattern(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`*?[]{}\,`, r) {
			return '?'
		}
		return r
	}, name)
}

// RealDir returns a directory without symlinks, as far as it exists.
func RealDir(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	if up := filepath.Dir(dir); up != dir {
		return filepath.Join(RealDir(up), filepath.Base(dir))
	}
	return dir
}
