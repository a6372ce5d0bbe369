package policy

import (
	"strings"
	"unicode/utf8"
)

// isName reports whether a name is canonical, as [sandbox.Sandbox] returns it: UTF-8
// without NUL, and either "/" or parts after slashes of which none is empty, "." or "..".
// Rules and limits are compared with names byte by byte, so a name in another form could
// bypass them.
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

// cleanName returns the canonical form of a name, as [sandbox.Sandbox.Restrict] reads it.
// It returns false for a text that is no name: it is empty, or leads above "/".
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

// AtOrBelow reports whether name is dir or below it. Both are canonical.
func AtOrBelow(dir, name string) bool { return dir == name || isBelow(dir, name) }

// isBelow reports whether name is strictly below dir. Both are canonical. Nothing is
// below the empty name.
func isBelow(dir, name string) bool {
	if dir == "/" {
		return name != "/"
	}
	return dir != "" && len(name) > len(dir) && name[len(dir)] == '/' && strings.HasPrefix(name, dir)
}
