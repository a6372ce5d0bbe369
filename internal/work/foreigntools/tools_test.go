package foreigntools_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/trust"
	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/foreigntools"
	"github.com/golem-forge/golem/internal/work/toolset/foreign"
	"github.com/golem-forge/golem/internal/work/worker"
)

const (
	countTool = "count: {command: [./count.sh, --words], schema: ./count.json, env: [COUNT_KEY]%s}"
	schema    = `{"description": "Counts words.", "type": "object", "properties": {"text": {"type": "string"}}}`
)

// newTools returns the tools of one worker, which has these custom tools and servers.
func newTools(t *testing.T, custom, servers string) (foreigntools.Tools, *calltree.Step) {
	t.Helper()
	text := "---\nsandbox: inherit\ntoolsets:\n  custom: {" + custom + "}\n  mcp: {" + servers + "}\n---\nGo.\n"
	w, err := worker.Parse("main.worker", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	x := foreigntools.Tools{Workers: []*worker.Worker{w}, Files: trust.ToolFiles{"count.sh": []byte("#!/bin/sh\n"), "count.json": []byte(schema)}, State: t.TempDir(),
		Reserved: []string{"read_file"}, Now: func() time.Time { return time.Unix(0, 0) }}
	return x, &calltree.Step{Worker: w}
}

func add(more string) string { return strings.Replace(countTool, "%s", more, 1) }

// TestCustom checks a custom tool as a model sees it, and the rules of its calls.
func TestCustom(t *testing.T) {
	for name, test := range map[string]struct {
		more  string
		rules string
	}{
		"as its schema says": {"", "run ask"},
		"stricter":           {", approval: blocked", "run blocked, run ask"},
		"with the network":   {", network: true", "run ask, connect ask"},
	} {
		x, step := newTools(t, add(test.more), "")
		list, err := x.Custom(step, nil)
		if err != nil || len(list) != 1 || list[0].Name != "count" || list[0].Description != "Counts words." {
			t.Errorf("%s: got %+v, %v", name, list, err)
			continue
		}
		var rules []string
		for _, r := range list[0].Rules {
			rules = append(rules, r.Verb.String()+" "+r.Approval.String())
		}
		if got := strings.Join(rules, ", "); got != test.rules {
			t.Errorf("%s: got the rules %s, want %s", name, got, test.rules)
		}
	}
	if list, err := (foreigntools.Tools{}).Custom(nil, nil); err != nil || list != nil {
		t.Errorf("without a worker: got %v, %v", list, err)
	}
}

// TestLint checks the problems of foreign tools with other names and with their schemas.
func TestLint(t *testing.T) {
	for name, test := range map[string]struct {
		custom string
		change func(x *foreigntools.Tools)
		want   string
	}{
		"nothing":            {add(""), func(*foreigntools.Tools) {}, ""},
		"a tool of golem":    {strings.Replace(add(""), "count:", "read_file:", 1), func(*foreigntools.Tools) {}, "golem has a tool named"},
		"a worker":           {strings.Replace(add(""), "count:", "main:", 1), func(*foreigntools.Tools) {}, "a worker has the name"},
		"a broken schema":    {add(""), func(x *foreigntools.Tools) { x.Files["count.json"] = []byte("{") }, "count.json"},
		"less strict":        {add(", approval: preApproved"), func(*foreigntools.Tools) {}, "a worker may only be stricter"},
		"another program":    {add(""), func(x *foreigntools.Tools) { x.Workers = append(x.Workers, parseOther(t, "[./other.sh]")) }, "is another program in"},
		"the same elsewhere": {add(""), func(x *foreigntools.Tools) { x.Workers = append(x.Workers, parseOther(t, "[./count.sh, --words]")) }, ""},
	} {
		x, _ := newTools(t, test.custom, "")
		test.change(&x)
		problems := x.Lint()
		if (len(problems) > 0) != (test.want != "") || len(problems) > 0 && !strings.Contains(problems[0].Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, problems, test.want)
		}
	}
}

