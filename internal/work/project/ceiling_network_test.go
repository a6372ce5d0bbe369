package project_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/project"
)

// parseBelow reads a project below a policy and a configuration of the user, "" for none.
func parseBelow(t *testing.T, above []string, file string, hosts []string, sets ...string) (*project.Project, error) {
	t.Helper()
	env := project.Env{}
	for i, text := range above {
		var l project.Layer
		var err error
		if text == "" {
			continue
		}
		if i == 0 {
			l, err = project.ParsePolicy("policy.yaml", []byte(text), nil)
		} else {
			l, err = project.ParseConfig("config.yaml", []byte(text), "", nil)
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		env.Ceiling = append(env.Ceiling, l)
	}
	for _, host := range hosts {
		r, err := policy.ParseHost(host)
		if err != nil {
			t.Fatal(err)
		}
		env.Hosts = append(env.Hosts, r)
	}
	var settings []project.Setting
	for _, set := range sets {
		s, err := project.ParseSet("--set", set)
		if err != nil {
			t.Fatal(err)
		}
		settings = append(settings, s)
	}
	return project.Parse(t.TempDir(), "golem-forge.config.yaml", []byte(file), env, settings)
}

func TestPolicyLimitsHosts(t *testing.T) {
	const list = "network: {allow: [api.example.com, '*.example.org:8443']}"
	for _, test := range []struct {
		above []string
		file  string
		hosts []string
		set   string
		want  string // the hosts, or a part of the error
	}{
		{[]string{list}, "network: on", nil, "", "*.example.org:8443 api.example.com"},
		{[]string{list}, "network: off", nil, "", ""},
		{[]string{list}, "{}", nil, "", ""},
		{[]string{list}, "network: {allow: [api.example.com, evil.example]}", nil, "", "api.example.com"},
		{[]string{list}, "network: {allow: ['*.example.com']}", nil, "", "api.example.com"},
		{[]string{list}, "network: {allow: ['a.example.org:8443', 'a.example.org:443']}", nil, "", "a.example.org:8443"},
		{[]string{list}, "network: {allow: [{host: api.example.com, methods: [GET], credential: k}]}\ncredentials: {k: {from: keyring, header: 'x: ${value}'}}", nil, "", "api.example.com (GET; credential k)"},
		{[]string{list, "network: {allow: ['a.example.org:8443']}"}, "network: on", nil, "", "a.example.org:8443"},
		{[]string{list, "network: {allow: [b.example.com]}"}, "network: on", nil, "", ""},
		{[]string{"", list}, "network: on", nil, "", "*.example.org:8443 api.example.com"},
		{[]string{list, "network: off"}, "network: on", nil, "", ""},
		{[]string{"network: {allow: []}"}, "network: on", nil, "", ""},
		{[]string{"network: {presets: [npm]}"}, "network: on", nil, "", ""},
		{[]string{list}, "network: {allow: [evil.example]}", []string{"api.example.com"}, "", "api.example.com"},
		{[]string{list}, "{}", []string{"api.example.com", "evil.example"}, "", "--net: evil.example is not allowed: policy.yaml:1; the hosts that may be reached are *.example.org:8443, api.example.com"},
		{[]string{list}, "{}", []string{"api.example.com:22"}, "", "--net: api.example.com:22 is not allowed: policy.yaml:1"},
		{[]string{list}, "{}", nil, "network=on", "--set: every host is not allowed: policy.yaml:1"},
		{[]string{list}, "network: on", nil, "network=off", ""},
		{[]string{"network: {presets: [npm]}"}, "{}", []string{"a.example"}, "", "it allows only presets; leave out the hosts"},
		{[]string{"network: {allow: []}"}, "{}", []string{"a.example"}, "", "--net: the network is off: policy.yaml:1"},
	} {
		what := fmt.Sprintf("%v, %s, %v, %s", test.above, test.file, test.hosts, test.set)
		var sets []string
		if test.set != "" {
			sets = []string{test.set}
		}
		p, err := parseBelow(t, test.above, test.file, test.hosts, sets...)
		switch {
		case err != nil:
			if test.want == "" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want %q", what, err, test.want)
			}
		case p.Network.IsAll() || strings.Join(p.Network.Patterns(), " ") != test.want:
			t.Errorf("%s: got %q, all %v, want %q", what, p.Network.Patterns(), p.Network.IsAll(), test.want)
		}
	}
}

