//go:build unix

package clearance_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// TestKill kills a process that stages and pushes again and again, at many moments. The
// results that it reported are true, a push that it began happened once or not at all,
// and branch, index and work tree agree. G47.
func TestKill(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	s.kill(15, 4*time.Millisecond, s.local, clearance.Target{Name: "local", Type: "local", Path: sandbox.Host(s.local), Branch: "main"})
	if status := runGit(t, s.local, "status", "--porcelain"); status != "" {
		t.Errorf("branch, index and tree do not agree:\n%s", status)
	}
}

// TestKillRemote does the same with a slow remote.
func TestKillRemote(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	hook := filepath.Join(s.bare, "hooks/pre-receive")
	writeFile(t, hook, "#!/bin/sh\nsleep 0.05\n")
	os.Chmod(hook, 0o755)
	s.kill(6, 30*time.Millisecond, s.bare, clearance.Target{Name: "origin", Type: "remote", URL: s.serve(""), Branch: "main"})
}

// TestKillGitHub kills a process at each step of a push through the API, before and after
// GitHub has done the step.
func TestKillGitHub(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	h := newHub(t, s.bare)
	s.desk = s.open(testCredentials, hubTarget(h.URL))
	for round, step := range []string{"blobs", "trees", "commits", "refs", "blobs", "trees", "commits", "refs"} {
		cmd, out := s.newPushProcess(hubTarget(h.URL))
		before := runGit(s, s.bare, "rev-parse", "main")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := func(now string) bool {
			if now == step {
				cmd.Process.Kill()
			}
			return false
		}
		if round < 4 {
			h.hooks(func(_ http.ResponseWriter, _ *http.Request, now string) bool { return kill(now) }, nil)
		} else {
			h.hooks(nil, func(_ http.ResponseWriter, now string) bool { return kill(now) })
		}
		staged := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "staged "); ok && staged == "" {
				staged = id
			} else {
				t.Errorf("%s: %s", step, lines.Text())
			}
		}
		cmd.Wait()
		h.hooks(nil, nil)
		c, err := s.desk.Get(staged)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.desk.Push(t.Context(), staged, ""); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		if now := runGit(s, s.bare, "rev-parse", "main"); now != string(c.Commit) || runGit(s, s.bare, "rev-parse", "main^") != before {
			t.Errorf("%s: main is %s, want %s after %s", step, now, c.Commit, before)
		}
	}
	runGit(t, s.bare, "fsck", "--strict")
}

// testCredentials holds the credentials of the processes in these tests.
var testCredentials = git.Explicit([]string{"GITHUB_TOKEN=" + hubToken})

// kill starts a process for each round, and kills it some time after its first stage.
func (s *scene) kill(n int, step time.Duration, repository string, target clearance.Target) {
	s.Helper()
	s.desk = s.open(testCredentials, target)
	unsettled := 0
	for round := range testutil.Rounds(n) {
		cmd, out := s.newPushProcess(target)
		if err := cmd.Start(); err != nil {
			s.Fatal(err)
		}
		staged, pushed := "", ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			verb, id, _ := strings.Cut(lines.Text(), " ")
			switch verb {
			case "staged":
				if staged == "" {
					time.AfterFunc(time.Duration(round%n)*step, func() { cmd.Process.Kill() })
				}
				staged = id
			case "pushed":
				pushed = id
			default:
				s.Log(lines.Text())
			}
		}
		cmd.Wait()
		if staged == "" {
			s.Fatal("nothing was staged: the test checks nothing")
		}
		before := runGit(s, repository, "rev-list", "--count", "main")
		got, err := s.desk.Push(s.Context(), staged, "")
		if err != nil {
			s.Fatalf("round %d: the staged commit cannot be pushed: %v", round, err)
		}
		if pushed == staged && runGit(s, repository, "rev-list", "--count", "main") != before {
			s.Errorf("round %d: a commit that was reported as pushed was pushed again", round)
		}
		if pushed != staged {
			unsettled++
		}
		if now := runGit(s, repository, "rev-parse", "main"); now != got.CommitSHA {
			s.Errorf("round %d: main is %s, want %s", round, now, got.CommitSHA)
		}
		if status := runGit(s, s.local, "status", "--porcelain"); status != "" {
			s.Errorf("round %d: branch, index and tree do not agree:\n%s", round, status)
		}
		newest, older, _ := strings.Cut(runGit(s, repository, "log", "--format=%s", "main"), "\n")
		if slices.Contains(strings.Split(older, "\n"), newest) {
			s.Errorf("round %d: %s is there twice", round, newest)
		}
		list, err := s.desk.List()
		if err != nil || len(list) > 1 {
			s.Errorf("round %d: got waiting commits %v, %v", round, list, err)
		}
		for _, c := range list { // one may be staged and not reported before the kill
			if c.ID == staged {
				s.Errorf("round %d: a pushed commit still waits: %v", round, c)
			}
			if err := s.desk.Discard(s.Context(), c.ID); err != nil {
				s.Error(err)
			}
		}
	}
	runGit(s, repository, "fsck", "--strict")
	if unsettled == 0 {
		s.Error("no kill came before the report of a push: the test checks too little")
	}
}

