package sandbox

import (
	"path"
	"slices"
	"strings"
)

// partsOfGit are the names that make git treat a directory as a repository: HEAD, and
// either objects and refs, or a commondir file that says where these are. Such a
// directory needs no .git. Its config can make git run programs.
var partsOfGit = []string{"head", "objects", "refs", "commondir"}

// PartOfGit reports whether a part of a name is, on some host, one of the names that make
// git treat a directory as a repository.
func PartOfGit(part string) bool { return slices.Contains(partsOfGit, plainPart(part)) }

// repository returns the directory at or above p that git treats as a repository, or
// would if something were at p. It returns "" if there is none.
func (p location) repository() string {
	if p.rule.mount == nil {
		return ""
	}
	dir, at := ".", p.rule.mount.Target
	for rest := p.rel; ; {
		child := ""
		if rest != "." && rest != "" {
			child, rest, _ = strings.Cut(rest, "/")
		}
		if p.rule.mount.isRepository(dir, child) {
			return at
		}
		if child == "" {
			return ""
		}
		dir, at = path.Join(dir, child), join(at, child)
	}
}

// isRepository reports whether git treats a directory of the mount as a repository, or
// would if child existed.
func (m *mount) isRepository(dir, child string) bool {
	if child != "" && !isPlain(child) {
		child = plainPart(child)
	}
	has := func(name string) bool {
		if strings.EqualFold(child, name) {
			return true
		}
		_, err := m.Backend.Lstat(path.Join(dir, name))
		return err == nil
	}
	return has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}