// TestPolicyLimitsHostsAlways draws lists of hosts. No host that a project reaches is missing
// from a list above it.
func TestPolicyLimitsHostsAlways(t *testing.T) {
	r := rand.New(rand.NewPCG(41, uint64(os.Getpid())))
	hosts := []string{"a.example", "*.example", "b.a.example", "*.a.example", "a.example:8443", "*.example:22", "192.0.2.7", "127.0.0.1:80", "localhost:81"}
	draw := func() string {
		var list []string
		for _, h := range hosts {
			if r.IntN(3) == 0 {
				list = append(list, `"`+h+`"`)
			}
		}
		return "network: {allow: [" + strings.Join(list, ", ") + "]}"
	}
	reached := 0
	for range testutil.Rounds(300) {
		above, file := []string{draw(), draw()}, draw()
		if r.IntN(4) == 0 {
			file = "network: on"
		}
		p, err := parseBelow(t, above, file, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.Network.IsAll() {
			t.Fatalf("every host below %v", above)
		}
		for _, host := range []string{"a.example", "b.a.example", "c.b.a.example", "d.example", "192.0.2.7", "127.0.0.1", "localhost"} {
			for _, port := range []uint16{22, 80, 81, 443, 8443} {
				_, denied := p.Ceiling.DeniedHost(host, port)
				if len(p.Network.Find(host, port)) == 0 {
					continue
				}
				reached++
				for _, text := range above {
					l, err := parseBelow(t, nil, text, nil)
					if err != nil {
						t.Fatal(err)
					}
					if len(l.Network.Find(host, port)) == 0 || denied {
						t.Fatalf("%s:%d is reached below %v (denied %v)", host, port, above, denied)
					}
				}
			}
		}
	}
	if reached < 50 {
		t.Fatalf("only %d hosts were reached: the test checks too little", reached)
	}
}

func TestPolicyLimitsPresets(t *testing.T) {
	rules := policy.HostsOf("registry.example").Rules()
	for _, test := range []struct {
		above, want string
		denied      bool
	}{
		{"network: {presets: [npm]}", "registry.example", false},
		{"network: {presets: [go]}", "", true},
		{"network: {allow: [registry.example]}", "registry.example", false},
		{"network: {allow: ['registry.example:443']}", "registry.example:443", true},
		{"network: off", "", true},
		{"network: on", "registry.example", false},
	} {
		p, err := parseBelow(t, []string{test.above}, "network: {presets: [npm]}", nil)
		if err != nil {
			t.Fatal(err)
		}
		place, denied := p.AddPreset("npm", rules)
		if got := strings.Join(p.Network.Patterns(), " "); got != test.want || denied != test.denied || denied && place.Source != "policy.yaml" {
			t.Errorf("%s: got %q, denied %v by %v, want %q, %v", test.above, got, denied, place, test.want, test.denied)
		}
		if got := p.Asked().Network.Patterns(); len(got) != 1 || got[0] != "registry.example" {
			t.Errorf("%s: to be trusted: %q", test.above, got)
		}
	}
}

func TestPolicyRequiresLevel(t *testing.T) {
	for _, test := range []struct {
		above []string
		file  string
		want  policy.Level
	}{
		{[]string{"require_os_sandbox: namespaces"}, "{}", policy.Namespaces},
		{[]string{"require_os_sandbox: true"}, "sandbox: {require_os_sandbox: namespaces}", policy.Namespaces},
		{[]string{"require_os_sandbox: namespaces"}, "sandbox: {require_os_sandbox: landlock}", policy.Namespaces},
		{[]string{"require_os_sandbox: landlock", "require_os_sandbox: namespaces"}, "{}", policy.Namespaces},
		{[]string{"require_os_sandbox: false"}, "{}", policy.AnyLevel},
	} {
		p, err := parseBelow(t, test.above, test.file, nil, "sandbox.require_os_sandbox=false")
		if err == nil {
			p, err = parseBelow(t, test.above, test.file, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Grant().Level; got != test.want {
			t.Errorf("%v, %s: got %s, want %s", test.above, test.file, got, test.want)
		}
	}
}

func TestWrongNetworkOfPolicy(t *testing.T) {
	for text, want := range map[string]string{
		"network: {}":                           "network: an empty map; write network: off, or the hosts",
		"network: {allow: }":                    "network.allow: nothing",
		"network: {allow: ['https://a/b']}":     "network.allow: https://a/b: not a host",
		"network: {presets: [nmp]}":             "network.presets: no preset nmp; there are debian, go, npm, pypi",
		"network: {alow: [a.example]}":          "did you mean allow",
		"network: [a.example]":                  "network: a list",
		"network: {allow: [{host: a.example}]}": "network.allow",
		"require_os_sandbox: namespace":         "did you mean namespaces",
	} {
		if _, err := project.ParsePolicy("policy.yaml", []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestPolicyLimitsServers checks that a policy about models or the network limits the servers of
// models: `models: ["ollama:*"]` does not mean any server that a project calls ollama.
func TestPolicyLimitsServers(t *testing.T) {
	for _, test := range []struct {
		policy, server string
		denied         bool
	}{
		{"models: [\"ollama:*\"]", "http://192.0.2.2:18765/v1/", true},
		{"models: [\"ollama:*\"]", "http://localhost.example:11434/v1/", true},
		{"models: [\"ollama:*\"]", "http://localhost:8000/v1/", false},
		{"models: [\"ollama:*\"]", "http://[::1]:8000/v1/", false},
		{"models: [\"ollama:*\"]\nnetwork: {allow: [gateway.example.com]}", "https://gateway.example.com/v1/", false},
		{"models: [\"ollama:*\"]\nnetwork: {allow: [gateway.example.com]}", "https://other.example.com/v1/", true},
		{"models: [\"openai:*\"]\nnetwork: on", "https://other.example.com/v1/", false},
		{"network: off", "https://other.example.com/v1/", true},
		{"network: {allow: [\"gateway.example.com:8000\"]}", "http://gateway.example.com:8000/v1/", false},
		{"network: {allow: [\"gateway.example.com:8000\"]}", "http://gateway.example.com:8001/v1/", true},
		{"budget: {turns: 3}", "https://other.example.com/v1/", false},
	} {
		p, err := parseBelow(t, []string{test.policy}, "model: ollama:qwen3", nil)
		if err != nil {
			t.Fatal(err)
		}
		if place, denied := p.Ceiling.DeniedServer(test.server); denied != test.denied {
			t.Errorf("%q, %s: denied %v by %s", test.policy, test.server, denied, place)
		}
	}
}
