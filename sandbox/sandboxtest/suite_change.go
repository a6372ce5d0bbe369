package sandboxtest

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

var dirPromises = []promise{
	{"mkdir/makes one directory", mkdirOne},
	{"mkdir/what is there stays", mkdirExists},
	{"mkdir/no link is followed", mkdirLinks},
	{"mkdir/the mount's own directory is made where it is missing", mkdirTop},
}

func mkdirOne(t *testing.T, f Fixture) {
	b := f.open(t, tree{"d/a": file("a")})
	wantCode(t, "mkdir", b.Mkdir("d/sub"), "")
	wantCode(t, "mkdir", b.Mkdir("d/sub/sub"), "")
	wantCode(t, "mkdir without a parent", b.Mkdir("x/y"), sandbox.ErrNotFound)
	if a := lstat(t, b, "d/sub"); !a.Mode.IsDir() || a.Mode.Perm()&0o700 != 0o700 {
		t.Errorf("got mode %v, want a directory that its owner can use", a.Mode)
	}
	put(t, b, "d/sub/sub/file", "f", sandbox.How{})
	wantNames(t, b, ".", "d")
	wantNames(t, b, "d", "a", "sub")
}

func mkdirExists(t *testing.T, f Fixture) {
	b := f.open(t, links())
	for _, name := range append([]string{"folder", "file.txt", "folder/inner.txt"}, areLinks...) {
		wantCode(t, "mkdir "+name, b.Mkdir(name), sandbox.ErrExists)
	}
	wantContent(t, b, "file.txt", "file")
	wantNames(t, b, "folder", "inner.txt", "up")
}

func mkdirLinks(t *testing.T, f Fixture) {
	b := f.open(t, links())
	top, inner := names(t, b, "."), names(t, b, "folder")
	for _, name := range throughLinks {
		wantCode(t, "mkdir "+name, b.Mkdir(name), errLink)
	}
	wantNames(t, b, ".", top...)
	wantNames(t, b, "folder", inner...)
}

func mkdirTop(t *testing.T, f Fixture) {
	b := f.open(t, nil)
	if _, err := b.Lstat("."); err != nil {
		wantCode(t, "lstat of a missing mount", err, sandbox.ErrNotFound)
		_, err := b.Open(".")
		wantCode(t, "open of a missing mount", err, sandbox.ErrNotFound)
		wantUnread(t, b, "file", sandbox.How{}, sandbox.ErrNotFound)
		wantCode(t, "mkdir .", b.Mkdir("."), "")
	}
	wantCode(t, "mkdir . again", b.Mkdir("."), sandbox.ErrExists)
	wantNames(t, b, ".")
	put(t, b, "file", "f", sandbox.How{})
	wantContent(t, b, "file", "f")
}

var renamePromises = []promise{
	{"rename/moves a file, a directory, a link", renameMoves},
	{"rename/never replaces", renameReplaces},
	{"rename/no link is followed", renameLinks},
	{"rename/into itself, or of the mount, is refused", renameInto},
	{"rename/needs a directory to go to", renameMissing},
}

func renameMoves(t *testing.T, f Fixture) {
	b := f.open(t, tree{"a": fileMode("a", 0o750), "d/e/f": file("f"), "l": link("d/e"), "to": directory(), "dang": link("../nothing")})
	for _, move := range [][2]string{{"a", "to/a"}, {"d", "to/d"}, {"l", "to/l"}, {"dang", "to/dang"}, {"to/a", "to/b"}} {
		wantCode(t, "rename "+move[0], b.Rename(move[0], move[1]), "")
	}
	wantNames(t, b, ".", "to")
	wantNames(t, b, "to", "b", "d", "dang", "l")
	wantContent(t, b, "to/b", "a")
	wantContent(t, b, "to/d/e/f", "f")
	if a := lstat(t, b, "to/l"); a.Mode.Type() != fs.ModeSymlink || a.Target != "d/e" {
		t.Errorf("the link: got %+v, want one to d/e", a)
	}
	if a := lstat(t, b, "to/b"); a.Mode != modeHere(0o750) {
		t.Errorf("the file: got mode %v, want 0750", a.Mode)
	}
}

