package project_test

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// FuzzProjectFile reads random files. Load must not panic, must report the place of each
// problem, and must accept only directories that can be shown. The same file always gives
// the same project.
func FuzzProjectFile(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed.yaml))
	}
	for _, p := range problems {
		f.Add([]byte(p.yaml))
	}
	for _, pair := range counts {
		f.Add([]byte(pair[1]))
	}
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := project.Parse(w.program, "p.yaml", data, w.env, nil)
		again, errAgain := project.Parse(w.program, "p.yaml", data, w.env, nil)
		if !reflect.DeepEqual(p, again) || !reflect.DeepEqual(err, errAgain) {
			t.Fatalf("the same file, two projects: %v, %v", err, errAgain)
		}
		if err != nil {
			checkProblems(t, err, "p.yaml")
			return
		}
		checkProject(t, w, p)
	})
}

// FuzzSet reads random settings. A setting that ParseSet accepts has the right form for
// Parse. Only its meaning can still be wrong.
func FuzzSet(f *testing.F) {
	for _, text := range []string{
		"model=x", "delegation.maxDepth=3", "sandbox.zones.data.path=./d", "sandbox.zones={a: {path: b}}", "sandbox.mounts=[{source: in, target: /in}]",
		"sandbox.network=[]", "budget.cost=1.5", "limits.memory=2GiB", "=", "a.b.c", "sandbox.root=~", "sandbox.paths.x.root=in",
		"clearance.targets.o={type: github, repo: a/b}", "model=\"\\u0000\"", "sandbox..x=1", "workerPaths=[a, b]", "sandbox=", "model=|\n  x",
	} {
		f.Add(text)
	}
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := project.ParseSet("--set", text)
		if err != nil {
			checkProblems(t, err, "--set")
			return
		}
		name, _, _ := strings.Cut(text, "=")
		written := strings.Split(name, ".")
		if len(written) != len(s.Keys) {
			t.Fatalf("%q sets %q", text, s.Keys)
		}
		for i, key := range s.Keys {
			if key != written[i] && key != strictyaml.SnakeCase(written[i]) {
				t.Fatalf("%q sets %q", text, s.Keys)
			}
		}
		p, err := project.Parse(w.program, "", nil, w.env, []project.Setting{s})
		if err != nil {
			checkProblems(t, err, "--set", "default")
			return
		}
		checkProject(t, w, p)
		found := slices.ContainsFunc(p.Values(), func(v project.Value) bool { return v.From.Source == "--set" })
		if !found && !strings.Contains(text, "{}") && s.Value.Kind == strictyaml.Scalar {
			t.Fatalf("%q is not shown", text)
		}
	})
}

func checkProblems(t *testing.T, err error, sources ...string) {
	t.Helper()
	var problems strictyaml.Problems
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("not problems: %v", err)
	}
	for _, p := range problems {
		if !slices.Contains(sources, p.Place.Source) || p.What == "" || p.Hint == "" {
			t.Fatalf("place, text or hint is missing: %+v", p)
		}
		if p.Place.Source == "p.yaml" && (p.Place.Line < 1 || p.Place.Col < 1) {
			t.Fatalf("no line: %+v", p)
		}
		if strings.ContainsAny(p.Error(), "\n\x1b\x00") {
			t.Fatalf("got %q, want one plain line", p.Error())
		}
	}
}

func checkProject(t *testing.T, w world, p *project.Project) {
	t.Helper()
	seen := map[string]bool{}
	for _, m := range p.Mounts {
		if m.Target != path.Clean(m.Target) || m.Target[0] != '/' || seen[m.Target] || !sandbox.ValidPath(m.Target) {
			t.Fatalf("target %q", m.Target)
		}
		seen[m.Target] = true
		if top, _, _ := strings.Cut(m.Target[1:], "/"); slices.Contains([]string{"work", "usr", "etc", "proc", "tmp", "dev"}, top) {
			t.Fatalf("target %q is the system's", m.Target)
		}
		if m.Mode != "ro" && m.Mode != "rw" && m.Mode != project.Overlay {
			t.Fatalf("mode %q", m.Mode)
		}
		checkSource(t, w, m)
	}
	if !slices.IsSortedFunc(p.Mounts, func(a, b project.Mount) int { return strings.Compare(a.Target, b.Target) }) {
		t.Fatal("mounts are not in order")
	}
	for _, c := range p.Credentials {
		if c.Name == "" || c.Own || c.Value != "" || len(c.Command) > 0 || (c.Variable == "") == (c.Secret == "") {
			t.Fatalf("credential %+v", c)
		}
	}
	unknown := func(r policy.HostRule) bool {
		_, ok := p.Credential(r.Credential)
		return r.Credential != "" && !ok
	}
	if p.MaxDepth < 0 || p.MaxDepth > 100 || slices.ContainsFunc(p.Network.Rules(), unknown) || len(p.WorkerPaths) == 0 || len(p.Scanners) == 0 {
		t.Fatalf("%+v", p)
	}
	for _, v := range p.Values() {
		if v.Key == "" || v.From.Source == "" {
			t.Fatalf("%+v", v)
		}
	}
	if _, err := p.Sandbox(openPlainMount); err != nil {
		t.Fatal(err)
	}
}

// checkSource checks that a directory exists, or that it may be missing.
func checkSource(t *testing.T, w world, m project.Mount) {
	t.Helper()
	source, base := string(m.Source), string(m.Base)
	if base == "" {
		if info, err := os.Stat(source); err != nil || !info.IsDir() {
			t.Fatalf("%s: %s is no directory", m.Target, source)
		}
		base = source
	} else if !filepath.IsLocal(source) {
		t.Fatalf("%s: %s leaves %s", m.Target, source, base)
	} else if info, err := os.Stat(base); err != nil || !info.IsDir() {
		t.Fatalf("%s: the base %s is not a directory", m.Target, base)
	}
	for _, bad := range []string{"/proc", "/sys", "/dev", w.env.State} {
		if rel, err := filepath.Rel(bad, base); err == nil && filepath.IsLocal(rel) {
			t.Fatalf("%s shows %s", m.Target, bad)
		}
	}
}
