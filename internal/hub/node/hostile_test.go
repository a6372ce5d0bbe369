package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/work/program"
)

// TestUnsignedJob checks that the id of a job which nobody has signed names no directory.
func TestUnsignedJob(t *testing.T) {
	top := t.TempDir()
	mine := filepath.Join(top, "mine")
	if err := os.MkdirAll(filepath.Join(mine, "photos"), 0o700); err != nil {
		t.Fatal(err)
	}
	told := ""
	n := &node{Options: Options{Client: &hub.Client{}, Dir: filepath.Join(top, "node"), Tell: func(text string) { told = text }, Now: time.Now}, deadline: time.Second}
	n.do(t.Context(), 0, hub.Job{ID: "../../../mine", Name: "x"})
	if _, err := os.Stat(filepath.Join(mine, "photos")); err != nil || told == "" {
		t.Errorf("got %v, %q", err, told)
	}
}

// TestAttachedOutside checks that a job cannot attach files of the node.
func TestAttachedOutside(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "golem-forge.config.yaml"), []byte("sandbox: {root: .}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.worker"), []byte("---\nsandbox: inherit\n---\nWork.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the node"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link": secret, "paper.txt": ""} {
		at := filepath.Join(dir, name)
		err := os.WriteFile(at, []byte("a paper"), 0o600)
		if target != "" {
			os.Remove(at)
			err = os.Symlink(target, at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := program.Load(program.Options{Dir: dir, State: t.TempDir(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(secret)) // names are relative to the program, not to where the node runs
	for _, name := range []string{secret, "../" + filepath.Base(filepath.Dir(secret)) + "/secret", "secret", "link"} {
		a := &attempt{program: p, spec: hub.Spec{Attached: []string{name}}}
		names, err := a.attached()
		if err == nil {
			_, err = p.Attach(names)
		}
		if err == nil {
			t.Errorf("%s was attached", name)
		}
	}
	names, err := (&attempt{program: p, spec: hub.Spec{Attached: []string{"paper.txt"}}}).attached()
	if err != nil {
		t.Fatal(err)
	}
	if files, err := p.Attach(names); err != nil || len(files) != 1 || string(files[0].Data) != "a paper" || files[0].Name != "paper.txt" {
		t.Errorf("got %v, %v", files, err)
	}
}
