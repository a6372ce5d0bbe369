package clearance_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
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

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
)

const hubToken = "canary-token-4711"

// A hubServer behaves like GitHub, over a bare repository. It has the endpoints of git
// objects, which git itself creates, so that every hash is real, and git over HTTP. It
// can be made to misbehave before and after a request to the API.
type hubServer struct {
	*httptest.Server
	bare    string
	backend http.Handler
	public  bool // everybody may read it

	mu     sync.Mutex
	calls  []string
	look   func() // called at every request, also those of git
	before func(w http.ResponseWriter, r *http.Request, step string) (done bool)
	after  func(w http.ResponseWriter, step string) (done bool)
}

func newHub(t *testing.T, bare string) *hubServer {
	t.Helper()
	root := filepath.Join(t.TempDir(), "o")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bare, filepath.Join(root, "r.git")); err != nil {
		t.Fatal(err)
	}
	h := &hubServer{bare: bare, backend: &cgi.Handler{
		Path: filepath.Join(runGit(t, bare, "--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(root), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return h
}

func (h *hubServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.look != nil {
		h.look()
	}
	if strings.HasPrefix(r.URL.Path, "/o/r.git/") {
		if _, got, _ := r.BasicAuth(); got != hubToken && !h.public {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		h.backend.ServeHTTP(w, r)
		return
	}
	step, ok := strings.CutPrefix(r.URL.Path, "/api/v3/repos/o/r/git/")
	if !ok {
		refuse(w, 404, "Not Found")
		return
	}
	kind, ref, _ := strings.Cut(step, "/")
	h.mu.Lock()
	h.calls = append(h.calls, r.Method+" "+kind)
	before, after := h.before, h.after
	h.mu.Unlock()
	if before != nil && before(w, r, kind) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+hubToken {
		refuse(w, 401, "Bad credentials")
		return
	}
	answer := httptest.NewRecorder()
	h.answer(answer, r, kind, ref)
	if after != nil && after(w, kind) {
		return
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// hooks sets how the server misbehaves.
func (h *hubServer) hooks(before func(http.ResponseWriter, *http.Request, string) bool, after func(http.ResponseWriter, string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.after = before, after
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest"})
}

func (h *hubServer) answer(w http.ResponseWriter, r *http.Request, kind, ref string) {
	var in struct {
		Content, Encoding string
		BaseTree          string `json:"base_tree"`
		Tree              json.RawMessage
		Message, SHA, Ref string
		Parents           []string
		Author, Committer struct {
			Name, Email string
			Date        time.Time
		}
		Force *bool
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, 400, "Problems parsing JSON")
		return
	}
	made := func(code int, sha string) {
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(map[string]any{"sha": sha, "ref": "refs/" + ref, "object": map[string]string{"type": "commit", "sha": sha}})
	}
	switch r.Method + " " + kind {
	case "POST blobs":
		content, err := base64.StdEncoding.DecodeString(in.Content)
		if err != nil || in.Encoding != "base64" {
			refuse(w, 422, "content is not valid Base64")
			return
		}
		h.made(w, made, content, nil, "hash-object", "-w", "--stdin")
	case "POST trees":
		h.tree(w, made, in.BaseTree, in.Tree)
	case "POST commits":
		var b strings.Builder
		fmt.Fprintf(&b, "tree %s\n", bytes.Trim(in.Tree, `"`))
		for _, p := range in.Parents {
			fmt.Fprintf(&b, "parent %s\n", p)
		}
		_, offset := in.Author.Date.Zone()
		zone := fmt.Sprintf("%+03d%02d", offset/3600, offset/60%60)
		fmt.Fprintf(&b, "author %s <%s> %d %s\n", in.Author.Name, in.Author.Email, in.Author.Date.Unix(), zone)
		fmt.Fprintf(&b, "committer %s <%s> %d %s\n\n%s", in.Committer.Name, in.Committer.Email, in.Committer.Date.Unix(), zone, in.Message)
		h.made(w, made, []byte(b.String()), nil, "hash-object", "-t", "commit", "-w", "--stdin")
	case "POST refs":
		if _, err := h.git(nil, nil, "rev-parse", "--verify", "-q", in.Ref); err == nil {
			refuse(w, 422, "Reference already exists")
			return
		}
		h.git(nil, nil, "update-ref", in.Ref, in.SHA, strings.Repeat("0", 40))
		made(201, in.SHA)
	case "PATCH refs":
		now, err := h.git(nil, nil, "rev-parse", "--verify", "-q", "refs/"+ref)
		if err != nil {
			refuse(w, 422, "Reference does not exist")
			return
		}
		if _, err := h.git(nil, nil, "merge-base", "--is-ancestor", now, in.SHA); err != nil || in.Force == nil || *in.Force {
			refuse(w, 422, "Update is not a fast forward")
			return
		}
		h.git(nil, nil, "update-ref", "refs/"+ref, in.SHA, now)
		made(200, in.SHA)
	default:
		refuse(w, 404, "Not Found")
	}
}

// tree creates a tree from a base and changes to it, in a separate index.
func (h *hubServer) tree(w http.ResponseWriter, made func(int, string), base string, raw json.RawMessage) {
	var entries []struct {
		Path, Mode, Type string
		SHA              *string
	}
	json.Unmarshal(raw, &entries)
	file, _ := os.CreateTemp("", "index")
	os.Remove(file.Name())
	defer os.Remove(file.Name())
	index := []string{"GIT_INDEX_FILE=" + file.Name()}
	if base != "" {
		h.git(nil, index, "read-tree", base)
	}
	var lines bytes.Buffer
	for _, e := range entries {
		if e.SHA == nil {
			if out, _ := h.git(nil, index, "ls-files", "--", ":(literal)"+e.Path); out == "" {
				refuse(w, 422, "GitRPC::BadObjectState")
				return
			}
			fmt.Fprintf(&lines, "0 %040d\t%s\x00", 0, e.Path)
			continue
		}
		fmt.Fprintf(&lines, "%s %s\t%s\x00", e.Mode, *e.SHA, e.Path)
	}
	if out, err := h.git(lines.Bytes(), index, "update-index", "-z", "--index-info"); err != nil {
		refuse(w, 422, out)
		return
	}
	h.made(w, made, nil, index, "write-tree")
}

func (h *hubServer) made(w http.ResponseWriter, made func(int, string), input []byte, env []string, args ...string) {
	out, err := h.git(input, env, args...)
	if err != nil {
		refuse(w, 422, out)
		return
	}
	made(201, out)
}

func (h *hubServer) git(input []byte, env []string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = h.bare, bytes.NewReader(input)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.bare, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org"}, env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// hub starts a server that behaves like GitHub. The scene gets a desk whose only target
// is its bare repository on that server, and pulls from it.
func (s *scene) hub() *hubServer {
	s.Helper()
	h := newHub(s.T, s.bare)
	s.desk = s.open(git.Explicit([]string{"GITHUB_TOKEN=" + hubToken}), hubTarget(h.URL))
	if err := s.desk.Refresh(s.Context(), "", ""); err != nil {
		s.Fatal(err)
	}
	return h
}

func hubTarget(server string) clearance.Target {
	return clearance.Target{Name: "origin", Type: "github", URL: server, Repo: "o/r", Branch: "main"}
}
