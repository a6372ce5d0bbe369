package project

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// hostPath returns the absolute host path that is written at a node. A relative path starts
// at the program's directory, and ~ is the home directory.
func (l *loader) hostPath(label string, n strictyaml.Node) (string, bool) {
	text := n.Text
	what, hint := checkPathText(text)
	first, _, _ := strings.Cut(filepath.ToSlash(text), "/")
	switch {
	case what != "":
	case first == "~" && !filepath.IsAbs(l.env.Home):
		what, hint = "your home directory is not known here", "write the whole path"
	case first == "~":
		text = l.env.Home + text[1:]
	case strings.HasPrefix(first, "~"):
		what = sandbox.Shown(first) + " is not expanded"
		hint = "~/… is your home; write the whole path for another's, or ./" + sandbox.Shown(first)
	}
	if what != "" {
		l.problems.Add(n, label+": "+what, hint)
		return "", false
	}
	text = filepath.FromSlash(text)
	if !filepath.IsAbs(text) {
		text = filepath.Join(l.root, text)
	}
	return filepath.Clean(text), true
}

// MountPlace begins the place of settings that come from a mount, and from no file. The
// path of the mount in the sandbox follows.
const MountPlace = "the directory at "

// checkPathText returns what is wrong with the text of a path, without looking at the host.
func checkPathText(text string) (what, hint string) {
	const most, part = 4096, 255
	switch {
	case text == "":
		return "an empty path", ". is the program's directory"
	case strings.HasPrefix(text, "$"):
		return sandbox.Shown(text) + " starts with a variable", "golem does not expand variables; write ~/… or the whole path"
	case len(text) > most || slices.ContainsFunc(strings.Split(filepath.ToSlash(text), "/"), func(s string) bool { return len(s) > part }):
		return sandbox.Shown(text) + " is too long", "a path has at most 4096 bytes, a part of it 255"
	}
	return "", ""
}

// resolveSource returns the source and base of an entry's mount: relative to the program's
// directory if it lies there, otherwise the path itself. It also returns the directory
// without symlinks.
func (l *loader) resolveSource(e entry) (source, base sandbox.Host, real string, ok bool) {
	var what, hint string
	rel, inside := relative(e.folder, l.root, l.real)
	below, based := relative(e.folder, e.base)
	switch {
	case inside:
		source, base = sandbox.Host(rel), sandbox.Host(l.root)
		real = filepath.Join(l.real, rel)
		what, hint = findObstacle(l.root, rel)
	case based:
		source, base = sandbox.Host(below), sandbox.Host(e.base)
		if real, what, hint = resolveExisting(e.base); what == "" {
			real = filepath.Join(real, below)
			what, hint = findObstacle(e.base, below)
		}
	default:
		source = sandbox.Host(e.folder)
		real, what, hint = resolveExisting(e.folder)
	}
	if what == "" {
		what, hint = l.checkShowable(real)
	}
	if e.source.Place == strictyaml.Default && kernelDir(l.real) != "" { // one problem for all defaults
		l.problems.Note(strictyaml.Problem{Place: strictyaml.Place{Source: l.real}, What: "a directory of the kernel",
			Hint: "there are no files of yours here; cd into a project directory, or name one: golem exec --root DIR, golem run ./DIR"})
	} else if what != "" {
		label := strings.TrimSuffix(e.label+"."+e.key, ".") + ": "
		if strings.HasPrefix(e.source.Place.Source, MountPlace) { // no file has the key
			label = ""
		}
		l.problems.Add(e.source, label+sandbox.Shown(e.source.Text)+" "+what, hint)
	}
	return source, base, real, what == ""
}

// resolveExisting returns a directory outside the program without symlinks, or why it cannot be
// used.
func resolveExisting(folder string) (real, what, hint string) {
	if kernel := kernelDir(folder); kernel != "" {
		return "", "is under " + kernel, "there are no files there; cd into a project directory, or name one: golem exec --root DIR, golem run ./DIR, or in the project file"
	}
	info, err := os.Stat(folder)
	if err == nil {
		real, err = filepath.EvalSymlinks(folder)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "does not exist", "outside the program a directory must exist; create it, or name another"
	case err != nil:
		return "", "cannot be read", "check its permissions, or name another"
	case !info.IsDir():
		return "", "is not a directory", "golem mounts only directories"
	}
	return real, "", ""
}

// checkShowable returns why golem may not show a directory or a file to workers. The path has
// no symlinks.
func (l *loader) checkShowable(real string) (what, hint string) {
	if kernel := kernelDir(real); kernel != "" {
		return "leads to " + kernel, "there are no files there; cd into a project directory, or name one: golem exec --root DIR, golem run ./DIR, or in the project file"
	}
	if what, hint = l.checkHidden(real); what != "" {
		return what, hint
	}
	if place, denied := l.env.Ceiling.DeniedRoot(real); denied {
		return "may not be mounted", rootHint(place)
	}
	return "", ""
}

// relative returns the path of a directory relative to the first of the others that
// contains it. It compares only the paths.
func relative(folder string, in ...string) (string, bool) {
	for _, dir := range in {
		if rel, err := filepath.Rel(dir, folder); dir != "" && err == nil && filepath.IsLocal(rel) {
			return rel, true
		}
	}
	return "", false
}

// findObstacle returns why a directory that may be missing cannot be used: there is a symlink
// or a file on its path.
func findObstacle(root, rel string) (what, hint string) {
	if rel == "." {
		return "", ""
	}
	at := root
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		switch {
		case err != nil:
			return "", ""
		case info.Mode()&fs.ModeSymlink != 0:
			return "is reached by a symlink", "name the directory that the symlink points to"
		case !info.IsDir():
			return "is not a directory, or not in one", "there is a file; name a directory"
		}
	}
	return "", ""
}

// kernelDir returns which of /proc, /sys and /dev contains the path, "" for none.
func kernelDir(name string) string {
	for _, kernel := range []string{"/proc", "/sys", "/dev"} {
		if slash := filepath.ToSlash(name); slash == kernel || strings.HasPrefix(slash, kernel+"/") {
			return kernel
		}
	}
	return ""
}

// resolveLinks returns a path without symlinks, as far as it exists.
func resolveLinks(name string) string {
	name, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	for at, rest := name, ""; ; {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		up := filepath.Dir(at)
		if up == at {
			return name
		}
		at, rest = up, filepath.Join(filepath.Base(at), rest)
	}
}
