package clearance_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// TestPushToGitHub checks that GitHub has exactly the staged commit after a push.
func TestPushToGitHub(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	h := s.hub()
	r := newRequest("", "a.txt=new\n", "dir/b.txt", "only/x", "only=now a file", "deep/er/bin=\x00\xff\xfe", "same=new\n", "a \"b\" é=q", "-x=y", "empty=")
	run := git.File{Path: "run.sh", Mode: git.Executable, Size: 3, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("run")), nil }}
	link := git.File{Path: "link", Mode: git.Link, Size: 5, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("a.txt")), nil }}
	r.Files = append(r.Files, run, link)
	r.Message = "a message\n\nof <two> \"parts\", é\n"
	c, err := s.desk.Stage(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	rival := s.stage("", "a.txt=rival\n")
	for range 2 {
		got, err := s.desk.Push(t.Context(), c.ID, "main")
		if err != nil || got.CommitSHA != string(c.Commit) || got.URL != h.URL+"/o/r/commit/"+string(c.Commit) {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	if now := runGit(t, s.bare, "rev-parse", "main"); now != string(c.Commit) {
		t.Errorf("main is %s, want %s", now, c.Commit)
	}
	runGit(t, s.bare, "fsck", "--strict")
	_, err = s.desk.Push(t.Context(), rival.ID, "")
	s.checkRefused(err, sandbox.ErrConflict)

	// A branch that does not exist is created.
	r = newRequest("", "a=b")
	r.Branch = "drafts/new"
	fresh, err := s.desk.Stage(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.desk.Push(t.Context(), fresh.ID, ""); err != nil {
		t.Fatal(err)
	}
	if now := runGit(t, s.bare, "rev-parse", "drafts/new"); now != string(fresh.Commit) {
		t.Errorf("the new branch is %s, want %s", now, fresh.Commit)
	}

	// The next commit is staged on what was pushed. Large files are streamed, and many
	// files go into several trees.
	r = newRequest("", "small=s")
	for i := range 600 {
		r.Files = append(r.Files, newRequest("", fmt.Sprintf("many/%d=same", i)).Files...)
	}
	size := int64(3<<20 + 1)
	r.Files = append(r.Files, git.File{Path: "large", Mode: git.Plain, Size: size, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(endless{}, size)), nil
	}})
	if c, err = s.desk.Stage(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
		t.Fatal(err)
	}
	if now := runGit(t, s.bare, "rev-parse", "main"); now != string(c.Commit) {
		t.Errorf("main is %s, want %s", now, c.Commit)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i * 7)
	}
	return len(p), nil
}

// A countingTransport counts requests. They come one after another.
type countingTransport struct {
	http.RoundTripper
	n int
}

func (c *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n++
	return c.RoundTripper.RoundTrip(r)
}

func setHeaders(w http.ResponseWriter, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		w.Header().Set(pairs[i], pairs[i+1])
	}
}

func cutConnection(w http.ResponseWriter) bool {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Close()
	}
	return true
}

