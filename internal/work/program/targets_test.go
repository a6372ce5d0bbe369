package program

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/model/scripted"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
)

// newTargetProgram returns the files of a program with an empty repository as its target, an
// untrusted mount, and a mount that tools change directly.
func newTargetProgram(target string) map[string]string {
	return map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  root: ./tree\n  mode: overlay\n  mounts:\n    - {source: ./in, target: /in, mode: ro, trust: untrusted}\n" +
			"    - {source: ./out, target: /out, approval: {write: preApproved}}\nclearance: {targets: {here: {" + target + ", at: /}}}\n",
		"main.worker":  "---\nsandbox: inherit\ntoolsets: {filesystem: , git: , workers: {allowed_workers: [child]}}\n---\nWork.\n",
		"child.worker": "---\ndescription: Works.\nsandbox: {restrict: /src}\ntoolsets: {filesystem: , git: }\n---\nWork.\n",
		"tree/src/x":   "x\n", "tree/secret/x": "KEPT\n", "in/x": "Do as I say.\n", "out/x": "out\n",
		"repo.git/HEAD": "ref: refs/heads/main\n", "repo.git/config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
		"repo.git/objects/info/packs": "", "repo.git/refs/heads/.keep": "",
	}
}

const bare = "type: bare, path: ./repo.git"

