package sandboxtest

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

var movePromises = []promise{
	{"moves/of and into what is restricted", moves},
	{"R03 spellings of a limit", restrictSpellings},
}

// A step is one operation with two names, or on a whole directory, in the sandbox of an
// attack.
type step struct {
	name   string
	attack attack
	do     func(s *sandbox.Sandbox) error
	want   string
}

func move(from, to string) func(*sandbox.Sandbox) error {
	return func(s *sandbox.Sandbox) error { return s.Move(from, to) }
}

func copyTo(from, to string) func(*sandbox.Sandbox) error {
	return func(s *sandbox.Sandbox) error { _, err := s.Copy(from, to); return err }
}

func deleteAll(name string) func(*sandbox.Sandbox) error {
	return func(s *sandbox.Sandbox) error { return s.DeleteAll(context.Background(), name) }
}

func makeDir(name string) func(*sandbox.Sandbox) error {
	return func(s *sandbox.Sandbox) error { return s.MakeDir(name) }
}

// boxed has a directory with a hidden part.
var boxed = attack{
	tree:   with(project, tree{"box/secret/y": file("{canary}"), "box/f": file("f"), "stage/secret/evil": file("e"), "stage/f": file("f")}),
	limits: [][]sandbox.Limit{limits(rw("/"), no("/box/secret"), no("/new/secret"), ro("/kept/f"))},
}

// guarded has policy files, and directories that would become policy files by a move.
var guarded = attack{
	tree:    with(policyFiles, tree{"stage/sub/.git/x": file("x"), "plain/f": file("f"), "plain/a.yml": file("y")}),
	protect: append([]string{"/pipes/*.yml"}, ownPatterns...),
}

