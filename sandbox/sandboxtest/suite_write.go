package sandboxtest

import (
	"errors"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/golem-forge/golem/sandbox"
)

var writePromises = []promise{
	{"write/makes a file, or replaces one", writeReplaces},
	{"write/content that is unfit to be read from in one go", writeReaders},
	{"write/what is not a file stays, and nothing is read", writeUnfit},
	{"write/no link is followed and none is replaced", writeLinks},
	{"write/an error from the content leaves all as it was", writeFails},
	{"write/an unfinished file is not to be seen", writeHidden},
	{"write/a link put in the way meanwhile is not written through", writeSwapped},
	{"write/new files only, where asked", writeNew},
}

func writeReplaces(t *testing.T, f Fixture) {
	b := f.open(t, tree{"d/a": file("old, and much longer than the new")})
	put(t, b, "d/a", "new", sandbox.How{})
	wantContent(t, b, "d/a", "new")
	put(t, b, "d/b", "other", sandbox.How{})
	wantContent(t, b, "d/b", "other")
	if a := put(t, b, "top", "", sandbox.How{}); a.Size != 0 || !a.Mode.IsRegular() {
		t.Errorf("attr: got %+v, want an empty regular file", a)
	}
	wantNames(t, b, "d", "a", "b")
	wantNames(t, b, ".", "d", "top")
}

func writeReaders(t *testing.T, f Fixture) {
	b := f.open(t, nil)
	wantCode(t, "mkdir .", b.Mkdir("."), "", sandbox.ErrExists)
	text := strings.Repeat("content ", 20_000)
	for name, r := range map[string]io.Reader{
		"bytes":   iotest.OneByteReader(strings.NewReader(text[:5000])),
		"halves":  iotest.HalfReader(strings.NewReader(text)),
		"dataerr": iotest.DataErrReader(strings.NewReader(text)),
	} {
		if _, err := b.Write(name, r, sandbox.How{}); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := slurp(t, b, name); !strings.HasPrefix(text, got) || len(got) < 5000 {
			t.Errorf("%s: got %d bytes that are not what was written", name, len(got))
		}
	}
}

func writeUnfit(t *testing.T, f Fixture) {
	b := f.open(t, tree{"d/a": file("a"), "empty": directory()})
	for _, how := range []sandbox.How{{}, {New: true}} {
		wantUnread(t, b, "d", how, sandbox.ErrIsDir)
		wantUnread(t, b, "empty", how, sandbox.ErrIsDir)
		wantUnread(t, b, "missing/x", how, sandbox.ErrNotFound)
		wantUnread(t, b, "d/missing/x", how, sandbox.ErrNotFound)
		wantUnread(t, b, "d/a/x", how, sandbox.ErrNotDir)
		wantUnread(t, b, ".", how, sandbox.ErrIsDir, sandbox.ErrInvalid)
	}
	wantNames(t, b, ".", "d", "empty")
	wantNames(t, b, "d", "a")
	wantNames(t, b, "empty")
}

func writeLinks(t *testing.T, f Fixture) {
	b := f.open(t, links())
	top, inner := names(t, b, "."), names(t, b, "folder")
	for _, how := range []sandbox.How{{}, {New: true}, {If: sandbox.Version{}.With([]byte("file"))}} {
		for _, name := range slices.Concat(throughLinks, areLinks) {
			wantUnread(t, b, name, how, errLink)
		}
	}
	wantNames(t, b, ".", top...)
	wantNames(t, b, "folder", inner...)
	wantContent(t, b, "file.txt", "file")
	wantContent(t, b, "folder/inner.txt", "inner")
	for _, name := range areLinks {
		if got := lstat(t, b, name); got.Mode.Type() != fs.ModeSymlink {
			t.Errorf("%q: got mode %v, want a link still", name, got.Mode)
		}
	}
}

var errContent = errors.New("the content ends badly")

func writeFails(t *testing.T, f Fixture) {
	b := f.open(t, tree{"d/a": fileMode("as it was", 0o640)})
	before := lstat(t, b, "d/a")
	for _, lead := range []int{0, 1, 100_000} {
		for _, name := range []string{"d/a", "d/new"} {
			for _, how := range []sandbox.How{{}, {New: name == "d/new"}} {
				bad := io.MultiReader(strings.NewReader(strings.Repeat("x", lead)), iotest.ErrReader(errContent))
				if _, err := b.Write(name, bad, how); !errors.Is(err, errContent) {
					t.Errorf("write %s after %d bytes: got %v, want the error of the content", name, lead, err)
				}
			}
		}
	}
	wantNames(t, b, "d", "a")
	wantContent(t, b, "d/a", "as it was")
	if after := lstat(t, b, "d/a"); after != before {
		t.Errorf("attr: got %+v, want %+v", after, before)
	}
}

