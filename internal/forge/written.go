package forge

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// environment is the user's, with a PATH that has no folder in which workers write: the
// next program of that name could be theirs.
func (p *Program) environment() []string {
	list := slices.Clone(p.options.Environ)
	for i, one := range list {
		name, value, _ := strings.Cut(one, "=")
		if name != "PATH" {
			continue
		}
		safe := slices.DeleteFunc(filepath.SplitList(value), func(dir string) bool { return !filepath.IsAbs(dir) || p.written(dir) })
		list[i] = "PATH=" + strings.Join(safe, string(os.PathListSeparator))
	}
	return list
}

// written reports whether workers write to a folder of the host.
func (p *Program) written(dir string) bool {
	for _, m := range p.Project.Mounts {
		rel, err := filepath.Rel(withoutLinks(hostOf(m)), withoutLinks(dir))
		if m.Mode == sandbox.ReadWrite.String() && err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}
