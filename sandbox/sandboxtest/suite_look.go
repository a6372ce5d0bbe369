package sandboxtest

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// links returns a tree with symlinks of every kind, and their targets.
func links() tree {
	return tree{
		"folder/inner.txt": file("inner"),
		"file.txt":         file("file"),
		"tofile":           link("file.txt"),
		"tofolder":         link("folder"),
		"totop":            link("."),
		"toparent":         link(".."),
		"dangling":         link("nothing/here"),
		"absolute":         link("/file.txt"),
		"loop":             link("loop"),
		"folder/up":        link("../file.txt"),
	}
}

// throughLinks are names with a symlink before the last part.
var throughLinks = []string{
	"tofolder/inner.txt", "tofolder/up", "tofolder/new", "totop/file.txt", "totop/totop/file.txt", "toparent/x",
	"dangling/x", "absolute/x", "loop/x", "tofile/x", "totop/folder/inner.txt",
}

// areLinks are names of symlinks.
var areLinks = []string{"tofile", "tofolder", "totop", "toparent", "dangling", "absolute", "loop", "folder/up"}

var openPromises = []promise{
	{"open/a file can be read from any offset", openReads},
	{"open/content comes back as it is", openContent},
	{"open/a directory lists its entries with their types", openDirs},
	{"open/a directory of 5,000 entries is listed whole", openMany},
	{"open/what is not there is not found", openMissing},
	{"open/a file on the way is not a directory", openThroughFile},
	{"open/no link is followed", openLinks},
	{"open/pipes, sockets and devices are refused at once", openSpecial},
	{"open/an open file stays as it was opened", openStays},
	{"open/odd names are names", openOddNames},
	{"open/case is as the traits say", openCase},
}

func openReads(t *testing.T, f Fixture) {
	b := f.open(t, tree{"d/a.txt": file("0123456789")})
	file, err := b.Open("d/a.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if a := file.Attr(); a.Size != 10 || !a.Mode.IsRegular() {
		t.Errorf("attr: got size %d, mode %v; want 10, a regular file", a.Size, a.Mode)
	}
	for _, c := range []struct {
		off  int64
		size int
		want string
		err  error
	}{{0, 10, "0123456789", nil}, {3, 4, "3456", nil}, {8, 4, "89", io.EOF}, {10, 1, "", io.EOF}, {99, 1, "", io.EOF}} {
		buf := make([]byte, c.size)
		n, err := file.ReadAt(buf, c.off)
		// A reader that filled the buffer may return io.EOF at once.
		if string(buf[:n]) != c.want || err != c.err && !(n == c.size && err == io.EOF) {
			t.Errorf("read %d at %d: got %q, %v; want %q, %v", c.size, c.off, buf[:n], err, c.want, c.err)
		}
	}
	if _, err := file.ReadDir(); codeOf(err) != sandbox.ErrNotDir {
		t.Errorf("entries of a file: got %v, want not_dir", err)
	}
}

func openContent(t *testing.T, f Fixture) {
	contents := map[string]string{"empty": "", "binary": binary(), "large": strings.Repeat("0123456789abcdef", 200_000), "nul": "\x00"}
	objects := tree{}
	for name, content := range contents {
		objects[name] = file(content)
	}
	b := f.open(t, objects)
	for name, content := range contents {
		if slurp(t, b, name) != content {
			t.Errorf("%s: the content that was there did not come back", name)
		}
		put(t, b, name+".new", content, sandbox.How{})
		if slurp(t, b, name+".new") != content {
			t.Errorf("%s: the content that was written did not come back", name)
		}
	}
}

func openDirs(t *testing.T, f Fixture) {
	b := f.open(t, tree{"d/file": file("x"), "d/folder/deep": file("y"), "d/link": link("folder"), "empty": directory()})
	for _, dir := range []string{"d", ".", "empty"} {
		file, err := b.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if a := file.Attr(); !a.Mode.IsDir() {
			t.Errorf("attr of %q: got mode %v, want a directory", dir, a.Mode)
		}
		file.Close()
	}
	wantNames(t, b, ".", "d", "empty")
	wantNames(t, b, "d", "file", "folder", "link")
	wantNames(t, b, "d/folder", "deep")
	wantNames(t, b, "empty")
	file, err := b.Open("d")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	entries, err := file.ReadDir()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]fs.FileMode{"file": 0, "folder": fs.ModeDir, "link": fs.ModeSymlink}
	for _, e := range entries {
		if e.Type != want[e.Name] || e.IsDir() != (e.Name == "folder") {
			t.Errorf("type of %q: got %v, want %v", e.Name, e.Type, want[e.Name])
		}
	}
}

func openMany(t *testing.T, f Fixture) {
	objects, want := tree{}, []string{}
	for i := range 5000 {
		name := fmt.Sprintf("entry with a name that fills buffers %05d", i)
		objects["d/"+name] = file("")
		want = append(want, name)
	}
	b := f.open(t, objects)
	if got := names(t, b, "d"); !slices.Equal(got, want) {
		t.Errorf("got %d names, want %d, each once", len(got), len(want))
	}
}