// A watcher is a short content that calls look when it is first read.
type watcher struct{ look func() }

func (w *watcher) Read(p []byte) (int, error) {
	if w.look == nil {
		return 0, io.EOF
	}
	w.look()
	w.look = nil
	return copy(p, "half "), nil
}

func writeHidden(t *testing.T, f Fixture) {
	b := f.open(t, tree{"d/a": file("old")})
	s := mount(t, b)
	for _, name := range []string{"d/a", "d/new"} {
		looked := false
		_, err := b.Write(name, &watcher{func() {
			looked = true
			entries, err := s.List("/d")
			if err != nil || len(entries) != 1 || entries[0].Name != "a" {
				t.Errorf("list during a write of %s: got %v, %v; want the old file alone", name, entries, err)
			}
			wantContent(t, b, "d/a", "old")
		}}, sandbox.How{})
		if err != nil || !looked {
			t.Errorf("write %s: %v (looked: %v)", name, err, looked)
		}
		wantCode(t, "remove", b.Remove(name), "")
		put(t, b, "d/a", "old", sandbox.How{})
	}
}

func writeSwapped(t *testing.T, f Fixture) {
	b := f.open(t, tree{"victim": file("untouched"), "name": file("old"), "lure": link("victim"), "dir/x": file("x")})
	// The write may fail or may replace the symlink.
	b.Write("name", &watcher{func() {
		wantCode(t, "remove", b.Remove("name"), "")
		wantCode(t, "rename", b.Rename("lure", "name"), "")
	}}, sandbox.How{})
	wantContent(t, b, "victim", "untouched")

	_, err := b.Write("new", &watcher{func() { wantCode(t, "mkdir", b.Mkdir("new"), "") }}, sandbox.How{})
	wantCode(t, "write where a directory was made meanwhile", err, sandbox.ErrIsDir, sandbox.ErrExists)
	_, err = b.Write("fresh", &watcher{func() { put(t, b, "fresh", "theirs", sandbox.How{}) }}, sandbox.How{New: true})
	wantCode(t, "write new where a file was made meanwhile", err, sandbox.ErrExists)
	wantContent(t, b, "fresh", "theirs")
	for _, name := range names(t, b, ".") {
		if !slices.Contains([]string{"victim", "name", "lure", "dir", "new", "fresh"}, name) {
			t.Errorf("a write left %q behind", name)
		}
	}
}

func writeNew(t *testing.T, f Fixture) {
	b := f.open(t, tree{"a": file("old")})
	wantUnread(t, b, "a", sandbox.How{New: true}, sandbox.ErrExists)
	wantContent(t, b, "a", "old")
	put(t, b, "b", "new", sandbox.How{New: true})
	wantUnread(t, b, "b", sandbox.How{New: true}, sandbox.ErrExists)
	wantContent(t, b, "b", "new")
}

var conditionPromises = []promise{
	{"if/the version that was read lets a write pass", ifSame},
	{"if/a file that has changed is a conflict", ifChanged},
	{"if/the same content is the same version to those who have read it", ifTouched},
	{"if/a version that was a word is as good", ifParsed},
	{"if/a missing file is a conflict, other things are what they are", ifUnfit},
}

