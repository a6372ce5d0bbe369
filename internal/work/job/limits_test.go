package job_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/program"
)

// writeFiles writes files, with their directories.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJobLimits checks that a job can use nothing of the machine and its network, unless the
// operator named it.
func TestJobLimits(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the node"), 0o600); err != nil {
		t.Fatal(err)
	}
	const mounts = "sandbox:\n  mounts:\n    - {source: ./in, target: /in, mode: ro}\n    - {source: ./out, target: /out, mode: rw}\n"
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("credentials:\n  mine: {command: [cat, "+secret+"], header: \"Authorization: Bearer ${value}\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct {
		project string
		want    string   // in the refusal
		reach   []string // that allow it
		names   []string
	}{
		"public host":        {"network: {allow: [api.example.com]}\n", "", nil, nil},
		"network on":         {"network: on\n", "--reach all", []string{"all"}, nil},
		"metadata":           {"network: {allow: [169.254.169.254]}\n", "--reach 169.254.169.254", []string{"169.254.169.254"}, nil},
		"loopback":           {"network: {allow: [\"127.0.0.1:5432\"]}\n", "--reach 127.0.0.1:5432", []string{"127.0.0.1:5432"}, nil},
		"private names":      {"network: {allow: [db.example.com], allow_private: true}\n", "--reach db.example.com", []string{"db.example.com"}, nil},
		"any private name":   {"network: {allow: [db.example.com], allow_private: true, ask: true}\n", "--reach", []string{"all"}, nil},
		"fetch":              {"network: {fetch: [\"10.0.0.1:8080\"]}\n", "--reach 10.0.0.1:8080", []string{"10.0.0.1:8080"}, nil},
		"command":            {"network: {allow: [{host: api.example.com, credential: mine}]}\n", "--pass mine", nil, []string{"mine"}},
		"endpoint":           {"clearance: {endpoints: {sink: {url: \"http://127.0.0.1:9/\"}}}\n", "--reach 127.0.0.1:9", []string{"127.0.0.1:9"}, nil},
		"endpoint by name":   {"clearance: {endpoints: {sink: {url: \"https://sink.example.com/\"}}}\n", "", nil, nil},
		"repository":         {"clearance: {targets: {t: {type: remote, url: \"git@git.example.com:a/b.git\", at: /in}}}\n", "--reach git.example.com:22", []string{"git.example.com:22"}, nil},
		"repository, https":  {"clearance: {targets: {t: {type: remote, url: \"https://git.example.com/a/b.git\", at: /in}}}\n", "--reach git.example.com:443", []string{"git.example.com"}, nil},
		"github":             {"clearance: {targets: {t: {type: github, repo: a/b, at: /in}}}\n", "--reach github.com:443", []string{"github.com"}, nil},
		"directory":          {"clearance: {targets: {t: {type: bare, path: \"" + filepath.Dir(secret) + "\", at: /in}}}\n", "--reach " + filepath.Dir(secret), []string{filepath.Dir(secret)}, nil},
		"own directory":      {"clearance: {targets: {t: {type: bare, path: ./out/repository, at: /in}}}\n", "--reach ", nil, nil},
		"file URL":           {"clearance: {targets: {t: {type: remote, url: \"file://" + filepath.Dir(secret) + "\", at: /in}}}\n", "--reach " + filepath.Dir(secret), []string{filepath.Dir(secret)}, nil},
		"hooks":              {"clearance: {targets: {t: {type: local, path: \"" + filepath.Dir(secret) + "\", hooks: run, at: /in}}}\n", "hooks", nil, nil},
		"socket":             {"clearance: {malware: {clamd: \"" + secret + "\"}}\n", "--reach " + secret, []string{secret}, nil},
		"scanner's file":     {"clearance: {malware: {yara: [\"" + secret + "\"]}}\n", "--reach " + secret, []string{secret}, nil},
		"scanner's own file": {"clearance: {malware: {yara: [./in/rules.yar]}}\n", "", nil, nil},
		"writable file":      {"clearance: {malware: {yara: [./out/rules.yar]}}\n", "--reach ", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFiles(t, dir, map[string]string{"program/golem-forge.config.yaml": mounts + one.project, "program/main.worker": "---\nsandbox: inherit\n---\nWork.\n", "program/in/rules.yar": "rule", "program/out/rules.yar": "rule"})
			if err := os.Symlink(secret, filepath.Join(dir, "program", "link")); err != nil {
				t.Fatal(err)
			}
			open := func(l job.Limits) error {
				o := program.Options{Dir: filepath.Join(dir, "program"), State: t.TempDir(), Config: config, Now: time.Now}
				p, err := program.Load(o)
				if err != nil {
					t.Fatal(err)
				}
				_, err = job.Open(dir, program.Options{Trust: p.Content.Hash, Config: config, Now: time.Now}, &l)
				return err
			}
			err := open(job.Limits{})
			if one.want == "" && err != nil || one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)) {
				t.Errorf("got %v, want %q", err, one.want)
			}
			if len(one.reach)+len(one.names) == 0 {
				return
			}
			l := job.Limits{Names: one.names}
			for _, text := range one.reach {
				if err := l.ParseReach(text); err != nil {
					t.Fatal(err)
				}
			}
			if err := open(l); err != nil {
				t.Errorf("after the operator named it: %v", err)
			}
		})
	}
}