func renameReplaces(t *testing.T, f Fixture) {
	start := tree{"file": file("1"), "other": file("2"), "full/x": file("3"), "empty": directory(), "bare": directory(), "link": link("file"), "dang": link("no")}
	b := f.open(t, start)
	top := names(t, b, ".")
	for _, from := range top {
		for _, to := range top {
			wantCode(t, "rename "+from+" to "+to, b.Rename(from, to), sandbox.ErrExists)
		}
	}
	wantNames(t, b, ".", top...)
	wantContent(t, b, "file", "1")
	wantContent(t, b, "other", "2")
	wantContent(t, b, "full/x", "3")
}

func renameLinks(t *testing.T, f Fixture) {
	b := f.open(t, links())
	put(t, b, "spare", "s", sandbox.How{})
	top, inner := names(t, b, "."), names(t, b, "folder")
	for _, name := range throughLinks {
		wantCode(t, "rename from "+name, b.Rename(name, "free"), errLink)
		wantCode(t, "rename to "+name, b.Rename("spare", name), errLink)
	}
	wantNames(t, b, ".", top...)
	wantNames(t, b, "folder", inner...)
	wantCode(t, "rename a link that leads nowhere", b.Rename("dangling", "folder/dangling"), "")
	wantCode(t, "rename a link to a directory", b.Rename("tofolder", "folder/self"), "")
	wantContent(t, b, "folder/inner.txt", "inner")
}

func renameInto(t *testing.T, f Fixture) {
	b := f.open(t, tree{"d/e/f": file("f"), "a": file("a")})
	wantCode(t, "into itself", b.Rename("d", "d/x"), sandbox.ErrInvalid)
	wantCode(t, "into what is in it", b.Rename("d", "d/e/x"), sandbox.ErrInvalid)
	wantCode(t, "the mount", b.Rename(".", "x"), sandbox.ErrInvalid)
	wantCode(t, "onto the mount", b.Rename("a", "."), sandbox.ErrInvalid, sandbox.ErrExists)
	wantNames(t, b, ".", "a", "d")
	wantContent(t, b, "d/e/f", "f")
}

func renameMissing(t *testing.T, f Fixture) {
	b := f.open(t, tree{"a": file("a")})
	wantCode(t, "to a missing directory", b.Rename("a", "no/a"), sandbox.ErrNotFound)
	wantCode(t, "from a missing name", b.Rename("no", "b"), sandbox.ErrNotFound)
	wantNames(t, b, ".", "a")
}

var removePromises = []promise{
	{"remove/a file, an empty directory, a link itself", removeOne},
	{"remove/a directory with something in it stays", removeFull},
	{"remove/no link is followed", removeLinks},
	{"remove/the mount stays", removeTop},
}

func removeOne(t *testing.T, f Fixture) {
	b := f.open(t, tree{"a": file("a"), "ro": fileMode("ro", 0o444), "d": directory(), "l": link("keep"), "ld": link("dir"), "dang": link("no"),
		"loop": link("loop"), "keep": file("k"), "dir/x": file("x")})
	for _, name := range []string{"a", "ro", "d", "l", "ld", "dang", "loop"} {
		wantCode(t, "remove "+name, b.Remove(name), "")
		wantCode(t, "remove "+name+" again", b.Remove(name), sandbox.ErrNotFound)
	}
	wantNames(t, b, ".", "dir", "keep")
	wantContent(t, b, "keep", "k")
	wantContent(t, b, "dir/x", "x")
}

func removeFull(t *testing.T, f Fixture) {
	b := f.open(t, tree{"d/a": file("a"), "e/f": directory()})
	for _, name := range []string{"d", "e"} {
		wantCode(t, "remove "+name, b.Remove(name), sandbox.ErrNotEmpty)
	}
	wantContent(t, b, "d/a", "a")
	wantCode(t, "remove e/f", b.Remove("e/f"), "")
	wantCode(t, "remove e", b.Remove("e"), "")
}

