package git

import (
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// A Hash names an object: 40 hexadecimal digits, or "" for none.
type Hash string

const (
	hashLength = 40
	nothing    = "0000000000000000000000000000000000000000"
)

// Valid reports whether a hash names an object.
func (h Hash) Valid() bool {
	return len(h) == hashLength && strings.Trim(string(h), "0123456789abcdef") == "" && h != nothing
}

// maxName limits the length of a path.
const maxName = 4096

// BadName returns why git, or a file system that git may check the file out to, would
// refuse the path of a file, or "" if they would not. The rules are those of git's
// verify_path, with the protections for every system. A name may hold any byte except
// zero.
func BadName(path string, mode Mode) string {
	switch {
	case path == "":
		return "it is empty"
	case len(path) > maxName:
		return "it is too long"
	case strings.Contains(path, "\x00"):
		return "it has a zero byte in it"
	}
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case part == "":
			return "a part of it is empty"
		case part == "." || part == "..":
			return "it goes through " + part
		}
		// Windows reads a backslash as a slash.
		for piece := range strings.SplitSeq(part, `\`) {
			if dotName(piece, "git", "git~1") {
				return "git keeps its own files under that name"
			}
			if mode == Link && (dotName(piece, "gitmodules", "gitmod~1") || strings.HasPrefix(fold(piece), "gi7eba~")) {
				return "git accepts no symlink of that name"
			}
			if piece == ".." && strings.Contains(part, `\`) {
				return "it goes through .."
			}
		}
	}
	return ""
}

// dotName reports whether some file system reads a name as one of git's own files. A file
// system may ignore case, text after a colon, dots and spaces at the end, and invisible
// characters. It may also know the file by a short name.
func dotName(name, long, short string) bool {
	name = fold(name)
	return name == "."+long || name == short
}

// fold returns a name as the most lenient file systems compare it.
func fold(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1 // HFS+ ignores these
		}
		return r
	}, name)
	name, _, _ = strings.Cut(name, ":")
	return strings.ToLower(strings.TrimRight(name, " ."))
}

// branchRef returns the full reference name of a branch.
func branchRef(op, branch string) (string, error) {
	if why := BadBranch(branch); why != "" {
		return "", refusal(op, branch, sandbox.ErrInvalid, why+"; main and drafts/notes are")
	}
	return "refs/heads/" + branch, nil
}

// quote returns a name in the quotes that git reads, with special bytes escaped.
func quote(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		c := name[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('\\')
		b.WriteByte('0' + c>>6)
		b.WriteByte('0' + c>>3&7)
		b.WriteByte('0' + c&7)
	}
	b.WriteByte('"')
	return b.String()
}
