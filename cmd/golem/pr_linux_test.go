package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const pullToken = "canary-token-0815"

// A pullServer behaves like a GitHub Enterprise with one repository, o/r: git over HTTP, and the
// endpoints of pull requests. It refuses a second open pull request for a branch, as GitHub does.
type pullServer struct {
	*httptest.Server
	t    *testing.T
	bare string
	git  http.Handler

	mu     sync.Mutex
	pulls  []openedPull
	pushes int
	before func(r *http.Request) // may be nil
	after  func(r *http.Request) // before the answer to a new pull request
}

type openedPull struct {
	Title, Body, Head, Base string
	Draft                   bool
}

func newPullServer(t *testing.T) *pullServer {
	t.Helper()
	root := filepath.Join(t.TempDir(), "o")
	s := &pullServer{t: t, bare: filepath.Join(root, "r.git")}
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	s.git = &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Stderr: os.Stderr, Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(root), "GIT_HTTP_EXPORT_ALL=1",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=http.receivepack", "GIT_CONFIG_VALUE_1=true"}}
	if out, err := exec.Command("git", "init", "-q", "--bare", "-b", "main", s.bare).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *pullServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/o/r.git/") {
		if _, got, _ := r.BasicAuth(); got != pullToken {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			s.mu.Lock()
			s.pushes++
			s.mu.Unlock()
		}
		s.git.ServeHTTP(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := func(code int, document any) {
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(document)
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/api/v3/repos/o/r")
	switch {
	case !ok:
		answer(404, map[string]string{"message": "Not Found"})
	case r.Header.Get("Authorization") != "Bearer "+pullToken:
		answer(401, map[string]string{"message": "Bad credentials"})
	case path == "" && r.Method == http.MethodGet:
		answer(200, map[string]string{"default_branch": "main"})
	case path == "/pulls" && r.Method == http.MethodGet:
		list := []any{}
		for i, p := range s.pulls {
			if "o:"+p.Head == r.FormValue("head") {
				list = append(list, s.describe(i))
			}
		}
		answer(200, list)
	case path == "/pulls" && r.Method == http.MethodPost:
		if s.before != nil {
			s.before(r)
		}
		var p openedPull
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			answer(400, map[string]string{"message": "Problems parsing JSON"})
			return
		}
		for _, other := range s.pulls {
			if other.Head == p.Head {
				answer(422, map[string]any{"message": "Validation Failed", "errors": []any{map[string]string{"message": "A pull request already exists for o:" + p.Head + "."}}})
				return
			}
		}
		s.pulls = append(s.pulls, p)
		if s.after != nil {
			s.after(r)
		}
		answer(201, s.describe(len(s.pulls)-1))
	default:
		answer(404, map[string]string{"message": "Not Found"})
	}
}

func (s *pullServer) describe(i int) any {
	p := s.pulls[i]
	return map[string]any{"number": i + 1, "state": "open", "html_url": "https://evil.example/\x1b[31m", "head": map[string]string{"ref": p.Head, "sha": s.branch(p.Head)}}
}

// branch returns the commit of a branch, "" if there is none.
func (s *pullServer) branch(name string) string {
	cmd := exec.Command("git", "rev-parse", "-q", "--verify", "refs/heads/"+name)
	cmd.Dir = s.bare
	out, _ := cmd.Output()
	return strings.TrimSpace(string(out))
}

// counts returns how many pushes and pull requests there were.
func (s *pullServer) counts() (pushes, pulls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pushes, len(s.pulls)
}

// newPullTest returns a directory with a clone of the server's repository, and a session in which
// an agent has committed.
func newPullTest(t *testing.T, script string) (*pickTest, *pullServer) {
	t.Helper()
	s := newPullServer(t)
	p := &pickTest{t: t, dir: t.TempDir(), rows: 80}
	home := t.TempDir()
	p.env = append(os.Environ(), "GOLEM_STATE="+t.TempDir(), "NO_COLOR=1", "TERM=xterm", "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "GITHUB_TOKEN=other-token", "GH_ENTERPRISE_TOKEN="+pullToken)
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[user]\n\tname = \"Some @one\"\n\temail = some@example.org\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.write("a.txt", "one\n")
	p.mkdir("gone")
	p.write("gone/b.txt", "b\n")
	p.write(".gitignore", "*.log\n")
	p.shell("git init -q -b main\ngit remote add origin git@git.example:o/r.git\ngit add .\ngit commit -qm first\ngit push -q " + s.bare + " main")
	if out, code := p.golem("exec", "--name", "fix-it", "sh", "-c", script); code != 0 {
		t.Fatalf("exec: code %d\n%s", code, out)
	}
	return p, s
}

const pullWork = "set -e\necho two >> a.txt\ngit commit -qam 'Add two, closes #1 @root `x` <img src=x>'\nmkdir -p .github/workflows\necho 'on: push' > .github/workflows/ci.yml\ngit add .\ngit commit -qm 'Add CI'"

// TestPullRequest checks that GitHub gets exactly the commits that the user saw, that texts of the
// agent are escaped, and that a declined question pushes nothing.
func TestPullRequest(t *testing.T) {
	t.Parallel()
	p, s := newPullTest(t, pullWork)
	repo := s.URL + "/o/r"
	if out, code := p.golem("pr", "--repo", repo); code != 3 {
		t.Errorf("without a terminal: code %d\n%s", code, out)
	}
	p.startAt(150, "pr", "--repo", repo)
	p.answer("[y]es", "n\r")
	if code, seen := p.waitForEnd(); code != 3 || !strings.Contains(seen, "nothing was pushed; the changes stay in session fix-it") {
		t.Errorf("declined: code %d\n%s", code, seen)
	}
	if pushes, pulls := s.counts(); pushes+pulls > 0 || s.branch("fix-it") != "" {
		t.Errorf("%d pushes and %d pull requests without an approval", pushes, pulls)
	}
	p.startAt(150, "pr", "--repo", repo)
	p.answer("[y]es", "y\r")
	code, seen := p.waitForEnd()
	commit := s.branch("fix-it")
	if code != 0 || commit == "" || !strings.Contains(seen, "pull request: "+repo+"/pull/1") || !strings.Contains(seen, commit[:12]) || !strings.Contains(seen, "on: push") {
		t.Fatalf("approved: code %d, branch %q\n%s", code, commit, seen)
	}
	if strings.Contains(seen, "evil.example") || strings.Contains(seen, pullToken) {
		t.Errorf("golem shows an address of the server, or the token:\n%s", seen)
	}
	out, code := p.golem("diff", "--commits", "--json")
	if code != 0 || !strings.Contains(out, commit) {
		t.Errorf("the branch is not at a commit of the session: code %d, %s\n%s", code, commit, out)
	}
	got := s.pulls[0]
	if got.Title != "Add two, closes #1 @root `x` <img src=x>" || got.Base != "main" || got.Head != "fix-it" || got.Draft {
		t.Errorf("got %+v", got)
	}
	for _, want := range []string{"**Files that become code**\n\n- `.github/workflows/ci.yml`: `runs in CI`", "``Add two, closes #1 @root `x` <img src=x>``", "`Some @one` let `golem pr` push exactly these commits", "2 commits, 2 changed files, +2 -0."} {
		if !strings.Contains(got.Body, want) || !strings.Contains(seen, strings.Split(want, "\n")[0]) {
			t.Errorf("the body or the question lacks %q:\n%s", want, got.Body)
		}
	}
	if out, code := p.golem("pr", "--repo", repo, "--session", "fix-it"); code != 0 || !strings.Contains(out, "the pull request exists: "+repo+"/pull/1") {
		t.Errorf("again: code %d\n%s", code, out)
	}
	if pushes, pulls := s.counts(); pushes != 1 || pulls != 1 {
		t.Errorf("%d pushes and %d pull requests, want one of each", pushes, pulls)
	}

	// New commits of the session are added to the branch.
	if out, code := p.golem("exec", "--session", "fix-it", "sh", "-c", "echo three >> a.txt; git commit -qam 'Add three'"); code != 0 {
		t.Fatalf("exec: code %d\n%s", code, out)
	}
	if out, code := p.golem("pr", "--repo", repo, "--session", "fix-it", "--yes"); code != 0 || !strings.Contains(out, repo+"/pull/1") {
		t.Errorf("with another commit: code %d\n%s", code, out)
	}
	if s.branch("fix-it~1") != commit {
		t.Errorf("the branch is at %s, want a commit on %s", s.branch("fix-it"), commit)
	}

	// A branch that moved is refused, and no commit of it is lost.
	other := exec.Command("git", "-c", "user.name=x", "-c", "user.email=x", "commit-tree", "-m", "theirs", "-p", "main", "main^{tree}")
	other.Dir = s.bare
	theirs, err := other.Output()
	if err != nil {
		t.Fatal(err)
	}
	move := exec.Command("git", "update-ref", "refs/heads/fix-it", strings.TrimSpace(string(theirs)))
	move.Dir = s.bare
	if err := move.Run(); err != nil {
		t.Fatal(err)
	}
	if out, code := p.golem("pr", "--repo", repo, "--session", "fix-it", "--yes"); code != 1 || !strings.Contains(out, "never replaces them; golem pr --branch NAME") {
		t.Errorf("the branch moved: code %d\n%s", code, out)
	}
	if now := s.branch("fix-it"); now != strings.TrimSpace(string(theirs)) {
		t.Errorf("the branch is at %s, want that of others", now)
	}
	if out, code := p.golem("pr", "--repo", repo, "--session", "fix-it", "--branch", "main", "--yes"); code == 0 || !strings.Contains(out, "merges a branch into another") {
		t.Errorf("the base itself: code %d\n%s", code, out)
	}
	if out, code := p.golem("pr", "--repo", repo, "--session", "fix-it", "--branch", "again", "--draft", "--title", "Mine", "--yes"); code != 0 {
		t.Errorf("another branch: code %d\n%s", code, out)
	}
	if got := s.pulls[len(s.pulls)-1]; got.Title != "Mine" || !got.Draft || !strings.Contains(got.Body, "without looking at them") {
		t.Errorf("got %+v", got)
	}
	if out, code := p.golem("audit", "verify"); code != 0 {
		t.Errorf("code %d\n%s", code, out)
	}
	if out, code := p.golem("audit", "show"); code != 0 || !strings.Contains(out, "pull_request") {
		t.Errorf("code %d\n%s", code, out)
	}
}

// TestKilledPullRequest kills golem before the server opens the pull request, and after that. The
// next call continues, and there is one push and one pull request.
func TestKilledPullRequest(t *testing.T) {
	t.Parallel()
	for _, one := range []string{"before", "after", "before, without a commit of the agent"} {
		when, changes, _ := strings.Cut(one, ",")
		work := pullWork
		if changes != "" {
			work = "echo two >> a.txt"
		}
		p, s := newPullTest(t, work)
		cmd := exec.Command("golem", "pr", "--repo", s.URL+"/o/r", "--yes")
		cmd.Dir, cmd.Env = p.dir, p.env
		kill := func(*http.Request) {
			if err := cmd.Process.Kill(); err == nil {
				cmd.Process.Wait()
			}
		}
		if when == "before" {
			s.before = func(r *http.Request) { kill(r); r.Body.Close(); panic(http.ErrAbortHandler) }
		} else {
			s.after = kill
		}
		cmd.Start()
		cmd.Wait()
		s.mu.Lock()
		s.before, s.after = nil, nil
		s.mu.Unlock()
		commit := s.branch("fix-it")
		if _, pulls := s.counts(); commit == "" || pulls != map[string]int{"before": 0, "after": 1}[when] {
			t.Fatalf("%s: %d pull requests, branch %q after the kill", when, pulls, commit)
		}
		time.Sleep(1100 * time.Millisecond) // a commit with the time of the call would be another one now
		out, code := p.golem("pr", "--repo", s.URL+"/o/r", "--yes")
		if code != 0 || !strings.Contains(out, fmt.Sprintf("%s/o/r/pull/1", s.URL)) {
			t.Errorf("%s: code %d\n%s", when, code, out)
		}
		if pushes, pulls := s.counts(); pushes != 1 || pulls != 1 || s.branch("fix-it") != commit {
			t.Errorf("%s: %d pushes and %d pull requests, branch %s, want one of each and %s", when, pushes, pulls, s.branch("fix-it"), commit)
		}
	}
}

// TestPullRequestScanned checks that golem pushes nothing that a scanner holds back, also if a later
// commit removes it.
func TestPullRequestScanned(t *testing.T) {
	t.Parallel()
	secret := "ghp_" + strings.Repeat("aB3dE5gH7j", 4)[:36]
	p, s := newPullTest(t, "echo token="+secret+" > key.txt; git add .; git commit -qm 'Add a key'; git rm -q key.txt; git commit -qm 'Remove it'")
	out, code := p.golem("pr", "--repo", s.URL+"/o/r", "--yes")
	if code != 1 || !strings.Contains(out, "--override '/key.txt=REASON'") || strings.Contains(out, secret) {
		t.Errorf("code %d\n%s", code, out)
	}
	if pushes, pulls := s.counts(); pushes+pulls > 0 {
		t.Errorf("%d pushes and %d pull requests", pushes, pulls)
	}
	if out, code := p.golem("pr", "--repo", s.URL+"/o/r", "--yes", "--override", "/key.txt=it is an example"); code != 0 {
		t.Errorf("code %d\n%s", code, out)
	}
}

// TestPullRequestShowsWholeCommits checks that the question shows what a commit holds besides its
// files and its message, that scanners look there, too, and that golem prints no secret.
func TestPullRequestShowsWholeCommits(t *testing.T) {
	t.Parallel()
	secret := "ghp_" + strings.Repeat("aB3dE5gH7j", 4)[:36]
	header := func(line string) string {
		return "echo b > b; git add b; { printf 'tree %s\\nparent %s\\nauthor A <a@x> 1700000000 +0000\\ncommitter A <a@x> 1700000000 +0000\\n' $(git write-tree) $(git rev-parse HEAD); printf '" +
			line + "\\n\\nAdd b\\n'; } > /tmp/c; git reset -q --hard $(git hash-object -t commit -w --literally /tmp/c)"
	}
	for name, script := range map[string]string{
		"header":    header("x-note: " + secret),
		"signature": header("gpgsig -----BEGIN PGP SIGNATURE-----\\n " + secret + "\\n -----END PGP SIGNATURE-----"),
		"committer": "echo c > c; git add c; GIT_COMMITTER_NAME=" + secret + " git commit -qm 'Add c'",
		"author":    "echo c > c; git add c; git commit -qm 'Add c' --author 'A <" + secret + "@x.org>'",
		"file name": "echo c > " + secret + "; git add .; git commit -qm 'Add c'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := newPullTest(t, script)
			out, code := p.golem("pr", "--repo", s.URL+"/o/r", "--yes")
			if code != 1 || !strings.Contains(out, "a scanner holds it back") || strings.Contains(out, secret) {
				t.Errorf("code %d\n%s", code, out)
			}
			if pushes, pulls := s.counts(); pushes+pulls > 0 {
				t.Errorf("%d pushes and %d pull requests", pushes, pulls)
			}
		})
	}
	q, _ := newPullTest(t, "echo c > c; git add c; git commit -qm 'Add c' --author \"A$(printf '\\342\\200\\256%.0s' $(seq 25)) middle of name $(printf '\\342\\200\\256%.0s' $(seq 25))Z <a@x>\"")
	if out, _ := q.golem("diff", "--commits"); !strings.Contains(out, "middle of name") {
		t.Errorf("a name that does not fit in a line is not shown whole:\n%s", out)
	}
	p, s := newPullTest(t, header("x-note: from a file\\ngpgsig -----BEGIN PGP SIGNATURE-----\\n aGlkZGVu\\n -----END PGP SIGNATURE-----"))
	for _, command := range [][]string{{"pr", "--repo", s.URL + "/o/r"}, {"apply", "--commits", "--branch", "x"}} {
		p.startAt(150, command...)
		p.answer("[y]es", "n\r")
		code, seen := p.waitForEnd()
		for _, want := range []string{"│ x-note: from a file", "│ gpgsig -----BEGIN", "│  aGlkZGVu", "headers: lines before the message that git log does not show: x-note:, gpgsig"} {
			if code != 3 || !strings.Contains(seen, want) {
				t.Errorf("%q does not show %q: code %d\n%s", command, want, code, seen)
			}
		}
	}
	if out, _ := p.golem("diff", "--commits"); !strings.Contains(out, "    x-note: from a file\n") {
		t.Errorf("diff --commits:\n%s", out)
	}
	if out, _ := p.golem("diff", "--commits", "--json"); !strings.Contains(out, `"headers": "x-note: from a file\ngpgsig `) {
		t.Errorf("diff --commits --json:\n%s", out)
	}
}

