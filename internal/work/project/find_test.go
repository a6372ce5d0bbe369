package project_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/project"
)

func TestFind(t *testing.T) {
	for _, test := range []struct {
		name  string
		files []string
		from  string
		root  string
		file  string
	}{
		{"here", []string{"a/golem-forge.config.yaml"}, "a", "a", project.File},
		{"short", []string{"a/golem-forge.config.yml"}, "a", "a", project.FileShort},
		{"above", []string{"a/golem-forge.config.yaml", "a/b/c/x"}, "a/b/c", "a", project.File},
		{"the nearest", []string{"golem-forge.config.yaml", "a/golem-forge.config.yml", "a/b/x"}, "a/b", "a", project.FileShort},
		{"a project file before main.worker", []string{"golem-forge.config.yaml", "a/main.worker", "a/b/x"}, "a/b", ".", project.File},
		{"main.worker", []string{"a/main.worker", "a/b/x"}, "a/b", "a", ""},
		{"the nearest main.worker", []string{"main.worker", "a/main.worker", "a/b/x"}, "a/b", "a", ""},
		{"nothing", []string{"a/b/x"}, "a/b", "a/b", ""},
		{"another name", []string{"a/golem-forge.schema.json", "a/b/x"}, "a/b", "a/b", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			top := t.TempDir()
			for _, file := range test.files {
				must(t, os.MkdirAll(filepath.Join(top, filepath.Dir(file)), 0o777))
				must(t, os.WriteFile(filepath.Join(top, file), nil, 0o666))
			}
			root, file, err := project.Find(filepath.Join(top, test.from))
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(top, test.root); root != want || file != test.file {
				t.Errorf("got %s %q, want %s %q", root, file, want, test.file)
			}
		})
	}
}

// TestNearMain: without a project file, main.worker has the only limits of a program, so golem
// stops at a file that was meant as one.
func TestNearMain(t *testing.T) {
	for _, test := range []struct {
		files []string
		from  string
		want  string // a part of the error, "" for none
	}{
		{[]string{"a/main.worker "}, "a", "/a/main.worker \": golem does not read this file; the file of a program's first worker is called main.worker"},
		{[]string{"a/main.worker\u00a0", "a/b/x"}, "a/b", "golem does not read this file"},
		{[]string{"main.worker", "a/Main.Worker.txt"}, "a", "a/Main.Worker.txt: golem does not read this file"},
		{[]string{"main.worker", "main.worker.txt"}, ".", ""},
		{[]string{"main.worker.txt", "a/main.worker"}, "a", ""},
		{[]string{"main.worker~", ".main.worker.swp/x", "main.worker.js", "writer.worker"}, ".", ""},
		{[]string{"a/" + project.File, "a/b/main.worker.md"}, "a/b", ""}, // worker.FindUnread reports it
	} {
		top := t.TempDir()
		for _, file := range test.files {
			must(t, os.MkdirAll(filepath.Join(top, filepath.Dir(file)), 0o777))
			must(t, os.WriteFile(filepath.Join(top, file), nil, 0o666))
		}
		if _, _, err := project.Find(filepath.Join(top, test.from)); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want %q", test.files, err, test.want)
		}
	}
}

func TestFindRelative(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(top, "a", "b"), 0o777))
	must(t, os.WriteFile(filepath.Join(top, "a", project.File), nil, 0o666))
	t.Chdir(filepath.Join(top, "a"))
	for _, from := range []string{"", ".", "b", "b/..", "../a/b"} {
		root, file, err := project.Find(from)
		if root != filepath.Join(top, "a") || file != project.File || err != nil {
			t.Errorf("%q: %s %s %v", from, root, file, err)
		}
	}
}

func TestFindProblems(t *testing.T) {
	top := t.TempDir()
	for _, file := range []string{"both/" + project.File, "both/" + project.FileShort, "both/in/x", "dangling/x", "near/golem-forge.yaml", "near/in/x",
		"beside/golem-forge.yml", "beside/" + project.File, "json/golem-forge.config.json"} {
		must(t, os.MkdirAll(filepath.Join(top, filepath.Dir(file)), 0o777))
		must(t, os.WriteFile(filepath.Join(top, file), nil, 0o666))
	}
	for from, want := range map[string]string{
		"both":                 project.FileShort + " is in the same directory; keep one of the two",
		"both/in":              project.FileShort + " is in the same directory; keep one of the two",
		"none":                 "not a directory; name the program's directory",
		"both/" + project.File: "not a directory; name the program's directory",
		"near":                 "near/golem-forge.yaml: golem does not read this file; the project file is called golem-forge.config.yaml; rename or remove it",
		"near/in":              "near/golem-forge.yaml: golem does not read this file; the project file is called golem-forge.config.yaml; rename or remove it",
		"beside":               "beside/golem-forge.yml: golem does not read this file; the project file is called golem-forge.config.yaml; remove it, or move its keys",
		"json":                 "json/golem-forge.config.json: golem does not read this file; the project file is called golem-forge.config.yaml; rename or remove it",
	} {
		if _, _, err := project.Find(filepath.Join(top, from)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", from, err)
		}
	}

	// A policy that cannot be read must not count as no policy.
	must(t, os.Symlink("nowhere", filepath.Join(top, "dangling", project.File)))
	root, file, err := project.Find(filepath.Join(top, "dangling"))
	if err != nil || file != project.File {
		t.Fatalf("%s %q %v", root, file, err)
	}
	if _, err := project.Load(root, file, project.Env{}, nil); err == nil || !strings.HasPrefix(err.Error(), project.File+": not found; ") {
		t.Errorf("a dangling symlink: %v", err)
	}
}