func parseOther(t *testing.T, command string) *worker.Worker {
	t.Helper()
	w, err := worker.Parse("other.worker", []byte("---\ntoolsets: {custom: {count: {command: "+command+", schema: ./count.json, env: [COUNT_KEY]}}}\n---\nGo.\n"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestEnvironment checks that a program gets only the variables that it names.
func TestEnvironment(t *testing.T) {
	x, step := newTools(t, add(""), "")
	f := step.Worker.Custom[0].Foreign
	if env, err := foreigntools.Environment(f, []string{"COUNT_KEY=abc", "OTHER=x"}); err != nil || strings.Join(env, " ") != "COUNT_KEY=abc" {
		t.Errorf("got %q, %v", env, err)
	}
	if _, err := foreigntools.Environment(f, []string{"OTHER=x"}); err == nil || !strings.Contains(err.Error(), "COUNT_KEY is not set") {
		t.Errorf("missing: got %v", err)
	}
	if got := x.Secrets([]string{"COUNT_KEY=abc", "OTHER=x"}); strings.Join(got, " ") != "abc" {
		t.Errorf("secrets: got %q", got)
	}
}

// TestWriteFiles checks that the jail gets the trusted bytes of a program, in a directory
// with their hash as its name.
func TestWriteFiles(t *testing.T) {
	x, step := newTools(t, add(""), "")
	f := step.Worker.Custom[0].Foreign
	first, err := x.WriteFiles(f)
	if err != nil || len(first) != 1 {
		t.Fatalf("got %v, %v", first, err)
	}
	if data, err := os.ReadFile(filepath.Join(string(first[0].Source), "count.sh")); err != nil || string(data) != "#!/bin/sh\n" {
		t.Errorf("got %q, %v", data, err)
	}
	if again, err := x.WriteFiles(f); err != nil || again[0] != first[0] {
		t.Errorf("again: got %v, %v", again, err)
	}
	x.Files["count.sh"] = []byte("#!/bin/sh\necho other\n")
	if other, err := x.WriteFiles(f); err != nil || other[0].Source == first[0].Source {
		t.Errorf("other bytes: got %v, %v", other, err)
	}
	if left, _ := filepath.Glob(filepath.Join(x.State, "programs", "new-*")); len(left) > 0 {
		t.Errorf("leftover files: %q", left)
	}
}

// TestListings checks that a list is kept for one server, and that another command, another
// choice of tools or another variable is another server.
func TestListings(t *testing.T) {
	x, step := newTools(t, "", "search: {command: [node, server.js]}")
	s := step.Worker.Servers[0]
	if l, older, err := x.Listing(s); err != nil || l != nil || older {
		t.Errorf("before the first start: got %v, %v, %v", l, older, err)
	}
	if err := x.KeepListing(s, foreign.Listing{{Name: "find", Description: "Finds.", Schema: []byte(`{"type": "object"}`)}}); err != nil {
		t.Fatal(err)
	}
	if l, older, err := x.Listing(s); err != nil || len(l) != 1 || l[0].Name != "find" || older {
		t.Errorf("got %v, %v, %v", l, older, err)
	}
	for _, servers := range []string{"search: {command: [node, other.js]}", "search: {command: [node, server.js], tools: [find]}", "search: {command: [node, server.js], env: [KEY]}", "other: {command: [node, server.js]}"} {
		_, other := newTools(t, "", servers)
		server := other.Worker.Servers[0]
		if l, older, err := x.Listing(server); err != nil || l != nil || older != (server.Name == "search") {
			t.Errorf("%s: got %v, %v, %v", servers, l, older, err)
		}
	}
	tools, notes, err := x.Servers(step, time.Minute, nil, nil, nil)
	if err != nil || len(notes) > 0 || len(tools) != 1 || tools[0].Name != "search_find" || tools[0].Rules[0].Approval != policy.Ask {
		t.Errorf("got %+v, %q, %v", tools, notes, err)
	}
	if err := os.WriteFile(filepath.Join(x.State, "mcp.json"), []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Listing(s); err == nil || !strings.Contains(err.Error(), "mcp.json") {
		t.Errorf("damaged: got %v", err)
	}
	if err := x.KeepListing(s, nil); err == nil {
		t.Error("a damaged file was replaced")
	}
}
