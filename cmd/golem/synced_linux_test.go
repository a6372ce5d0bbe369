package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// TestIntentIsOnDiskBeforeTheEffect traces golem while it changes a directory. golem
// writes and syncs the journal before the first change. It also syncs every state file
// that it replaces, before and after.
func TestIntentIsOnDiskBeforeTheEffect(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	tree := filepath.Join(dir, "tree")
	for name, text := range map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  root: ./tree\n  approval: {write: preApproved, delete: preApproved}\n",
		"main.worker":             "---\ndescription: Works\nsandbox: inherit\ntoolsets:\n  filesystem:\n  shell:\n  workers: {allowed_workers: [child]}\ntool_rules: {shell: {allowed: true, approval_required: false}}\n---\nWork.\n",
		"child.worker":            "---\ndescription: Works.\nsandbox: inherit\ntoolsets: [filesystem]\n---\nWork.\n",
		"script.yaml": "main:\n  - calls: [{tool: write_file, args: {path: /r, content: x}}, {tool: child, args: {input: x}}]\n  - text: done\n" +
			"child:\n  - calls: [{tool: write_file, args: {path: /c, content: x}}]\n  - text: done\n",
		"tree/old": "old\n", "tree/gone": "gone\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golem := func(args ...string) *exec.Cmd {
		cmd := exec.Command("golem", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
		return cmd
	}
	if out, err := golem("trust", "--yes").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, test := range []struct {
		args    []string
		changes string // a file of the tree that exists afterwards; a leading - means that it is deleted
	}{
		{[]string{"tool", "write_file", "--path", "/new", "--content", "x"}, "new"},
		{[]string{"tool", "write_file", "--path", "/old", "--content", "x"}, "old"},
		{[]string{"tool", "make_directory", "--path", "/d"}, "d"},
		{[]string{"tool", "move_file", "--from", "/new", "--to", "/d/new"}, "-new"},
		{[]string{"tool", "delete_file", "--path", "/gone"}, "-gone"},
		{[]string{"tool", "shell", "--command", "echo x > s"}, "s"},
		{[]string{"tool", "undo", "--approval", "approve_all"}, "-s"},
		{[]string{"run", ".", "x", "--model", "scripted:script.yaml"}, "c"},
		{[]string{"exec", "--apply", "yes", "--", "/bin/sh", "-c", "echo x > e"}, "e"},
	} {
		what := strings.Join(test.args, " ")
		calls := testutil.Trace(t, golem(test.args...))
		name, gone := strings.CutPrefix(test.changes, "-")
		if _, err := os.Lstat(filepath.Join(tree, name)); gone != os.IsNotExist(err) {
			t.Errorf("%s: %s: %v", what, test.changes, err)
		}
		logs, _ := filepath.Glob(filepath.Join(state, "*", "journal.jsonl"))
		if len(logs) == 0 {
			t.Fatalf("%s: there is no journal", what)
		}
		effects := 0
		for i, c := range calls {
			if !strings.HasPrefix(c.Path, tree+"/") && !strings.HasPrefix(c.To, tree+"/") {
				continue
			}
			if effects++; effects > 1 {
				continue
			}
			written := false
			for _, log := range logs {
				written = written || testutil.Wrote(calls[:i], log)
				if testutil.Dirty(calls[:i], log) {
					t.Errorf("%s: %s %s before the journal is synced", what, c.Op, c.Path)
				}
			}
			if !written {
				t.Errorf("%s: %s %s before anything is in the journal", what, c.Op, c.Path)
			}
		}
		if list := testutil.Unsynced(calls, state); len(list) > 0 {
			t.Errorf("%s: %s", what, strings.Join(list, "\n"))
		}
		if effects == 0 {
			t.Errorf("%s: no effect was traced", what)
		}
	}
}
