package clearance_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

func runGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
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

// A scene is a desk with a repository with a work tree and a bare one, with the same
// files.
type scene struct {
	*testing.T
	state, local, bare string
	desk               *clearance.Commits
}

func setUp(t *testing.T) *scene {
	t.Helper()
	dir := t.TempDir()
	s := &scene{T: t, state: filepath.Join(dir, "state"), local: filepath.Join(dir, "local"), bare: filepath.Join(dir, "bare.git")}
	if err := os.CopyFS(dir, os.DirFS(pattern(t))); err != nil {
		t.Fatal(err)
	}
	s.desk = openDesk(t, s.state, s.local, s.bare)
	return s
}

// sceneTemplate is the directory that scenes are copied from. The first scene creates it.
var sceneTemplate struct {
	sync.Once
	dir string
}

func pattern(t *testing.T) string {
	sceneTemplate.Do(func() {
		dir, err := os.MkdirTemp("", "pattern")
		if err != nil {
			t.Fatal(err)
		}
		sceneTemplate.dir = dir
		local := filepath.Join(dir, "local")
		for name, content := range map[string]string{"a.txt": "one\ntwo\n", "dir/b.txt": "b\n", "dir/c.txt": "c\n", "only/x": "x\n"} {
			writeFile(t, filepath.Join(local, name), content)
		}
		runGit(t, local, "init", "-q", "-b", "main", "--template=")
		runGit(t, local, "add", "-A")
		runGit(t, local, "commit", "-q", "-m", "first")
		runGit(t, dir, "clone", "-q", "--bare", "--template=", local, filepath.Join(dir, "bare.git"))
	})
	return sceneTemplate.dir
}

func TestMain(m *testing.M) {
	code := m.Run()
	if sceneTemplate.dir != "" {
		os.RemoveAll(sceneTemplate.dir)
	}
	os.Exit(code)
}

func openDesk(t testing.TB, dir, local, bare string) *clearance.Commits {
	t.Helper()
	folder, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	store, err := git.Open(t.Context(), filepath.Join(dir, "git"), "git")
	if err != nil {
		t.Fatal(err)
	}
	desk, err := clearance.Open(folder, store, []clearance.Target{
		{Name: "local", Type: "local", Path: sandbox.Host(local), Branch: "main"},
		{Name: "bare", Type: "bare", Path: sandbox.Host(bare), Branch: "main"},
	}, git.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	return desk
}

// newRequest returns a request for files, each "path=content", or "path" to delete it.
func newRequest(target string, files ...string) clearance.Request {
	r := clearance.Request{
		Target: target, Message: "a message", Time: time.Unix(1700000000, 0), Workers: []string{"main", "helper"}, Session: "s",
		Author: git.Person{Name: "W", Email: "w@example.org"}, Commit: git.Person{Name: "W", Email: "w@example.org"},
	}
	for _, f := range files {
		path, content, stays := strings.Cut(f, "=")
		file := git.File{Path: path, Mode: git.None}
		if stays {
			file = git.File{Path: path, Mode: git.Plain, Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(content)), nil
			}}
		}
		r.Files = append(r.Files, file)
	}
	return r
}

func (s *scene) stage(target string, files ...string) *clearance.StagedCommit {
	s.Helper()
	c, err := s.desk.Stage(s.Context(), newRequest(target, files...))
	if err != nil {
		s.Fatal(err)
	}
	return c
}

func (s *scene) checkRefused(err error, code sandbox.Code) {
	s.Helper()
	if !errors.Is(err, code) {
		s.Errorf("got %v, want %s", err, code)
	}
	if err != nil && strings.Contains(err.Error(), filepath.Dir(s.local)) {
		s.Errorf("the error has a host path: %v", err)
	}
}

