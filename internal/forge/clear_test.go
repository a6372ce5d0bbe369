package forge

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/tool"
)

// cleared are the files of a program with an empty repository that results go to, a
// folder that is not trusted, and one that is changed at once.
func cleared(target string) map[string]string {
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

// Who may not read a file is not told by git_diff what others have staged of it.
func TestRestrictedDiff(t *testing.T) {
	said, _, _ := play(t, cleared(bare), `
main:
  - calls: [{tool: git_stage, args: {files: [/secret/x], message: Keep}}]
  - calls: [{tool: git_diff}, {tool: child, args: {input: go}}]
  - text: done
child:
  - calls: [{tool: git_diff}]
  - calls: [{tool: git_stage, args: {files: [/src/x], message: Own}}]
  - text: done
`, nil)
	for _, want := range []string{"main git_diff: ", "+ KEPT", "main>child git_diff: Error: read /secret/x: blocked", "main>child git_stage: staged"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if strings.Count(said, "KEPT") != 1 {
		t.Errorf("the child was told:\n%s", said)
	}
}

// Who is asked before a repository is reached is asked before anything is sent there.
func TestPullAsksFirst(t *testing.T) {
	for _, answer := range []tool.Verdict{tool.No, tool.Yes} {
		reached, before := 0, -1
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reached++
			http.NotFound(w, r)
		}))
		said, _, _ := play(t, cleared("type: remote, url: \""+server.URL+"/x.git\""), `
- calls: [{tool: read_file, args: {path: /in/x}}]
- calls: [{tool: git_pull, args: {paths: [/src], branch: told}}]
- text: done
`, saying(func(r tool.Request) approval.Reply {
			before = reached
			return approval.Reply{Answer: tool.Answer{Verdict: answer}}
		}))
		server.Close()
		if before != 0 || (reached > 0) != (answer == tool.Yes) {
			t.Errorf("answer %d: reached %d times before it was asked, %d in all\n%s", answer, before, reached, said)
		}
	}
}
