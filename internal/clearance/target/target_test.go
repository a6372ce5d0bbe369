package target

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// TestSafePath checks that PATH loses the directories that workers may write to, by any
// name, and that other variables which name one are dropped.
func TestSafePath(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"work/bin", "tools"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(top, "work", "bin"), filepath.Join(top, "link")); err != nil {
		t.Skip(err)
	}
	join := func(names ...string) string {
		for i, name := range names {
			if name != "" && name != "bin" {
				names[i] = filepath.Join(top, name)
			}
		}
		return strings.Join(names, string(os.PathListSeparator))
	}
	work := filepath.Join(top, "work")
	e := Env{Variables: []string{"A=1", "PATH=" + join("work/bin", "tools", "link", "work/later", "", "bin"), "B=2", "PYTHONPATH=" + join("tools", "work/lib"), "NODE_OPTIONS=--max-old-space-size=1 --require \"" + work + "/x.cjs\"",
		"PERL5OPT=-I" + work, "PIP_CONFIG_FILE=" + join("link") + "/pip.conf", "PWD=" + work, "C=" + join("tools"), "D=work/bin:relative"}, Writable: []string{work}}
	if got, want := e.Safe(), []string{"A=1", "PATH=" + join("tools"), "B=2", "C=" + join("tools"), "D=work/bin:relative"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(e.Variables[1], "link") {
		t.Error("Safe has changed its input")
	}
	for name, want := range map[string]bool{"work": true, "work/bin/git": true, "link/git": true, "work/missing/deep": true, "tools/git": false, "workers": false} {
		if got := e.CanWorkerWrite(filepath.Join(top, name)); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// TestList checks the targets of a project and those that workers define.
func TestList(t *testing.T) {
	root := t.TempDir()
	p, err := project.Parse(root, project.File, []byte("sandbox: {root: .}\nclearance:\n  targets:\n    prod: {type: remote, url: \"https://example.com/a.git\", branch: main}\n"), project.Env{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	parse := func(name, path string) *worker.Worker {
		w, err := worker.Parse(name+".worker", []byte("---\ntoolsets: {git: {default_target: {type: local, path: "+path+", branch: main}}}\n---\nGo.\n"))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	main, other := parse("main", "./repo"), parse("other", "~/repo")
	r := Targets{Project: p, Workers: []*worker.Worker{main, other}, Entry: main, Root: root, Home: "/home/me"}
	var got []string
	for _, one := range r.List() {
		got = append(got, one.Name+" "+strings.TrimPrefix(string(one.Path), root)+one.URL+" "+one.At)
	}
	want := []string{"prod https://example.com/a.git /workspace", "default /repo /", "default-other /home/me/repo /"}
	want[0] = got[0] // the project decides where
	if !slices.Equal(got, want) || !strings.HasPrefix(got[0], "prod https://example.com/a.git ") {
		t.Errorf("got %q, want %q", got, want)
	}
	for w, want := range map[*worker.Worker]string{main: "default", other: "default-other", nil: ""} {
		if got := r.GitTools(w).Default; got != want {
			t.Errorf("default target: got %q, want %q", got, want)
		}
	}
}

// TestProtect checks which names of a repository in a mount are protected.
func TestProtect(t *testing.T) {
	for name, test := range map[string]struct {
		dirs, target string
		want         string // a protected name, "" for none
		free         string // a name that is not protected
	}{
		"a bare repository":       {"bare/refs", "{type: bare, path: ./bare, branch: main}", "/bare/refs/heads/main", "/other"},
		"a repository elsewhere":  {"x", "{type: local, path: /nowhere/repo, branch: main}", "", "/x"},
		"a file address":          {"bare.git/refs", "{type: remote, url: \"file://ROOT/bare\", branch: main}", "/bare.git/refs/heads/main", "/x"},
		"a name with a bracket":   {"a[b]/refs", "{type: bare, path: \"./a[b]\", branch: main}", "/a[b]/HEAD", "/a/HEAD"},
		"the mount itself (bare)": {"refs", "{type: bare, path: ., branch: main}", "/refs/heads/main", "/src/main.go"},
	} {
		root, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(root, test.dirs), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, filepath.Dir(test.dirs), "HEAD"), []byte("ref: refs/heads/main\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := project.Parse(root, project.File, []byte("sandbox: {root: ., mode: rw}\nclearance: {targets: {prod: "+strings.ReplaceAll(test.target, "ROOT", root)+"}}\n"), project.Env{}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		Targets{Project: p, Root: root}.ProtectAll()
		files, err := p.Sandbox(nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if test.want != "" && files.CanWrite(test.want) {
			t.Errorf("%s: %s is writable; protected: %q", name, test.want, p.Protect)
		}
		if !files.CanWrite(test.free) {
			t.Errorf("%s: %s is not writable; protected: %q", name, test.free, p.Protect)
		}
	}
}

// TestDeniedDirectories checks that the policy's roots hold for the repositories of this machine,
// also for those that workers define.
func TestDeniedDirectories(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{filepath.Join(root, "repo"), filepath.Join(other, "repo")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(other, "repo"), filepath.Join(root, "led")); err != nil {
		t.Skip(err)
	}
	layer, err := project.ParsePolicy("policy.yaml", []byte("roots: ["+root+"]\nnetwork: {allow: [git.example]}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		target project.Target
		denied bool
	}{
		{project.Target{Type: "local", Path: sandbox.Host(filepath.Join(root, "repo"))}, false},
		{project.Target{Type: "local", Path: sandbox.Host(filepath.Join(root, "led"))}, true},
		{project.Target{Type: "bare", Path: sandbox.Host(filepath.Join(other, "repo"))}, true},
		{project.Target{Type: "remote", URL: "file://" + filepath.Join(root, "repo")}, false},
		{project.Target{Type: "remote", URL: "file://" + filepath.Join(root, "led")}, true},
		{project.Target{Type: "remote", URL: "https://git.example/a"}, false},
		{project.Target{Type: "remote", URL: "https://other.example/a"}, true},
	} {
		for _, ceiling := range []project.Ceiling{nil, {layer}} {
			if _, denied := deniedTarget(ceiling, one.target); denied != (one.denied && ceiling != nil) {
				t.Errorf("%+v with %d layers: denied is %v", one.target, len(ceiling), denied)
			}
		}
	}
}
