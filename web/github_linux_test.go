package web_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// testToken is the token that the loopback GitHub wants.
const testToken = "ghp_0123456789abcdefTESTTOKEN"

// A loopbackGitHub answers as GitHub's API does, from a real repository.
type loopbackGitHub struct {
	*httptest.Server
	t    *testing.T
	repo string

	mu       sync.Mutex
	requests []string
	fault    string // how the next answer is wrong
}

func newLoopbackGitHub(t *testing.T) *loopbackGitHub {
	t.Helper()
	g := &loopbackGitHub{t: t, repo: t.TempDir()}
	g.git("", "init", "--quiet", "--initial-branch=main", ".")
	for name, content := range map[string]string{"README.md": "read me\n", "docs/a.md": "one\n", "docs/deep/b.md": "b\n", "tools/run.sh": "#!/bin/sh\n"} {
		if err := os.MkdirAll(filepath.Join(g.repo, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(g.repo, name), content)
	}
	if err := os.Chmod(filepath.Join(g.repo, "tools/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(g.repo, "link")); err != nil {
		t.Fatal(err)
	}
	g.git("", "add", ".")
	g.git("", "commit", "--quiet", "-m", "first")
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

// git runs git in the repository.
func (g *loopbackGitHub) git(stdin string, args ...string) string {
	out, err := g.tryGit(stdin, args...)
	if err != nil {
		g.t.Errorf("git %v: %v", args, err)
	}
	return out
}

func (g *loopbackGitHub) tryGit(stdin string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin, cmd.Stderr = g.repo, strings.NewReader(stdin), &stderr
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, &stderr)
	}
	return string(out), err
}

func (g *loopbackGitHub) line(args ...string) string { return strings.TrimSpace(g.git("", args...)) }

// entries returns a tree as the API does.
func (g *loopbackGitHub) entries(tree string) []map[string]any {
	list := []map[string]any{}
	for row := range strings.SplitSeq(strings.TrimSpace(g.git("", "ls-tree", tree)), "\n") {
		head, name, ok := strings.Cut(row, "\t")
		if f := strings.Fields(head); ok && len(f) == 3 {
			list = append(list, map[string]any{"path": name, "mode": f[0], "type": f[1], "sha": f[2]})
		}
	}
	return list
}

func (g *loopbackGitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Headers", "authorization, content-type, x-github-api-version")
	h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH")
	h.Set("Access-Control-Expose-Headers", "X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After")
	if r.Method == http.MethodOptions {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	answer := func(status int, v any) {
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	}
	refuse := func(status int, message string) { answer(status, map[string]string{"message": message}) }
	if r.URL.Path == "/fault" {
		g.fault = r.URL.Query().Get("kind")
		if g.fault == "move" { // somebody else pushes
			g.git("", "commit", "--quiet", "--allow-empty", "-m", "second")
			g.fault = ""
		}
		return
	}
	g.requests = append(g.requests, r.Method+" "+r.URL.String())
	fault := g.fault
	if fault == "rate" {
		h.Set("X-RateLimit-Remaining", "0")
		h.Set("X-RateLimit-Reset", "1800000000")
		refuse(403, "API rate limit exceeded")
		return
	}
	if fault == "409" {
		refuse(409, "Git Repository is empty.\x1b[31m")
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+testToken {
		refuse(401, "Bad credentials")
		return
	}
	at, ok := strings.CutPrefix(r.URL.Path, "/repos/ada/notes/git/")
	if !ok {
		refuse(404, "Not Found")
		return
	}
	var in struct {
		Content, Encoding, Message, Tree, SHA string
		Parents                               []string
		Force                                 *bool
	}
	var tree struct {
		Tree []struct{ Path, Mode, Type, SHA string }
	}
	body := new(bytes.Buffer)
	body.ReadFrom(r.Body)
	if at == "trees" {
		json.Unmarshal(body.Bytes(), &tree)
	} else if r.Method != http.MethodGet {
		if err := json.Unmarshal(body.Bytes(), &in); err != nil {
			refuse(400, err.Error())
			return
		}
	}
	kind, id, _ := strings.Cut(at, "/")
	switch r.Method + " " + kind {
	case "GET ref":
		if id != "heads/main" {
			refuse(404, "Not Found")
			return
		}
		answer(200, map[string]any{"object": map[string]string{"sha": g.line("rev-parse", "main")}})
	case "GET commits":
		answer(200, map[string]any{"tree": map[string]string{"sha": g.line("rev-parse", id+"^{tree}")}})
	case "GET trees":
		answer(200, map[string]any{"tree": g.entries(id)})
	case "GET blobs":
		content := g.git("", "cat-file", "blob", id)
		if fault == "content" {
			content += "evil"
		}
		answer(200, map[string]string{"content": base64.StdEncoding.EncodeToString([]byte(content)), "encoding": "base64"})
	case "POST blobs":
		content, err := base64.StdEncoding.DecodeString(in.Content)
		if err != nil || in.Encoding != "base64" {
			refuse(422, "encoding")
			return
		}
		answer(201, map[string]string{"sha": strings.TrimSpace(g.git(string(content), "hash-object", "-w", "--stdin"))})
	case "POST trees":
		rows := ""
		for _, e := range tree.Tree {
			rows += fmt.Sprintf("%s %s %s\t%s\n", e.Mode, e.Type, e.SHA, e.Path)
		}
		sha := strings.TrimSpace(g.git(rows, "mktree"))
		if fault == "tree" {
			sha = g.line("rev-parse", "main^{tree}")
		}
		answer(201, map[string]any{"sha": sha, "tree": g.entries(sha)})
	case "POST commits":
		args := []string{"commit-tree", in.Tree, "-m", in.Message}
		for _, p := range in.Parents {
			args = append(args, "-p", p)
		}
		answer(201, map[string]any{"sha": g.line(args...), "tree": map[string]string{"sha": in.Tree}})
	case "PATCH refs":
		_, err := g.tryGit("", "merge-base", "--is-ancestor", "main", in.SHA)
		if id != "heads/main" || err != nil || in.Force == nil || *in.Force {
			refuse(422, "Update is not a fast forward")
			return
		}
		g.git("", "update-ref", "refs/heads/main", in.SHA)
		answer(200, map[string]any{"object": map[string]string{"sha": in.SHA}})
	default:
		refuse(404, "Not Found")
	}
}

// testGitHub pulls, stages and pushes in a page, and looks at the repository afterwards.
func testGitHub(t *testing.T, server *site, run func(module string) string) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed; scripts/need git=git installs it")
	}
	g := newLoopbackGitHub(t)
	server.kept.Store("github", g.URL)
	printed := run("github.js")
	if got := g.line("log", "--format=%s", "main"); got != "change the notes\nsecond\nfirst" {
		t.Errorf("commits:\n%s", got)
	}
	want := "100644 README.md\n120000 link\n100644 docs/a.md\n100644 docs/new/ä.md\n100755 tools/run.sh"
	got := g.line("-c", "core.quotePath=false", "ls-tree", "-r", "--format=%(objectmode) %(path)", "main")
	for _, row := range strings.Split(want, "\n") {
		if !strings.Contains(got+"\n", row+"\n") {
			t.Errorf("the branch lacks %s; it has\n%s", row, got)
		}
	}
	if strings.Contains(got, "docs/deep") {
		t.Errorf("the deleted file is there:\n%s", got)
	}
	if text := g.line("show", "main:docs/a.md"); text != "two" {
		t.Errorf("docs/a.md is %q", text)
	}
	digest, _ := server.kept.Load("digest")
	if tree := g.line("rev-parse", "main^{tree}"); tree != digest {
		t.Errorf("the tree is %s, and the page showed %v", tree, digest)
	}
	for _, request := range g.requests {
		if strings.Contains(request, testToken) {
			t.Errorf("the token is in an address: %s", request)
		}
	}
	if strings.Contains(printed, testToken) {
		t.Errorf("the token is in the console:\n%s", printed)
	}
}
