package scan

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"strings"
	"testing"
)

// TestMembersThatEscape checks that members which would be written outside of the
// archive's directory, or that are not files, hold an archive of every kind, also inside
// of others.
func TestMembersThatEscape(t *testing.T) {
	inTar := func(h tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		h.Mode = max(h.Mode, 0o644)
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	inZip := func(name string, mode fs.FileMode, content string) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		h := &zip.FileHeader{Name: name, Method: zip.Store}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, content); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for _, c := range []struct {
		name string
		file []byte
		want string // "" for no finding
	}{
		{"a.tar", inTar(tar.Header{Name: "../x"}), "leads out of the archive"},
		{"a.tar", inTar(tar.Header{Name: "a/../../x"}), "leads out of the archive"},
		{"a.tar", inTar(tar.Header{Name: `..\x`}), "leads out of the archive"},
		{"a.tar", inTar(tar.Header{Name: "/etc/x"}), "absolute name"},
		{"a.tar", inTar(tar.Header{Name: `C:\x`}), "absolute name"},
		{"a.tar", inTar(tar.Header{Name: `\\host\x`}), "absolute name"},
		{"a.tar", inTar(tar.Header{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), "symlink to an absolute path"},
		{"a.tar", inTar(tar.Header{Name: "a/x", Typeflag: tar.TypeSymlink, Linkname: "../../x"}), "symlink that leads out"},
		{"a.tar", inTar(tar.Header{Name: "x", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}), "hard link to an absolute path"},
		{"a.tar", inTar(tar.Header{Name: "a/x", Typeflag: tar.TypeLink, Linkname: "../x"}), "hard link that leads out"},
		{"a.tar", inTar(tar.Header{Name: "x", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 5}), "is a device"},
		{"a.tar", inTar(tar.Header{Name: "x", Typeflag: tar.TypeBlock, Devmajor: 8}), "is a device"},
		{"a.tar", inTar(tar.Header{Name: "x", Typeflag: tar.TypeFifo}), "is a named pipe"},
		{"a.tar", inTar(tar.Header{Name: "x", Mode: 0o4755}), "set-user-id"},
		{"a.zip", inZip("../x", 0o644, "words"), "leads out of the archive"},
		{"a.zip", inZip("/x", 0o644, "words"), "absolute name"},
		{"a.zip", inZip(`a\..\..\x`, 0o644, "words"), "leads out of the archive"},
		{"a.zip", inZip("x", fs.ModeSymlink|0o777, "/etc/passwd"), "symlink to an absolute path"},
		{"a.zip", inZip("a/x", fs.ModeSymlink|0o777, "../../x"), "symlink that leads out"},
		{"a.zip", inZip("x", fs.ModeDevice|fs.ModeCharDevice|0o666, ""), "is a device"},
		{"a.zip", inZip("x", fs.ModeNamedPipe|0o666, ""), "named pipe"},

		{"a.tar", inTar(tar.Header{Name: "a/./b/../x"}), ""},
		{"a.tar", inTar(tar.Header{Name: "..a/x.."}), ""},
		{"a.tar", inTar(tar.Header{Name: "a/b/x", Typeflag: tar.TypeSymlink, Linkname: "../../x"}), ""},
		{"a.tar", inTar(tar.Header{Name: "a/b/x", Typeflag: tar.TypeLink, Linkname: "a/y"}), ""},
		{"a.tar", inTar(tar.Header{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o755}), ""},
		{"a.zip", inZip("a/x", fs.ModeSymlink|0o777, "../y"), ""},
	} {
		for outer, file := range map[string][]byte{c.name: c.file, "b.zip": makeZip(member{c.name, string(c.file)}), c.name + ".gz": gzipBytes(c.file)} {
			v := newSet(t, Options{Scanners: []string{"content"}}).Scan(t.Context(), of(outer, file))
			got := describeVerdict(v)
			if v.Held != (c.want != "") || !strings.Contains(got, c.want) {
				t.Errorf("%s: got %s, want %q", outer, got, c.want)
			}
		}
	}
}
