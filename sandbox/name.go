package sandbox

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxName      = 4096
	maxComponent = 255

	// tempPrefix starts the names of unfinished files. No name reaches them and no
	// listing shows them.
	tempPrefix = ".golem-tmp-"
)

// ValidPath reports whether name has a valid form. It does not look at any file.
func ValidPath(name string) bool {
	_, why := clean(name)
	return why == ""
}

// clean returns the canonical form of name, or the reason why it has none. It returns a
// canonical name unchanged, without an allocation.
func clean(name string) (canonical, why string) {
	if name == "" {
		return "", "an empty name; / is the top directory"
	}
	if len(name) > maxName {
		return "", "a name may have at most 4096 bytes"
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", "NUL in a name"
	}
	if !utf8.ValidString(name) {
		return "", "a name must be valid UTF-8"
	}
	canonical = name
	if !isCanonical(name) {
		if canonical, why = fold(name); why != "" {
			return "", why
		}
	}
	for rest := canonical[1:]; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if len(part) > maxComponent {
			return "", "a part of a name may have at most 255 bytes"
		}
		if isTemp(part) {
			return "", "names that begin with " + tempPrefix + " are kept for unfinished writes"
		}
	}
	return canonical, ""
}

// isCanonical reports whether name starts with a slash, ends without one, and
// has no empty, "." or ".." part.
func isCanonical(name string) bool {
	if name[0] != '/' {
		return false
	}
	if name == "/" {
		return true
	}
	start := 1
	for i := 1; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		switch i - start {
		case 0:
			return false
		case 1:
			if name[start] == '.' {
				return false
			}
		case 2:
			if name[start] == '.' && name[start+1] == '.' {
				return false
			}
		}
		start = i + 1
	}
	return true
}

// fold removes empty and "." parts and resolves ".." lexically.
func fold(name string) (canonical, why string) {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
		case "..":
			if len(parts) == 0 {
				return "", ".. climbs above /"
			}
			parts = parts[:len(parts)-1]
		default:
			parts = append(parts, part)
		}
	}
	return "/" + strings.Join(parts, "/"), ""
}

func isTemp(part string) bool {
	return len(part) >= len(tempPrefix) && part[0] == '.' && strings.EqualFold(part[:len(tempPrefix)], tempPrefix)
}

// parent returns the directory of a canonical name; the parent of "/" is "/".
func parent(name string) string {
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		return name[:i]
	}
	return "/"
}

// join appends a part to a canonical name.
func join(dir, part string) string {
	if dir == "/" {
		return "/" + part
	}
	return dir + "/" + part
}

// below reports whether name is below dir and not dir itself. Both are canonical.
func below(dir, name string) bool {
	if dir == "/" {
		return len(name) > 1
	}
	return len(name) > len(dir) && name[len(dir)] == '/' && name[:len(dir)] == dir
}

// within reports whether name is dir or below it.
func within(dir, name string) bool { return dir == name || below(dir, name) }

// relative returns the path of name from dir, which must contain it: "." for dir itself.
func relative(dir, name string) string {
	switch {
	case name == dir:
		return "."
	case dir == "/":
		return name[1:]
	}
	return name[len(dir)+1:]
}

// caseless returns a form that is equal for names that a host without case treats as one.
// It converts to upper case first, because that also maps letters such as U+017F.
func caseless(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// portable reports whether a new file may have the name base. It is false for names that
// another system takes for a device, a drive or a share.
func portable(base string) bool {
	if strings.HasPrefix(base, `\\`) {
		return false
	}
	if len(base) >= 2 && base[1] == ':' && (base[0]|0x20 >= 'a' && base[0]|0x20 <= 'z') {
		return false
	}
	stem, _, _ := strings.Cut(base, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return false
	}
	for _, device := range []string{"COM", "LPT"} {
		if unit, ok := strings.CutPrefix(stem, device); ok {
			return !slices.Contains(deviceUnits, unit)
		}
	}
	return true
}

var deviceUnits = []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³"}

// NotOnWindows returns why Windows cannot store a file with this name, or takes the name
// for another one. It returns "" if Windows can store it. The name is one part of a path.
func NotOnWindows(part string) string {
	switch {
	case part == "" || part == "." || part == "..":
		return ""
	case strings.Contains(part, ":"):
		return "what follows a colon is a drive's path or a hidden stream of another file"
	case strings.HasSuffix(part, ".") || strings.HasSuffix(part, " "):
		return "a dot or space at the end is dropped"
	case !portable(part):
		return "it is the name of a device"
	case strings.ContainsAny(part, `<>"|?*\`):
		return "it has a character that is not allowed in names"
	}
	return ""
}

// hasSuffix reports whether name ends in one of the suffixes, ignoring case.
func hasSuffix(name string, suffixes []string) bool {
	base := path.Base(name)
	return slices.ContainsFunc(suffixes, func(suffix string) bool {
		return len(base) >= len(suffix) && strings.EqualFold(base[len(base)-len(suffix):], suffix)
	})
}
