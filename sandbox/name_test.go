package sandbox_test

import (
	"context"
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
)

func TestClean(t *testing.T) {
	tests := []struct{ name, want string }{
		{"/", "/"}, {"//", "/"}, {"/.", "/"}, {"/./", "/"}, {".", "/"}, {"./", "/"}, {"/a/..", "/"},
		{"a", "/a"}, {"a/b", "/a/b"}, {"/a/b", "/a/b"}, {"/a/b/", "/a/b"}, {"/a//b", "/a/b"}, {"/a/./b", "/a/b"},
		{"/./a/../b", "/b"}, {"/a/b/../../c", "/c"}, {"/...", "/..."}, {"/..a", "/..a"}, {"/a..", "/a.."},
		{"/ ", "/ "}, {"\t", "/\t"}, {"~/.ssh/id", "/~/.ssh/id"}, {"$HOME/x", "/$HOME/x"},
		{"/%2e%2e%2fout", "/%2e%2e%2fout"}, {`/..\..\out`, `/..\..\out`}, {"/．．/out", "/．．/out"},
		{"file:///etc/passwd", "/file:/etc/passwd"}, {"/é/日本", "/é/日本"},
		{"/" + strings.Repeat("a", 255), "/" + strings.Repeat("a", 255)},
		// not names
		{"", ""}, {"..", ""}, {"/..", ""}, {"/../", ""}, {"/a/../..", ""}, {"/a/..//../", ""}, {"../x", ""},
		{"/a\x00b", ""}, {"/a\xffb", ""}, {"/\xc0\xaf", ""},
		{"/" + strings.Repeat("a", 256), ""}, {strings.Repeat("/a", 2049), ""}, {strings.Repeat("/", 100_000), ""},
		{"/.golem-tmp-1", ""}, {"/a/.GOLEM-tmp-x/b", ""},
	}
	for _, test := range tests {
		got, why := sandbox.Clean(test.name)
		if got != test.want || (why == "") != (test.want != "") {
			t.Errorf("%.40q: %.40q %q, want %.40q", test.name, got, why, test.want)
		}
		if sandbox.ValidPath(test.name) != (test.want != "") {
			t.Errorf("ValidPath(%.40q) disagrees", test.name)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, seed := range []string{"/", "a/b", "/a/../b", "/../x", "/.golem-tmp-1", "/é//.", "name:x", "\x00", "/a\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, why := sandbox.Clean(name)
		if why != "" {
			if got != "" || len(why) > 100 {
				t.Fatalf("%q: %q and %q", name, got, why)
			}
			return
		}
		if got[0] != '/' || got != "/" && strings.HasSuffix(got, "/") || len(got) > 4096+1 || !utf8.ValidString(got) {
			t.Fatalf("%q: %q is not canonical", name, got)
		}
		for _, part := range strings.Split(got[1:], "/") {
			if part == ".." || part == "." || part == "" && got != "/" || len(part) > 255 || strings.Contains(part, "\x00") {
				t.Fatalf("%q: %q has the part %q", name, got, part)
			}
		}
		if again, _ := sandbox.Clean(got); again != got && len(got) <= 4096 {
			t.Fatalf("%q: %q, then %q", name, got, again)
		}
	})
}

// FuzzOperations: for any name, an operation returns a file of the tree or a well-formed
// error.
func FuzzOperations(f *testing.F) {
	for _, seed := range []string{"/a", "/d/x", "/loop", "/out", "m:x", "/d/../a", "/.git/x", "\x1b[2J", "/d/up/d/x"} {
		f.Add(seed, "/to")
	}
	f.Fuzz(func(t *testing.T, name, to string) {
		m := sandbox.NewMemory(map[string]sandbox.Object{
			"a": {Content: "A"}, "d/x": {Content: "X"}, "d/up": {Content: "..", Mode: fs.ModeSymlink},
			"loop": {Content: "loop", Mode: fs.ModeSymlink}, "out": {Content: "../../etc", Mode: fs.ModeSymlink},
			"pipe": {Mode: fs.ModeNamedPipe | 0o644}, ".git/config": {Content: "keep"},
		})
		s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
			{Target: "/", Backend: m, Access: sandbox.ReadWrite},
			{Target: "/m", Backend: sandbox.NewMemory(map[string]sandbox.Object{"x": {Content: "MX"}}), Access: sandbox.ReadOnly},
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		data, readErr := s.Read(name)
		_, writeErr := s.WriteNew(to, data)
		_, copyErr := s.Copy(name, to)
		_, listErr := s.List(name)
		_, findErr := s.Find(ctx, name, "*", sandbox.Budget{})
		_, statErr := s.Stat(name)
		_, resolveErr := s.Resolve(name)
		for _, err := range []error{readErr, writeErr, copyErr, listErr, findErr, statErr, resolveErr,
			s.MakeDir(to), s.Move(name, to), s.Delete(name), s.DeleteAll(ctx, to)} {
			if err != nil {
				checkShape(t, err)
			}
		}
		if m.Files()[".git/config"] != "keep" {
			t.Fatalf("%q to %q changed a protected file", name, to)
		}
	})
}

func checkShape(t *testing.T, err error) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) {
		t.Fatalf("%T: %v", err, err)
	}
	text := err.Error()
	if len(text) > 300 || e.Op == "" || e.Code == "" || e.Hint == "" {
		t.Fatalf("%d bytes: %s", len(text), text)
	}
	for _, r := range text {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r == 0x200b || r == utf8.RuneError {
			t.Fatalf("%q shows %U", text, r)
		}
	}
}

