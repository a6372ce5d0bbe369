package project_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// TestProtectWorkers checks at which names of mounts a YAML file with the keys of a worker is
// protected: at those where golem would read it.
func TestProtectWorkers(t *testing.T) {
	w := newWorld(t)
	w.env.State = t.TempDir()
	for _, dir := range []string{"workers/sub", "real", "a{b}/agents"} {
		must(t, os.MkdirAll(filepath.Join(w.program, dir), 0o777))
	}
	must(t, os.Symlink("real", filepath.Join(w.program, "linked")))
	for _, row := range []struct {
		file      string
		protected []string
		free      []string
	}{
		{"sandbox: {root: ., mode: rw}", []string{"/main.yaml", "/main.yml", "/x.yaml", "/x/worker.yml", "/workers/x.yml", "/workers/sub/worker.yaml", "/.workers/x.yaml", "/Workers/X.YML"},
			[]string{"/in/x.yaml", "/workers/sub/x.yaml", "/a/b/worker.yaml", "/workers/x.txt", "/real/x.yaml"}},
		{"worker_paths: [linked]\nsandbox: {root: ., mode: rw}", []string{"/main.yml", "/linked/x.yml", "/real/x.yml", "/real/x/worker.yml"}, []string{"/x.yml", "/workers/x.yml"}},
		{"worker_paths: ['a{b}/agents']\nsandbox: {root: ., mode: rw}", []string{"/a{b}/agents/x.yml"}, []string{"/x.yml"}},
		{"sandbox: {mounts: [{source: workers, target: /w, mode: rw}, {source: workers/sub, target: /s, mode: rw}, {source: in, target: /in, mode: rw}]}",
			[]string{"/w/x.yml", "/w/x/worker.yml", "/s/worker.yml", "/in/worker.yaml"}, []string{"/s/x.yml", "/in/x.yml", "/w/x/y.yml"}},
		{"sandbox: {mounts: [{source: .., target: /up, mode: rw}]}", []string{"/up/program/x.yml", "/up/program/main.yml", "/up/program/workers/x.yml"}, []string{"/up/x.yml", "/up/main.yml"}},
	} {
		p, err := w.parse(row.file)
		if err != nil {
			t.Fatal(row.file, err)
		}
		s, err := p.Sandbox(nil)
		if err != nil {
			t.Fatal(row.file, err)
		}
		isProtected := func(name string) bool {
			return s.ProtectedContent(name, func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader([]byte("a: 1\ninstructions: x\n"))), nil
			}) != ""
		}
		for _, name := range row.protected {
			if !isProtected(name) {
				t.Errorf("%s: %s is not protected", row.file, name)
			}
		}
		for _, name := range row.free {
			if isProtected(name) {
				t.Errorf("%s: %s is protected", row.file, name)
			}
		}
		if _, err := s.Write(row.protected[0], []byte("a: 1\n")); err != nil && sandbox.CodeOf(err) == sandbox.ErrProtected {
			t.Errorf("%s: other YAML is protected: %v", row.file, err)
		}
	}
}
