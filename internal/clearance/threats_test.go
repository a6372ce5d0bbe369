package clearance_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// TestThreats checks the threats to what is staged and pushed, by their IDs. The threats
// of trees that make git run commands, G01 to G18, are in internal/clearance/git. G47 is in
// TestKill and the tests after it.
func TestThreats(t *testing.T) {
	for _, test := range []struct {
		id, name string
		try      func(s *scene)
	}{
		{"G17", "a .git that leads elsewhere", func(s *scene) {
			elsewhere := setUp(s.T)
			was := runGit(s, elsewhere.local, "rev-parse", "main")
			for _, link := range []bool{true, false} {
				dir := s.TempDir()
				if link {
					os.Symlink(elsewhere.local+"/.git", dir+"/.git")
				} else {
					writeFile(s, dir+"/.git", "gitdir: "+elsewhere.local+"/.git\n")
				}
				s.desk = s.open(git.Credentials{}, clearance.Target{Name: "t", Type: "local", Path: sandbox.Host(dir), Branch: "main"})
				_, err := s.desk.Stage(s.Context(), newRequest("", "a.txt=x"))
				s.checkRefused(err, git.ErrUnsupported)
			}
			if now := runGit(s, elsewhere.local, "rev-parse", "main"); now != was {
				s.Error("the other repository has changed")
			}
		}},
		{"G21", "changes that git was told not to see", func(s *scene) {
			for _, hide := range []string{"--assume-unchanged", "--skip-worktree"} {
				runGit(s, s.local, "update-index", hide, "a.txt")
				writeFile(s, s.local+"/a.txt", "mine\n")
				_, err := s.desk.Push(s.Context(), s.stage("local", "a.txt="+hide).ID, "")
				s.checkRefused(err, clearance.ErrDirty)
			}
			s.desk = openDesk(s, filepath.Join(s.TempDir(), "state"), s.local, s.bare)
			runGit(s, s.local, "update-index", "--no-assume-unchanged", "a.txt")
			runGit(s, s.local, "update-index", "--no-skip-worktree", "a.txt")
			runGit(s, s.local, "checkout", "-q", "a.txt")
			writeFile(s, s.local+"/.git/info/exclude", "n\n")
			writeFile(s, s.local+"/n", "mine")
			runGit(s, s.local, "config", "status.showUntrackedFiles", "no")
			_, err := s.desk.Push(s.Context(), s.stage("local", "n=n").ID, "")
			s.checkRefused(err, clearance.ErrDirty)
		}},
		{"G22", "attributes that hide a text", func(s *scene) {
			writeFile(s, s.local+"/.gitattributes", "* -diff binary -text\n")
			writeFile(s, s.local+"/.git/info/attributes", "* binary\n")
			c := s.stage("local", "a.txt=payload\n", ".gitattributes=* -diff\n")
			seen := ""
			if err := s.desk.Diff(s.Context(), c, func(d clearance.FileDiff) error { seen += d.Text; return nil }); err != nil {
				s.Fatal(err)
			}
			if !strings.Contains(seen, "+payload") || !strings.Contains(seen, "+* -diff") {
				s.Errorf("the diff is:\n%s", seen)
			}
		}},
		{"G24", "submodules of a remote", func(s *scene) {
			s.desk = s.remote(s.serve(""), git.Credentials{})
			mark := filepath.Join(s.TempDir(), "mark")
			writeFile(s, s.local+"/.gitmodules", "[submodule \"../../x\"]\n\tpath = sub\r\n\turl = -u./touch "+mark+"\n\tupdate = !touch "+mark+"\n")
			runGit(s, s.local, "update-index", "--add", "--cacheinfo", "160000,"+runGit(s, s.local, "rev-parse", "main")+",sub")
			runGit(s, s.local, "add", ".gitmodules")
			runGit(s, s.local, "commit", "-q", "-m", "with a submodule")
			runGit(s, s.local, "push", "-q", s.bare, "main")
			_, err := s.desk.Pull(s.Context(), "", "", nil)
			s.checkRefused(err, git.ErrUnreachable) // git checks the objects that it receives
			if _, err := os.Lstat(mark); err == nil {
				s.Error("a command was run")
			}
		}},
		{"G25", "options in the place of names", func(s *scene) {
			option := "--upload-pack=touch " + s.TempDir() + "/x"
			for _, r := range []clearance.Request{
				{Branch: option}, {Branch: "--mirror"}, {Target: "--receive-pack=x"}, {Target: "ext::sh -c x"},
			} {
				with := newRequest("bare", "a=b")
				with.Branch = r.Branch
				if r.Target != "" {
					with.Target = r.Target
				}
				if c, err := s.desk.Stage(s.Context(), with); err == nil {
					s.Errorf("%q, %q: staged as %s", r.Branch, r.Target, c.ID)
				}
			}
			if _, err := s.desk.Pull(s.Context(), "bare", option, nil); err == nil {
				s.Error("pulled")
			}
			// In files, messages and authors they are only text.
			r := newRequest("bare", "--output=x=y", "-F=y")
			r.Message, r.Author = "-F/etc/passwd", git.Person{Name: "--exec=x", Email: "-o@x"}
			c, err := s.desk.Stage(s.Context(), r)
			if err != nil {
				s.Fatal(err)
			}
			if _, err := s.desk.Push(s.Context(), c.ID, "--force"); err == nil {
				s.Error("pushed with an option for a branch")
			}
			if _, err := s.desk.Push(s.Context(), c.ID, "main"); err != nil {
				s.Fatal(err)
			}
			if got := runGit(s, s.bare, "log", "-1", "--format=%an %B", "main"); !strings.HasPrefix(got, "--exec=x -F/etc/passwd") {
				s.Errorf("got %q", got)
			}
		}},
		{"G26", "references with tricks", func(s *scene) {
			c := s.stage("bare", "a.txt=x")
			refs := runGit(s, s.bare, "for-each-ref")
			for _, branch := range []string{"+main:refs/heads/prod", ":prod", "main:refs/*", "HEAD^{/x}", "a..b", "@{u}", "x y", "refs/heads/main", "main~1", "*", "-evil", "HEAD"} {
				if _, err := s.desk.Push(s.Context(), c.ID, branch); err == nil {
					s.Errorf("%q: pushed", branch)
				}
				r := newRequest("bare", "a.txt=x")
				if r.Branch = branch; branch == "refs/heads/main" {
					continue // a valid name of a branch below refs/heads
				}
				_, err := s.desk.Stage(s.Context(), r)
				s.checkRefused(err, sandbox.ErrInvalid)
			}
			if now := runGit(s, s.bare, "for-each-ref"); now != refs {
				s.Errorf("references: got\n%s", now)
			}
		}},
		{"G28", "files outside", func(s *scene) {
			os.Symlink("/etc", s.local+"/link")
			for _, path := range []string{"../x", "/etc/passwd", "a/../../x", ".git/config", ".GIT/hooks/x", "git~1/x", "dir/.git/x", ".", "a//b", "x\x00y"} {
				_, err := s.desk.Stage(s.Context(), newRequest("local", path+"=x"))
				s.checkRefused(err, sandbox.ErrInvalid)
			}
			_, err := s.desk.Push(s.Context(), s.stage("local", "link/golem-test=x").ID, "")
			s.checkRefused(err, clearance.ErrDirty)
		}},
		{"G29", "git's own variables in our environment", func(s *scene) {
			dir := s.TempDir()
			mark := filepath.Join(dir, "mark")
			run := "touch " + mark + ";false"
			for name, value := range map[string]string{
				"GIT_EXTERNAL_DIFF": run, "GIT_SSH_COMMAND": run, "GIT_SSH": run, "GIT_ASKPASS": run, "GIT_PAGER": run, "GIT_EDITOR": run,
				"GIT_TRACE": mark, "GIT_TRACE2": mark, "GIT_CURL_VERBOSE": "1", "GIT_DIR": dir, "GIT_WORK_TREE": dir, "GIT_INDEX_FILE": mark,
				"GIT_OBJECT_DIRECTORY": dir, "GIT_ALTERNATE_OBJECT_DIRECTORIES": dir, "GIT_NAMESPACE": "x", "GIT_EXEC_PATH": dir, "GIT_TEMPLATE_DIR": dir,
				"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": run, "GIT_CONFIG_PARAMETERS": "'core.fsmonitor=" + run + "'",
				"GIT_PROXY_COMMAND": run, "GIT_ALLOW_PROTOCOL": "ext", "GIT_DEFAULT_HASH": "sha256",
			} {
				s.Setenv(name, value)
			}
			s.desk = s.remote(s.serve(""), git.Inherit(os.Environ()))
			if err := s.desk.Refresh(s.Context(), "", ""); err != nil {
				s.Fatal(err)
			}
			c := s.stage("", "a.txt=x")
			if err := s.desk.Diff(s.Context(), c, func(clearance.FileDiff) error { return nil }); err != nil {
				s.Fatal(err)
			}
			if _, err := s.desk.Push(s.Context(), c.ID, ""); err != nil {
				s.Fatal(err)
			}
			if _, err := os.Lstat(mark); !errors.Is(err, os.ErrNotExist) {
				s.Error("a variable had an effect")
			}
		}},
		{"G31", "what was staged is changed", func(s *scene) {
			writeFile(s, s.local+"/f", "reviewed")
			c := s.stage("bare", "f=reviewed")
			writeFile(s, s.local+"/f", "rewritten")
			again, err := s.desk.Get(c.ID)
			if err != nil || again.Commit != c.Commit {
				s.Fatalf("got %v, %v", again, err)
			}
			kept := filepath.Join(s.state, "staged.blobs", c.ID)
			data, err := os.ReadFile(kept)
			if err != nil {
				s.Fatal(err)
			}
			writeFile(s, kept, strings.Replace(string(data), string(c.Commit), runGit(s, s.local, "rev-parse", "main"), 1))
			if _, err := s.desk.Push(s.Context(), c.ID, ""); err == nil {
				s.Error("another commit was pushed")
			}
			writeFile(s, kept, string(data))
			packs, _ := filepath.Glob(s.state + "/git/store.git/objects/pack/*.pack")
			os.Chmod(packs[0], 0o600)
			pack, _ := os.ReadFile(packs[0])
			broken := append([]byte(nil), pack...)
			broken[len(broken)/2] ^= 1
			writeFile(s, packs[0], string(broken))
			was := runGit(s, s.bare, "rev-parse", "main")
			if _, err := s.desk.Push(s.Context(), c.ID, ""); err == nil || runGit(s, s.bare, "rev-parse", "main") != was {
				s.Errorf("a damaged commit was pushed: %v", err)
			}
			writeFile(s, packs[0], string(pack))
			if _, err := s.desk.Push(s.Context(), c.ID, ""); err != nil {
				s.Fatal(err)
			}
			if got := runGit(s, s.bare, "show", "main:f"); got != "reviewed" {
				s.Errorf("pushed %q", got)
			}
		}},
		{"G48", "credentials where no remote is reached", func(s *scene) {
			bin, seen := s.TempDir(), filepath.Join(s.TempDir(), "seen")
			real, err := exec.LookPath("git")
			if err != nil {
				s.Fatal(err)
			}
			writeFile(s, bin+"/git", "#!/bin/sh\nenv >>"+seen+"\nexec "+real+" \"$@\"\n")
			os.Chmod(bin+"/git", 0o755)
			s.desk = s.openWith(bin+"/git", git.Inherit([]string{"GITHUB_TOKEN=canary", "SSH_AUTH_SOCK=canary", "HOME=/canary"}), clearance.Target{Name: "local", Type: "local", Path: sandbox.Host(s.local), Branch: "main"})
			if _, err := s.desk.Push(s.Context(), s.stage("", "a.txt=x").ID, ""); err != nil {
				s.Fatal(err)
			}
			if data, err := os.ReadFile(seen); err != nil || strings.Contains(string(data), "canary") {
				s.Errorf("a git had credentials: %v", err)
			}
		}},
		{"G49", "a token in an address", func(s *scene) {
			for _, address := range []string{"https://hunter2@example.org/x", "https://u:hunter2@example.org/x", "ssh://u:hunter2@example.org/x"} {
				s.desk = s.remote(address, git.Credentials{})
				_, err := s.desk.Stage(s.Context(), newRequest("", "a=b"))
				s.checkRefused(err, sandbox.ErrInvalid)
				if err != nil && strings.Contains(err.Error(), "hunter2") {
					s.Errorf("the error has the secret: %v", err)
				}
			}
		}},
		{"G53", "the user's git at work", func(s *scene) {
			c := s.stage("local", "a.txt=x")
			writeFile(s, s.local+"/.git/index.lock", "")
			_, err := s.desk.Push(s.Context(), c.ID, "")
			s.checkRefused(err, sandbox.ErrConflict)
			if data, err := os.ReadFile(s.local + "/.git/index.lock"); err != nil || len(data) > 0 {
				s.Errorf("the lock of the user's git was changed: %v", err)
			}
			os.Remove(s.local + "/.git/index.lock")
			runGit(s, s.local, "commit", "-q", "--allow-empty", "-m", "during the review")
			status := runGit(s, s.local, "status")
			_, err = s.desk.Push(s.Context(), c.ID, "")
			s.checkRefused(err, sandbox.ErrConflict)
			if now := runGit(s, s.local, "status"); now != status {
				s.Errorf("status: got\n%s", now)
			}
		}},
	} {
		t.Run(test.id+" "+test.name, func(t *testing.T) { test.try(setUp(t)) })
	}
}
