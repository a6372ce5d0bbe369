package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// The worker file limits a foreign tool.
const counts = `
toolsets:
  custom:
    count:
      command: [python3, ./count.py]
      schema: ./count.json
`

// TestForeignGrants: a child has a foreign program only if its parent has the same one,
// and a tool never has more than its worker.
func TestForeignGrants(t *testing.T) {
	project := policy.Grant{Files: policy.AllFiles().With(sandbox.Limit{Path: "/in", Access: sandbox.ReadOnly}, sandbox.Limit{Path: "/out", Access: sandbox.ReadWrite}),
		Tools: policy.All(), Hosts: policy.AllHosts()}
	having := func(names ...string) policy.Grant {
		g := project
		g.Tools = policy.SetOf(names...)
		return g
	}
	for _, test := range []struct {
		name, file string
		parent     policy.Grant
		want       string // in the problem; "" for none
	}{
		{"of the project", counts, project, ""},
		{"the parent has it", counts, having("custom", "custom.count"), ""},
		{"the parent has another", counts, having("custom", "custom.other"), "tool custom.count: exceeds_parent; asks for it, the parent has custom, custom.other"},
		{"the parent has none", counts, having("filesystem"), "tool custom: exceeds_parent"},
		{"a server that the parent lacks", "toolsets: {mcp: {search: {command: [node]}}}", having("mcp", "mcp.other"), "tool mcp.search: exceeds_parent"},
		{"files of a pure function", counts + "      files: {restrict: /in}", project, "custom.count.files /in: exceeds_parent; asks for ro, the worker has no files"},
		{"files of the worker", "sandbox: inherit" + counts + "      files: {restrict: /in}", project, ""},
		{"all files of the worker", "sandbox: inherit" + counts + "      files: {readonly: false}", project, ""},
		{"what the worker only reads", "sandbox: inherit" + counts + "      files: {restrict: /in, readonly: false}", project, "custom.count.files /in: exceeds_parent; asks for rw, the worker has /in ro, /out rw"},
		{"what the worker does not see", "sandbox: {restrict: /in}" + counts + "      files: {restrict: /out}", project, "custom.count.files /out: exceeds_parent"},
		{"network of a worker that has it", "sandbox: inherit" + counts + "      network: true", project, ""},
		{"network of a worker without", counts + "      network: true", project, "custom.count.network: exceeds_parent; asks for it, the worker has none"},
	} {
		w, err := worker.Parse("w.worker", []byte(test.file))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		_, problems := w.Grant(test.parent, nil, called)
		if got := problems.Error(); test.want == "" && len(problems) > 0 || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// TestDescribe: a schema file describes the use of a tool. golem reports its problems
// with their places.
func TestDescribe(t *testing.T) {
	d, err := worker.Describe("t.json", []byte(`{"description": "Counts.", "type": "object",
		"x-golem": {"mode": "both", "approval": "preApproved", "label": "Count", "category": "text"},
		"properties": {"n": {"type": "integer"}}}`))
	if err != nil || d.Text != "Counts." || d.Mode != policy.Both || d.Approval.Approval != policy.PreApproved || d.Label != "Count" || d.Category != "text" ||
		string(d.Schema) != `{"properties":{"n":{"type":"integer"}},"type":"object"}` || d.Approval.From != "t.json:2" {
		t.Errorf("got %+v, %v", d, err)
	}
	d, err = worker.Describe("t.json", []byte(`{"description": "x", "type": "object"}`))
	if err != nil || d.Mode != policy.LLM || d.Approval.Approval != policy.Ask {
		t.Errorf("a schema without golem's keys: got %+v, %v", d, err)
	}
	for file, want := range map[string]string{
		``:                                      "t.json:1:1: not JSON: it ends too early",
		"{\n  \"description\": }":               "t.json:2:18: not JSON",
		`{"a": 1, "a": 2}`:                      "a appears twice",
		`[]`:                                    "t.json:1:1: not a schema: a list",
		`{} {}`:                                 "something follows the schema",
		`{"type": "object"}`:                    "no description",
		`{"description": "x", "type": "array"}`: `no "type": "object"`,
		"{\"description\": \"x\", \"type\": \"object\",\n \"x-golem\": {\"mod\": \"llm\"}}":                      `t.json:2:14: unknown key "mod" in x-golem; did you mean mode?`,
		"{\"description\": \"x\", \"type\": \"object\",\n \"x-golem\": {\"mode\": \"all\"}}":                     `t.json:2:22: x-golem.mode: "all"; it is llm, manual or both`,
		"{\"description\": \"x\", \"type\": \"object\",\n \"x-golem\": {\"approval\": \"no\"}}":                  `t.json:2:26: x-golem.approval: "no"; it is preApproved, ask or blocked`,
		`{"description": "x", "type": "object", "a": ` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}`: "more than 32 levels deep",
		"{\"description\": \"\xff\"}": "not UTF-8",
		strings.Repeat(" ", 65<<10):   "more than 65536 bytes",
	} {
		if _, err := worker.Describe("t.json", []byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %s", file, err, want)
		}
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add([]byte(`{"description": "x", "type": "object", "x-golem": {"mode": "llm"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if d, err := worker.Describe("t.json", data); err == nil && (d.Text == "" || d.Mode == policy.Closed) {
			t.Errorf("%q: got %+v", data, d)
		}
	})
}

// TestForeignVariables: a foreign program gets no variable that chooses programs or files.
func TestForeignVariables(t *testing.T) {
	const file = "---\ntoolsets: {mcp: {search: {command: [node], timeout: 30s, env: [%s], state: [%s]}}}\n---\n"
	w := parse(t, fmt.Sprintf(file, "SEARCH_API_KEY", "MEMORY=m.json"))
	if got := w.Servers[0].Timeout; got != 30*time.Second {
		t.Errorf("the timeout is %v", got)
	}
	for _, name := range []string{"PATH", "LD_PRELOAD", "GIT_SSH_COMMAND", "HOME", "GOLEM_STATE"} {
		for key, text := range map[string]string{"env": fmt.Sprintf(file, name, "MEMORY=m.json"), "state": fmt.Sprintf(file, "SEARCH_API_KEY", name+"=m.json")} {
			if got := problemsOf(t, text); len(got) != 1 || !strings.HasPrefix(got[0].What, "toolsets.mcp.search."+key+": "+name) {
				t.Errorf("%s in %s: got %v", name, key, got)
			}
		}
	}
}
