package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTargetsAreProtected: workers cannot change the repository of a target in a writable
// mount, because a branch is a file, and so is a hook.
func TestTargetsAreProtected(t *testing.T) {
	for name, target := range map[string]string{
		"bare":                "type: bare, path: './re,po [1].git'",
		"not there yet":       "type: bare, path: ./later.git",
		"a file address":      "type: remote, url: 'file://ROOT/repo.git'",
		"without its end":     "type: remote, url: 'file://ROOT/repo'",
		"an address of later": "type: remote, url: 'file://ROOT/later'",
		"the same, itself":    "type: remote, url: 'file://ROOT/later'",
		"beside a folder":     "type: remote, url: 'file://ROOT/tree'",
		"of a linked one":     "type: local, path: ./linked",
	} {
		t.Run(name, func(t *testing.T) {
			options := writeProgram(t, map[string]string{"main.worker": "---\nsandbox: inherit\ntoolsets: [filesystem]\n---\nWork.\n",
				"re,po [1].git/HEAD": "x", "repo.git/HEAD": "x", "common/worktrees/w/HEAD": "x", "common/worktrees/w/commondir": "../..\n", "linked/x": "x", "tree/x": "x"})
			text := strings.ReplaceAll("sandbox: {root: ., mode: rw}\nclearance: {targets: {out: {"+target+"}}}\n", "ROOT", options.Dir)
			for file, content := range map[string]string{"golem-forge.config.yaml": text, "common/worktrees/w/gitdir": options.Dir + "/linked/.git\n",
				"linked/.git": "gitdir: " + options.Dir + "/common/worktrees/w\n"} {
				if err := os.WriteFile(filepath.Join(options.Dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			folder := map[string]string{"bare": "/re,po [1].git", "not there yet": "/later.git", "a file address": "/repo.git", "without its end": "/repo.git", "an address of later": "/later.git", "the same, itself": "/later", "beside a folder": "/tree.git", "of a linked one": "/common"}[name]
			files, err := loadProgram(t, options).Project.Sandbox(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"/HEAD", "/refs/heads/main", "/hooks/post-update", "/config"} {
				if files.Protection()(folder+part) == "" {
					t.Errorf("%s can be written", folder+part)
				}
			}
			for _, other := range []string{"/x", "/config", "/linked/refs/x", "/common/tree/x", "/tree/x"} {
				if pattern := files.Protection()(other); pattern != "" {
					t.Errorf("%s is protected by %s", other, pattern)
				}
			}
		})
	}
}
