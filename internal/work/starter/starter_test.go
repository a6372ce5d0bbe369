package starter_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/starter"
	"github.com/golem-forge/golem/internal/work/worker"
)

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestMake makes each kind of program. golem can read its files, and a second Make changes
// nothing.
func TestMake(t *testing.T) {
	for kind, want := range map[starter.Kind]string{
		"":                 "main.worker workers/summarise.worker in/paper.txt out demo.yaml golem-forge.config.yaml golem-forge.schema.json",
		starter.Repository: "main.worker demo.yaml golem-forge.config.yaml golem-forge.schema.json",
		starter.Tools:      "main.worker tools/count_words.sh tools/count_words.json in/paper.txt demo.yaml golem-forge.config.yaml golem-forge.schema.json",
	} {
		dir := filepath.Join(t.TempDir(), "new")
		made, skipped, err := starter.Make(dir, starter.Options{Kind: kind, Model: "ollama:qwen3"})
		if got := strings.Join(made, " "); err != nil || got != want || len(skipped) > 0 {
			t.Errorf("%q: made %s, skipped %q, %v; want %s", kind, got, skipped, err, want)
			continue
		}
		p, err := project.Load(dir, project.File, project.Env{}, nil)
		if err != nil || p.Model != "ollama:qwen3" {
			t.Errorf("%q: project: got %+v, %v", kind, p, err)
		}
		if list, err := worker.Discover(dir, nil, nil); err != nil || len(list) == 0 {
			t.Errorf("%q: workers: got %d, %v", kind, len(list), err)
		}
		before, _ := os.ReadFile(filepath.Join(dir, project.File))
		if made, _, err := starter.Make(dir, starter.Options{Kind: kind}); err == nil || len(made) > 0 || !strings.Contains(err.Error(), "there is a program already") {
			t.Errorf("%q: second Make: made %q, %v", kind, made, err)
		}
		if after, _ := os.ReadFile(filepath.Join(dir, project.File)); string(after) != string(before) {
			t.Errorf("%q: the second Make changed the project file", kind)
		}
	}
}

// TestMakeRefuses checks what Make does not replace or follow.
func TestMakeRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(dir, outside string) error
		want    string // "" if Make succeeds
	}{
		"a file of the user stays":   {func(dir, _ string) error { writeFile(t, dir+"/in/paper.txt", "mine"); return nil }, ""},
		"a worker":                   {func(dir, _ string) error { writeFile(t, dir+"/main.worker", "mine"); return nil }, "there is a program already (main.worker)"},
		"another name":               {func(dir, _ string) error { writeFile(t, dir+"/"+project.FileShort, "mine"); return nil }, "there is a program already"},
		"a file as a directory":      {func(dir, _ string) error { writeFile(t, dir+"/in", "mine"); return nil }, "in is not a directory"},
		"a symlink as a directory":   {func(dir, outside string) error { return os.Symlink(outside, dir+"/workers") }, "workers is not a directory"},
		"a symlink that leads out":   {func(dir, outside string) error { return os.Symlink(outside+"/paper.txt", dir+"/demo.yaml") }, ""},
		"a file in place of the dir": {func(dir, _ string) error { os.Remove(dir); writeFile(t, dir, "mine"); return nil }, "not a directory"},
	} {
		dir, outside := t.TempDir(), t.TempDir()
		if err := test.prepare(dir, outside); err != nil {
			t.Fatal(err)
		}
		made, _, err := starter.Make(dir, starter.Options{})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || len(made) > 0) {
			t.Errorf("%s: made %q, %v; want %q", name, made, err, test.want)
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
			t.Errorf("%s: the outside directory has %v, %v", name, left, err)
		}
		if data, err := os.ReadFile(dir + "/in/paper.txt"); name == "a file of the user stays" && string(data) != "mine" {
			t.Errorf("%s: got %q, %v", name, data, err)
		}
	}
}

// TestRemotes checks the targets that Make reads from the configuration of a repository.
func TestRemotes(t *testing.T) {
	for name, test := range map[string]struct {
		config, head string
		want         []string // targets as "name type url", or "name local branch"
		skipped      []string
	}{
		"no remote":        {config: "[core]\n\tbare = false\n", head: "ref: refs/heads/work\n", want: []string{"here local work"}},
		"no branch":        {config: "[core]\n", head: "0123456789\n", want: []string{"here local main"}},
		"two remotes":      {config: "[remote \"origin\"]\n\turl = https://example.com/a.git\n[remote \"fork\"]\n\tfetch = x\n\turl = git@example.com:b.git\n", want: []string{"origin remote https://example.com/a.git", "fork remote git@example.com:b.git"}},
		"a directory":      {config: "[remote \"origin\"]\n\turl = /srv/a.git\n", want: []string{"origin remote file:///srv/a.git"}},
		"a secret":         {config: "[remote \"origin\"]\n\turl = https://me:hunter2@example.com/a.git\n", skipped: []string{"origin"}},
		"a program":        {config: "[remote \"origin\"]\n\turl = ext::sh -c id\n", skipped: []string{"origin"}},
		"an odd name":      {config: "[remote \"a: {b\"]\n\turl = https://example.com/a.git\n", skipped: []string{"a: {b"}},
		"a later url":      {config: "[remote \"origin\"]\n\turl = https://example.com/a.git\n\turl = https://example.com/b.git\n", want: []string{"origin remote https://example.com/a.git"}},
		"another section":  {config: "[branch \"main\"]\n\turl = https://example.com/a.git\n", want: []string{"here local main"}},
		"no configuration": {want: nil},
	} {
		dir := t.TempDir()
		if test.config != "" {
			writeFile(t, dir+"/.git/config", test.config)
			writeFile(t, dir+"/.git/HEAD", test.head)
		}
		_, skipped, err := starter.Make(dir, starter.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p, err := project.Load(dir, project.File, project.Env{}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, target := range p.Targets {
			where := target.URL
			if target.Type == "local" {
				where = target.Branch
			}
			got = append(got, target.Name+" "+target.Type+" "+where)
		}
		slices.Sort(got)
		slices.Sort(test.want)
		for i, s := range skipped {
			skipped[i] = strings.Trim(s, `"`)
		}
		if !slices.Equal(got, test.want) || !slices.Equal(skipped, test.skipped) {
			t.Errorf("%s: got %q, skipped %q; want %q, skipped %q", name, got, skipped, test.want, test.skipped)
		}
	}
}

// TestCheck checks that Check accepts a directory that does not exist, and no empty name.
func TestCheck(t *testing.T) {
	if err := starter.Check(filepath.Join(t.TempDir(), "new"), starter.Options{}); err != nil {
		t.Error(err)
	}
	if err := starter.Check("", starter.Options{}); err == nil || !strings.Contains(err.Error(), "golem init DIR") {
		t.Errorf("no name: got %v", err)
	}
}
