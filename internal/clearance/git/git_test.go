package git_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

var somebody = git.Person{Name: "A Person", Email: "person@example.org"}

// newFile returns a file to stage.
func newFile(path, content string) git.File {
	return git.File{Path: path, Mode: git.Plain, Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

func deleteFile(path string) git.File { return git.File{Path: path, Mode: git.None} }

func newCommit(base git.Hash, files ...git.File) git.Commit {
	return git.Commit{Base: base, Message: "a message", Author: somebody, Committer: somebody, Time: time.Unix(1700000000, 0), Files: files}
}

func openStore(t testing.TB) *git.ObjectStore {
	t.Helper()
	s, err := git.Open(t.Context(), filepath.Join(t.TempDir(), "state"), "git")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runGit runs git as an ordinary user does, in a directory.
func runGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, args...)
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(out, "\n")
}

func tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org",
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// newRepository creates a repository with a work tree and some files.
func newRepository(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), `a "re:po" \ of mine`)
	for name, content := range map[string]string{"a.txt": "one\ntwo\n", "dir/b.txt": "b\n", "dir/c.txt": "c\n"} {
		writeFile(t, filepath.Join(dir, name), content)
	}
	runGit(t, dir, "init", "-q", "-b", "main")
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-q", "-m", "first")
	return dir
}

func writeFile(t testing.TB, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// stageCommit stages a commit, and returns its hash and its changes.
func stageCommit(t *testing.T, s *git.ObjectStore, target *git.Target, c git.Commit) (git.Hash, string) {
	t.Helper()
	objects := ""
	if target != nil {
		objects = target.Objects()
	}
	hash, err := s.Stage(t.Context(), objects, c)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := s.Changes(t.Context(), objects, c.Base, hash)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%s %s %q\n", c.OldMode, c.NewMode, c.Path)
	}
	return hash, b.String()
}