// TestMisnamedProject: a project file that golem would not read because of its name is an
// error. Files of other programs, backups and editors' files are not.
func TestMisnamedProject(t *testing.T) {
	const sandbox, other = "sandbox: {root: ., mode: ro}\n", "default:\n  sandbox_name: x\n"
	for _, test := range []struct {
		content string
		names   []string
		wrong   bool
	}{
		{sandbox, []string{"Golem-Forge.Config.Yaml", "golem-forge.Config.yml", "golem-forge.config.YML", "GOLEM-FORGE.CONFIG.YML", ".golem-forge.config.yml", "golem_forge.config.yml",
			"golem-forge.config.yaml.txt", "golem-forge.config.yaml ", " golem-forge.config.yaml", "golem-forge.config.yaml\u200b", "golem-forge\u00a0.config.yaml", "go\u00adlem-forge.yaml", "golem-forge.conf.yaml", "golem-forge.configs.yaml", "golemforge.config.yaml", "golem.config.yaml",
			"golem.yaml", "golem-forge.config.ymal", "golem-forge.config.jsonc", "golem-forge.config", "golem-forge.json", "golem-froge.config.yaml", "golem forge.config.yaml", "golem-forge.configuration.yml"}, true},
		{`{"sandbox": {"mode": "ro"}}`, []string{"golem.json", "golem-forge.json"}, true},
		{other, []string{"golem-forge.toml", "golem-forge-config.yml"}, true},
		{other, []string{"golem.yaml", "golem-config.yml", "golem.json", "golem.toml"}, false},
		{sandbox, []string{"golem-forge.schema.json", "golem-forge", "golem-forge2", "golem-forge.md", "golem-forge.txt", "golem-forge.config.yaml~", "golem-forge.config.yaml.bak",
			"golem-forge.config.yaml.orig", "golem-forge.config.example.yaml", ".golem-forge.config.yaml.swp", ".#golem-forge.config.yaml", "#golem-forge.config.yaml#", "gitforge.yaml", "forge.yaml", "config.yaml", "golem"}, false},
	} {
		for _, name := range test.names {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(test.content), 0o666))
			_, _, err := project.Find(dir)
			if (err != nil) != test.wrong || err != nil && !strings.Contains(err.Error(), "golem does not read this file; the project file is called golem-forge.config.yaml; rename or remove it") {
				t.Errorf("%q with %q: got %v", name, test.content, err)
			}
		}
	}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "golem-forge.config"), 0o777))
	must(t, os.Mkdir(filepath.Join(dir, "golem-forge"), 0o777))
	if _, _, err := project.Find(dir); err != nil {
		t.Errorf("directories: %v", err)
	}
}

func TestLoad(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.program, project.FileShort)
	must(t, os.WriteFile(file, []byte("delegation:\n  maxDepth: 7\n"), 0o666))
	for _, name := range []string{project.FileShort, file} {
		p, err := project.Load(w.program, name, w.env, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.MaxDepth != 7 || p.File != name {
			t.Errorf("depth %d in %s", p.MaxDepth, p.File)
		}
	}
	if p, err := project.Load(w.program, "", w.env, nil); err != nil || p.MaxDepth != 5 {
		t.Errorf("without a file: %v %v", p, err)
	}
	must(t, os.WriteFile(file, bytes.Repeat([]byte("#\n"), 1<<20), 0o666))
	_, err := project.Load(w.program, project.FileShort, w.env, nil)
	if want := "golem-forge.config.yml:1:1: 1048577 bytes; a file may have 1048576"; err == nil || err.Error() != want {
		t.Errorf("a large file: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(w.program, project.File), 0o777))
	_, err = project.Load(w.program, project.File, w.env, nil)
	if want := project.File + ": not a regular file; a project file is one"; err == nil || err.Error() != want {
		t.Errorf("a directory: %v", err)
	}
}
