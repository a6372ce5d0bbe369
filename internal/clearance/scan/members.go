package scan

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"strings"
)

// mostMembers limits how many members of an archive are examined here. An archive with
// more is held by the limit on entries.
const mostMembers = 10_000

// lookTar examines the names and kinds of the members of a tar archive.
func lookTar(n *notes, data []byte) {
	r := tar.NewReader(bytes.NewReader(data))
	for range mostMembers {
		h, err := r.Next()
		if h == nil || err != nil && err != tar.ErrInsecurePath {
			return // openTar reports what is wrong
		}
		n.member("tar", h.Name)
		switch h.Typeflag {
		case tar.TypeSymlink:
			n.memberLink("tar", "symlink", h.Name, h.Linkname, parentOf(h.Name))
		case tar.TypeLink:
			n.memberLink("tar", "hard link", h.Name, h.Linkname, "")
		case tar.TypeChar, tar.TypeBlock:
			n.hold(0, "tar: %s is a device", label(h.Name))
		case tar.TypeFifo:
			n.hold(0, "tar: %s is a named pipe", label(h.Name))
		case tar.TypeReg, tar.TypeDir, tar.TypeCont, tar.TypeGNUSparse:
			if h.Mode&0o6000 != 0 {
				n.hold(0, "tar: %s is set-user-id or set-group-id", label(h.Name))
			}
		default:
			n.hold(0, "tar: %s is of an unknown kind %q", label(h.Name), h.Typeflag)
		}
	}
}

// lookMembers examines the names and kinds of the members of a ZIP archive.
func lookMembers(n *notes, data []byte) {
	if bytes.Count(data, []byte("PK\x01\x02")) > mostMembers {
		return // so many are held anyway, and each needs memory
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if z == nil || err != nil && err != zip.ErrInsecurePath {
		return
	}
	for _, f := range z.File {
		n.member("ZIP", f.Name)
		switch mode := f.Mode(); {
		case mode&fs.ModeSymlink != 0:
			if to, ok := linkIn(f); ok {
				n.memberLink("ZIP", "symlink", f.Name, to, parentOf(f.Name))
			} else {
				n.hold(0, "ZIP: %s is a symlink that cannot be read", label(f.Name))
			}
		case mode&fs.ModeDevice != 0:
			n.hold(0, "ZIP: %s is a device", label(f.Name))
		case mode&(fs.ModeNamedPipe|fs.ModeSocket) != 0:
			n.hold(0, "ZIP: %s is a named pipe or a socket", label(f.Name))
		case mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
			n.hold(0, "ZIP: %s is set-user-id or set-group-id", label(f.Name))
		}
	}
}

// linkIn returns the target of a symlink in a ZIP archive.
func linkIn(f *zip.File) (string, bool) {
	const longest = 4 << 10
	r, err := f.Open()
	if err != nil {
		return "", false
	}
	defer r.Close()
	to, err := io.ReadAll(io.LimitReader(r, longest+1))
	return string(to), err == nil && len(to) <= longest
}

// member reports a member that would be written outside of the directory in which the
// archive is unpacked.
func (n *notes) member(kind, name string) {
	switch {
	case isRooted(name):
		n.hold(0, "%s: %s has an absolute name", kind, label(name))
	case climbs("", name):
		n.hold(0, "%s: %s leads out of the archive (..)", kind, label(name))
	}
}

// memberLink reports a symlink or hard link that leads out of the archive. Its target is
// relative to from.
func (n *notes) memberLink(kind, what, name, to, from string) {
	switch {
	case isRooted(to):
		n.hold(0, "%s: %s is a %s to an absolute path", kind, label(name), what)
	case climbs(from, to):
		n.hold(0, "%s: %s is a %s that leads out of the archive", kind, label(name), what)
	}
}

// parentOf returns the directory of a member.
func parentOf(name string) string {
	name = strings.TrimRight(slashed(name), "/")
	return name[:strings.LastIndexByte(name, '/')+1]
}

// slashed returns a name with slashes, because Windows programs read a backslash as one.
func slashed(name string) string { return strings.ReplaceAll(name, `\`, "/") }

// isRooted reports whether a name is absolute, on Unix or on Windows.
func isRooted(name string) bool {
	return strings.HasPrefix(slashed(name), "/") || len(name) >= 2 && name[1] == ':' && alphabet[name[0]] != 0
}

// climbs reports whether any part of a name leads above the directory where it starts.
func climbs(from, name string) bool {
	depth := 0
	for part := range strings.SplitSeq(slashed(from)+slashed(name), "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}
