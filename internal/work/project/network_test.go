package project_test

import (
	"slices"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// TestNetwork reads the hosts that commands reach in all spellings.
func TestNetwork(t *testing.T) {
	w := newWorld(t)
	added := func(texts ...string) (list []policy.HostRule) {
		for _, text := range texts {
			r, err := policy.ParseHost(text)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, r)
		}
		return list
	}
	for _, test := range []struct {
		yaml, set string
		add       []policy.HostRule
		want      []string // nil for none
		all       bool
		from      string
	}{
		{"", "", nil, nil, false, "default"},
		{"sandbox: {network: true}", "", nil, nil, true, "p.yaml:1"},
		{"sandbox: {network: []}", "", nil, nil, false, "p.yaml:1"},
		{"network: {allow: []}", "", nil, nil, false, "p.yaml:1"},
		{"network: {}", "", nil, nil, false, "p.yaml:1"},
		{"sandbox: {network: [B.example.com., a.example.com:8443]}", "", nil, []string{"a.example.com:8443", "b.example.com"}, false, "p.yaml:1"},
		{"network:\n  allow: [a.example.com, {host: '*.example.org:22'}]", "", nil, []string{"*.example.org:22", "a.example.com"}, false, "p.yaml:2"},
		{"network: {allow: [{host: a.example.com, methods: [GET], paths: [/a/**]}, {host: b.example.com, git: read}]}", "", nil, []string{"a.example.com (GET; /a/**)", "b.example.com (git read)"}, false, "p.yaml:1"},
		{"network: {allow: [a.example.com]}", "sandbox.network=[b.example.com]", nil, []string{"b.example.com"}, false, "--set"},
		{"network: {allow: [a.example.com]}", "sandbox.network=false", nil, nil, false, "--set"},
		{"network: {allow: [a.example.com]}", "", added("b.example.com"), []string{"a.example.com", "b.example.com"}, false, "--net"},
		{"sandbox: {network: true}", "", added("b.example.com"), nil, true, "p.yaml:1"},
		{"", "", added("b.example.com"), []string{"b.example.com"}, false, "--net"},
	} {
		w.env.Hosts = test.add
		var sets []string
		if test.set != "" {
			sets = append(sets, test.set)
		}
		p, err := w.parse(test.yaml, sets...)
		if err != nil {
			t.Errorf("%s %s: %v", test.yaml, test.set, err)
			continue
		}
		if got := p.Network; got.IsAll() != test.all || !slices.Equal(got.Patterns(), test.want) || p.NetworkPlace().String() != test.from {
			t.Errorf("%q %s: got all %v, %q from %s, want %v, %q from %s", test.yaml, test.set, got.IsAll(), got.Patterns(), p.NetworkPlace(), test.all, test.want, test.from)
		}
	}
}
