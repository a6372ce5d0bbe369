package policy

import (
	"strings"
	"unicode/utf8"
)

// isName reports whether a name is canonical, as a [sandbox.Sandbox] returns
// it: UTF-8, without NUL, "/" or parts after slashes of which none is empty,
// "." or "..". Rules and limits are compared with names letter by letter, so
// that one spelled otherwise would slip past them.
func isName(name string) bool {
	if name == "/" {
		return true
	}
	if name == "" || name[0] != '/' {
		return false
	}
	start := 1
	for i := 1; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		switch name[start:i] {
		case "", ".", "..":
			return false
		}
		start = i + 1
	}
	return isText(name)
}

func isText(name string) bool { return strings.IndexByte(name, 0) < 0 && utf8.ValidString(name) }

// cleanName returns a name in its canonical form, as [sandbox.Sandbox.Restrict]
// reads it, and false for what is no name: nothing, or a climb above "/".
func cleanName(name string) (string, bool) {
	if isName(name) {
		return name, true
	}
	if name == "" || !isText(name) {
		return "", false
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
		case "..":
			if len(parts) == 0 {
				return "", false
			}
			parts = parts[:len(parts)-1]
		default:
			parts = append(parts, part)
		}
	}
	return "/" + strings.Join(parts, "/"), true
}

// isAtOrBelow reports whether name is dir or lies below it; both are canonical.
func isAtOrBelow(dir, name string) bool { return dir == name || isBelow(dir, name) }

// isBelow reports whether name lies strictly below dir; both are canonical.
// Nothing is below what is no name: the empty one stands before every slash.
func isBelow(dir, name string) bool {
	if dir == "/" {
		return name != "/"
	}
	return dir != "" && len(name) > len(dir) && name[len(dir)] == '/' && strings.HasPrefix(name, dir)
}