func openMissing(t *testing.T, f Fixture) {
	b := f.open(t, tree{"d/a": file("a")})
	for _, name := range []string{"x", "d/x", "x/y/z", "d/x/y"} {
		_, err := b.Open(name)
		wantCode(t, "open "+name, err, sandbox.ErrNotFound)
		_, err = b.Lstat(name)
		wantCode(t, "lstat "+name, err, sandbox.ErrNotFound)
		wantCode(t, "remove "+name, b.Remove(name), sandbox.ErrNotFound)
		wantCode(t, "rename "+name, b.Rename(name, "to"), sandbox.ErrNotFound)
	}
	wantNames(t, b, ".", "d")
}

func openThroughFile(t *testing.T, f Fixture) {
	b := f.open(t, tree{"a.txt": file("a"), "spare": file("s")})
	for _, name := range []string{"a.txt/b", "a.txt/b/c"} {
		_, err := b.Open(name)
		wantCode(t, "open "+name, err, sandbox.ErrNotDir)
		_, err = b.Lstat(name)
		wantCode(t, "lstat "+name, err, sandbox.ErrNotDir)
		wantUnread(t, b, name, sandbox.How{}, sandbox.ErrNotDir)
		wantCode(t, "mkdir "+name, b.Mkdir(name), sandbox.ErrNotDir)
		wantCode(t, "remove "+name, b.Remove(name), sandbox.ErrNotDir)
		wantCode(t, "rename from "+name, b.Rename(name, "to"), sandbox.ErrNotDir)
		wantCode(t, "rename to "+name, b.Rename("spare", name), sandbox.ErrNotDir)
	}
	wantNames(t, b, ".", "a.txt", "spare")
}

func openLinks(t *testing.T, f Fixture) {
	b := f.open(t, links())
	for _, name := range slices.Concat(throughLinks, areLinks) {
		file, err := b.Open(name)
		wantCode(t, "open "+name, err, errLink)
		if err == nil {
			file.Close()
		}
	}
}

func openSpecial(t *testing.T, f Fixture) {
	for _, kind := range specialKinds {
		t.Run(kind.name, func(t *testing.T) {
			b := f.open(t, tree{"d/x": {Mode: kind.mode | 0o644}, "d/file": file("f")})
			soon(t, "an operation on it", func() {
				_, err := b.Open("d/x")
				wantCode(t, "open", err, sandbox.ErrNotRegular)
				wantUnread(t, b, "d/x", sandbox.How{}, sandbox.ErrNotRegular)
				wantUnread(t, b, "d/x", sandbox.How{If: sandbox.Version{}.With(nil)}, sandbox.ErrNotRegular)
				_, err = b.Open("d/x/y")
				wantCode(t, "open below it", err, sandbox.ErrNotDir)
				wantCode(t, "make a directory in its place", b.Mkdir("d/x"), sandbox.ErrExists)
				wantCode(t, "move something onto it", b.Rename("d/file", "d/x"), sandbox.ErrExists)
			})
			if got := lstat(t, b, "d/x").Mode.Type(); got != kind.mode {
				t.Errorf("type: got %v, want %v", got, kind.mode)
			}
			wantNames(t, b, "d", "file", "x")
			wantCode(t, "move it", b.Rename("d/x", "y"), "")
			wantCode(t, "remove it", b.Remove("y"), "")
			wantNames(t, b, ".", "d")
		})
	}
}

// specialKinds are the types other than file, directory and symlink.
var specialKinds = []struct {
	name string
	mode fs.FileMode
}{
	{"pipe", fs.ModeNamedPipe},
	{"socket", fs.ModeSocket},
	{"device", fs.ModeDevice | fs.ModeCharDevice},
}

func openStays(t *testing.T, f Fixture) {
	b := f.open(t, tree{"a": file("before"), "gone": file("still here")})
	a, err := b.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	gone, err := b.Open("gone")
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	put(t, b, "a", "after, and longer", sandbox.How{})
	if runtime.GOOS != "windows" { // Windows cannot remove an open file
		wantCode(t, "remove", b.Remove("gone"), "")
	}
	for file, want := range map[sandbox.File]string{a: "before", gone: "still here"} {
		data, err := io.ReadAll(io.NewSectionReader(file, 0, 100))
		if string(data) != want || err != nil {
			t.Errorf("a file opened before the change: got %q, %v; want %q", data, err, want)
		}
		if file.Attr().Size != int64(len(want)) {
			t.Errorf("size: got %d, want %d", file.Attr().Size, len(want))
		}
	}
}

func openOddNames(t *testing.T, f Fixture) {
	if runtime.GOOS == "windows" {
		t.Skip("the host has no such names")
	}
	odd := []string{
		"...", ".hidden", "-rf", "--help", " ", "a b", "a\nb", "\x1b[2K", `back\slash`, `quo"te`, "semi;colon", "$HOME", "~", "%2e%2e",
		"*", "?", "[a]", "{a,b}", "a:b", "ümläut", "\u202ecod.exe", "日本語", strings.Repeat("n", 255),
	}
	b := f.open(t, tree{"d": directory()})
	for _, name := range odd {
		put(t, b, "d/"+name, name, sandbox.How{New: true})
	}
	slices.Sort(odd)
	wantNames(t, b, "d", odd...)
	for _, name := range odd {
		wantContent(t, b, "d/"+name, name)
		wantCode(t, "remove "+name, b.Remove("d/"+name), "")
	}
	wantNames(t, b, "d")
}

