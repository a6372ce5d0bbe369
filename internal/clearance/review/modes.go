package review

import (
	"math"
	"path"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// modes returns flags for a changed mode, a symlink, a submodule and hard links.
func modes(c FileChange) []Flag {
	var list []Flag
	gone := c.Operation == remove || c.Mode == none
	if text := modeLine(c); text != "" {
		f := flag(Mode, c.Path, "%s", text)
		if c.Mode != executable && c.Mode != link && c.Mode != submodule {
			f.Risk = risks[Unchanged]
		}
		list = append(list, f)
	}
	switch {
	case gone:
	case c.Mode == link:
		f := flag(Link, c.Path, "SYMLINK %s", leads(c))
		if _, why := leaves(c); why != "" {
			f.Risk = risks[Bare]
		}
		list = append(list, f)
	case c.Mode == submodule:
		list = append(list, flag(Submodule, c.Path, "SUBMODULE: the content of another repository, which is not shown here"))
	}
	if c.Links > 1 {
		list = append(list, flag(Hardlink, c.Path, "the file that was staged had %d names: what is read under one is changed under another", c.Links))
	}
	return list
}

// modeLine describes a new mode. It returns "" for a new plain file or an unchanged mode.
func modeLine(c FileChange) string {
	gone := c.Operation == remove || c.Mode == none
	is := visible.Line(c.Mode, 10)
	switch {
	case gone, c.Mode == c.OldMode, c.Mode == "":
		return ""
	case c.OldMode == none || c.OldMode == "":
		if c.Mode == executable {
			return "MODE " + is + ": a program"
		}
		return ""
	}
	return "MODE " + visible.Line(c.OldMode, 10) + " -> " + is
}

// leads describes the target of a symlink.
func leads(c FileChange) string {
	if c.New == nil || c.Cut {
		return "to a place whose name is too long to be shown"
	}
	text, why := leaves(c)
	if why != "" {
		text += " " + why
	}
	return "-> " + text
}

// leaves returns the target of a symlink, and what is wrong with it, "" for nothing. It
// looks only at names. Other symlinks on the way could lead elsewhere.
func leaves(c FileChange) (to, why string) {
	target := string(c.New)
	to = visible.Cut(visible.Name(visible.Cut(target, 1000)), 1000)
	unix := strings.ReplaceAll(target, `\`, "/") // as on Windows
	switch {
	case c.New == nil || c.Cut:
		return to, "is not known"
	case path.IsAbs(unix), len(unix) > 1 && unix[1] == ':', strings.HasPrefix(target, "~"):
		return to, "leaves the repository"
	}
	depth := strings.Count(strings.Trim(c.Path, "/"), "/")
	down := false
	for part := range strings.SplitSeq(unix, "/") {
		switch {
		case part == "" || part == ".":
		case part != "..":
			if fold(part) == ".git" || fold(part) == "git~1" {
				return to, "points into git's own files"
			}
			depth, down = depth+1, true
		default:
			if depth--; depth < 0 {
				return to, "leaves the repository"
			}
			if down {
				why = "goes down and up again; another symlink on the way may change where that is"
			}
		}
	}
	return to, why
}

// name returns flags for the name of a file.
func name(c FileChange) []Flag {
	var list []Flag
	for t := range visible.Tricks(c.Path) {
		list = append(list, trickFlag(c.Path, 0, c.Path, t))
		break
	}
	for t := range visible.NameAlikes(c.Path) {
		list = append(list, trickFlag(c.Path, 0, c.Path, t))
		break
	}
	if strings.Contains(c.Path, "\n") {
		list = append(list, flag(Control, c.Path, "a line end in the name: %s", visible.Line(c.Path, math.MaxInt)))
	}
	if why := NotOnWindows(c.Path); why != "" && c.Operation != remove {
		list = append(list, flag(Windows, c.Path, "%s", why))
	}
	return list
}

// NotOnWindows returns which part of a path Windows cannot use and why, or "" for none.
func NotOnWindows(path string) string {
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if why := sandbox.NotOnWindows(part); why != "" {
			return visible.Cut(visible.Name(part), 200) + " is not usable on Windows: " + why
		}
	}
	return ""
}