// TestPullRequestHostNotAllowed checks that the hosts of the user's configuration hold for pull requests.
func TestPullRequestHostNotAllowed(t *testing.T) {
	t.Parallel()
	p, s := newPullTest(t, pullWork)
	for _, e := range p.env {
		if dir, ok := strings.CutPrefix(e, "XDG_CONFIG_HOME="); ok && dir != "" {
			file := filepath.Join(dir, "golem", "config.yaml")
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("network: {allow: [api.example.com]}\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, repo := range []string{s.URL + "/o/r", "o/r"} {
		out, code := p.golem("pr", "--repo", repo, "--yes")
		if code != 3 || !strings.Contains(out, "config.yaml:") || !strings.Contains(out, "does not allow its host; golem apply --commits --branch NAME takes the commits") {
			t.Errorf("%s: code %d\n%s", repo, code, out)
		}
	}
	if pushes, pulls := s.counts(); pushes+pulls > 0 {
		t.Errorf("%d pushes and %d pull requests", pushes, pulls)
	}
}

// TestPullRequestOfChanges checks the commit that golem makes of the changes of a session: it has
// exactly the files that golem apply would apply, and it is the same every time.
func TestPullRequestOfChanges(t *testing.T) {
	t.Parallel()
	p, s := newPullTest(t, "echo two >> a.txt; rm -r gone; mkdir -p new; printf '#!/bin/sh\n' > new/run; chmod 755 new/run; ln -s a.txt link; echo x > no.log; mkdir .golem; echo x > .golem/x; git status")
	p.write("mine.txt", "not committed\n")
	if out, code := p.golem("pr", "--repo", s.URL+"/o/r", "--title", "Say two"); code != 3 {
		t.Errorf("without a terminal: code %d\n%s", code, out)
	}
	seen, code := p.golem("pr", "--repo", s.URL+"/o/r", "--title", "Say two", "--yes")
	commit := s.branch("fix-it")
	if code != 0 || commit == "" || !strings.Contains(seen, commit) || !strings.Contains(seen, "note: not in the commit: /.golem/x (protected)\n") ||
		!strings.Contains(seen, "note: not in the commit: /no.log (ignored by git)\n") {
		t.Fatalf("code %d, branch %q\n%s", code, commit, seen)
	}
	show := exec.Command("git", "show", "--raw", "--no-abbrev", "--format=%s|%an|%P", commit)
	show.Dir = s.bare
	out, err := show.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) > 5 && words[0][0] == ':' {
			got = append(got, words[1]+" "+words[4]+" "+words[5])
		}
	}
	if want := "100644 M a.txt,000000 D gone/b.txt,120000 A link,100755 A new/run"; strings.Join(got, ",") != want || !strings.HasPrefix(string(out), "Say two|Some @one|"+s.branch("main")) {
		t.Errorf("got %q, want %q\n%s", got, want, out)
	}
	if s.pulls[0].Title != "Say two" {
		t.Errorf("got %+v", s.pulls[0])
	}
	again, code := p.golem("pr", "--repo", s.URL+"/o/r", "--title", "Say two", "--session", "fix-it")
	if code != 0 || !strings.Contains(again, "the pull request exists") {
		t.Errorf("again: code %d\n%s", code, again)
	}
	if out, code := p.golem("exec", "--session", "fix-it", "sh", "-c", "echo three >> a.txt"); code != 0 {
		t.Fatalf("exec: code %d\n%s", code, out)
	}
	if out, code := p.golem("pr", "--repo", s.URL+"/o/r", "--title", "Say two", "--session", "fix-it", "--yes"); code != 1 || s.branch("fix-it") != commit {
		t.Errorf("other changes: code %d, branch %s\n%s", code, s.branch("fix-it"), out)
	}
	if out, code := p.golem("pr", "--yes", "--session", "fix-it"); code != 0 || !strings.Contains(out, "git push origin fix-it") {
		t.Errorf("by hand: code %d\n%s", code, out)
	}
	p.shell("test \"$(git log --format=%s fix-it | head -1)\" = 'Changes of session fix-it'")
	if out, code := p.golem("pr", "--yes", "--session", "fix-it"); code != 1 || !strings.Contains(out, "the session has no commits that your repository lacks") {
		t.Errorf("by hand, again: code %d\n%s", code, out)
	}
}

// TestPullRequestByHand checks what golem does without GitHub: it takes the commits as a branch, and
// prints the commands.
func TestPullRequestByHand(t *testing.T) {
	t.Parallel()
	p, _ := newPullTest(t, pullWork)
	out, code := p.golem("pr", "--yes")
	if code != 0 || !strings.Contains(out, "git push origin fix-it, then open the pull request: https://git.example/o/r\ngolem has not pushed it: the remote origin is not on github.com") {
		t.Errorf("code %d\n%s", code, out)
	}
	p.shell("test \"$(git log --format=%s fix-it | head -1)\" = 'Add CI'")
}