// newPushProcess returns a process that has not started, and its output.
func (s *scene) newPushProcess(target clearance.Target) (*exec.Cmd, io.Reader) {
	s.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestPushForever$")
	cmd.Env = append(os.Environ(), "GOLEM_TEST_STATE="+s.state, "GOLEM_TEST_TYPE="+target.Type, "GOLEM_TEST_NAME="+target.Name, "GOLEM_TEST_URL="+target.URL, "GOLEM_TEST_LOCAL="+s.local)
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	return cmd, out
}

// TestPushForever is the process that is killed.
func TestPushForever(t *testing.T) {
	dir := os.Getenv("GOLEM_TEST_STATE")
	if dir == "" {
		return // only other tests start it
	}
	s := &scene{T: t, state: dir}
	target := clearance.Target{Name: os.Getenv("GOLEM_TEST_NAME"), Type: os.Getenv("GOLEM_TEST_TYPE"), URL: os.Getenv("GOLEM_TEST_URL"),
		Path: sandbox.Host(os.Getenv("GOLEM_TEST_LOCAL")), Repo: "o/r", Branch: "main"}
	desk := s.open(testCredentials, target)
	for i := 0; ; i++ {
		if err := desk.Refresh(t.Context(), "", ""); err != nil {
			t.Fatal(err)
		}
		mark := fmt.Sprint(os.Getpid(), "-", i)
		r := newRequest("", "a.txt="+mark, "new/"+mark+"=x", "many/1="+mark, "many/2="+mark, "many/3="+mark)
		r.Message = "push " + mark
		c, err := desk.Stage(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("staged", c.ID)
		if _, err := desk.Push(t.Context(), c.ID, ""); err != nil {
			t.Fatal(err)
		}
		fmt.Println("pushed", c.ID)
	}
}

// TestTwoProcesses checks that of two processes that push at once, the same commit or two
// different ones, one push happens, once. Both get the result if they push the same
// commit.
func TestTwoProcesses(t *testing.T) {
	if id := os.Getenv("GOLEM_TEST_PUSH"); id != "" {
		s := &scene{T: t, state: os.Getenv("GOLEM_TEST_STATE")}
		got, err := s.remote(os.Getenv("GOLEM_TEST_URL"), git.Credentials{}).Push(t.Context(), id, "")
		fmt.Println("result", got, err)
		return
	}
	t.Parallel()
	s := setUp(t)
	address := s.serve("")
	s.desk = s.remote(address, git.Credentials{})
	if err := s.desk.Refresh(t.Context(), "", ""); err != nil {
		t.Fatal(err)
	}
	same, rival := s.stage("", "a.txt=1\n"), s.stage("", "a.txt=2\n")
	var wait sync.WaitGroup
	results := make([]string, 4)
	for i := range results {
		wait.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestTwoProcesses$")
			cmd.Env = append(os.Environ(), "GOLEM_TEST_STATE="+s.state, "GOLEM_TEST_URL="+address, "GOLEM_TEST_PUSH="+[]string{same.ID, rival.ID}[i%2])
			out, _ := cmd.CombinedOutput()
			results[i] = string(out)
		})
	}
	wait.Wait()
	now := runGit(t, s.bare, "rev-parse", "main")
	made, refused := 0, 0
	for _, r := range results {
		if strings.Contains(r, now) {
			made++
		}
		if strings.Contains(r, "conflict") {
			refused++
		}
	}
	if made != 2 || refused != 2 || runGit(t, s.bare, "rev-list", "--count", "main") != "2" {
		t.Errorf("got %v", results)
	}
}
