package git_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// childUsage returns the resources of all child processes that have ended: the peak memory
// of the largest, and the processor time of all.
func childUsage(t *testing.T) (peak int64, used time.Duration) {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		t.Fatal(err)
	}
	return u.Maxrss << 10, time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestHostileListOfReferences checks that a remote with an endless list of references
// takes a limited amount of memory.
func TestHostileListOfReferences(t *testing.T) {
	packet := func(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		fmt.Fprint(w, packet("# service=git-upload-pack\n")+"0000")
		hash := strings.Repeat("1", 40)
		fmt.Fprint(w, packet(hash+" HEAD\x00multi_ack\n"))
		for i := range 40_000 { // 2 GB
			if _, err := fmt.Fprint(w, packet(fmt.Sprintf("%s refs/heads/%050000d\n", hash, i))); err != nil {
				return
			}
		}
		fmt.Fprint(w, "0000")
	}))
	defer server.Close()
	r, err := openStore(t).Remote(server.URL+"/x.git", git.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := r.Branches(t.Context()); err == nil {
		t.Errorf("got %d branches", len(all))
	}
	if _, err := r.Pull(t.Context(), "main"); err == nil {
		t.Error("pulled")
	}
	if peak, _ := childUsage(t); peak > 400<<20 {
		t.Errorf("a process took %d MB", peak>>20)
	}
}

// TestEndlessTreeIsRefused checks that a tree of 10^10 files, made of ten objects, is
// refused by its number of files before git has looked at many of them.
func TestEndlessTreeIsRefused(t *testing.T) {
	s, dir := openStore(t), newRepository(t)
	tree := runGit(t, dir, "rev-parse", "HEAD^{tree}")
	for range 10 {
		var lines strings.Builder
		for i := range 10 {
			fmt.Fprintf(&lines, "040000 tree %s\tdir%d\n", tree, i)
		}
		cmd := exec.Command("git", "-C", dir, "mktree")
		cmd.Stdin = strings.NewReader(lines.String())
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		tree = strings.TrimSpace(string(out))
	}
	bomb := git.Hash(runGit(t, dir, "commit-tree", "-m", "bomb", tree))
	base := git.Hash(runGit(t, dir, "rev-parse", "HEAD"))
	objects := filepath.Join(dir, ".git/objects")
	for name, list := range map[string]func() error{
		"entries": func() error { _, err := s.Entries(t.Context(), objects, bomb, nil, 10_000); return err },
		"below":   func() error { _, err := s.Entries(t.Context(), objects, bomb, []string{"dir1"}, 10_000); return err },
		"names":   func() error { _, err := s.Names(t.Context(), objects, bomb, ""); return err },
		"changes": func() error { _, err := s.Changes(t.Context(), objects, base, bomb); return err },
	} {
		_, before := childUsage(t)
		if err := list(); sandbox.CodeOf(err) != sandbox.ErrLimit {
			t.Errorf("%s: got %v, want %s", name, err, sandbox.ErrLimit)
		}
		peak, after := childUsage(t)
		if used := after - before; used > 8*time.Second || peak > 400<<20 {
			t.Errorf("%s: took %v of a processor, and %d MB", name, used, peak>>20)
		}
	}
}

// TestTokensStayWithTheirServer checks that no git, and so no program that it starts,
// has a GitHub token in its environment. The server of a token gets it in a header, and
// no other host does.
func TestTokensStayWithTheirServer(t *testing.T) {
	real := git.Find(os.Getenv("PATH"), func(string) bool { return false })
	seen := filepath.Join(t.TempDir(), "seen")
	program := filepath.Join(t.TempDir(), "git")
	writeFile(t, program, "#!/bin/sh\n/usr/bin/env >> "+seen+"\nexec "+real+" \"$@\"\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := git.Open(t.Context(), t.TempDir(), program)
	if err != nil {
		t.Fatal(err)
	}
	git.Hurry(s, 5*time.Second)
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	secrets := []string{"GITHUB_TOKEN=secret-a", "GH_TOKEN=secret-b", "GH_ENTERPRISE_TOKEN=secret-c", "GITHUB_ENTERPRISE_TOKEN=secret-d"}
	for name, c := range map[string]git.Credentials{"inherit": git.Inherit(secrets), "explicit": git.Explicit(secrets)} {
		for address, header := range map[string]bool{gone.URL + "/github.com/x": false, "ssh://127.0.0.1:1/x": false, "https://github.com.localhost/x": false, "https://github.com/x/y": true} {
			if err := os.WriteFile(seen, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := s.Remote(address, c)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Now(t.Context(), "main"); err == nil {
				t.Errorf("%s: reached", address)
			}
			env, err := os.ReadFile(seen)
			if err != nil || len(env) == 0 {
				t.Fatalf("%s: no environment was seen: %v", address, err)
			}
			if strings.Contains(string(env), "secret-") {
				t.Errorf("%s, %s: a token is in the environment", name, address)
			}
			if got := strings.Contains(string(env), "Authorization"); got != header {
				t.Errorf("%s, %s: got a header %v, want %v", name, address, got, header)
			}
		}
	}
}