func FuzzVersion(f *testing.F) {
	f.Add("0123456789abcdef0123456789abcdef")
	f.Add("1-2-3")
	f.Fuzz(func(t *testing.T, word string) {
		v, err := sandbox.ParseVersion(word)
		if err == nil && !strings.EqualFold(v.String(), word) {
			t.Fatalf("%q became %q", word, v)
		}
		if err != nil && !v.IsZero() {
			t.Fatalf("%q is an error and %q", word, v)
		}
	})
}

// FuzzSearch: a search finds exactly the lines that the expression matches.
func FuzzSearch(f *testing.F) {
	f.Add("hel+o", "say hello\nno\r\nhello again", false)
	f.Add("a.b", "a.b\naxb\n", true)
	f.Add("(?i)x|y", "X\n\nY", false)
	f.Add("x\r", "ax\r\n", false)
	f.Fuzz(func(t *testing.T, pattern, text string, literal bool) {
		m := sandbox.NewMemory(map[string]sandbox.Object{"f": {Content: text}})
		s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: m, Access: sandbox.ReadOnly}}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Search(context.Background(), "/", sandbox.Query{Pattern: pattern, Literal: literal}, sandbox.Budget{})
		if err != nil {
			checkShape(t, err)
			return
		}
		if got.Binary > 0 {
			return
		}
		if want := linesThatMatch(pattern, text, literal); len(got.Found) != len(want) {
			t.Fatalf("%q in %q: %v, want lines %v", pattern, text, got.Found, want)
		} else {
			for i, m := range got.Found {
				if m.Line != want[i] {
					t.Fatalf("%q in %q: %v, want lines %v", pattern, text, got.Found, want)
				}
			}
		}
	})
}

// linesThatMatch is the definition of a search in one text.
func linesThatMatch(pattern, text string, literal bool) []int {
	if literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	re := regexp.MustCompile(pattern)
	var lines []int
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if text != "" && re.MatchString(strings.TrimSuffix(line, "\r")) {
			lines = append(lines, i+1)
		}
	}
	return lines
}

func TestNearest(t *testing.T) {
	words := []string{"readonly", "root", "mounts", "mode", "say"}
	for word, want := range map[string]string{
		"readOnly": "readonly", "mout": "mounts mode root", "roots": "root", "zones": "", "": "", "sya": "say", "asy": "say", "ysa": "",
		strings.Repeat("x", 200): "",
	} {
		if got := strings.Join(sandbox.Nearest(word, words), " "); got != want {
			t.Errorf("%.20q: %q, want %q", word, got, want)
		}
	}
}
