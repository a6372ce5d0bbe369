package program

import (
	"slices"
	"testing"

	"github.com/golem-forge/golem/internal/decide/tool"
)

// TestBuiltin: the table of golem's tools has the names and sets of the tools themselves.
func TestBuiltin(t *testing.T) {
	n := 0
	for _, one := range builtin {
		n += len(one.names)
	}
	all := Tools()
	if len(all) != n {
		t.Errorf("the table has %d tools, and golem %d", n, len(all))
	}
	for _, one := range all {
		if got := setOf(one.Name); got != one.Toolset {
			t.Errorf("%s: got the set %q, want %q", one.Name, got, one.Toolset)
		}
	}
}

// TestGateForCalls: a gate for some calls has the tools of their sets, and a gate for a name
// that golem does not know has all.
func TestGateForCalls(t *testing.T) {
	t.Parallel()
	p := loadProgram(t, writeProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ., target: /docs, mode: ro}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  filesystem: {}\n  custom: {count: {command: [wc], schema: ./count.json}}\n---\nDo.\n",
		"count.json":              `{"type": "object", "description": "count"}`,
	}))
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	listed, err := p.Tools("")
	if err != nil {
		t.Fatal(err)
	}
	namesOf := func(list []tool.Tool, sets ...string) (names []string) {
		for _, one := range list {
			if len(sets) == 0 || slices.Contains(sets, one.Toolset) {
				names = append(names, one.Name)
			}
		}
		return names
	}
	for _, test := range []struct{ called, sets []string }{
		{nil, nil},
		{[]string{"reed_file"}, nil},
		{[]string{"apply_changes", "reed_file"}, nil},
		{[]string{"apply_changes"}, []string{"changes"}},
		{[]string{"sandbox_read_text", "web_fetch"}, []string{"filesystem", "web"}},
		{[]string{"git_diff"}, []string{"git", "clearance"}},
		{[]string{}, []string{"none"}},
	} {
		gate, err := p.OpenWorker(WorkerOptions{Tools: test.called})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := namesOf(gate.Tools), namesOf(listed.Tools, test.sets...); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", test.called, got, want)
		}
		if err := gate.Close(); err != nil {
			t.Error(err)
		}
	}
}