// TestRestrictedDiff: git_diff does not show a worker staged content of a file that it
// may not read.
func TestRestrictedDiff(t *testing.T) {
	said, _, _ := runScript(t, newTargetProgram(bare), `
main:
  - calls: [{tool: git_stage, args: {files: [/secret/x], message: Keep}}]
  - calls: [{tool: git_diff}, {tool: child, args: {input: go}}]
  - text: done
child:
  - calls: [{tool: git_diff}]
  - calls: [{tool: git_stage, args: {files: [/src/x], message: Own}}]
  - text: done
`, nil)
	for _, want := range []string{"main git_diff: ", "+ KEPT", "main>child git_diff: Error: git_diff: not_found", "main>child git_stage: staged"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if strings.Count(said, "KEPT") != 1 {
		t.Errorf("the child got:\n%s", said)
	}
}

// TestDelegatedRatio: a worker counts as having read the input that its caller gives it.
func TestDelegatedRatio(t *testing.T) {
	files := newTargetProgram(bare)
	files["golem-forge.config.yaml"] = strings.Replace(files["golem-forge.config.yaml"], "clearance: {", "clearance: {limits: {max_percent: 100}, ", 1)
	files["tree/src/x"] = strings.Repeat("x\n", 500)
	said, _, _ := runScript(t, files, `
main:
  - calls: [{tool: child, args: {input: go}}]
  - text: done
child:
  - calls: [{tool: git_stage, args: {files: [/src/x], message: Own}}]
  - calls: [{tool: git_diff}]
  - text: done
`, nil)
	if !strings.Contains(said, "ratio: 1000 bytes leave, and 2 bytes were read") {
		t.Errorf("no flag in\n%s", said)
	}
}

// TestStagedTaint: reading content that a tainted worker has staged taints the reader, in
// another session too.
func TestStagedTaint(t *testing.T) {
	options := writeProgram(t, newTargetProgram(bare))
	p := loadProgram(t, options)
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ looks, script string }{
		{"", "- calls: [{tool: read_file, args: {path: /in/x}}]\n- calls: [{tool: git_stage, args: {files: [/src/x], message: Told}}]\n- text: done\n"},
		{"git_diff", "- calls: [{tool: git_diff}]\n- calls: [{tool: write_file, args: {path: /out/a, content: a}}]\n- text: done\n"},
		{"git_list_staged", "- calls: [{tool: git_list_staged}]\n- calls: [{tool: write_file, args: {path: /out/a, content: a}}]\n- text: done\n"},
		{"git_status", "- calls: [{tool: git_status}]\n- calls: [{tool: write_file, args: {path: /out/a, content: a}}]\n- text: done\n"},
	} {
		m, err := scripted.New("demo.yaml", []byte(test.script))
		if err != nil {
			t.Fatal(err)
		}
		asked := ""
		r, err := p.OpenRun(RunOptions{WorkerOptions: WorkerOptions{Session: session.New, Asker: fixedAsker(func(r tool.Request) approval.Reply {
			asked += r.Tool + ": " + r.Rule
			return approval.Reply{}
		})}, Model: m, ModelName: "scripted:demo.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Do(t.Context(), run.Input{Text: "go"})
		if r.Close(); err != nil {
			t.Fatal(err)
		}
		if want := "write_file: untrusted: /in was read"; test.looks != "" && asked != want {
			t.Errorf("after %s asked %q, want %q", test.looks, asked, want)
		}
	}
}

// TestFirstPush: the first push to a remote that was never pulled stages the files on top
// of its branch, and says what to do next.
func TestFirstPush(t *testing.T) {
	options := writeProgram(t, newTargetProgram(bare))
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = options.Dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + options.Dir, "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("--git-dir=repo.git", "config", "http.receivepack", "true")
	begun := git("--git-dir=repo.git", "commit-tree", "-m", "first", git("--git-dir=repo.git", "--work-tree=tree", "hash-object", "-t", "tree", "-w", "/dev/null"))
	git("--git-dir=repo.git", "update-ref", "refs/heads/main", begun)
	server := httptest.NewServer(&cgi.Handler{Path: filepath.Join(git("--exec-path"), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + options.Dir,
		"GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}})
	defer server.Close()
	config := newTargetProgram("type: remote, url: \"" + server.URL + "/repo.git\"")["golem-forge.config.yaml"]
	if err := os.WriteFile(filepath.Join(options.Dir, "golem-forge.config.yaml"), []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
	p := loadProgram(t, options)
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	gate, err := p.OpenWorker(WorkerOptions{Session: session.New, Asker: fixedAsker(func(r tool.Request) approval.Reply {
		return approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Rendered: r.Items()}
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	call := func(name, args string) (string, error) {
		r := gate.Do(t.Context(), policy.User, tool.Call{Tool: name, Args: []byte(args)})
		if r.Err != nil {
			return "", r.Err
		}
		return r.Text, nil
	}
	if _, err := call("git_stage", `{"files": ["/src/x"], "message": "Add"}`); err != nil {
		t.Fatal(err)
	}
	_, err = call("git_push", `{}`)
	next := regexp.MustCompile(`golem review --accept ([0-9a-f]{12})$`)
	if err == nil || !next.MatchString(err.Error()) {
		t.Fatalf("got %v, want a hint", err)
	}
	if now := git("--git-dir=repo.git", "rev-parse", "main"); now != begun {
		t.Errorf("a commit without review was pushed: %s", now)
	}
	if text, err := call("git_push", `{"commitId": "`+next.FindStringSubmatch(err.Error())[1]+`"}`); err != nil {
		t.Errorf("the next push: %s, %v", text, err)
	}
	if parent := git("--git-dir=repo.git", "rev-parse", "main^"); parent != begun {
		t.Errorf("parent of the pushed commit: got %s, want %s", parent, begun)
	}

	// golem treats a branch that has moved in the same way.
	for _, c := range []struct{ tool, args string }{{"write_file", `{"path": "/src/y", "content": "y"}`}, {"git_stage", `{"files": ["/src/y"], "message": "More"}`}} {
		if _, err := call(c.tool, c.args); err != nil {
			t.Fatal(err)
		}
	}
	theirs := git("--git-dir=repo.git", "commit-tree", "-m", "theirs", "-p", "main", "main^{tree}")
	git("--git-dir=repo.git", "update-ref", "refs/heads/main", theirs)
	if _, err = call("git_push", `{}`); err == nil || !strings.Contains(err.Error(), "has moved since") || !next.MatchString(err.Error()) {
		t.Fatalf("got %v, want a hint", err)
	}
	if _, err := call("git_push", `{}`); err != nil || git("--git-dir=repo.git", "rev-parse", "main^") != theirs {
		t.Errorf("the push after that: %v", err)
	}
}

// TestPullAsksFirst: golem asks before it sends anything to a repository. It does not know
// the changes then, so a yes must name the digest.
func TestPullAsksFirst(t *testing.T) {
	type answer struct {
		verdict tool.Verdict
		named   bool
	}
	for _, answer := range []answer{{tool.Declined, false}, {tool.Approved, false}, {tool.Approved, true}} {
		reached, before := 0, -1
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reached++
			http.NotFound(w, r)
		}))
		said, _, _ := runScript(t, newTargetProgram("type: remote, url: \""+server.URL+"/x.git\""), `
- calls: [{tool: read_file, args: {path: /in/x}}]
- calls: [{tool: git_pull, args: {paths: [/src], branch: told}}]
- text: done
`, fixedAsker(func(r tool.Request) approval.Reply {
			before = reached
			reply := approval.Reply{Answer: tool.Answer{Verdict: answer.verdict}, Rendered: r.Items()}
			if answer.named {
				reply.DigestPrefix = r.Digest
			}
			return reply
		}))
		server.Close()
		if before != 0 || (reached > 0) != answer.named {
			t.Errorf("answer %+v: reached %d times before the question, %d in all\n%s", answer, before, reached, said)
		}
	}
}
