package project

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// TestRewriteHosts checks that a file gets other hosts, and that all that is not about them stays.
func TestRewriteHosts(t *testing.T) {
	hosts := policy.HostsOfRules(policy.HostRule{Host: "a.example", Methods: []string{"GET"}, Paths: []string{"/x y", "/[1], b"}}, policy.HostRule{Host: "b.example"},
		policy.HostRule{Host: "c.example", Ports: []uint16{80, 8080}}, policy.HostRule{Host: "2001:db8::1", Ports: []uint16{443}}, policy.HostRule{Host: "g.example", GitRead: true})
	list := "  allow:\n    - '[2001:db8::1]:443'\n    - {host: a.example, methods: [GET], paths: ['/[1], b', /x y]}\n    - b.example\n    - c.example:80\n    - c.example:8080\n    - {host: g.example, git: read}\n"
	list = strings.NewReplacer("'", `"`).Replace(list)
	for name, c := range map[string]struct{ text, want string }{
		"none":    {"# top\nmodel: ollama:x # why\n", "# top\nmodel: ollama:x # why\nnetwork:\n" + list},
		"no end":  {"model: ollama:x", "model: ollama:x\nnetwork:\n" + list},
		"block":   {"network:\n  ask: true\n  presets: [npm]\n  allow: [x.example]\n\n# next\nmodel: ollama:x\n", "network:\n  ask: true\n" + list + "\n# next\nmodel: ollama:x\n"},
		"on":      {"network: on\nmodel: ollama:x\n", "network:\n" + list + "model: ollama:x\n"},
		"short":   {"sandbox: {root: ., network: [x.example]} # s\n", "sandbox: {root: .}\nnetwork:\n" + list},
		"in flow": {"{network: [x.example]}\n", ""},
	} {
		got, err := RewriteHosts("p.yaml", []byte(c.text), hosts)
		if string(got) != c.want || (err == nil) == (c.want == "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
		if err != nil {
			continue
		}
		p, err := Parse(t.TempDir(), "p.yaml", got, Env{}, nil)
		if err != nil || len((policy.Grant{Hosts: p.Network}).Within(policy.Grant{Hosts: hosts})) > 0 || len((policy.Grant{Hosts: hosts}).Within(policy.Grant{Hosts: p.Network})) > 0 {
			t.Errorf("%s: the file has other hosts: %v", name, err)
		}
	}
	empty, err := RewriteHosts("p.yaml", []byte("network: on\n"), policy.Hosts{})
	if err != nil || string(empty) != "network:\n  allow: []\n" {
		t.Errorf("got %q, %v", empty, err)
	}
}

// TestRewriteMounts checks which directories stay writable.
func TestRewriteMounts(t *testing.T) {
	const mounts = "sandbox:\n  root: .\n  mode: overlay\n  mounts:\n    - {source: ./o, target: /o}\n    - {source: ./p, target: /p, readonly: false}\nmodel: ollama:x\n"
	for name, c := range map[string]struct {
		text  string
		paths []string
		split bool
		want  string
	}{
		"nothing": {mounts, nil, true, "sandbox:\n  root: .\n  mode: ro\n  mounts:\n    - {source: ./o, target: /o, mode: ro}\n    - {source: ./p, target: /p, mode: ro}\nmodel: ollama:x\n"},
		"a mount": {mounts, []string{"/p/x"}, true, "sandbox:\n  root: .\n  mode: ro\n  mounts:\n    - {source: ./o, target: /o, mode: ro}\n    - {source: ./p, target: /p, readonly: false}\nmodel: ollama:x\n"},
		"a directory": {mounts, []string{"/src/a/b", "/src/c"}, true,
			"sandbox:\n  root: .\n  mode: ro\n  mounts:\n    - {source: ./o, target: /o, mode: ro}\n    - {source: ./p, target: /p, mode: ro}\n    - {source: ./src, target: /src, mode: overlay}\nmodel: ollama:x\n"},
		"the root":       {mounts, []string{"/src/a", "/top"}, true, "sandbox:\n  root: .\n  mode: overlay\n  mounts:\n    - {source: ./o, target: /o, mode: ro}\n    - {source: ./p, target: /p, mode: ro}\nmodel: ollama:x\n"},
		"without splits": {mounts, []string{"/src/a"}, false, "sandbox:\n  root: .\n  mode: overlay\n  mounts:\n    - {source: ./o, target: /o, mode: ro}\n    - {source: ./p, target: /p, mode: ro}\nmodel: ollama:x\n"},
		"one line":       {"sandbox: {root: ., mode: overlay}\n", []string{"/src/a"}, true, "sandbox:\n  root: .\n  mode: ro\n  mounts:\n    - {source: ./src, target: /src, mode: overlay}\n"},
		"zones":          {"sandbox:\n  zones:\n    a: {path: ./a}\n    b: {path: ./b, mode: rw}\n", []string{"/b/x"}, true, "sandbox:\n  zones:\n    a: {path: ./a, mode: ro}\n    b: {path: ./b, mode: rw}\n"},
		"paths":          {"sandbox:\n  paths:\n    a: {root: ./a, mode: rw}\n", nil, true, "sandbox:\n  paths:\n    a: {root: ./a, mode: ro}\n"},
		"no directories": {"model: ollama:x\n", nil, true, "model: ollama:x\n"},
		"with a limit":   {"sandbox:\n  root: .\n  max_file_bytes: 10MB\n", []string{"/src/a"}, true, "sandbox:\n  root: .\n  max_file_bytes: 10MB\n"},
	} {
		p, err := Parse(t.TempDir(), "p.yaml", []byte(c.text), Env{}, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := p.RewriteMounts("p.yaml", []byte(c.text), c.paths, c.split)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
}
