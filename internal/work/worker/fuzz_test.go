package worker_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

var wordForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// FuzzWorkerFile: any file is either a worker that keeps all rules, or has problems that
// can be printed. Its requests never widen a grant.
func FuzzWorkerFile(f *testing.F) {
	files, err := filepath.Glob("testdata/design/*.worker")
	if err != nil || len(files) == 0 {
		f.Fatalf("got %v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, p := range places() {
		text, _ := p.file(p.key.Name, p.key.Example)
		f.Add([]byte(text))
	}
	parent := projectOf("/data ro", "/out rw")
	parent.Tools = policy.SetOf("filesystem", "workers")
	parent.Hosts = policy.Hosts{}
	parent.Approvals = policy.Approvals{}.With(policy.Rule{Verb: policy.Write, Target: "/out", Approval: policy.Ask, From: "project"})
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := worker.Parse("w.worker", data)
		if err != nil {
			var problems strictyaml.Problems
			if w != nil || !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("got %v, %v", w, err)
			}
			checkShown(t, problems)
			return
		}
		if !wordForm.MatchString(w.Name) || w.Mode != "single" && w.Mode != "chat" || w.Attachments.Max < 0 || w.Attachments.Bytes < 0 || w.Attachments.Unlimited {
			t.Fatalf("got %+v", w)
		}
		for _, entry := range []bool{called, first} {
			g, problems := w.Grant(parent, locate, entry)
			checkShown(t, problems)
			if beyond := g.Within(parent); len(beyond) > 0 || g.Files.Access("/data/x") > sandbox.ReadOnly || g.Files.Access("/other") > sandbox.None ||
				g.Tools.Has("shell") || g.Hosts.Allows("example.com") || g.Decide(policy.Effect{Verb: policy.Write, Target: "/out/x"}).Approval > policy.Ask {
				t.Fatalf("beyond the parent: %v", beyond)
			}
			if w.Sandbox.Kind == worker.NoSandbox && !entry && !g.Files.IsEmpty() {
				t.Fatal("files without a sandbox")
			}
		}
	})
}

// checkShown checks that each problem fits on a line, can be printed and has a hint.
func checkShown(t *testing.T, problems strictyaml.Problems) {
	for _, p := range problems {
		if text := p.Error(); p.Hint == "" || strings.ContainsAny(text, "\n\x1b\u202e\x00") || !strings.HasPrefix(text, "w.worker:") || p.Place.Line < 1 {
			t.Fatalf("got %q", text)
		}
	}
}
