package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// sdkPackages are the client of the ACP SDK, which TestACPAgents and TestACPClient use.
var sdkPackages = []string{"@agentclientprotocol/sdk@2.4.0"}

// An sdkEditor is an editor that is made with the client of the ACP SDK.
type sdkEditor struct {
	script string // the copy of testdata/editor.mjs, beside the packages
	node   string
}

func newSDKEditor(t *testing.T, modules, path string) sdkEditor {
	t.Helper()
	dir := t.TempDir()
	e := sdkEditor{script: filepath.Join(dir, "editor.mjs")}
	for _, bin := range filepath.SplitList(path) {
		if e.node = filepath.Join(bin, "node"); exists(e.node) {
			break
		}
	}
	data, err := os.ReadFile("testdata/editor.mjs")
	if err == nil {
		err = os.WriteFile(e.script, data, 0o600)
	}
	if err == nil {
		err = os.Symlink(modules, filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// An sdkReport is what the editor says that happened.
type sdkReport struct {
	Session   string
	Stops     []string
	Questions []string          // as JSON
	Chosen    []string          // the kind of option, for each question
	Updates   map[string]string // as JSON, by their kind
	Said      string            // the text of the agent
	Files     []string          // the methods for files of the editor that the agent called
	Sessions  string            // as JSON
	Code      int
	Errors    string
	Replay    *sdkReport // after the editor opened the session again, nil before
}

// run has the editor start a command of golem. The rules pair a text in a question with the kind of
// option to choose.
func (e sdkEditor) run(t *testing.T, golem *exec.Cmd, version string, prompts []any, rules [][2]string) (r sdkReport) {
	t.Helper()
	first, err := json.Marshal(prompts)
	if err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(rules)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), e.node, slices.Concat([]string{e.script, version, golem.Dir, string(first), string(second), golem.Path}, golem.Args[1:])...)
	cmd.Dir, cmd.Env = golem.Dir, golem.Env
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	r.Errors, r.Updates, r.Code = errs.String(), make(map[string]string), -1
	if err != nil {
		t.Errorf("the editor: %v\n%s\n%s", err, out, &errs)
	}
	for line := range strings.Lines(string(out)) {
		var one struct {
			Session, Closed, Stop, Kind, Files string
			Question, Update, Sessions         json.RawMessage
			Code                               *int
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch {
		case one.Session != "":
			r.Session = one.Session
		case one.Stop != "":
			r.Stops = append(r.Stops, one.Stop)
		case one.Question != nil:
			r.Questions, r.Chosen = append(r.Questions, string(one.Question)), append(r.Chosen, one.Kind)
		case one.Files != "":
			r.Files = append(r.Files, one.Files)
		case one.Closed != "":
			r.Replay = &sdkReport{Updates: make(map[string]string)}
		case one.Sessions != nil:
			r.Sessions = string(one.Sessions)
		case one.Code != nil:
			r.Code = *one.Code
		case one.Update != nil:
			var u struct {
				SessionUpdate string
				Content       json.RawMessage
			}
			json.Unmarshal(one.Update, &u)
			at := &r
			if r.Replay != nil {
				at = r.Replay
			}
			at.Updates[u.SessionUpdate] += string(one.Update) + "\n"
			var text struct{ Text string }
			if json.Unmarshal(u.Content, &text) == nil && u.SessionUpdate == "agent_message_chunk" {
				at.Said += text.Text
			}
		}
	}
	return r
}

// asked returns the kind that the editor chose for the questions with a text, and how many there were.
func (r sdkReport) asked(text string) (kind string, n int) {
	for i, q := range r.Questions {
		if strings.Contains(q, text) {
			kind, n = r.Chosen[i], n+1
		}
	}
	return kind, n
}

// TestACPClient has the client of the ACP SDK work with a worker of golem, in both versions of the
// protocol. The client checks every message against the schema of its version.
func TestACPClient(t *testing.T) {
	t.Parallel()
	modules, path := testutil.NodeModules(t, "acp-sdk", nil, nil, sdkPackages...)
	e := newSDKEditor(t, modules, path)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("the internet got " + r.URL.String())) }))
	t.Cleanup(proxy.Close)
	for _, version := range []string{"1", "2"} {
		t.Run("version "+version, func(t *testing.T) {
			t.Parallel()
			m := newModelServer(t)
			m.file = "/made.txt"
			m.command = "curl -sm 20 http://yes.example/; curl -sm 20 http://no.example/; env; cat made.txt old.txt > both.txt && rm old.txt && echo the command ran"
			dir, _, golem := newTrustedProgram(t, map[string]string{"main.worker": workerText, "old.txt": "old\n",
				"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay, approval: {write: ask}}\nnetwork: {allow: [api.example.org], ask: true}\n"})
			cmd := golem("acp", "--model", "anthropic:claude-opus-4-5")
			cmd.Env = append(cmd.Env, "ANTHROPIC_BASE_URL="+m.url, "ANTHROPIC_API_KEY=sk-ant-secret-0123456789", "HTTP_PROXY="+proxy.URL, "NO_PROXY=127.0.0.1")
			r := e.run(t, cmd, version, []any{"write the file and run the command", nil},
				[][2]string{{"connect yes.example", "allow_once"}, {"connect no.example", "reject_once"}, {"made by the agent", "allow_once"}, {"connect api.example.org", "allow_once"}})
			if !slices.Equal(r.Stops, []string{"end_turn"}) || r.Code != 0 || !strings.Contains(r.Said, m.lastWords) {
				t.Errorf("got %q, code %d, said %q\n%s", r.Stops, r.Code, r.Said, r.Errors)
			}
			for text, want := range map[string]string{"connect yes.example": "allow_once", "connect no.example": "reject_once", "made by the agent": "allow_once"} {
				if kind, n := r.asked(text); kind != want || n < 1 {
					t.Errorf("%q was asked %d times and answered by %q, want %q\n%s", text, n, kind, want, strings.Join(r.Questions, "\n"))
				}
			}
			results := m.lastResults()
			if len(results) != 2 || !strings.Contains(results[0], "created /made.txt") || !strings.Contains(results[1], "the internet got http://yes.example/") || strings.Contains(results[1], "no.example/\n") || !strings.Contains(results[1], "the command ran") {
				t.Errorf("the model got %q", results)
			}
			if strings.Contains(strings.Join(results, ""), "sk-ant-secret") || strings.Contains(strings.Join(r.Questions, ""), "sk-ant-secret") {
				t.Errorf("the key is in what the worker sees: %q", results)
			}
			call, state := r.Updates["tool_call"], r.Updates["state_update"]
			if version == "2" {
				call = r.Updates["tool_call_update"]
			}
			for _, want := range []string{`"path":"` + dir + `/made.txt"`, "made by the agent", `"kind":"execute"`} {
				if !strings.Contains(call, want) {
					t.Errorf("the calls have no %s:\n%s", want, call)
				}
			}
			if ordered := strings.Contains(state, "running") && strings.Contains(state, "requires_action") && strings.Contains(state, "idle"); ordered != (version == "2") {
				t.Errorf("the states are %s", state)
			}
			if r.Replay == nil || !strings.Contains(r.Replay.Said, m.lastWords) || !strings.Contains(r.Replay.Updates["user_message_chunk"], "write the file") || strings.Contains(r.Replay.Updates["state_update"], `"idle"`) != (version == "2") {
				t.Errorf("the replay is %+v", r.Replay)
			}
			if !strings.Contains(r.Sessions, r.Session) || r.Session == "" {
				t.Errorf("session %s is not in the list %s", r.Session, r.Sessions)
			}
			if exists(filepath.Join(dir, "made.txt")) {
				t.Error("the worker has changed the directory")
			}
			if out, err := golem("apply", "--yes", "--session", r.Session).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if data, err := os.ReadFile(filepath.Join(dir, "both.txt")); string(data) != "made by the agent\nold\n" {
				t.Errorf("applied: %q, %v", data, err)
			}
			if out, _ := golem("audit", "export").CombinedOutput(); strings.Count(string(out), `"front":"shown by the editor"`) < 3 {
				t.Errorf("the journal does not name the editor:\n%s", out)
			}
		})
	}
}