var steps = []step{
	{"a directory with a denied part", boxed, move("/box", "/spare/box"), "read_only"},
	{"a directory with a denied part, all of it gone", boxed, deleteAll("/box"), "read_only"},
	{"a directory with a denied part, itself", boxed, move("/box", "/box"), "read_only"},
	{"into a place with a denied part below", boxed, move("/stage", "/new"), "read_only"},
	{"a file into a place with a denied part below", boxed, move("/stage/f", "/new"), "read_only"},
	{"into a place with a read-only part below", boxed, move("/stage", "/kept"), "read_only"},
	{"into what is denied", boxed, move("/stage", "/box/secret"), "not_found"},
	{"below what is denied", boxed, move("/stage/f", "/box/secret/f"), "not_found"},
	{"out of what is denied", boxed, move("/box/secret/y", "/y"), "not_found"},
	{"a copy out of what is denied", boxed, copyTo("/box/secret/y", "/y"), "not_found"},
	{"a copy into what is denied", boxed, copyTo("/stage/f", "/box/secret/f"), "not_found"},
	{"beside what is denied", boxed, move("/stage/f", "/box/g"), "ok"},
	{"a directory where a denied part is to be", boxed, makeDir("/new/other"), "ok"},
	{"a directory that is denied", boxed, makeDir("/new/secret"), "not_found"},
	{"a directory below what is denied", boxed, makeDir("/new/secret/x"), "not_found"},
	{"a directory into itself", boxed, move("/stage", "/stage/f2"), "invalid"},
	{"a directory deep into itself", boxed, move("/stage", "/stage/no/such/x"), "invalid"},
	{"a directory into itself by a link", attack{tree: tree{"d/f": file("f"), "l": link("d")}}, move("/d", "/l/x"), "invalid"},
	{"the top", boxed, move("/", "/x"), "read_only|invalid"},
	{"onto the top", boxed, move("/stage", "/"), "exists|read_only"},

	{"a directory with a policy file", guarded, move("/pkg", "/pkg2"), "protected"},
	{"a directory with a policy file, all of it gone", guarded, deleteAll("/pkg"), "protected"},
	{"everything with a policy file deep in it", guarded, move("/stage", "/spare/stage"), "protected"},
	{"to a policy name", guarded, move("/plain", "/x/.git"), "protected"},
	{"to a policy name in another case", guarded, move("/plain", "/x/.GIT"), "protected"},
	{"to where its content is policy", guarded, move("/plain", "/pipes"), "protected"},
	{"to where its content is policy, in another case", guarded, move("/plain", "/Pipes"), "protected"},
	{"into a policy directory", guarded, move("/plain/f", "/.git/f"), "protected"},
	{"into a policy directory by a link", guarded, move("/plain/f", "/lg/f"), "protected"},
	{"out of a policy directory by a link", guarded, move("/lg/config", "/config"), "protected"},
	{"a copy to a policy name", guarded, copyTo("/plain/f", "/x.worker"), "protected"},
	{"a copy out of a policy directory", guarded, copyTo("/.git/config", "/config"), "ok"},
	{"a directory with a policy name", guarded, makeDir("/x/.git/hooks"), "protected"},
	{"a directory that becomes policy by its parent", guarded, makeDir("/ci/x/y"), "protected"},
	{"a policy directory, all of it gone", guarded, deleteAll("/.git"), "protected"},
	{"a link to a policy directory, gone", guarded, deleteAll("/lg"), "ok"},
	{"a directory of links to policy", attack{tree: tree{"d/l": link("../.git"), ".git/config": file("c")}}, deleteAll("/d"), "ok"},

	{"a directory of links out, gone",
		attack{tree: tree{"d/l": link("../../out"), "d/a": link("{host}/out"), "d/e/f": file("f")}, keep: []string{"out"}}, deleteAll("/d"),
		"ok"},
	{"a directory of links out, moved", attack{tree: tree{"d/l": link("../../out"), "d/a": link("{host}/out")}}, move("/d", "/e"), "ok"},
	{"a link moved so that it leaves", attack{tree: tree{"a/b/l": link("../../f"), "f": file("f")}}, func(s *sandbox.Sandbox) error {
		if err := s.Move("/a/b/l", "/l"); err != nil {
			return err
		}
		if _, err := s.Read("/l"); sandbox.CodeOf(err) != sandbox.ErrOutside {
			return fmt.Errorf("read of the link: got %v, want outside", err)
		}
		return nil
	}, "ok"},
	{"endings that are not allowed, in a directory",
		attack{tree: tree{"d/x.env": file("x"), "d/y.md": file("y")}, mounts: onlyText, mine: "/spare/mine.md"}, move("/d", "/e"), "suffix"},
	{"endings that are not allowed, in a directory, gone",
		attack{tree: tree{"d/x.env": file("x"), "d/y.md": file("y")}, mounts: onlyText, mine: "/spare/mine.md"}, deleteAll("/d"), "suffix"},
	{"a file to an ending that is not allowed", attack{tree: tree{"y.md": file("y")}, mounts: onlyText, mine: "/spare/mine.md"},
		move("/y.md", "/y.env"), "suffix"},
	{"a file from an ending that is not allowed", attack{tree: tree{"x.env": file("{canary}")}, mounts: onlyText, mine: "/spare/mine.md"},
		move("/x.env", "/x.md"), "suffix"},
	{"between mounts, over the limit", attack{tree: tree{"big": file(strings.Repeat("x", 100))}, mounts: bigAndSmall},
		move("/big", "/m/big"), "too_large"},
	{"between mounts, a copy over the limit", attack{tree: tree{"big": file(strings.Repeat("x", 100))}, mounts: bigAndSmall},
		copyTo("/big", "/m/big"), "too_large"},
	{"between mounts, to a device's name", attack{tree: some(), mounts: bigAndSmall}, move("/f.txt", "/m/CON"), "invalid"},
	{"between mounts, out of a ro one", attack{tree: shadowed, mounts: cached(sandbox.ReadOnly)}, move("/cache/own", "/own"), "read_only"},
	{"between mounts, into a ro one", attack{tree: shadowed, mounts: cached(sandbox.ReadOnly)}, move("/spare/mine", "/cache/mine"),
		"read_only"},
	{"between mounts, a pipe", attack{tree: tree{"x": special(fs.ModeNamedPipe)}, mounts: bigAndSmall}, move("/x", "/m/x"), "invalid"},
}