func openCase(t *testing.T, f Fixture) {
	b := f.open(t, tree{"Dir/File": file("first")})
	_, err := b.Open("dir/fILE")
	if !b.Traits().FoldsCase {
		wantCode(t, "open another spelling", err, sandbox.ErrNotFound)
		put(t, b, "Dir/fILE", "second", sandbox.How{New: true})
		wantContent(t, b, "Dir/File", "first")
		return
	}
	wantCode(t, "open another spelling", err, "")
	wantUnread(t, b, "dir/FILE", sandbox.How{New: true}, sandbox.ErrExists)
	put(t, b, "DIR/FILE", "second", sandbox.How{})
	wantContent(t, b, "Dir/File", "second")
	wantNames(t, b, "dir", "File")
	wantCode(t, "mkdir of another spelling", b.Mkdir("DIR"), sandbox.ErrExists)
}

var lstatPromises = []promise{
	{"lstat/files and directories are described", lstatKinds},
	{"lstat/a link is described, not followed", lstatLinks},
	{"lstat/two files have two ids, and a change shows", lstatIdentity},
	{"traits/the host directory is absolute or none", traitsHost},
}

func lstatKinds(t *testing.T, f Fixture) {
	b := f.open(t, tree{"d/a": fileMode("12345", 0o640), "d/x": fileMode("", 0o755)})
	for _, name := range []string{".", "d"} {
		if a := lstat(t, b, name); !a.Mode.IsDir() {
			t.Errorf("%q: got mode %v, want a directory", name, a.Mode)
		}
	}
	if a := lstat(t, b, "d/a"); a.Size != 5 || a.Mode != modeHere(0o640) || a.Target != "" {
		t.Errorf("d/a: got %+v, want 5 bytes, mode 0640", a)
	}
	if a := lstat(t, b, "d/x"); a.Size != 0 || a.Mode != modeHere(0o755) {
		t.Errorf("d/x: got %+v, want 0 bytes, mode 0755", a)
	}
}

// modeHere returns the permission bits that the host keeps of mode.
func modeHere(mode fs.FileMode) fs.FileMode {
	if runtime.GOOS == "windows" {
		return 0o666
	}
	return mode
}

func lstatLinks(t *testing.T, f Fixture) {
	b := f.open(t, links())
	for _, name := range areLinks {
		a := lstat(t, b, name)
		want := links()[name].Content
		if a.Mode.Type() != fs.ModeSymlink || a.Target != want && name != "absolute" {
			t.Errorf("%q: got mode %v, target %q; want a link to %q", name, a.Mode, a.Target, want)
		}
	}
	if a := lstat(t, b, "absolute"); !strings.HasPrefix(a.Target, "/") {
		t.Errorf("an absolute link: got target %q, want one that begins with a slash", a.Target)
	}
	for _, name := range throughLinks {
		_, err := b.Lstat(name)
		wantCode(t, "lstat "+name, err, errLink)
	}
}

func lstatIdentity(t *testing.T, f Fixture) {
	b := f.open(t, tree{"a": file("same"), "b": file("same"), "d": directory()})
	seen := map[uint64]string{}
	for _, name := range []string{".", "a", "b", "d"} {
		id := lstat(t, b, name).ID
		if other, ok := seen[id]; ok && id != 0 {
			t.Errorf("%q and %q have one id", name, other)
		}
		seen[id] = name
	}
	before := lstat(t, b, "a")
	if again := lstat(t, b, "a"); again.ID != before.ID || again.Changed != before.Changed {
		t.Errorf("nothing changed: got %+v, want %+v", again, before)
	}
	written := put(t, b, "a", "same", sandbox.How{})
	after := lstat(t, b, "a")
	if after.ID == before.ID && after.Changed == before.Changed {
		t.Errorf("a write of the same content does not show: %+v", after)
	}
	if written.ID != after.ID || written.Changed != after.Changed || written.Size != after.Size || written.Mode != after.Mode {
		t.Errorf("attr of the write: got %+v, want what lstat says: %+v", written, after)
	}
	opened, err := b.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if a := opened.Attr(); a.ID != after.ID || a.Changed != after.Changed {
		t.Errorf("attr of the open file: got %+v, want %+v", a, after)
	}
}

func traitsHost(t *testing.T, f Fixture) {
	b := f.open(t, nil)
	host := string(b.Traits().Host)
	if host != "" && !filepath.IsAbs(host) || f.OnHost && host == "" {
		t.Errorf("host directory: got %q", host)
	}
	if again := b.Traits(); again != b.Traits() {
		t.Errorf("traits change: %+v, %+v", again, b.Traits())
	}
}
