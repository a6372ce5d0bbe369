package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// acpAgents returns the agents that speak the Agent Client Protocol.
func acpAgents() []agent {
	var list []agent
	for _, a := range costAgents() {
		a.always = false
		switch a.name {
		case "claude":
			a.name, a.install, a.args, a.asks = "claude-agent-acp", "@agentclientprotocol/claude-agent-acp@0.99.1", nil, true
		case "codex":
			a.name, a.install, a.always, a.args = "codex-acp", "@zed-industries/codex-acp@0.16.0", true, nil
		case "gemini":
			a.args, a.asks = []string{"--experimental-acp", "--skip-trust"}, true
		case "opencode":
			a.args = []string{"acp"}
			files := a.files // with a model that offers the tool write
			a.files = func(url string) map[string]string {
				changed := files(url)
				for name, text := range changed {
					changed[name] = strings.ReplaceAll(text, "gpt-5.1", "test")
				}
				return changed
			}
		case "qwen":
			a.install, a.args, a.asks = "@qwen-code/qwen-code@0.24.4", []string{"--acp"}, true
		}
		list = append(list, a)
	}
	return list
}

// TestACPAgents has the client of the ACP SDK work with real agents, with a modelServer as their
// language model. Each writes a file and runs a command at the real path of the project. golem's
// questions about hosts and the agent's own questions are answered in the client. The changes
// wait in a session, and the keys stay outside.
func TestACPAgents(t *testing.T) {
	t.Parallel()
	cache := testutil.NPMCache(t)
	modules, path := testutil.NodeModules(t, "acp-sdk", nil, nil, sdkPackages...)
	if os.Getenv(ownNetworkVariable) != "" {
		if err := loopbackUp(); err != nil {
			t.Fatal(err)
		}
		for _, a := range acpAgents() {
			if bin := a.bin(cache); exists(filepath.Join(bin, a.name)) {
				t.Run(a.name, func(t *testing.T) { a.tryACP(t, bin, newSDKEditor(t, modules, path)) })
			}
		}
		return
	}
	for _, a := range acpAgents() {
		if a.always || os.Getenv("GOLEM_TEST_AGENTS") == "all" {
			program := a.name
			if program == "codex-acp" {
				program = "" // it has no option --version
			}
			testutil.NPM(t, a.cacheDir(), program, []string{a.install})
		}
	}
	runInOwnNetwork(t, "TestACPAgents")
}

func (a agent) tryACP(t *testing.T, bin string, editor sdkEditor) {
	t.Parallel()
	internet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "the internet got", r.URL) }))
	t.Cleanup(internet.Close)
	model := newModelServer(t)
	model.command = "curl -sm 20 http://yes.example/; curl -sm 20 http://no.example/; env; " + model.command
	home, _, command := a.place(t, bin, model)
	dir := filepath.Join(home, "repository")
	model.file = filepath.Join(dir, "made.txt")
	before := describeTree(t, home)
	golem := command("golem", slices.Concat([]string{"acp", "--name", "edit"}, a.net, []string{"--", a.name}, a.args)...)
	golem.Env = append(golem.Env, "HTTP_PROXY="+internet.URL, "NO_PROXY=127.0.0.1")
	r := editor.run(t, golem, "1", []any{"write the file and run the command"}, [][2]string{{"connect yes.example", "allow_once"}, {"connect no.example", "reject_once"}, {"golem asks", "reject_once"}, {"", "allow_once"}})
	if !slices.Equal(r.Stops, []string{"end_turn"}) || !strings.Contains(strings.ReplaceAll(r.Said, "\n", ""), model.lastWords) {
		t.Errorf("the prompt ends with %q\nthe editor sees:\n%s\ngolem prints:\n%s\nother requests: %q", r.Stops, r.Said, r.Errors, model.strays)
	}
	results := model.lastResults()
	if len(results) != 2 || !strings.Contains(results[1], "the internet got http://yes.example/") || strings.Contains(results[1], "got http://no.example/") || !strings.Contains(results[1], "the command ran") {
		t.Errorf("the model got results %q", results)
	}
	for text, want := range map[string]string{"connect yes.example": "allow_once", "connect no.example": "reject_once"} {
		if kind, n := r.asked(text); kind != want || n < 1 {
			t.Errorf("%q was asked %d times and answered by %q, want %q\n%s", text, n, kind, want, strings.Join(r.Questions, "\n"))
		}
	}
	own := slices.DeleteFunc(slices.Clone(r.Questions), func(q string) bool { return strings.Contains(q, "golem asks") })
	if a.asks != (len(own) > 0) {
		t.Errorf("the agent itself asked %q", own)
	}
	if len(r.Files) > 0 {
		t.Errorf("the agent used files of the editor: %q", r.Files)
	}
	if strings.Contains(r.Errors, "the agent can read these credentials") {
		t.Errorf("the agent has a key:\n%s", r.Errors)
	}
	if a.env != nil {
		for _, v := range a.env(model.url) {
			if name, value, _ := strings.Cut(v, "="); strings.HasSuffix(name, "_KEY") && strings.Contains(strings.Join(results, "\n"), value) {
				t.Errorf("a command of the agent has %s: %q", name, results)
			}
		}
	}
	out, err := command("golem", "diff", "--name-only", "--session", "edit").CombinedOutput()
	for _, name := range []string{"both.txt", "made.txt", "old.txt"} {
		if err != nil || !strings.Contains(string(out), name) {
			t.Errorf("golem diff has no %s: %v\n%s", name, err, out)
		}
	}
	if after := describeTree(t, home); after != before {
		t.Errorf("the home directory has changed:\n%s\nwant:\n%s", after, before)
	}
	if out, err := command("golem", "apply", "--yes", "--session", "edit").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "both.txt")); string(data) != model.content+"old\n" {
		t.Errorf("applied: got %q, %v", data, err)
	}
}