// TestGitHubMisbehaves checks that a push happens once or not at all, whatever GitHub
// answers, and that the result says so.
func TestGitHubMisbehaves(t *testing.T) {
	type before = func(w http.ResponseWriter, r *http.Request, step string) bool
	at := func(step string, times int, do func(w http.ResponseWriter)) before {
		return func(w http.ResponseWriter, _ *http.Request, now string) bool {
			if now != step || times == 0 {
				return false
			}
			times--
			do(w)
			return true
		}
	}
	code := func(n int, message string, headers ...string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) { setHeaders(w, headers...); refuse(w, n, message) }
	}
	var stranger *hubServer
	for _, test := range []struct {
		name   string
		before func(s *scene, h *hubServer)
		want   sandbox.Code // "" for a push that succeeds
		says   string
	}{
		{"401", func(_ *scene, h *hubServer) { h.before = at("blobs", -1, code(401, "Bad credentials")) }, git.ErrUnreachable, "refuses the token"},
		{"403", func(_ *scene, h *hubServer) {
			h.before = at("blobs", -1, code(403, "Resource not accessible by personal access token"))
		}, git.ErrUnreachable, "not accessible by personal"},
		{"404", func(_ *scene, h *hubServer) { h.before = at("blobs", -1, code(404, "Not Found")) }, sandbox.ErrNotFound, "no such repository"},
		{"409", func(_ *scene, h *hubServer) { h.before = at("blobs", -1, code(409, "Git Repository is empty.")) }, sandbox.ErrConflict, "first commit"},
		{"422", func(_ *scene, h *hubServer) {
			h.before = at("trees", -1, code(422, "tree.path contains a malformed path"))
		}, git.ErrUnreachable, "malformed"},
		{"not a fast forward", func(_ *scene, h *hubServer) {
			h.before = at("refs", -1, code(422, "Update is not a fast forward"))
		}, sandbox.ErrConflict, "has moved"},
		{"protected", func(_ *scene, h *hubServer) {
			h.before = at("refs", -1, code(422, "Protected branch update failed"))
		}, git.ErrUnreachable, "protected"},
		{"the branch moved", func(s *scene, h *hubServer) {
			h.before = func(http.ResponseWriter, *http.Request, string) bool {
				h.git(nil, nil, "update-ref", "refs/heads/main", runGit(s, s.bare, "commit-tree", "-m", "theirs", "-p", "main~0", "main^{tree}"))
				h.before = nil
				return false
			}
		}, sandbox.ErrConflict, "has moved"},
		{"the branch went", func(s *scene, h *hubServer) {
			h.before = at("commits", 1, func(http.ResponseWriter) { runGit(s, s.bare, "update-ref", "-d", "refs/heads/main") })
			was := h.before
			h.before = func(w http.ResponseWriter, r *http.Request, step string) bool { was(w, r, step); return false }
		}, sandbox.ErrConflict, "has moved"},
		{"a moment's trouble", func(_ *scene, h *hubServer) { h.before = at("trees", 1, code(502, "Bad Gateway")) }, "", ""},
		{"trouble", func(_ *scene, h *hubServer) { h.before = at("commits", -1, code(503, "Unavailable")) }, git.ErrUnreachable, "has trouble"},
		{"cut before", func(_ *scene, h *hubServer) {
			h.before = at("refs", 1, func(w http.ResponseWriter) { cutConnection(w) })
		}, "", ""},
		{"cut after", func(_ *scene, h *hubServer) {
			h.after = func(w http.ResponseWriter, step string) bool { return step == "refs" && cutConnection(w) }
		}, "", ""},
		{"half an answer", func(_ *scene, h *hubServer) {
			h.before = at("blobs", 1, func(w http.ResponseWriter) { setHeaders(w, "Content-Length", "100"); io.WriteString(w, `{"sha":`) })
		}, "", ""},
		{"garbage", func(_ *scene, h *hubServer) {
			h.before = at("trees", -1, func(w http.ResponseWriter) { io.WriteString(w, "<html>log in to the hotel</html>") })
		}, git.ErrUnreachable, "not GitHub's API"},
		{"an endless answer", func(_ *scene, h *hubServer) {
			h.before = at("commits", -1, func(w http.ResponseWriter) {
				io.WriteString(w, `{"sha":"`)
				io.CopyN(w, endless{}, 20<<20)
			})
		}, git.ErrUnreachable, ""},
		{"another commit", func(_ *scene, h *hubServer) {
			h.before = at("commits", -1, func(w http.ResponseWriter) { fmt.Fprintf(w, `{"sha":"%040d"}`, 7) })
		}, sandbox.ErrConflict, "another commit"},
		{"another blob", func(_ *scene, h *hubServer) {
			h.before = at("blobs", -1, func(w http.ResponseWriter) { fmt.Fprintf(w, `{"sha":"%040d"}`, 7) })
		}, sandbox.ErrConflict, "another file"},
		{"garbage after it was moved", func(_ *scene, h *hubServer) {
			h.after = func(w http.ResponseWriter, step string) bool {
				if step == "refs" {
					io.WriteString(w, "{}")
				}
				return step == "refs"
			}
		}, "", ""},
		{"too often, for a moment", func(_ *scene, h *hubServer) {
			h.before = at("blobs", 1, code(403, "You have exceeded a secondary rate limit", "Retry-After", "0"))
		}, "", ""},
		{"too often, for long", func(_ *scene, h *hubServer) {
			h.before = at("blobs", -1, code(429, "slow down", "Retry-After", "3600"))
		}, sandbox.ErrLimit, "for 3600 seconds"},
		{"used up", func(_ *scene, h *hubServer) {
			h.before = at("blobs", -1, code(403, "API rate limit exceeded", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "4102444800"))
		}, sandbox.ErrLimit, "until 2100-01-01T00:00:00Z"},
		{"used up until now", func(_ *scene, h *hubServer) {
			h.before = at("blobs", 1, code(403, "API rate limit exceeded", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1"))
		}, "", ""},
		{"sent elsewhere", func(s *scene, h *hubServer) {
			stranger = newHub(s.T, s.bare)
			stranger.before = func(_ http.ResponseWriter, r *http.Request, _ string) bool {
				s.Errorf("another server got a request: %v", r.Header)
				return false
			}
			h.before = at("blobs", -1, func(w http.ResponseWriter) {
				setHeaders(w, "Location", stranger.URL+"/api/v3/repos/o/r/git/blobs")
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
		}, git.ErrUnreachable, "elsewhere"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := setUp(t)
			h := s.hub()
			c := s.stage("", "a.txt=new\n")
			test.before(s, h)
			got, err := s.desk.Push(t.Context(), c.ID, "")
			now, _ := h.git(nil, nil, "rev-parse", "--verify", "-q", "refs/heads/main")
			if test.want == "" {
				if err != nil || got.CommitSHA != now || now != string(c.Commit) {
					t.Errorf("got %v, %v, main is %s, want %s", got, err, now, c.Commit)
				}
				return
			}
			s.checkRefused(err, test.want)
			if err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q in it", err, test.says)
			}
			if err != nil && strings.Contains(err.Error(), hubToken) {
				t.Errorf("the error has the token: %v", err)
			}
			if now == string(c.Commit) {
				t.Error("refused, but pushed")
			}
			if list, _ := s.desk.List(); len(list) != 1 {
				t.Error("the refused commit no longer waits")
			}
		})
	}
}

// TestGitHubLimits checks that golem refuses what the API does not accept before it sends
// a request.
func TestGitHubLimits(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	h := s.hub()
	many := newRequest("")
	for i := range 1001 {
		many.Files = append(many.Files, newRequest("", fmt.Sprintf("%d=%d", i, i)).Files...)
	}
	bytes := newRequest("", "a=b")
	bytes.Message = "\xff"
	for name, r := range map[string]clearance.Request{"too many": many, "a name of bytes": newRequest("", "\xff=x"), "a message of bytes": bytes} {
		c, err := s.desk.Stage(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.desk.Push(t.Context(), c.ID, ""); err == nil || !strings.Contains(err.Error(), "type remote") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if len(h.calls) > 0 {
		t.Errorf("the API got requests: %v", h.calls)
	}
}

// TestGitHubWithoutAToken checks that golem reads a public repository without a token,
// and that the error of a push says which token to set.
func TestGitHubWithoutAToken(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	h := newHub(t, s.bare)
	h.public = true
	s.desk = s.open(git.Credentials{}, hubTarget(h.URL))
	if err := s.desk.Refresh(t.Context(), "", ""); err != nil {
		t.Fatal(err)
	}
	_, err := s.desk.Push(t.Context(), s.stage("", "a.txt=new\n").ID, "")
	s.checkRefused(err, git.ErrUnreachable)
	if err == nil || !strings.Contains(err.Error(), "there is no token") || len(h.calls) > 0 {
		t.Errorf("got %v, after %v", err, h.calls)
	}
}

// TestGitHubHangs checks that a canceled push returns at once.
func TestGitHubHangs(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	h := s.hub()
	c := s.stage("", "a.txt=new\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h.before = func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
		return true
	}
	_, err := s.desk.Push(ctx, c.ID, "")
	s.checkRefused(err, git.ErrUnreachable)
	h.before = nil
	if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestGitHubTokenIsKept checks that the token appears only in the request.
func TestGitHubTokenIsKept(t *testing.T) {
	s := setUp(t)
	h := s.hub()
	target, web := hubTarget(h.URL), &countingTransport{RoundTripper: &http.Transport{}}
	target.Web = web
	s.desk = s.open(git.Explicit([]string{"GITHUB_TOKEN=" + hubToken}), target)
	c := s.stage("", "a.txt=new\n")
	var mu sync.Mutex
	var shown bytes.Buffer
	h.look = func() {
		mu.Lock()
		defer mu.Unlock()
		writeProcesses(&shown)
	}
	if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
		t.Fatal(err)
	}
	if text := shown.String(); strings.Contains(text, hubToken) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("x-access-token:"+hubToken))) {
		t.Error("the list of processes shows the token")
	} else if runtime.GOOS == "linux" && !strings.Contains(text, "ls-remote") {
		t.Error("the list of processes shows no git: the test checks nothing")
	}
	if web.n == 0 {
		t.Error("GitHub was reached without the given transport")
	}
	if found := findFilesWith(t, s.state, hubToken); len(found) > 0 {
		t.Errorf("the token is stored in %v", found)
	}
}
