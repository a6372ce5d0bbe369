package network

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/jail/preset"
	"github.com/golem-forge/golem/internal/work/project"
)

func TestCounts(t *testing.T) {
	c := new(counts)
	c.add("before.example", 0)
	first := c.begin()
	c.add("a.example", 0)
	second := c.begin()
	c.add("a.example", 443)
	c.add("b.example", 8443)
	if got := fmt.Sprint(first()); got != "asked for 2 hosts 3 times: a.example, b.example:8443" {
		t.Error(got)
	}
	if got := fmt.Sprint(second()); got != "asked for 2 hosts 2 times: a.example, b.example:8443" {
		t.Error(got)
	}
	c.add("after.example", 0)
	end := c.begin()
	for i := range 100_000 {
		c.add(fmt.Sprintf("h%d.example", i), 0)
	}
	many := end()
	if got := many.String(); len(many.Hosts) != maxCounted || got != "asked for more than 256 hosts 100000 times, first for h0.example, h1.example, h2.example" {
		t.Errorf("%d hosts: %s", len(many.Hosts), got)
	}
	if len(c.running) != 0 {
		t.Errorf("%d counts go on", len(c.running))
	}
	if got := (jail.Refused{Hosts: []string{"a\x1b[2J\u202e.example"}, Times: 1}).String(); strings.ContainsAny(got, "\x1b\u202e") {
		t.Errorf("%q reaches the terminal", got)
	}
}

func TestSuggest(t *testing.T) {
	n, _ := newNetworks(t, nil, approval.Interactive)
	asked := 0
	n.Presets = func(_ context.Context, names []string) (list []Preset) {
		asked++
		hosts := map[string][]string{"npm": {"mirror.example", "npm.example:8443"}, "pypi": {"mirror.example"}}
		for _, name := range names {
			one, _ := preset.Named(name)
			var rules []policy.HostRule
			for _, h := range hosts[name] {
				r, err := policy.ParseHost(h)
				if err != nil {
					t.Fatal(err)
				}
				rules = append(rules, r)
			}
			list = append(list, Preset{Preset: one, Hosts: policy.HostsOfRules(rules...)})
		}
		return list
	}
	for _, test := range []struct{ command, hosts, want string }{
		{"npm install", "mirror.example", "+npm"},
		{"bash -c -- cd x && /usr/bin/npm ci", "mirror.example npm.example:8443", "+npm"},
		{"python3 -m pip install x", "mirror.example", "+pypi"},
		{"./build", "npm.example:8443 other.example", "+npm +other.example"},
		{"./build", "npm.example", "+npm"}, // only looked up: the port is not known
		{"./build", "192.0.2.7:8080", "+192.0.2.7:8080"},
		{"./build", "a.example b.example c.example d.example", ""},
		{"./build", "intranet", ""},
		{"./build", "a..b.example", ""},
	} {
		add, _ := n.suggest(t.Context(), strings.Fields(test.command), strings.Fields(test.hosts))
		if got := strings.Join(add, " "); got != test.want {
			t.Errorf("%s, %s: got %q, want %q", test.command, test.hosts, got, test.want)
		}
	}
	if asked != len(preset.All()) {
		t.Errorf("golem asked %d clients, want each of %d once", asked, len(preset.All()))
	}
	layer, err := project.ParsePolicy("policy.yaml", []byte("network: {allow: [ok.example, 'one.example:443'], presets: [npm]}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Project.Ceiling = project.Ceiling{layer}
	for _, test := range []struct{ command, hosts, want, denied string }{
		{"npm install", "mirror.example", "+npm", ""},
		{"pip install x", "mirror.example", "", "policy.yaml:1"},
		{"./build", "ok.example", "+ok.example", ""},
		{"./build", "one.example", "+one.example:443", ""},
		{"./build", "ok.example evil.example", "+ok.example", "policy.yaml:1"},
	} {
		add, denied := n.suggest(t.Context(), strings.Fields(test.command), strings.Fields(test.hosts))
		if got := strings.Join(add, " "); got != test.want || denied != test.denied {
			t.Errorf("below a policy, %s, %s: got %q, denied by %q, want %q, %q", test.command, test.hosts, got, denied, test.want, test.denied)
		}
	}
	if err := n.denyUnlisted(policy.Hosts{}, "evil.example", 443); err == nil || strings.Contains(err.Error(), "policy.yaml") {
		t.Errorf("a host that the policy lacks: %v", err)
	}
	if err := n.denyUnlisted(policy.HostsOf("registry.example"), "registry.example", 443); err != nil {
		t.Errorf("a host of a preset: %v", err)
	}
	n.Project.Ceiling, n.presets = nil, nil
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, _ := n.suggest(ended, []string{"npm"}, []string{"mirror.example"}); !slices.Equal(got, []string{"+mirror.example"}) {
		t.Errorf("after a signal: %q", got)
	}
	settings := (jail.Result{Refused: jail.Refused{Add: []string{"+npm", "+a.example"}}}).Settings()
	if got := strings.Join(settings, " "); got != "network.allow=+npm network.allow=a.example" {
		t.Error(got)
	}
}
