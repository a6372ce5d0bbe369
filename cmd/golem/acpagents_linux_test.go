package main

import (
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
			a.name, a.install, a.args = "claude-agent-acp", "@agentclientprotocol/claude-agent-acp@0.99.1", nil
		case "codex":
			a.name, a.install, a.always, a.args = "codex-acp", "@zed-industries/codex-acp@0.16.0", true, nil
		case "gemini":
			a.args = []string{"--experimental-acp", "--skip-trust"}
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
			a.install, a.args = "@qwen-code/qwen-code@0.24.4", []string{"--acp"}
		}
		list = append(list, a)
	}
	return list
}

// TestACPAgents has an editor work with real agents, with a modelServer as their language model.
// Each writes a file and runs a command at the real path of the project. The changes wait in a
// session, and the keys stay outside.
func TestACPAgents(t *testing.T) {
	t.Parallel()
	cache := testutil.NPMCache(t)
	if os.Getenv(ownNetworkVariable) != "" {
		if err := loopbackUp(); err != nil {
			t.Fatal(err)
		}
		for _, a := range acpAgents() {
			if bin := a.bin(cache); exists(filepath.Join(bin, a.name)) {
				t.Run(a.name, func(t *testing.T) { a.tryACP(t, bin) })
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

func (a agent) tryACP(t *testing.T, bin string) {
	t.Parallel()
	model := newModelServer(t)
	home, _, command := a.place(t, bin, model)
	dir := filepath.Join(home, "repository")
	model.file = filepath.Join(dir, "made.txt")
	before := describeTree(t, home)
	e := startEditor(t, command("golem", slices.Concat([]string{"acp", "--name", "edit"}, a.net, []string{"--", a.name}, a.args)...))
	m := e.call("session/prompt", object{"sessionId": e.session, "prompt": []object{{"type": "text", "text": "write the file and run the command"}}})
	said := e.said()
	errs := e.end()
	if m.Error != nil || !strings.Contains(string(m.Result), "end_turn") || !strings.Contains(strings.ReplaceAll(said, "\n", ""), model.lastWords) {
		t.Errorf("the prompt ends with %s %+v\nthe editor sees:\n%s\ngolem prints:\n%s\nother requests: %q", m.Result, m.Error, said, errs, model.strays)
	}
	if results := model.lastResults(); len(results) != 2 || !strings.Contains(results[1], "the command ran") {
		t.Errorf("the model got results %q", results)
	}
	if strings.Contains(errs, "the agent can read these credentials") {
		t.Errorf("the agent has a key:\n%s", errs)
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
