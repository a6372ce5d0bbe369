//go:build unix

package profile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// TestFind checks that a program comes with its package or tool chain, or otherwise
// alone, and never with other files of the user.
func TestFind(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const node = ".nvm/versions/node/v22"
	script := "#!/usr/bin/env node\n"
	writeFiles(t, home, map[string]string{
		"agent":                 "binary",
		".cargo/bin/rustup":     "binary",
		".rustup/settings.toml": "version = \"12\"\ndefault_toolchain = \"stable-linux\"\n",
		".rustup/toolchains/stable-linux/bin/cargo":     "binary",
		".rustup/toolchains/stable-linux/lib/rustlib/x": "",
		"secret":                                           "",
		"Downloads/tool":                                   "binary",
		".local/bin/single":                                "binary",
		".local/bin/plain.sh":                              "#!/bin/sh\n",
		".local/bin/pinned":                                "#!" + filepath.Join(home, node, "bin/node") + " --flag\n",
		".local/lib/python3.11":                            "",
		".local/share/claude/versions/2.1":                 "binary",
		node + "/bin/node":                                 "binary",
		node + "/lib/node_modules/npm/bin/npm-cli.js":      script,
		node + "/lib/node_modules/@a/agent/bin/a.js":       script,
		".npm-global/lib/node_modules/@b/agent/cli.js":     script,
		"sdk/go1.26/bin/go":                                "binary",
		"sdk/go1.26/pkg/tool/linux/compile":                "binary",
		".pyenv/shims/python3":                             "#!/bin/sh\n",
		"work/node_modules/.bin/local":                     script,
		"work/pinned":                                      "#!" + filepath.Join(home, node, "bin/node") + "\n",
		"work/greedy":                                      "#!" + filepath.Join(home, "private/bin/tool") + "\n",
		"work/greedy.env":                                  "#!/usr/bin/env " + filepath.Join(home, "private/bin/tool") + "\n",
		"private/bin/tool":                                 "binary",
		"private/lib/python3.11":                           "",
		"private/secret":                                   "",
		".local/share/pnpm/pn":                             "#!/bin/sh\n",
		".local/share/pnpm/global/5/node_modules/pn/pn.js": script,
	})
	for link, to := range map[string]string{
		".local/bin/claude":    "../share/claude/versions/2.1",
		node + "/bin/npm":      "../lib/node_modules/npm/bin/npm-cli.js",
		node + "/bin/a":        "../lib/node_modules/@a/agent/bin/a.js",
		".npm-global/bin/b":    "../lib/node_modules/@b/agent/cli.js",
		".local/bin/elsewhere": "/no/such/file",
		".cargo/bin/cargo":     "rustup",
		".cargo/bin/missing":   "rustup",
		"work/node":            filepath.Join(home, node, "bin/node"),
		"work/link":            "../private/bin/tool",
		"work/bin/listed":      "../../private/bin/tool",
		"work/folder":          "../private/bin",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Source: sandbox.Host(filepath.Join(home, "work")), Target: "/", Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	search := strings.Join([]string{filepath.Join(home, ".pyenv/shims"), filepath.Join(home, ".local/bin"), filepath.Join(home, node, "bin"),
		filepath.Join(home, ".npm-global/bin"), filepath.Join(home, "sdk/go1.26/bin"), filepath.Join(home, ".local/share/pnpm"), filepath.Join(home, ".cargo/bin"), filepath.Join(home, "work/bin"), "relative", ""}, ":")
	alone := "<alone>"
	for _, c := range []struct {
		program, path string
		mounts        []string // below the home
		paths, with   string
	}{
		{program: "a", path: "/opt/golem/0/node_modules/@a/agent/bin/a.js", mounts: []string{node + "/lib/node_modules", node}, paths: "/opt/golem/0/node_modules/@a/agent/bin /opt/golem/1/bin"},
		{program: "b", path: "/opt/golem/0/node_modules/@b/agent/cli.js", mounts: []string{".npm-global/lib/node_modules", node}, paths: "/opt/golem/0/node_modules/@b/agent /opt/golem/1/bin"},
		{program: "npm", path: "/opt/golem/0/node_modules/npm/bin/npm-cli.js", mounts: []string{node + "/lib/node_modules", node}, paths: "/opt/golem/0/node_modules/npm/bin /opt/golem/1/bin"},
		{program: "node", path: "/opt/golem/0/bin/node", mounts: []string{node}, paths: "/opt/golem/0/bin"},
		{program: "go", path: "/opt/golem/0/bin/go", mounts: []string{"sdk/go1.26"}, paths: "/opt/golem/0/bin"},
		{program: "pn", path: "/opt/golem/0/pn", mounts: []string{".local/share/pnpm"}, paths: "/opt/golem/0"},
		{program: "claude", path: "/opt/golem/0/2.1", mounts: []string{alone}, paths: "/opt/golem/0"},
		{program: "cargo", path: "/opt/golem/0/bin/cargo", mounts: []string{".rustup/toolchains/stable-linux"}, paths: "/opt/golem/0/bin"},
		{program: "rustup", path: "/opt/golem/0/rustup", mounts: []string{alone}, paths: "/opt/golem/0"},
		{program: "missing", path: "/opt/golem/0/rustup", mounts: []string{alone}, paths: "/opt/golem/0"},
		{program: "single", path: "/opt/golem/0/single", mounts: []string{alone}, paths: "/opt/golem/0"},
		{program: "plain.sh", path: "/opt/golem/0/plain.sh", mounts: []string{alone}, paths: "/opt/golem/0"},
		{program: "pinned", path: "/opt/golem/0/pinned", mounts: []string{alone, node}, paths: "/opt/golem/0", with: "/opt/golem/1/bin/node --flag"},
		{program: filepath.Join(home, "agent"), path: "/opt/golem/0/agent", mounts: []string{alone}, paths: "/opt/golem/0"},
		{program: filepath.Join(home, "Downloads/tool"), path: "/opt/golem/0/tool", mounts: []string{alone}, paths: "/opt/golem/0"},
		{program: "node_modules/.bin/local", path: "/work/node_modules/.bin/local", mounts: []string{node}, paths: "/opt/golem/0/bin"},
		{program: "./pinned", path: "/work/pinned", mounts: []string{node}, with: "/opt/golem/0/bin/node"},
		{program: "./node", path: "/opt/golem/0/bin/node", mounts: []string{node}, paths: "/opt/golem/0/bin"},
		// Files in the directory do not choose what else of the user is visible.
		{program: "./greedy", path: "/work/greedy"},
		{program: "./greedy.env", path: "/work/greedy.env"},
		{program: "./link", path: "./link"},
		{program: "./folder/tool", path: "./folder/tool"},
		{program: "listed", path: "listed"},
		{program: filepath.Join(home, "private/bin/tool"), path: "/opt/golem/0/bin/tool", mounts: []string{"private"}, paths: "/opt/golem/0/bin"},
		{program: "python3", path: "python3"},
		{program: "elsewhere", path: "elsewhere"},
		{program: "/bin/sh", path: "/bin/sh"},
		{program: "/usr/bin/env", path: "/usr/bin/env"},
	} {
		single := t.TempDir()
		f, err := Find(c.program, Host{Path: search, Dir: filepath.Join(home, "work"), Home: home, Single: single}, files)
		if err != nil {
			t.Errorf("%s: %v", c.program, err)
			continue
		}
		var mounts []string
		for _, m := range f.Mounts {
			rel, err := filepath.Rel(home, string(m.Source))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(string(m.Source), single) {
				if there := listFiles(t, string(m.Source)); len(there) != 1 {
					t.Errorf("%s: other files in the directory: %v", c.program, there)
				}
				rel = alone
			}
			mounts = append(mounts, rel)
		}
		if f.path != c.path || !slices.Equal(mounts, c.mounts) || strings.Join(f.paths, " ") != c.paths || strings.Join(f.with, " ") != c.with {
			t.Errorf("%s: got %s %q %q %q\nwant %s %q %q %q", c.program, f.path, mounts, f.paths, f.with, c.path, c.mounts, c.paths, c.with)
		}
	}
}

// TestFindAlone checks that a program that is mounted alone exists once, and follows
// changes of the file.
func TestFindAlone(t *testing.T) {
	home, single := t.TempDir(), t.TempDir()
	writeFiles(t, home, map[string]string{"tool": "first"})
	f := &Program{host: Host{Home: home, Single: single}}
	first, err := f.alone(filepath.Join(home, "tool"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := f.alone(filepath.Join(home, "tool")); err != nil || again != first {
		t.Errorf("again: got %s, %v, want %s", again, err, first)
	}
	writeFiles(t, home, map[string]string{"new": "second one"})
	if err := os.Rename(filepath.Join(home, "new"), filepath.Join(home, "tool")); err != nil {
		t.Fatal(err)
	}
	second, err := f.alone(filepath.Join(home, "tool"))
	if err != nil || listFiles(t, second)["tool"] != "second one" || listFiles(t, first)["tool"] != "first" {
		t.Errorf("changed: got %v, %v; the first is %v", listFiles(t, second), err, listFiles(t, first))
	}
	to := filepath.Join(second, "copy")
	if err := copyProgram(filepath.Join(home, "tool"), to); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o700 || listFiles(t, second)["copy"] != "second one" {
		t.Errorf("copied: got %v, %v", info, err)
	}
	if left, err := os.ReadDir(single); err != nil || len(left) != 2 {
		t.Errorf("got files %v, %v, want two", left, err)
	}
}
