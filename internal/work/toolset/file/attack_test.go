package file

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// This file tests the rows of the threat catalogue about reading.

const canary = "CANARY-5b1e7"

// quoteJSON returns a text as JSON.
func quoteJSON(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// askAll calls every reader with a path and returns all results.
func askAll(t *testing.T, g *tool.Gate, path string) map[string]tool.Result {
	t.Helper()
	answers := map[string]tool.Result{}
	p := quoteJSON(path)
	for name, args := range map[string]string{
		"read_file":         `{"path":` + p + `}`,
		"read_files":        `{"paths":[` + p + `]}`,
		"list_files":        `{"path":` + p + `,"depth":9}`,
		"find_files":        `{"path":` + p + `,"pattern":"**"}`,
		"search_files":      `{"path":` + p + `,"pattern":"."}`,
		"file_info":         `{"path":` + p + `}`,
		"file_exists":       `{"path":` + p + `}`,
		"sandbox_read_text": `{"path":` + p + `}`,
		"sandbox_list":      `{"path":` + p + `}`,
	} {
		answers[name] = call(t, g, name, args)
	}
	return answers
}

// newOutsideGate returns a gate to a directory that has secrets in sibling directories.
func newOutsideGate(t *testing.T) (g *tool.Gate, dir string) {
	t.Helper()
	top := t.TempDir()
	hostFile(t, filepath.Join(top, "out", "secret"), canary)
	hostFile(t, filepath.Join(top, "proj-secret", "f"), canary)
	hostFile(t, filepath.Join(top, "home", ".ssh", "id"), canary)
	dir = filepath.Join(top, "proj")
	hostFile(t, filepath.Join(dir, "a"), "inside\n")
	return gateOf(t, sandbox.Mount{Target: "/", Source: sandbox.Host(dir), Access: sandbox.ReadWrite}), dir
}

// TestNothingOutside checks that no reader returns anything outside the sandbox: P01,
// P02, P03, P04, P05, P07, P15, P16, P18, P26, P43.
func TestNothingOutside(t *testing.T) {
	g, dir := newOutsideGate(t)
	top := filepath.Dir(dir)
	t.Setenv("HOME", filepath.Join(top, "home"))
	for name, target := range map[string]string{
		"file": top + "/out/secret", "rel": "../out/secret", "d": "../out", "chain": "chain2", "chain2": "d/secret",
		"r": "/proc/self/root", "cwd": "/proc/self/cwd", "up": "../proj", "loop": "loop", "self": ".",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{
		"/../out/secret", "/a/../../out/secret", "../out/secret", "/a/b/../../../out/secret", "/..", "/../", "/a/..//../", "/../proj-secret/f",
		top + "/out/secret", "/etc/passwd", "/proc/self", "/%2e%2e%2fout%2fsecret", "/..%c0%afout", `/..\out\secret`, "/..;/out", "/．．/out/secret",
		"/a\x00.md", "/out\x00", "~/.ssh/id", "$HOME/.ssh/id", "file:///etc/passwd", "%USERPROFILE%", "${HOME}",
		"/file", "/rel", "/d", "/d/secret", "/chain", "/r/etc/hostname", "/r", "/cwd", "/up/../out/secret", "/up/a", "/loop",
	} {
		for name, r := range askAll(t, g, path) {
			text := r.String()
			if strings.Contains(text, canary) || strings.Contains(fmt.Sprint(r.Data), canary) {
				t.Errorf("%s %q leaks: %.300s", name, path, text)
			}
			if host := strings.ReplaceAll(text, path, ""); strings.Contains(host, top) || strings.Contains(host, "root:") {
				t.Errorf("%s %q reveals a host path: %.300s", name, path, text)
			}
			if r.Err == nil && name != "read_files" && name != "file_exists" {
				t.Errorf("%s %q: done, it said %.300s", name, path, text)
			}
			if name == "file_exists" && r.Err == nil && r.Data.(existsData).Exists {
				t.Errorf("%q exists", path)
			}
			if len(text) > 600 {
				t.Errorf("%s %q: an answer of %d bytes", name, path, len(text))
			}
		}
	}
	for name, r := range askAll(t, g, "/") {
		if strings.Contains(r.String(), canary) {
			t.Errorf("%s / leaks", name)
		}
	}
	checkContains(t, callOK(t, g, "read_file", `{"path":"/self/self/a"}`), "/a: lines 1 to 1", "inside")
}

// TestDegenerateNames checks empty and degenerate names on both backends: P49, P06.
func TestDegenerateNames(t *testing.T) {
	files := map[string]string{"a": "one\n"}
	disk, _ := newGate(t, files)
	memory := memoryGate(t, files)
	for path, want := range map[string][3]sandbox.Code{ // read_file, list_files, file_exists
		"":                                 {sandbox.ErrInvalid, sandbox.ErrInvalid, sandbox.ErrInvalid},
		"/":                                {sandbox.ErrIsDir, "", ""},
		"//":                               {sandbox.ErrIsDir, "", ""},
		"/.":                               {sandbox.ErrIsDir, "", ""},
		"/./":                              {sandbox.ErrIsDir, "", ""},
		".":                                {sandbox.ErrIsDir, "", ""},
		"a":                                {"", sandbox.ErrNotDir, ""},
		"/a/":                              {"", sandbox.ErrNotDir, ""},
		"/ ":                               {sandbox.ErrNotFound, sandbox.ErrNotFound, ""},
		"\t":                               {sandbox.ErrNotFound, sandbox.ErrNotFound, ""},
		"/a/b":                             {sandbox.ErrNotDir, sandbox.ErrNotDir, ""},
		strings.Repeat("/", 4096):          {sandbox.ErrIsDir, "", ""},
		strings.Repeat("/", 100_000):       {sandbox.ErrInvalid, sandbox.ErrInvalid, sandbox.ErrInvalid},
		"/" + strings.Repeat("x", 5000):    {sandbox.ErrInvalid, sandbox.ErrInvalid, sandbox.ErrInvalid},
		"/" + strings.Repeat("x", 256):     {sandbox.ErrInvalid, sandbox.ErrInvalid, sandbox.ErrInvalid},
		strings.Repeat("/d", 2000):         {sandbox.ErrNotFound, sandbox.ErrNotFound, ""},
		strings.Repeat("/abcdefgh", 1<<17): {sandbox.ErrInvalid, sandbox.ErrInvalid, sandbox.ErrInvalid},
	} {
		for kind, g := range map[string]*tool.Gate{"disk": disk, "memory": memory} {
			for i, name := range []string{"read_file", "list_files", "file_exists"} {
				r := call(t, g, name, `{"path":`+quoteJSON(path)+`}`)
				got := sandbox.Code("")
				if r.Err != nil {
					got = r.Err.Code
				}
				if got != want[i] || len(r.String()) > 400 {
					t.Errorf("%s, %s %.40q: %.400v, want %q", kind, name, path, r, want[i])
				}
			}
		}
	}
}

// TestMountsAreShown checks that a list shows a mount whose directory does not exist yet.
// Files under a mount are hidden: P33, P34.
func TestMountsAreShown(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	hostFile(t, filepath.Join(dir, "a"), "needle\n")
	hostFile(t, filepath.Join(dir, "cache", "shadowed"), "needle "+canary)
	hostFile(t, filepath.Join(cache, "kept"), "needle\n")
	g := gateOf(t,
		sandbox.Mount{Target: "/", Source: sandbox.Host(dir), Access: sandbox.ReadWrite},
		sandbox.Mount{Target: "/cache", Source: sandbox.Host(cache), Access: sandbox.ReadOnly},
		sandbox.Mount{Target: "/deep/virt", Base: sandbox.Host(dir), Source: "later", Access: sandbox.ReadWrite})
	for _, c := range []struct{ tool, args, want string }{
		{"list_files", `{}`, "a\ncache/\ndeep/\n"},
		{"list_files", `{"depth":3}`, "a\ncache/\ncache/kept\ndeep/\ndeep/virt/\n"},
		{"find_files", `{"pattern":"**"}`, "/a\n/cache/kept\n"},
		{"search_files", `{"pattern":"needle"}`, "/a:1: needle\n/cache/kept:1: needle\n[2 files searched]\n"},
		{"file_exists", `{"path":"/deep/virt"}`, "/deep/virt: yes, a directory\n"},
		{"list_files", `{"path":"/deep/virt"}`, "/deep/virt: nothing here\n"},
		{"file_exists", `{"path":"/cache/shadowed"}`, "/cache/shadowed: no\n"},
	} {
		if got := callOK(t, g, c.tool, c.args); got != c.want {
			t.Errorf("%s %s:\ngot  %q\nwant %q", c.tool, c.args, got, c.want)
		}
	}
	for _, path := range []string{"/cache/shadowed", "/cache/../cache/shadowed", "cache:shadowed", "//cache/./shadowed"} {
		callRefused(t, g, "read_file", `{"path":"`+path+`"}`, sandbox.ErrNotFound)
	}
	checkContains(t, callOK(t, g, "file_info", `{"path":"/cache/kept"}`), "may not be written")
	checkContains(t, callOK(t, g, "file_info", `{"path":"/deep/virt"}`), "directory; ", "may be written")
}

// TestHostileNames lists and finds files whose names would move a terminal's cursor or
// imitate something else: P39.
func TestHostileNames(t *testing.T) {
	names := []string{"a\nb", "\x1b[2K", "--help", `x"y`, "<img onerror>", "x\u202egpj.exe", "zero\u200bwidth", " lead", "a -> b", "\u009b31m", strings.Repeat("long", 60), "tag\U000e0041", "\ufffd"}
	files := map[string]string{}
	for _, name := range names {
		files[name] = "needle\n"
	}
	g, _ := newGate(t, files)
	for _, c := range []struct{ tool, args string }{{"list_files", `{}`}, {"find_files", `{"pattern":"*"}`}, {"search_files", `{"pattern":"needle"}`}, {"sandbox_list", `{}`}} {
		text := callOK(t, g, c.tool, c.args)
		for _, r := range text {
			if !sandbox.Plain(r) && r != '\n' {
				t.Errorf("%s shows %U: %q", c.tool, r, text)
			}
		}
		got := map[string]bool{}
		for line := range strings.Lines(text) {
			line = strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), ":1: needle"), "/")
			if plain, err := strconv.Unquote(line); err == nil {
				line = plain
			}
			got[strings.TrimPrefix(line, "/")] = true
		}
		for _, name := range names {
			if !got[name] {
				t.Errorf("%s: %q cannot be read back from\n%s", c.tool, name, text)
			}
		}
	}
	for _, name := range names {
		path := `{"path":` + quoteJSON("/"+name) + `}`
		for _, one := range []string{"read_file", "file_info", "file_exists"} {
			header, _, _ := strings.Cut(callOK(t, g, one, path), "\n")
			for _, r := range header {
				if !sandbox.Plain(r) {
					t.Errorf("%s shows %U: %q", one, r, header)
				}
			}
		}
	}
}

// TestSuffixes: if only some suffixes are allowed, the error names them.
func TestSuffixes(t *testing.T) {
	m := sandbox.NewMemory(map[string]sandbox.Object{"a.md": {Content: "one\n"}, "b.env": {Content: canary}, "big.md": {Content: strings.Repeat("x", 200)}})
	g := gateOf(t, sandbox.Mount{Target: "/", Backend: m, Access: sandbox.ReadOnly, Suffixes: []string{".md", ".txt"}, MaxFileBytes: 100})
	checkContains(t, callOK(t, g, "read_file", `{"path":"a.md"}`), "one")
	checkContains(t, callRefused(t, g, "read_file", `{"path":"b.env"}`, sandbox.ErrSuffix), "allowed: .md, .txt")
	checkContains(t, callRefused(t, g, "sandbox_read_text", `{"path":"b.env"}`, sandbox.ErrSuffix), "allowed: .md, .txt")
	checkContains(t, callRefused(t, g, "read_file", `{"path":"big.md"}`, sandbox.ErrTooLarge), "200 bytes, at most 100")
	if text := callOK(t, g, "search_files", `{"pattern":"."}`); strings.Contains(text, canary) {
		t.Errorf("the search result reveals: %s", text)
	}
}