// versionOf returns the version of a file, with the hash of its content or without.
func versionOf(t testing.TB, b sandbox.Backend, name string, content bool) sandbox.Version {
	t.Helper()
	s := mount(t, b)
	if content {
		_, v, err := s.ReadVersion("/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	info, err := s.Stat("/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Version()
}

func ifSame(t *testing.T, f Fixture) {
	b := f.open(t, tree{"a": file("one")})
	for i, content := range []bool{true, false, true} {
		v := versionOf(t, b, "a", content)
		put(t, b, "a", strings.Repeat("more", i+1), sandbox.How{If: v})
	}
	wantContent(t, b, "a", "moremoremore")
	wantNames(t, b, ".", "a")
}

func ifChanged(t *testing.T, f Fixture) {
	b := f.open(t, tree{"a": file("one"), "b": file("one")})
	read, looked, other := versionOf(t, b, "a", true), versionOf(t, b, "a", false), versionOf(t, b, "b", false)
	put(t, b, "a", "two", sandbox.How{})
	for what, v := range map[string]sandbox.Version{"read": read, "looked": looked, "other file": other} {
		_, err := b.Write("a", strings.NewReader("three"), sandbox.How{If: v})
		wantCode(t, what, err, sandbox.ErrConflict)
	}
	wantContent(t, b, "a", "two")
	wantNames(t, b, ".", "a", "b")

	read = versionOf(t, b, "a", true)
	_, err := b.Write("a", &watcher{func() { put(t, b, "a", "meanwhile", sandbox.How{}) }}, sandbox.How{If: read})
	wantCode(t, "changed while the content came", err, sandbox.ErrConflict)
	wantContent(t, b, "a", "meanwhile")
}

func ifTouched(t *testing.T, f Fixture) {
	b := f.open(t, tree{"a": file("one")})
	read, looked := versionOf(t, b, "a", true), versionOf(t, b, "a", false)
	put(t, b, "a", "one", sandbox.How{})
	_, err := b.Write("a", strings.NewReader("x"), sandbox.How{If: looked})
	wantCode(t, "the version of one who only looked", err, sandbox.ErrConflict)
	put(t, b, "a", "two", sandbox.How{If: read})
	wantContent(t, b, "a", "two")
}

func ifParsed(t *testing.T, f Fixture) {
	b := f.open(t, tree{"a": file("one")})
	for _, content := range []bool{true, false} {
		v, err := sandbox.ParseVersion(versionOf(t, b, "a", content).String())
		if err != nil {
			t.Fatal(err)
		}
		put(t, b, "a", "two", sandbox.How{If: v})
		_, err = b.Write("a", strings.NewReader("three"), sandbox.How{If: v})
		wantCode(t, "the same word again", err, sandbox.ErrConflict)
		wantContent(t, b, "a", "two")
	}
}

func ifUnfit(t *testing.T, f Fixture) {
	b := f.open(t, tree{"d/a": file("a"), "ro": fileMode("ro", 0o444)})
	v := sandbox.Version{}.With([]byte("a"))
	wantUnread(t, b, "missing", sandbox.How{If: v}, sandbox.ErrConflict)
	wantUnread(t, b, "d", sandbox.How{If: v}, sandbox.ErrIsDir)
	wantUnread(t, b, "ro", sandbox.How{If: sandbox.Version{}.With([]byte("ro"))}, sandbox.ErrReadOnly)
	wantUnread(t, b, "no/folder", sandbox.How{If: v}, sandbox.ErrNotFound, sandbox.ErrConflict)
	wantNames(t, b, ".", "d", "ro")
}

var modePromises = []promise{
	{"mode/a new file has what was asked for, less the umask", modeNew},
	{"mode/a file that is replaced keeps its permission bits", modeKept},
	{"mode/set-id and sticky bits never come with a write", modeSetID},
	{"mode/a file without a write bit is refused", modeReadOnly},
}

func modeNew(t *testing.T, f Fixture) {
	if runtime.GOOS == "windows" {
		t.Skip("the host has no permission bits")
	}
	b := f.open(t, tree{"d": directory()})
	for name, c := range map[string]struct{ asked, most, least fs.FileMode }{
		"default": {0, 0o666, 0o600},
		"private": {0o600, 0o600, 0o600},
		"program": {0o755, 0o755, 0o700},
		"set-id":  {0o755 | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky, 0o755, 0o700},
	} {
		a := put(t, b, "d/"+name, "x", sandbox.How{Mode: c.asked})
		for _, got := range []fs.FileMode{a.Mode, lstat(t, b, "d/"+name).Mode} {
			if got&^c.most != 0 || got&c.least != c.least {
				t.Errorf("%s: got mode %v, want at most %v and at least %v", name, got, c.most, c.least)
			}
		}
	}
}

func modeKept(t *testing.T, f Fixture) {
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o666, 0o700, 0o755, 0o777, 0o200} {
		b := f.open(t, tree{"a": fileMode("old", mode)})
		a := put(t, b, "a", "new", sandbox.How{Mode: 0o711})
		for _, got := range []fs.FileMode{a.Mode, lstat(t, b, "a").Mode} {
			if got != modeHere(mode) {
				t.Errorf("got mode %v, want %v", got, mode)
			}
		}
	}
}

func modeSetID(t *testing.T, f Fixture) {
	for _, mode := range []fs.FileMode{0o755 | fs.ModeSetuid, 0o755 | fs.ModeSetgid, 0o755 | fs.ModeSticky, 0o777 | fs.ModeSetuid | fs.ModeSetgid} {
		b := f.open(t, tree{"a": fileMode("old", mode)})
		put(t, b, "a", "new", sandbox.How{})
		if got := lstat(t, b, "a").Mode; got != modeHere(mode.Perm()) {
			t.Errorf("replaced %v: got mode %v, want %v", mode, got, mode.Perm())
		}
	}
}

func modeReadOnly(t *testing.T, f Fixture) {
	b := f.open(t, tree{"a": fileMode("old", 0o444), "x": fileMode("old", 0o555)})
	for _, name := range []string{"a", "x"} {
		wantUnread(t, b, name, sandbox.How{}, sandbox.ErrReadOnly)
		wantContent(t, b, name, "old")
	}
	wantNames(t, b, ".", "a", "x")
}
