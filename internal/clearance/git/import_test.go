package git_test

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// copyForAgent returns a copy of a repository in which an agent works, and its changed git
// files.
func copyForAgent(t *testing.T, dir string, work func(agent string)) git.GitFiles {
	t.Helper()
	agent := filepath.Join(t.TempDir(), "agent")
	if err := os.CopyFS(agent, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	runGit(t, agent, "config", "commit.gpgsign", "false")
	work(agent)
	files := git.GitFiles{Read: func(name string, most int64) ([]byte, error) {
		info, err := os.Lstat(filepath.Join(agent, ".git", name))
		if err != nil || !info.Mode().IsRegular() || info.Size() > most {
			return nil, fs.ErrInvalid
		}
		return os.ReadFile(filepath.Join(agent, ".git", name))
	}}
	err := filepath.WalkDir(filepath.Join(agent, ".git"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(filepath.Join(agent, ".git"), name)
		now, _ := os.ReadFile(name)
		was, err := os.ReadFile(filepath.Join(dir, ".git", rel))
		if err != nil || string(was) != string(now) {
			files.Names = append(files.Names, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// commitRaw makes a commit of a tree object whose content is given, on main.
func commitRaw(t *testing.T, agent, entries string) {
	t.Helper()
	writeFile(t, filepath.Join(agent, "tree.raw"), entries)
	tree := runGit(t, agent, "hash-object", "-t", "tree", "-w", "--literally", "tree.raw")
	commit := runGit(t, agent, "commit-tree", tree, "-p", "HEAD", "-m", "hostile")
	runGit(t, agent, "update-ref", "refs/heads/main", commit)
}

// makeTreeEntry returns a tree entry.
func makeTreeEntry(t *testing.T, agent, mode, name, hash string) string {
	t.Helper()
	bytes := make([]byte, 20)
	for i := range bytes {
		fmt.Sscanf(hash[2*i:2*i+2], "%02x", &bytes[i])
	}
	return mode + " " + name + "\x00" + string(bytes)
}

// TestImport takes the commits of an agent, loose and packed, under the names that golem
// chose. Nothing else of the user's repository changes.
func TestImport(t *testing.T) {
	for _, packed := range []bool{false, true} {
		dir := newRepository(t)
		s := openStore(t)
		target, err := s.Target(t.Context(), dir, false)
		if err != nil {
			t.Fatal(err)
		}
		files := copyForAgent(t, dir, func(agent string) {
			for _, n := range []string{"one", "two"} {
				writeFile(t, filepath.Join(agent, n), n+"\n")
				runGit(t, agent, "add", "-A")
				runGit(t, agent, "commit", "-q", "-m", n)
			}
			runGit(t, agent, "branch", "other")
			runGit(t, agent, "config", "core.fsmonitor", "touch pwned")
			writeFile(t, filepath.Join(agent, ".git/hooks/post-checkout"), "#!/bin/sh\ntouch pwned\n")
			writeFile(t, filepath.Join(agent, ".git/info/grafts"), strings.Repeat("0", 40)+"\n")
			runGit(t, agent, "notes", "add", "-m", "a note")
			writeFile(t, filepath.Join(agent, ".git/objects/info/alternates"), "/etc\n")
			if packed {
				os.Remove(filepath.Join(agent, ".git/objects/info/alternates"))
				runGit(t, agent, "repack", "-a", "-d", "-q")
				runGit(t, agent, "pack-refs", "--all")
			}
		})
		im, err := target.Import(t.Context(), files, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer im.Close()
		if len(im.Commits) != 2 || len(im.Branches) != 2 || im.Branches[0].Name != "main" || im.Branches[1].Name != "other" {
			t.Fatalf("packed %v: got %+v", packed, im)
		}
		before := runGit(t, dir, "for-each-ref")
		if err := im.Take(t.Context(), []string{"k3xq2a/main", "k3xq2a/other"}, ""); err != nil {
			t.Fatal(err)
		}
		if got := runGit(t, dir, "rev-parse", "refs/golem/k3xq2a/main"); got != string(im.Commits[1]) {
			t.Errorf("got %s, want %s", got, im.Commits[1])
		}
		runGit(t, dir, "fsck", "--strict")
		if got := runGit(t, dir, "for-each-ref", "refs/heads", "refs/notes", "refs/tags"); got != before {
			t.Errorf("got the references\n%s\nwant\n%s", got, before)
		}
		if got := runGit(t, dir, "status", "--porcelain"); got != "" {
			t.Errorf("the work tree changed:\n%s", got)
		}
	}
}

// TestImportBranch checks that golem makes a branch and never replaces one.
func TestImportBranch(t *testing.T) {
	dir := newRepository(t)
	target, err := openStore(t).Target(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	im, err := target.Import(t.Context(), copyForAgent(t, dir, func(agent string) { runGit(t, agent, "commit", "-q", "--allow-empty", "-m", "x") }), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	if err := im.Take(t.Context(), []string{"s/main"}, "main"); sandbox.CodeOf(err) != sandbox.ErrExists {
		t.Errorf("an existing branch: got %v", err)
	}
	if _, err := tryGit(dir, "rev-parse", "--verify", "refs/golem/s/main"); err == nil {
		t.Error("a refused call left a reference")
	}
	if err := im.Take(t.Context(), []string{"s/main"}, "-x"); err == nil {
		t.Error("a bad name of a branch is accepted")
	}
	if err := im.Take(t.Context(), []string{"s/main"}, "from-agent"); err != nil {
		t.Fatal(err)
	}
	if runGit(t, dir, "rev-parse", "from-agent") != string(im.Commits[0]) || runGit(t, dir, "rev-parse", "refs/golem/s/main") != string(im.Commits[0]) {
		t.Error("the references are not at the commit")
	}
}

// TestImportRefuses checks hostile git directories: nothing of them reaches the user's
// repository.
func TestImportRefuses(t *testing.T) {
	blob := func(agent string) string {
		writeFile(t, filepath.Join(agent, "x"), "[submodule \"a\"]\n\tpath = a\n\turl = -oProxyCommand=x\n")
		return runGit(t, agent, "hash-object", "-w", "x")
	}
	for name, test := range map[string]struct {
		work func(agent string)
		want string // part of the error; "" if the import has no commits
	}{
		"dotgit": {func(agent string) { commitRaw(t, agent, makeTreeEntry(t, agent, "100644", ".GIT", blob(agent))) }, "git refuses"},
		"hook": {func(agent string) {
			writeFile(t, filepath.Join(agent, "in.raw"), makeTreeEntry(t, agent, "100755", "post-checkout", blob(agent)))
			hooks := runGit(t, agent, "hash-object", "-t", "tree", "-w", "--literally", "in.raw")
			commitRaw(t, agent, makeTreeEntry(t, agent, "40000", ".git", hooks))
		}, "git refuses"},
		"dotdot":            {func(agent string) { commitRaw(t, agent, makeTreeEntry(t, agent, "100644", "..", blob(agent))) }, "git refuses"},
		"slash":             {func(agent string) { commitRaw(t, agent, makeTreeEntry(t, agent, "100644", "a/b", blob(agent))) }, "git refuses"},
		"ntfs":              {func(agent string) { commitRaw(t, agent, makeTreeEntry(t, agent, "100644", "git~1", blob(agent))) }, "git refuses"},
		"gitmodules":        {func(agent string) { commitRaw(t, agent, makeTreeEntry(t, agent, "100644", ".gitmodules", blob(agent))) }, "git refuses"},
		"linked gitmodules": {func(agent string) { commitRaw(t, agent, makeTreeEntry(t, agent, "120000", ".gitmodules", blob(agent))) }, "git refuses"},
		"missing object": {func(agent string) {
			commitRaw(t, agent, makeTreeEntry(t, agent, "100644", "a", strings.Repeat("ab", 20)))
		}, "git refuses"},
		"wrong name": {func(agent string) { // the content of an object is not that of its name
			writeFile(t, filepath.Join(agent, "y"), "yes\n")
			runGit(t, agent, "add", "y")
			runGit(t, agent, "commit", "-q", "-m", "y")
			hash, other := runGit(t, agent, "rev-parse", "HEAD:y"), blob(agent)
			data, err := os.ReadFile(filepath.Join(agent, ".git/objects", other[:2], other[2:]))
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(agent, ".git/objects", hash[:2], hash[2:])
			os.Remove(to)
			writeFile(t, to, string(data))
		}, "git refuses"},
		"broken object": {func(agent string) {
			runGit(t, agent, "commit", "-q", "--allow-empty", "-m", "x")
			hash := runGit(t, agent, "rev-parse", "HEAD")
			to := filepath.Join(agent, ".git/objects", hash[:2], hash[2:])
			os.Remove(to)
			writeFile(t, to, "garbage")
		}, "git refuses"},
		"broken pack": {func(agent string) {
			runGit(t, agent, "commit", "-q", "--allow-empty", "-m", "x")
			writeFile(t, filepath.Join(agent, ".git/objects/pack/pack-"+strings.Repeat("ab", 20)+".pack"), "PACK garbage")
		}, "git refuses"},
		"symlinked object": {func(agent string) {
			runGit(t, agent, "commit", "-q", "--allow-empty", "-m", "x")
			hash := runGit(t, agent, "rev-parse", "HEAD")
			to := filepath.Join(agent, ".git/objects", hash[:2], hash[2:])
			os.Remove(to)
			if err := os.Symlink("/etc/passwd", to); err != nil {
				t.Fatal(err)
			}
		}, "cannot be read"},
		"large when uncompressed": {func(agent string) {
			hash, data := strings.Repeat("cd", 20), new(bytes.Buffer)
			w := zlib.NewWriter(data)
			fmt.Fprintf(w, "blob %d\x00", int64(1)<<40)
			w.Write(make([]byte, 1<<20))
			w.Close()
			writeFile(t, filepath.Join(agent, ".git/objects", hash[:2], hash[2:]), data.String())
			commitRaw(t, agent, makeTreeEntry(t, agent, "100644", "big", hash))
		}, "more than 512 MiB"},
		"strange references": {func(agent string) {
			writeFile(t, filepath.Join(agent, ".git/refs/heads/-x\x1b[31m"), strings.Repeat("ab", 20)+"\n")
		}, "git refuses"},
		"no commit":    {func(agent string) { writeFile(t, filepath.Join(agent, ".git/refs/heads/x"), "ref: refs/heads/main\n") }, ""},
		"not a hash":   {func(agent string) { writeFile(t, filepath.Join(agent, ".git/refs/heads/x"), "--upload-pack=x\n") }, ""},
		"only objects": {func(agent string) { blob(agent) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newRepository(t)
			target, err := openStore(t).Target(t.Context(), dir, false)
			if err != nil {
				t.Fatal(err)
			}
			before := runGit(t, dir, "count-objects", "-v")
			im, err := target.Import(t.Context(), copyForAgent(t, dir, test.work), "", nil)
			if im != nil {
				defer im.Close()
			}
			switch {
			case test.want == "" && (err != nil || len(im.Commits) > 0):
				t.Errorf("got %+v, %v", im, err)
			case test.want == "" && name != "only objects" && len(im.Skipped) != 1:
				t.Errorf("skipped: got %q, want one note", im.Skipped)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("the error is not plain text: %q", err)
			}
			if after := runGit(t, dir, "count-objects", "-v"); after != before {
				t.Errorf("objects reached the repository:\n%s", after)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".git/refs/golem/*")); len(left) > 0 {
				t.Errorf("references reached the repository: %q", left)
			}
		})
	}
}

// TestImportShallow checks that the commits of an agent in a shallow repository, and
// commits with submodules and attributes, can be taken.
func TestImportShallow(t *testing.T) {
	full := newRepository(t)
	runGit(t, full, "commit", "-q", "--allow-empty", "-m", "second")
	dir := filepath.Join(t.TempDir(), "shallow")
	runGit(t, t.TempDir(), "clone", "-q", "--depth=1", "file://"+full, dir)
	target, err := openStore(t).Target(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	im, err := target.Import(t.Context(), copyForAgent(t, dir, func(agent string) {
		writeFile(t, filepath.Join(agent, ".gitattributes"), "* filter=x\n")
		writeFile(t, filepath.Join(agent, ".gitmodules"), "[submodule \"a\"]\n\tpath = a\n\turl = https://example.org/a\n")
		runGit(t, agent, "update-index", "--add", "--cacheinfo", "160000,"+runGit(t, agent, "rev-parse", "HEAD")+",a")
		runGit(t, agent, "add", ".gitattributes", ".gitmodules")
		runGit(t, agent, "commit", "-q", "-m", "x")
	}), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	if err := im.Take(t.Context(), []string{"s/main"}, ""); err != nil || len(im.Commits) != 1 {
		t.Fatalf("got %v, %v", im.Commits, err)
	}
	if refs := strings.Split(runGit(t, dir, "for-each-ref", "--format=%(refname)", "refs/golem"), "\n"); !slices.Equal(refs, []string{"refs/golem/s/main"}) {
		t.Errorf("got %q", refs)
	}
}