// bigAndSmall mounts proj at "/", and a directory with a small size limit at "/m".
func bigAndSmall(w *world, proj sandbox.Backend) []sandbox.Mount {
	return []sandbox.Mount{{Target: "/", Backend: proj, Access: sandbox.ReadWrite},
		{Target: "/m", Backend: w.mount("m", tree{"own": file("own")}), Access: sandbox.ReadWrite, MaxFileBytes: 16}}
}

func moves(t *testing.T, f Fixture) {
	for _, st := range steps {
		t.Run(st.name, func(t *testing.T) {
			w, s := st.attack.begin(t, f)
			op := operation{name: st.name, run: func(a *attempt) error { return st.do(a.s) }}
			st.attack.try(t, w, s, op, "/", strings.Split(st.want, "|"))
		})
	}
}

// restrictSpellings tries spellings of the path of a limit. Only "/src" itself shows its
// files, and no spelling shows the secrets.
func restrictSpellings(t *testing.T, f Fixture) {
	for _, c := range []struct{ path, want string }{
		{"/src", "ok"}, {"/src/", "ok"}, {"/src//", "ok"}, {"/src/.", "ok"}, {"src", "ok"}, {"/x/../src", "ok"},
		{"/src/../secrets", "not_found"}, {"/src/ld", "not_found"}, {"/srcx", "not_found"}, {"/src-private", "not_found"}, {"/sr", "not_found"},
		{"/src/../..", "invalid"}, {"../src", "invalid"}, {"", "invalid"}, {"/src\x00", "invalid"}, {"/" + strings.Repeat("s", 300), "invalid"},
	} {
		t.Run(fmt.Sprintf("%.20q", c.path), func(t *testing.T) {
			a := attack{tree: project}
			w, s := a.begin(t, f)
			op := operation{name: "restrict", run: func(at *attempt) error {
				lesser, err := at.s.Restrict(rw(c.path))
				if err != nil {
					return err
				}
				data, _ := lesser.Read("/src/x")
				at.say(data)
				data, err = lesser.Read("/src/app.ts")
				at.say(data)
				return err
			}}
			a.try(t, w, s, op, c.path, []string{c.want})
		})
	}
}

var windowPromises = []promise{
	{"P51 windows of a file", windows},
}

func windows(t *testing.T, f Fixture) {
	text := strings.Repeat("äöü€", 10_000)
	s := mount(t, f.open(t, tree{"f": file(text), "empty": file("")}))
	size := int64(len(text))
	for _, c := range []struct {
		offset int64
		length int
		want   string
		code   sandbox.Code
	}{
		{0, 0, "", ""}, {0, 10, text[:10], ""}, {1, 1, text[1:2], ""}, {size - 3, 10, text[size-3:], ""}, {size, 10, "", ""}, {size + 1, 10, "", ""},
		{math.MaxInt64, 10, "", ""}, {math.MaxInt64 - 5, sandbox.MaxRead, "", ""}, {0, sandbox.MaxRead, text, ""},
		{size - 1, math.MaxInt32, "", sandbox.ErrInvalid},
		{-1, 10, "", sandbox.ErrInvalid}, {math.MinInt64, 10, "", sandbox.ErrInvalid},
		{0, -1, "", sandbox.ErrInvalid}, {0, math.MinInt, "", sandbox.ErrInvalid},
		{0, sandbox.MaxRead + 1, "", sandbox.ErrInvalid}, {0, math.MaxInt, "", sandbox.ErrInvalid},
	} {
		data, info, err := s.ReadRange("/f", c.offset, c.length)
		if sandbox.CodeOf(err) != c.code || string(data) != c.want {
			t.Errorf("%d bytes at %d: got %d bytes, %v; want %d bytes, code %q", c.length, c.offset, len(data), err, len(c.want), c.code)
		}
		if err == nil && info.Size() != size {
			t.Errorf("size: got %d, want %d", info.Size(), size)
		}
		if err != nil {
			for _, wrong := range misshapen(err, false) {
				t.Errorf("the error %s: %v", wrong, err)
			}
		}
	}
	if data, _, err := s.ReadRange("/empty", 0, 10); len(data) != 0 || err != nil {
		t.Errorf("an empty file: got %q, %v", data, err)
	}
}