// openWithBase opens a repository as a target, and returns the commit of main.
func openWithBase(t testing.TB, s *git.ObjectStore, dir string) (*git.Target, git.Hash) {
	t.Helper()
	target, err := s.Target(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	base, err := target.Branch(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	return target, base
}

// TestStageMakesTheCommitOfGit checks that Stage writes the same tree as git does.
func TestStageMakesTheCommitOfGit(t *testing.T) {
	s, dir := openStore(t), newRepository(t)
	target, base := openWithBase(t, s, dir)
	run := newFile("run.sh", "#!/bin/sh\n")
	run.Mode = git.Executable
	link := newFile("link", "a.txt")
	link.Mode = git.Link
	hash, got := stageCommit(t, s, target, newCommit(base, newFile("a.txt", "one\nthree\n"), newFile("new/n.txt", "n"), deleteFile("dir/b.txt"), run, link))
	want := `100644 100644 "a.txt"
100644 000000 "dir/b.txt"
000000 120000 "link"
000000 100644 "new/n.txt"
000000 100755 "run.sh"
`
	if got != want {
		t.Errorf("changes: got\n%swant\n%s", got, want)
	}
	if out, err := tryGit(dir, "cat-file", "-e", string(hash)); err == nil {
		t.Errorf("the target has the commit before it was pushed: %s", out)
	}

	if err := target.Take(t.Context(), base, hash); err != nil {
		t.Fatal(err)
	}
	if err := target.Move(t.Context(), "new", "", hash); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "fsck", "--strict")
	tree := runGit(t, dir, "rev-parse", "new^{tree}")
	writeFile(t, filepath.Join(dir, "a.txt"), "one\nthree\n")
	writeFile(t, filepath.Join(dir, "new/n.txt"), "n")
	writeFile(t, filepath.Join(dir, "run.sh"), "#!/bin/sh\n")
	os.Chmod(filepath.Join(dir, "run.sh"), 0o755)
	os.Symlink("a.txt", filepath.Join(dir, "link"))
	os.Remove(filepath.Join(dir, "dir/b.txt"))
	runGit(t, dir, "add", "-A")
	if theirs := runGit(t, dir, "write-tree"); theirs != tree {
		t.Errorf("tree: got %s, want %s as git writes it", tree, theirs)
	}
}

// TestStageWithoutABase checks the first commit of a branch.
func TestStageWithoutABase(t *testing.T) {
	s := openStore(t)
	_, got := stageCommit(t, s, nil, newCommit("", newFile("a", "a"), newFile("b/c", "")))
	if want := "000000 100644 \"a\"\n000000 100644 \"b/c\"\n"; got != want {
		t.Errorf("changes: got\n%swant\n%s", got, want)
	}
}

// TestStageTwice checks that staging the same files twice gives the same commit, and leaves no
// reference in the store.
func TestStageTwice(t *testing.T) {
	s, dir := openStore(t), newRepository(t)
	target, base := openWithBase(t, s, dir)
	one, _ := stageCommit(t, s, target, newCommit(base, newFile("a.txt", "new")))
	two, _ := stageCommit(t, s, target, newCommit(base, newFile("a.txt", "new")))
	if one != two {
		t.Errorf("the same stage twice: got %s and %s", one, two)
	}
	if refs := runGit(t, git.RepositoryDir(s), "for-each-ref"); refs != "" {
		t.Errorf("references are left in the store:\n%s", refs)
	}
	if _, got := stageCommit(t, s, target, newCommit(base, newFile("a.txt", "one\ntwo\n"), deleteFile("nowhere"))); got != "" {
		t.Errorf("nothing changed: got %s", got)
	}
}

// TestNamesOfEveryByte checks that a name keeps every byte that git allows, and that
// fast-import reads no name as a command or an option.
func TestNamesOfEveryByte(t *testing.T) {
	s, dir := openStore(t), newRepository(t)
	target, base := openWithBase(t, s, dir)
	var files []git.File
	want := map[string]bool{}
	for c := 1; c < 256; c++ {
		if c == '/' {
			continue
		}
		for _, name := range []string{"x" + string([]byte{byte(c)}) + "y", string([]byte{byte(c)}) + "z"} {
			files, want[name] = append(files, newFile(name, name)), true
		}
	}
	for _, name := range []string{"--output=x", "-", "\"quoted\"", "a\nD a.txt", "D a.txt", "from main", ":1", " ", "x ", "*", ":(top)x", "é/ü/日本", "\xff\xfe/\x80"} {
		files, want[name] = append(files, newFile(name, name)), true
	}
	hash, err := s.Stage(t.Context(), target.Objects(), newCommit(base, files...))
	if err != nil {
		t.Fatal(err)
	}
	changes, err := s.Changes(t.Context(), target.Objects(), base, hash)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Reader(t.Context(), target.Objects())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, c := range changes {
		content, _, err := r.Blob(c.New, 100)
		if !want[c.Path] || err != nil || string(content) != c.Path {
			t.Errorf("%q: got content %q, %v", c.Path, content, err)
		}
		delete(want, c.Path)
	}
	for name := range want {
		t.Errorf("%q was not staged", name)
	}
}

// TestMessagesAreTexts checks that fast-import reads no message as a command.
func TestMessagesAreTexts(t *testing.T) {
	s := openStore(t)
	for _, message := range []string{"-F/etc/passwd", "a\n\ndone\nD a\n", "\x1b[31mred", "data 5\n", "#", "é", "\xff"} {
		c := newCommit("", newFile("a", "a"))
		c.Message = message
		hash, err := s.Stage(t.Context(), "", c)
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(runGit(t, git.RepositoryDir(s), "--git-dir="+git.RepositoryDir(s), "cat-file", "commit", string(hash)), "\n\n")
		if got != strings.TrimRight(message, "\n") {
			t.Errorf("message: got %q, want %q", got, message)
		}
	}
}

// TestStageRefuses checks the errors for commits that cannot be staged.
func TestStageRefuses(t *testing.T) {
	s, dir := openStore(t), newRepository(t)
	target, base := openWithBase(t, s, dir)
	link := newFile(".gitmodules", "/etc/passwd")
	link.Mode = git.Link
	submodule := newFile("sub", string(base))
	submodule.Mode = git.Submodule
	longer, shorter := newFile("a", "ab"), newFile("a", "ab")
	longer.Size, shorter.Size = 3, 1
	broken := newFile("a", "a")
	broken.Open = func() (io.ReadCloser, error) { return nil, errors.New("broken") }
	for _, test := range []struct {
		name  string
		files []git.File
		want  string
	}{
		{"none", nil, "name the files"},
		{"twice", []git.File{newFile("a", "a"), deleteFile("a")}, "named twice"},
		{"a file in a file", []git.File{newFile("a", "a"), newFile("a/b", "b")}, "one of the two"},
		{"a submodule", []git.File{submodule}, "files and symlinks"},
		{"a link for git", []git.File{link}, "no symlink of that name"},
		{"above", []git.File{newFile("../x", "")}, "goes through .."},
		{"git's own", []git.File{newFile("a/.GIT/hooks/x", "")}, "git keeps"},
		{"grown", []git.File{shorter}, "changed while it was read"},
		{"shrunk", []git.File{longer}, "changed while it was read"},
		{"unreadable", []git.File{broken}, "broken"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := s.Stage(t.Context(), target.Objects(), newCommit(base, test.files...))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	for _, c := range []git.Commit{
		{Message: "", Author: somebody, Committer: somebody}, {Message: "a\x00b", Author: somebody, Committer: somebody},
		{Message: "m", Author: git.Person{Name: "a\nb"}, Committer: somebody}, {Message: "m", Author: somebody},
		{Message: "m", Author: somebody, Committer: somebody, Base: "--help"},
	} {
		c.Files = []git.File{newFile("a", "a")}
		if hash, err := s.Stage(t.Context(), "", c); err == nil {
			t.Errorf("%+v: got %s, want a refusal", c, hash)
		}
	}
}

// TestPrunedBase checks the error for a base that the user's git has
// deleted, when staging and when showing.
func TestPrunedBase(t *testing.T) {
	s, dir := openStore(t), newRepository(t)
	target, _ := openWithBase(t, s, dir)
	writeFile(t, filepath.Join(dir, "a.txt"), "soon gone\n")
	runGit(t, dir, "commit", "-q", "-a", "-m", "second")
	_, base := openWithBase(t, s, dir)
	hash, _ := stageCommit(t, s, target, newCommit(base, newFile("dir/b.txt", "new")))
	runGit(t, dir, "reset", "-q", "--hard", "HEAD^")
	runGit(t, dir, "reflog", "expire", "--expire=now", "--all")
	runGit(t, dir, "gc", "-q", "--prune=now")

	_, err := s.Stage(t.Context(), target.Objects(), newCommit(base, newFile("dir/b.txt", "newer")))
	if !errors.Is(err, git.ErrStageAgain) {
		t.Errorf("stage: got %v, want %v", err, git.ErrStageAgain)
	}
	if _, err = s.Changes(t.Context(), target.Objects(), base, hash); !errors.Is(err, git.ErrStageAgain) {
		t.Errorf("changes: got %v, want %v", err, git.ErrStageAgain)
	}
	if err = target.Take(t.Context(), base, hash); !errors.Is(err, git.ErrStageAgain) {
		t.Errorf("take: got %v, want %v", err, git.ErrStageAgain)
	}
	if err != nil && strings.Contains(err.Error(), filepath.Dir(dir)) {
		t.Errorf("the error names a directory of this machine: %v", err)
	}
}

// TestMoveOfMovedBranch checks that Move changes only a branch that is still where it was.
func TestMoveOfMovedBranch(t *testing.T) {
	s, dir := openStore(t), newRepository(t)
	target, base := openWithBase(t, s, dir)
	hash, _ := stageCommit(t, s, target, newCommit(base, newFile("a.txt", "ours")))
	if err := target.Take(t.Context(), base, hash); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "commit", "-q", "--allow-empty", "-m", "theirs")
	runGit(t, dir, "checkout", "-q", "--detach")
	theirs := runGit(t, dir, "rev-parse", "main")
	if err := target.Move(t.Context(), "main", base, hash); err == nil || !strings.Contains(err.Error(), "conflict") {
		t.Errorf("got %v, want a conflict", err)
	}
	if err := target.Move(t.Context(), "main", "", hash); err == nil || !strings.Contains(err.Error(), "conflict") {
		t.Errorf("a branch that should be new: got %v, want a conflict", err)
	}
	if now := runGit(t, dir, "rev-parse", "main"); now != theirs {
		t.Errorf("the branch is at %s, want %s", now, theirs)
	}
	if err := target.Move(t.Context(), "drafts/new", "", hash); err != nil {
		t.Fatal(err)
	}
	if now := runGit(t, dir, "rev-parse", "drafts/new"); now != string(hash) {
		t.Errorf("the new branch is at %s, want %s", now, hash)
	}
}

// TestReaderLimit checks that a Reader returns at most the bytes that the caller asks for.
func TestReaderLimit(t *testing.T) {
	s := openStore(t)
	large := strings.Repeat("0123456789abcdef", 1<<16)
	hash, err := s.Stage(t.Context(), "", newCommit("", newFile("large", large), newFile("small", "small")))
	if err != nil {
		t.Fatal(err)
	}
	changes, err := s.Changes(t.Context(), "", "", hash)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 2 {
		content, size, err := r.Blob(changes[0].New, 10)
		if err != nil || size != int64(len(large)) || !bytes.Equal(content, []byte(large[:10])) {
			t.Errorf("large: got %q of %d, %v", content, size, err)
		}
		if content, _, err = r.Blob(changes[1].New, 10); err != nil || string(content) != "small" {
			t.Errorf("small: got %q, %v", content, err)
		}
		if _, _, err = r.Blob(hash, 10); err == nil {
			t.Error("a commit was read as a file")
		}
		if _, _, err = r.Blob("1234567890123456789012345678901234567890", 10); !errors.Is(err, git.ErrStageAgain) {
			t.Errorf("a missing object: got %v", err)
		}
		if _, _, err = r.Blob("HEAD", 10); err == nil {
			t.Error("a name was read as an object")
		}
	}
}

// TestEndlessTree checks that a tree of a few objects that contain each other many
// times is refused.
func TestEndlessTree(t *testing.T) {
	dir := newRepository(t)
	tree := runGit(t, dir, "rev-parse", "HEAD^{tree}")
	for range 9 {
		var entries strings.Builder
		for i := range 10 {
			fmt.Fprintf(&entries, "040000 tree %s\t%d%s\n", tree, i, strings.Repeat("d", 200))
		}
		mktree := exec.Command("git", "-C", dir, "mktree")
		mktree.Stdin = strings.NewReader(entries.String())
		out, err := mktree.Output()
		if err != nil {
			t.Fatal(err)
		}
		tree = strings.TrimSpace(string(out))
	}
	bomb := git.Hash(runGit(t, dir, "commit-tree", "-m", "many", tree))
	s := openStore(t)
	target, err := s.Target(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := s.Names(t.Context(), target.Objects(), bomb, ""); !errors.Is(err, sandbox.ErrLimit) {
		t.Errorf("names: got %d, %v, want a limit", len(list), err)
	}
	if list, err := s.Entries(t.Context(), target.Objects(), bomb, nil, 1000); !errors.Is(err, sandbox.ErrLimit) {
		t.Errorf("entries: got %d, %v, want a limit", len(list), err)
	}
}

// TestCanceledStageLeavesAUsableStore cancels a stage, and then stages again.
func TestCanceledStageLeavesAUsableStore(t *testing.T) {
	s := openStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	f := newFile("a", "a")
	f.Open = func() (io.ReadCloser, error) { cancel(); return io.NopCloser(strings.NewReader("a")), nil }
	if _, err := s.Stage(ctx, "", newCommit("", f, newFile("b", "b"))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if _, got := stageCommit(t, s, nil, newCommit("", newFile("a", "a"))); got == "" {
		t.Error("nothing was staged")
	}
}

// runGitWithInput runs git like tryPlain, with an input.
func runGitWithInput(dir, input string, args ...string) {
	in, err := os.Open(input)
	if err != nil {
		return
	}
	defer in.Close()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, in
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0"}
	cmd.Run()
}

// newDiskFile returns a file of the disk to stage.
func newDiskFile(t testing.TB, dir, name string) git.File {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return git.File{Path: name, Mode: git.Plain, Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(filepath.Join(dir, name)) }}
}