// TestStageListDiffDiscard stages, lists, compares and discards a commit.
func TestStageListDiffDiscard(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	c := s.stage("bare", "a.txt=one\n\nthree", "new=n\n", "dir/b.txt", "dir/c.txt=c\n")
	var ops []string
	err := s.desk.Diff(t.Context(), c, func(d clearance.FileDiff) error {
		ops = append(ops, fmt.Sprintf("%s %s +%d -%d", d.Operation, d.Path, d.Added, d.Removed))
		return nil
	})
	if got, want := strings.Join(ops, ", "), "update a.txt +2 -1, delete dir/b.txt +0 -1, create new +1 -0"; err != nil || got != want {
		t.Errorf("diff: got %s, %v, want %s", got, err, want)
	}
	other := openDesk(t, s.state, s.local, s.bare) // as another process sees it
	list, err := other.List()
	if err != nil || len(list) != 1 || list[0].ID != c.ID || list[0].Workers[1] != "helper" || !list[0].CreatedAt.Equal(c.CreatedAt) {
		t.Errorf("list: got %+v, %v", list, err)
	}
	if again := s.stage("bare", "a.txt=one\n\nthree", "new=n\n", "dir/b.txt", "dir/c.txt=c\n"); again.ID != c.ID {
		t.Error("the same content has another id")
	}
	if elsewhere := s.stage("local", "a.txt=one\n\nthree", "new=n\n", "dir/b.txt", "dir/c.txt=c\n"); elsewhere.ID == c.ID {
		t.Error("another target has the same id")
	}
	if _, err := s.desk.Get(""); err == nil || !strings.Contains(err.Error(), c.ID[:12]) {
		t.Errorf("which of two: got %v, want their ids", err)
	}
	if got, err := other.Get(c.ID[:8]); err != nil || got.ID != c.ID {
		t.Errorf("get: got %v, %v", got, err)
	}
	if err := other.Discard(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.desk.Get(c.ID)
	s.checkRefused(err, sandbox.ErrNotFound)
	_, err = s.desk.Push(t.Context(), c.ID, "")
	s.checkRefused(err, sandbox.ErrNotFound)
}

// TestTextInPlaceOfBinary checks that a text which replaces binary data is shown as text.
func TestTextInPlaceOfBinary(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	c := s.stage("bare", "data=a\x00b")
	if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{"=echo text\n": "false +echo text\n", "=c\x00d": "true ", "": "true "} {
		err := s.desk.Diff(t.Context(), s.stage("bare", "data"+content), func(d clearance.FileDiff) error {
			_, text, _ := strings.Cut(d.Text, "@@\n")
			if got := fmt.Sprint(d.Binary, " ", text); got != want {
				t.Errorf("%q: got %q, want %q", content, got, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestLineBreaksInNames checks that a name with line breaks does not add lines to a diff.
func TestLineBreaksInNames(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	c := s.stage("bare", "x\n@@ -0,0 +1 @@\n+harmless=evil\n")
	err := s.desk.Diff(t.Context(), c, func(d clearance.FileDiff) error {
		if got := strings.Split(d.Text, "\n"); len(got) != 5 || got[3] != "+evil" || d.Added != 1 {
			t.Errorf("got %q", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStageRefuses checks the errors for requests that cannot be staged.
func TestStageRefuses(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	for _, test := range []struct {
		target string
		files  []string
		want   sandbox.Code
	}{
		{"bare", []string{"a.txt=one\ntwo\n"}, clearance.ErrNoChanges},
		{"bare", []string{"nowhere"}, sandbox.ErrNotFound},
		{"bare", []string{"a.txt=x", "nowhere"}, sandbox.ErrNotFound},
		{"bare", []string{"dir=a file"}, sandbox.ErrConflict},
		{"bare", []string{"dir"}, sandbox.ErrConflict},
		{"bare", []string{"../x=y"}, sandbox.ErrInvalid},
		{"elsewhere", []string{"a=b"}, sandbox.ErrNotFound},
		{"--mirror", []string{"a=b"}, sandbox.ErrNotFound},
	} {
		_, err := s.desk.Stage(t.Context(), newRequest(test.target, test.files...))
		s.checkRefused(err, test.want)
	}
	for _, branch := range []string{"+main:refs/heads/prod", ":prod", "-d", "HEAD", "a..b"} {
		r := newRequest("bare", "a=b")
		r.Branch = branch
		_, err := s.desk.Stage(t.Context(), r)
		s.checkRefused(err, sandbox.ErrInvalid)
	}
	if list, err := s.desk.List(); err != nil || len(list) != 0 {
		t.Errorf("refused, but stored: %v, %v", list, err)
	}
}

// TestPushToABareTarget pushes to a bare repository.
func TestPushToABareTarget(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	c := s.stage("bare", "a.txt=new\n")
	_, err := s.desk.Push(t.Context(), c.ID, "other")
	s.checkRefused(err, sandbox.ErrConflict)
	second := s.stage("bare", "a.txt=newer\n")
	for range 2 { // the second call returns the recorded result
		got, err := s.desk.Push(t.Context(), c.ID, "main")
		if err != nil || got.CommitSHA != string(c.Commit) {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	if got := runGit(t, s.bare, "rev-parse", "main"); got != string(c.Commit) {
		t.Errorf("main is %s, want %s", got, c.Commit)
	}
	if got := runGit(t, s.bare, "show", "main:a.txt"); got != "new" {
		t.Errorf("got %q", got)
	}
	_, err = s.desk.Push(t.Context(), second.ID, "")
	s.checkRefused(err, sandbox.ErrConflict)
	if list, _ := s.desk.List(); len(list) != 1 || list[0].ID != second.ID {
		t.Errorf("a refused commit still waits: got %v", list)
	}
	s.checkRefused(s.desk.Discard(t.Context(), c.ID), sandbox.ErrNotFound)
}

// TestPushesAtOnce pushes the same and other commits from many goroutines.
func TestPushesAtOnce(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	same := s.stage("bare", "a.txt=1\n")
	rival := s.stage("bare", "a.txt=2\n")
	var wait sync.WaitGroup
	var mu sync.Mutex
	made := map[string]int{}
	for i := range 6 {
		id := same.ID
		if i%2 == 1 {
			id = rival.ID
		}
		desk := openDesk(t, s.state, s.local, s.bare)
		wait.Go(func() {
			if got, err := desk.Push(t.Context(), id, ""); err == nil {
				mu.Lock()
				made[got.CommitSHA]++
				mu.Unlock()
			} else if !errors.Is(err, sandbox.ErrConflict) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if len(made) != 1 || made[runGit(t, s.bare, "rev-parse", "main")] != 3 {
		t.Errorf("pushed: got %v, want one of the two commits, reported three times", made)
	}
}

// TestPushToALocalTarget checks pushes to a work tree in many states.
func TestPushToALocalTarget(t *testing.T) {
	for _, test := range []struct {
		name   string
		before func(s *scene)
		files  []string
		want   sandbox.Code // "" for a push that succeeds
	}{
		{"clean", func(*scene) {}, []string{"a.txt=new\n", "dir/b.txt", "dir/c.txt", "deep/er/n=n", "only/x"}, ""},
		{"changed as staged", func(s *scene) { writeFile(s, s.local+"/a.txt", "new\n"); writeFile(s, s.local+"/n", "n") }, []string{"a.txt=new\n", "n=n"}, ""},
		{"added as staged", func(s *scene) { writeFile(s, s.local+"/n", "n"); runGit(s, s.local, "add", "n") }, []string{"n=n"}, ""},
		{"touched", func(s *scene) { writeFile(s, s.local+"/dir/c.txt", "c\n") }, []string{"a.txt=new\n"}, ""},
		{"a file not known to git", func(s *scene) { writeFile(s, s.local+"/mine", "m") }, []string{"a.txt=new\n"}, ""},
		{"a file becomes a folder", func(*scene) {}, []string{"a.txt", "a.txt/b/c=1", "a.txt/d=2"}, ""},
		{"a file becomes a folder that is in the way", func(s *scene) {
			os.Remove(s.local + "/a.txt")
			writeFile(s, s.local+"/a.txt/d", "mine")
		}, []string{"a.txt", "a.txt/d=2"}, clearance.ErrDirty},
		{"a file becomes a folder of a name too long", func(*scene) {}, []string{"a.txt", "a.txt/d=2", "a.txt/e/" + strings.Repeat("n", 300) + "=3"}, sandbox.ErrInternal},
		{"a folder becomes a file", func(*scene) {}, []string{"only/x", "only=file"}, ""},
		{"changed otherwise", func(s *scene) { writeFile(s, s.local+"/a.txt", "mine\n") }, []string{"a.txt=new\n"}, clearance.ErrDirty},
		{"changed elsewhere", func(s *scene) { writeFile(s, s.local+"/dir/c.txt", "mine\n") }, []string{"a.txt=new\n"}, clearance.ErrDirty},
		{"added elsewhere", func(s *scene) { writeFile(s, s.local+"/mine", "m"); runGit(s, s.local, "add", "mine") }, []string{"a.txt=new\n"}, clearance.ErrDirty},
		{"deleted elsewhere", func(s *scene) { os.Remove(s.local + "/only/x") }, []string{"a.txt=new\n"}, clearance.ErrDirty},
		{"in the way", func(s *scene) { writeFile(s, s.local+"/n", "mine") }, []string{"n=n"}, clearance.ErrDirty},
		{"hidden from git", func(s *scene) {
			runGit(s, s.local, "update-index", "--assume-unchanged", "a.txt")
			writeFile(s, s.local+"/a.txt", "mine\n")
		}, []string{"a.txt=new\n"}, clearance.ErrDirty},
		{"a link for a folder", func(s *scene) { os.Symlink(".git/hooks", s.local+"/n") }, []string{"n/pre-commit=n"}, clearance.ErrDirty},
		{"a folder with more in it", func(s *scene) { writeFile(s, s.local+"/only/mine", "m") }, []string{"only/x", "only=file"}, sandbox.ErrInternal},
		{"another branch", func(s *scene) { runGit(s, s.local, "checkout", "-q", "-b", "other") }, []string{"a.txt=new\n"}, sandbox.ErrConflict},
		{"no branch", func(s *scene) { runGit(s, s.local, "checkout", "-q", "--detach") }, []string{"a.txt=new\n"}, sandbox.ErrConflict},
		{"a git at work", func(s *scene) { writeFile(s, s.local+"/.git/index.lock", "") }, []string{"a.txt=new\n"}, sandbox.ErrConflict},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := setUp(t)
			c := s.stage("local", test.files...)
			test.before(s)
			was, tree := runGit(t, s.local, "rev-parse", "main"), describeTree(t, s.local)
			got, err := s.desk.Push(t.Context(), c.ID, "main")
			if test.want != "" {
				if test.want != sandbox.ErrInternal {
					s.checkRefused(err, test.want)
				} else if err == nil {
					t.Error("pushed")
				}
				if now := runGit(t, s.local, "rev-parse", "main"); now != was {
					t.Errorf("refused, but main is %s", now)
				}
				if now := describeTree(t, s.local); now != tree {
					t.Errorf("refused, but the tree is\n%swant\n%s", now, tree)
				}
				if list, _ := s.desk.List(); len(list) != 1 {
					t.Error("the refused commit no longer waits")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if now := runGit(t, s.local, "rev-parse", "main"); now != got.CommitSHA || now != string(c.Commit) {
				t.Errorf("main is %s, want %s", now, c.Commit)
			}
			if now := runGit(t, s.local, "status", "--porcelain", "-uno"); now != "" {
				t.Errorf("status: got\n%s", now)
			}
			runGit(t, s.local, "fsck", "--strict")
			if left, _ := filepath.Glob(s.local + "/.git/golem-*"); len(left) > 0 {
				t.Errorf("leftover files: %v", left)
			}
		})
	}
}

// TestLinkedWorktree checks that a work tree of git worktree is a target like any other,
// and that the main work tree does not change.
func TestLinkedWorktree(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	tree := filepath.Join(t.TempDir(), "tree")
	runGit(t, s.local, "worktree", "add", "-q", "-b", "other", tree)
	before := describeTree(t, s.local)
	s.desk = s.open(git.Credentials{}, clearance.Target{Name: "tree", Type: "local", Path: sandbox.Host(tree), Branch: "other"})
	c := s.stage("", "a.txt=new\n", "only/x", "n/m=n")
	if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
		t.Fatal(err)
	}
	if now := runGit(t, tree, "rev-parse", "HEAD"); now != string(c.Commit) {
		t.Errorf("the work tree is at %s, want %s", now, c.Commit)
	}
	for _, dir := range []string{tree, s.local} {
		if now := runGit(t, dir, "status", "--porcelain"); now != "" {
			t.Errorf("status: got\n%s", now)
		}
	}
	if now := describeTree(t, s.local); now != before {
		t.Errorf("the other work tree has changed:\n%s", now)
	}
	runGit(t, s.local, "fsck", "--strict")
	writeFile(t, tree+"/a.txt", "mine")
	_, err := s.desk.Push(t.Context(), s.stage("", "a.txt=newer\n").ID, "")
	s.checkRefused(err, clearance.ErrDirty)
}

// TestSymlinkBecomesDirectory checks that a commit may replace a symlink by a directory.
func TestSymlinkBecomesDirectory(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	os.Remove(s.local + "/a.txt")
	os.Symlink("dir", s.local+"/a.txt")
	runGit(s, s.local, "commit", "-q", "-a", "-m", "a link")
	c := s.stage("local", "a.txt", "a.txt/b.txt=1")
	if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
		t.Fatal(err)
	}
	if now := runGit(t, s.local, "status", "--porcelain"); now != "" {
		t.Errorf("status: got\n%s", now)
	}
	if data, _ := os.ReadFile(s.local + "/dir/b.txt"); string(data) != "b\n" {
		t.Errorf("the push wrote through the symlink: %q", data)
	}
}

// describeTree returns all files of a work tree and their contents as one text.
func describeTree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		name := strings.TrimPrefix(path, dir)
		if err != nil || name == "/.git" {
			return filepath.SkipDir
		}
		content := ""
		if info.Mode().IsRegular() {
			data, _ := os.ReadFile(path)
			content = string(data)
		}
		fmt.Fprintf(&b, "%s %v %q\n", name, info.Mode(), content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
