package export

import (
	"path"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// badName returns why a name below a directory is not safe on the user's disk, or "" if
// it is. It refuses names that Windows reads as a device or shortens, on every system,
// because exported files travel on.
func badName(name string, windows bool) string {
	for part := range strings.SplitSeq(name, "/") {
		stem, _, _ := strings.Cut(part, ".")
		switch {
		case part == "" || part == "." || part == "..":
			return "a part of it is " + sandbox.Shown(part)
		case strings.ContainsFunc(part, func(r rune) bool { return !sandbox.Plain(r) || r == '\ufffd' }):
			return "it has invisible or control characters"
		case strings.HasSuffix(part, ".") || strings.HasSuffix(part, " ") || strings.HasPrefix(part, " "):
			return "a part of it begins or ends with a dot or a blank that some systems drop"
		case isDevice(strings.ToLower(strings.TrimRight(stem, " "))):
			return sandbox.Shown(stem) + " is a device on Windows"
		case strings.Contains(part, `\`), windows && strings.ContainsAny(part, `<>:"|?*`):
			return "it has a character that Windows does not allow in a name"
		case isGitName(part):
			return "git keeps its own files under that name"
		}
	}
	return ""
}

// isDevice reports whether Windows reads a name as a device.
func isDevice(stem string) bool {
	switch stem {
	case "con", "prn", "aux", "nul", "conin$", "conout$":
		return true
	}
	rest, ok := strings.CutPrefix(stem, "com")
	if !ok {
		rest, ok = strings.CutPrefix(stem, "lpt")
	}
	return ok && len([]rune(rest)) == 1 && strings.ContainsAny(rest, "0123456789¹²³")
}

func isGitName(part string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(part), ":")
	return stem == ".git" || stem == "git~1"
}

// pathBelow returns the path of a file in the directory, from the name that the user gave.
func pathBelow(named, file string) string {
	if named == "/" {
		return strings.TrimPrefix(file, "/")
	}
	return strings.TrimPrefix(strings.TrimPrefix(file, path.Dir(named)), "/")
}
