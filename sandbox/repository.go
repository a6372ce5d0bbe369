package sandbox

import (
	"path"
	"slices"
	"strings"
)

// partsOfGit are the names by which git takes a directory for a repository: it has HEAD, and
// objects and refs of its own or a commondir that says where these are. Such a directory needs
// no .git: its config says what git runs in it.
var partsOfGit = []string{"head", "objects", "refs", "commondir"}

// PartOfGit reports whether a part of a name is one that makes a directory a repository of
// git on some host.
func PartOfGit(part string) bool { return slices.Contains(partsOfGit, plainPart(part)) }

// repository returns the directory at or above p that git takes for a repository, or would
// once there is something at p; "" for none.
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

// isRepository reports whether git takes a directory of the mount for a repository, with a
// child that may still be missing.
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