func removeLinks(t *testing.T, f Fixture) {
	b := f.open(t, links())
	top, inner := names(t, b, "."), names(t, b, "folder")
	for _, name := range throughLinks {
		wantCode(t, "remove "+name, b.Remove(name), errLink)
	}
	wantNames(t, b, ".", top...)
	wantNames(t, b, "folder", inner...)
}

func removeTop(t *testing.T, f Fixture) {
	for _, objects := range []tree{{"a": file("a")}, {"d": directory()}} {
		b := f.open(t, objects)
		wantCode(t, "remove .", b.Remove("."), sandbox.ErrInvalid)
		if got := names(t, b, "."); len(got) != 1 {
			t.Errorf("after that: got %q, want what was there", got)
		}
	}
}

var racePromises = []promise{
	{"race/conditional writes lose nothing", raceCounter},
	{"race/no reader sees a torn file", raceReaders},
	{"race/one of many makes, writes or renames to a new name", raceWinner},
}

// together runs n calls at once and waits for them.
func together(n int, act func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			act(i)
		})
	}
	close(start)
	all.Wait()
}

func raceCounter(t *testing.T, f Fixture) {
	const writers, steps = 8, 25
	b := f.open(t, tree{"d/counter": file("0")})
	s := mount(t, b)
	together(writers, func(int) {
		for range steps {
			if err := increment(s, "/d/counter"); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wantContent(t, b, "d/counter", strconv.Itoa(writers*steps))
	wantNames(t, b, "d", "counter")
}

// increment reads a number, adds one and writes it, until no other write came in between.
func increment(s *sandbox.Sandbox, name string) error {
	for {
		data, v, err := s.ReadVersion(name)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(data))
		if err != nil {
			return err
		}
		_, err = s.WriteIf(name, []byte(strconv.Itoa(n+1)), v)
		if sandbox.CodeOf(err) != sandbox.ErrConflict {
			return err
		}
	}
}

func raceReaders(t *testing.T, f Fixture) {
	const writers, readers, steps = 3, 3, 60
	page := func(i int) string { return strings.Repeat(string(rune('a'+i)), 10_000*(i+1)) }
	b := f.open(t, tree{"d/a": file(page(0))})
	together(writers+readers, func(i int) {
		for range steps {
			if i < writers {
				if _, err := b.Write("d/a", strings.NewReader(page(i)), sandbox.How{}); err != nil {
					t.Errorf("write: %v", err)
				}
				continue
			}
			got, err := read(b, "d/a")
			if err != nil || !slices.Contains([]string{page(0), page(1), page(2)}, got) {
				t.Errorf("read: got %d bytes, %v; want one of the pages, whole", len(got), err)
			}
		}
	})
	wantNames(t, b, "d", "a")
}

func raceWinner(t *testing.T, f Fixture) {
	const n, rounds = 8, 20
	objects := tree{"d": directory()}
	for r := range rounds {
		for i := range n {
			objects[fmt.Sprintf("from/%d-%d", r, i)] = file(strconv.Itoa(i))
		}
	}
	b := f.open(t, objects)
	for r := range rounds {
		for name, act := range map[string]func(to string, i int) error{
			"mkdir": func(to string, _ int) error { return b.Mkdir(to) },
			"write": func(to string, i int) error {
				_, err := b.Write(to, strings.NewReader(strconv.Itoa(i)), sandbox.How{New: true})
				return err
			},
			"rename": func(to string, i int) error { return b.Rename(fmt.Sprintf("from/%d-%d", r, i), to) },
		} {
			won := make([]bool, n)
			to := fmt.Sprintf("d/%s%d", name, r)
			together(n, func(i int) {
				err := act(to, i)
				won[i] = err == nil
				wantCode(t, name, err, "", sandbox.ErrExists)
			})
			winner := slices.Index(won, true)
			if winner < 0 || slices.Contains(won[winner+1:], true) {
				t.Fatalf("%s: winners %v, want one", name, won)
			}
			if name != "mkdir" {
				wantContent(t, b, to, strconv.Itoa(winner))
			}
		}
	}
	if got, want := len(names(t, b, "from")), rounds*(n-1); got != want {
		t.Errorf("files that lost the race: got %d, want %d", got, want)
	}
}
