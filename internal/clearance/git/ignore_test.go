package git_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
)

// ignoreFinder returns a finder for a user with a home directory.
func ignoreFinder(t testing.TB, home string) git.IgnoreFinder {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	return git.IgnoreFinder{Program: program, Environ: []string{"HOME=" + home}}
}

// TestIgnoredAsGit compares with what git says in a work tree that has the files.
func TestIgnoredAsGit(t *testing.T) {
	home, top := t.TempDir(), t.TempDir()
	runGit(t, top, "init", "-q")
	for name, text := range map[string]string{
		home + "/.gitconfig":        "[core]\n\texcludesFile = ~/mine\n[include]\n\tpath = more\n",
		home + "/mine":              "*.swp\n!keep.swp\n",
		top + "/.git/info/exclude":  "/private/\n!b.swp\n",
		top + "/.gitignore":         "node_modules/\n/build\n*.log\n!important.log\n\\#hash\n\\!bang\ntrail\\ \n**/deep/**/x\n[ab].o\n/dir/*\n!/dir/keep\nWüst*\n*.tmp/\n",
		top + "/sub/.gitignore":     "*.txt\n!/a.txt\n/only\n",
		top + "/sub/sub/.gitignore": "!*.txt\n!node_modules/\n",
		top + "/dir/.gitignore":     "!other\n",
		top + "/a\nb/.gitignore":    "new\n",
	} {
		writeFile(t, name, text)
	}
	names := []string{
		"node_modules/a/index.js", "node_modules/", "x/node_modules/y/z.js", "sub/sub/node_modules/q", "build", "x/build", "build2", "e.log", "important.log", "x/important.log",
		"#hash", "!bang", "trail ", "trail", "deep/x", "a/deep/b/c/x", "a/deep/y", "a.o", "c.o", "dir/keep", "dir/other", "dir/none", "Wüste", "WÜSTE", "f.tmp/", "f.tmp/x", "f.tmp2",
		"sub/a.txt", "sub/b.txt", "sub/sub/a.txt", "sub/sub/b.txt", "sub/only", "sub/sub/only", "x.swp", "keep.swp", "b.swp", "private/x", "x/private/y", "a\nb/new", "a\nb/old", "plain", "\xff\xfe.log", "a/b/c/d/e/f/g.log",
		`back\slash.log`, "*.log", ".gitignore", "tracked.log", "node_modules/tracked.js", "node_modules/tracked/x.js",
	}
	tracked := []string{"tracked.log", "node_modules/tracked.js"}
	for _, name := range tracked {
		writeFile(t, filepath.Join(top, name), "")
		runGit(t, top, "add", "-f", name)
		if err := os.Remove(filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	got, ok, err := ignoreFinder(t, home).Ignored(t.Context(), top, names)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for _, name := range names { // now they are there
		if strings.HasSuffix(name, "/") {
			os.MkdirAll(filepath.Join(top, name), 0o700)
		} else if _, err := os.Lstat(filepath.Join(top, name)); err != nil {
			writeFile(t, filepath.Join(top, name), "")
		}
	}
	count := 0
	for _, name := range names {
		cmd := exec.Command("git", "check-ignore", "-q", "--no-index", "--", "./"+strings.TrimSuffix(name, "/"))
		cmd.Dir, cmd.Env = top, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
		err := cmd.Run()
		fold, is := got[name]
		if is != (err == nil && !slices.Contains(tracked, name)) {
			t.Errorf("%q: got %v in %q, but git says %v", name, is, fold, err)
		}
		if is {
			count++
		}
	}
	if count < 20 {
		t.Errorf("only %d names are ignored", count)
	}
	for name, want := range map[string]string{"node_modules/a/index.js": "node_modules/", "node_modules/": "node_modules/", "x/node_modules/y/z.js": "x/node_modules/", "e.log": "e.log", "f.tmp/x": "f.tmp/"} {
		if got[name] != want {
			t.Errorf("%s is in %q, want %q", name, got[name], want)
		}
	}
}

// TestIgnoredPlaces looks from other directories than the top of a repository.
func TestIgnoredPlaces(t *testing.T) {
	top, home := t.TempDir(), t.TempDir()
	find := ignoreFinder(t, home)
	check := func(dir string, names []string, isOK bool, want ...string) {
		t.Helper()
		got, ok, err := find.Ignored(t.Context(), filepath.Join(top, dir), names)
		var list []string
		for name, fold := range got {
			list = append(list, name+" in "+fold)
		}
		slices.Sort(list)
		if err != nil || ok != isOK || !slices.Equal(list, want) {
			t.Errorf("%s: got %q, %v, %v; want %q", dir, list, ok, err, want)
		}
	}
	check("", []string{"node_modules/x"}, false)
	runGit(t, top, "init", "-q")
	writeFile(t, top+"/.gitignore", "node_modules/\nscratch/\n*.log\n")
	writeFile(t, top+"/app/.gitignore", "out/\n")
	check("app", []string{"node_modules/x", "out/y", "a.log", "main.go"}, true, "a.log in a.log", "node_modules/x in node_modules/", "out/y in out/")
	if err := os.MkdirAll(top+"/scratch/work", 0o700); err != nil {
		t.Fatal(err)
	}
	check("scratch/work", []string{"main.go", "x/main.go"}, false) // all of it is ignored
	// A repository in the directory has its own rules.
	runGit(t, top, "init", "-q", "app/inner")
	writeFile(t, top+"/app/inner/.gitignore", "*.bin\n")
	check("app", []string{"inner/a.log", "inner/a.bin", "inner/deep/b.bin", "b.log"}, true, "b.log in b.log", "inner/a.bin in inner/a.bin", "inner/deep/b.bin in inner/deep/b.bin")
	// One that golem cannot read has none.
	writeFile(t, top+"/app/odd/.git", "gitdir: /nowhere\n")
	check("app", []string{"odd/a.log", "b.log"}, true, "b.log in b.log")
	// A symlink has no rules, and is no directory.
	if err := os.Symlink("app", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	check("", []string{"link/out/x", "app/out/x"}, true, "app/out/x in app/out/")
	// Linked work trees share the rules of the repository.
	writeFile(t, top+"/.git/info/exclude", "secret\n")
	runGit(t, top, "commit", "-q", "--allow-empty", "-m", "x")
	other := filepath.Join(t.TempDir(), "other")
	runGit(t, top, "worktree", "add", "-q", other)
	if got, ok, err := find.Ignored(t.Context(), other, []string{"secret", "a.log"}); err != nil || !ok || len(got) != 1 || got["secret"] != "secret" {
		t.Errorf("a linked work tree: got %v, %v, %v", got, ok, err)
	}
}

// TestIgnoredRunsNothing checks that settings of a repository start no program, and that a damaged
// index is an error.
func TestIgnoredRunsNothing(t *testing.T) {
	top, home := t.TempDir(), t.TempDir()
	mark := filepath.Join(home, "mark")
	runGit(t, top, "init", "-q")
	writeFile(t, top+"/.gitignore", "*.log\n")
	writeFile(t, top+"/.git/config", "[core]\n\tfsmonitor = touch "+mark+"\n\tpager = touch "+mark+"\n\texcludesFile = /nowhere\n[alias]\n\tcheck-ignore = !touch "+mark+"\n")
	writeFile(t, top+"/.gitattributes", "* filter=x diff=x\n")
	find := ignoreFinder(t, home)
	if got, ok, err := find.Ignored(t.Context(), top, []string{"a.log", "a.go"}); err != nil || !ok || len(got) != 1 {
		t.Errorf("got %v, %v, %v", got, ok, err)
	}
	if _, err := os.Lstat(mark); err == nil {
		t.Error("a program of the repository ran")
	}
	writeFile(t, top+"/.git/index", "DIRC nonsense")
	if got, ok, err := find.Ignored(t.Context(), top, []string{"a.log"}); err == nil || ok || len(got) > 0 {
		t.Errorf("a damaged index: got %v, %v, %v", got, ok, err)
	}
}

func BenchmarkIgnored(b *testing.B) {
	top := b.TempDir()
	runGit(b, top, "init", "-q")
	writeFile(b, top+"/.gitignore", "node_modules/\n")
	var names []string
	for i := range 50_000 {
		names = append(names, fmt.Sprintf("node_modules/p%d/lib/f%d.js", i%1000, i))
	}
	find := ignoreFinder(b, b.TempDir())
	for b.Loop() {
		if got, _, err := find.Ignored(b.Context(), top, names); err != nil || len(got) != len(names) {
			b.Fatal(len(got), err)
		}
	}
}
