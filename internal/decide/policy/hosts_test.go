package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
)

func TestHosts(t *testing.T) {
	for _, test := range []struct {
		pattern  string
		yes, not []string
	}{
		{"example.com",
			[]string{"example.com", "EXAMPLE.com", "example.com."},
			[]string{"a.example.com", "evilexample.com", "example.com.evil.org", "example.comx", "example.com..", ".example.com", "example.com:443", "", "*"}},
		{"*.example.com",
			[]string{"a.example.com", "A.B.Example.Com.", "x_y-1.example.com"},
			[]string{"example.com", "evilexample.com", ".example.com", "..example.com", "*.example.com", "a.example.com.evil.org",
				"evil.org/.example.com", "evil.org#.example.com", "evil.org:80.example.com", "evil.org\x00.example.com", "evil.org .example.com", "user@.example.com"}},
		{"*.Example.COM.", []string{"a.example.com"}, []string{"example.com"}},
		{"192.0.2.7", []string{"192.0.2.7"}, []string{"192.0.2.70", "1.192.0.2.7", "192.0.2"}},
		{"2001:DB8::1", []string{"2001:db8::1"}, []string{"2001:db8::2", "[2001:db8::1]"}},
		{"xn--mnchen-3ya.de", []string{"XN--mnchen-3ya.de"}, []string{"münchen.de"}},
		// A text that is no pattern allows nothing.
		{"*", nil, []string{"*", "a", "example.com", ""}},
		{"", nil, []string{"", ".", "a"}},
		{"*.", nil, []string{"a", "a.", "*.", "."}},
		{"*.*.com", nil, []string{"a.b.com", "a.*.com"}},
		{"a.*.com", nil, []string{"a.b.com", "a.*.com"}},
		{"**.com", nil, []string{"a.com"}},
		{"*example.com", nil, []string{"example.com", "evilexample.com"}},
		{"https://example.com", nil, []string{"example.com", "https://example.com"}},
		{"*.2.7", nil, []string{"192.0.2.7", "a.2.7"}},
		{"127.1", nil, []string{"127.1", "127.0.0.1"}},
		{"0x7f000001", nil, []string{"0x7f000001", "127.0.0.1"}},
		{"example.0X1f", nil, []string{"example.0x1f"}},
		{"*.2001:db8::1", nil, []string{"a.2001:db8::1"}},
		{"münchen.de", nil, []string{"münchen.de"}},
		{"\u212Aelvin.org", nil, []string{"kelvin.org"}},
	} {
		h := policy.HostsOf(test.pattern)
		for _, host := range test.yes {
			if !h.Allows(host) {
				t.Errorf("%q does not allow %q", test.pattern, host)
			}
		}
		for _, host := range test.not {
			if h.Allows(host) {
				t.Errorf("%q lets %q through", test.pattern, host)
			}
		}
		if got, want := policy.IsHost(test.pattern), len(test.yes) > 0; got != want {
			t.Errorf("IsHost(%q): got %v, want %v", test.pattern, got, want)
		}
		if h.IsEmpty() != (len(test.yes) == 0) {
			t.Errorf("%q: None is %v", test.pattern, h.IsEmpty())
		}
		if excess := (policy.Grant{Hosts: h}).Within(policy.Grant{Hosts: h}); len(excess) > 0 {
			t.Errorf("%q is not within itself: %v", test.pattern, excess)
		}
	}
	if policy.IsHost(strings.Repeat("a.", 127) + "aa") {
		t.Error("a name of 256 bytes is a host")
	}
	if !policy.AllHosts().Allows("example.com") || (policy.Hosts{}).Allows("example.com") {
		t.Error("AllHosts allows too little, or zero Hosts too much")
	}
}

func TestHostsMeet(t *testing.T) {
	for _, test := range []struct{ a, b, want []string }{
		{[]string{"*.example.com"}, []string{"*.a.example.com"}, []string{"*.a.example.com"}},
		{[]string{"*.example.com"}, []string{"a.example.com", "example.com"}, []string{"a.example.com"}},
		{[]string{"*.example.com", "example.com"}, []string{"example.com"}, []string{"example.com"}},
		{[]string{"*.example.com"}, []string{"*.evilexample.com"}, nil},
		{[]string{"*.com"}, []string{"*.org"}, nil},
		{[]string{"*"}, []string{"*"}, nil},
		{[]string{"*"}, []string{"a.org"}, nil},
		{[]string{"A.org"}, []string{"a.ORG."}, []string{"a.org"}},
	} {
		a, b := policy.Grant{Hosts: policy.HostsOf(test.a...)}, policy.Grant{Hosts: policy.HostsOf(test.b...)}
		if got := a.Meet(b).Hosts.Patterns(); !slices.Equal(got, test.want) {
			t.Errorf("%v and %v: got %v, want %v", test.a, test.b, got, test.want)
		}
		all := policy.Grant{Hosts: policy.AllHosts()}
		if got := all.Meet(a).Hosts; got.IsAll() || !slices.Equal(got.Patterns(), a.Hosts.Patterns()) {
			t.Errorf("all and %v: got %v", test.a, got.Patterns())
		}
	}
}

func TestParseHost(t *testing.T) {
	for text, want := range map[string]string{
		"example.com":           "example.com",
		"Example.COM.":          "example.com",
		"example.com:443":       "example.com:443",
		"*.example.com:8443":    "*.example.com:8443",
		"192.0.2.7:22":          "192.0.2.7:22",
		"2001:DB8:0::1":         "2001:db8::1",
		"::ffff:192.0.2.7":      "192.0.2.7",
		"[2001:db8::1]:443":     "[2001:db8::1]:443",
		"example.com:0":         "",
		"example.com:65536":     "",
		"example.com:":          "",
		"example.com:+80":       "",
		"example.com:080":       "",
		"example.com:80:80":     "",
		"example.com:http":      "",
		"[example.com]:80":      "",
		"[2001:db8::1":          "",
		"2001:db8::1%eth0":      "",
		":80":                   "",
		"":                      "",
		"*":                     "",
		"*:443":                 "",
		"user@example.com":      "",
		"example.com/path":      "",
		"example.com\x00.org":   "",
		"ex\u0430mple.com":      "",
		"http://example.com:80": "",
	} {
		r, err := policy.ParseHost(text)
		if want == "" && err == nil || want != "" && (err != nil || r.String() != want) {
			t.Errorf("%q: got %q, %v; want %q", text, r, err, want)
		}
	}
}

// TestFindByPort checks that the longest pattern decides, separately for each port.
func TestFindByPort(t *testing.T) {
	h := policy.HostsOfRules(
		policy.HostRule{Host: "*.x.org"},
		policy.HostRule{Host: "api.x.org", Methods: []string{"GET"}},
		policy.HostRule{Host: "api.x.org", Paths: []string{"/up"}, Credential: "c"},
		policy.HostRule{Host: "git.x.org", Ports: []uint16{22}},
		policy.HostRule{Host: "2001:db8:0::7"},
		policy.HostRule{Host: "localhost", Ports: []uint16{11434}},
		policy.HostRule{Host: "bad.org", Methods: []string{"get"}},
	)
	for _, test := range []struct {
		host string
		port uint16
		want string
	}{
		{"a.x.org", 443, "*.x.org"},
		{"a.x.org", 80, "*.x.org"},
		{"a.x.org", 8080, ""},
		{"x.org", 443, ""},
		{"API.x.org.", 443, "api.x.org (/up; credential c) | api.x.org (GET)"},
		{"git.x.org", 22, "git.x.org:22"},
		{"git.x.org", 443, "*.x.org"},
		{"api.x.org", 22, ""},
		{"2001:db8::7", 443, "2001:db8::7"},
		{"2001:DB8:0:0::7", 443, "2001:db8::7"},
		{"localhost", 11434, "127.0.0.1:11434"},
		{"LocalHost.", 11434, "127.0.0.1:11434"},
		{"127.0.0.1", 11434, "127.0.0.1:11434"},
		{"localhost", 22, ""},
		{"::1", 11434, ""},
		{"bad.org", 443, ""},
		{"a.x.org\x00", 443, ""},
	} {
		var got []string
		for _, r := range h.Find(test.host, test.port) {
			got = append(got, r.String())
		}
		if strings.Join(got, " | ") != test.want {
			t.Errorf("%s:%d: got %q, want %q", test.host, test.port, got, test.want)
		}
	}
	if !h.Allows("localhost") || h.Allows("::1") {
		t.Error("a rule for localhost does not allow that name, or allows ::1")
	}
	if got := policy.AllHosts().Find("a.org", 22); len(got) != 1 || got[0].NeedsRequests() {
		t.Errorf("all hosts: got %v", got)
	}
}

// fetchType is the type of the request with which git fetches.
const fetchType = "application/x-git-upload-pack-request"

// TestRequests checks which requests pass which limits.
func TestRequests(t *testing.T) {
	read := policy.HostRule{Host: "a.org", GitRead: true}
	if read.AllowsRequest(policy.Request{Method: "POST", Path: "/me/x.git/git-upload-pack", Type: "application/json"}) {
		t.Error("a write to a path that ends like that of a fetch passes")
	}
	paths := policy.HostRule{Host: "a.org", Methods: []string{"GET"}, Paths: []string{"/repos/me/**", "/users/*/keys", "/"}}
	for _, test := range []struct {
		rule                policy.HostRule
		method, path, query string
		want                bool
	}{
		{read, "GET", "/me/x.git/info/refs", "service=git-upload-pack", true},
		{read, "POST", "/me/x.git/git-upload-pack", "", true},
		{read, "POST", "/api/v4/projects/1/repository/files/git-upload-pack", "content=x", false},
		{read, "HEAD", "/", "", true},
		{read, "GET", "/me/x.git/info/refs", "service=git-receive-pack", false},
		{read, "GET", "/me/x.git/info/refs", "service=git-upload-pack&service=GIT-receive-pack", false},
		{read, "POST", "/me/x.git/git-receive-pack", "", false},
		{read, "POST", "/login", "", false},
		{read, "POST", "/login", "/git-upload-pack", false},
		{read, "PUT", "/me/x.git/git-upload-pack", "", false},
		{paths, "GET", "/repos/me/x/y", "", true},
		{paths, "GET", "/repos/me", "", true},
		{paths, "GET", "/repos/me/", "", true},
		{paths, "GET", "/repos/meadow", "", false},
		{paths, "GET", "/users/a/keys", "", true},
		{paths, "GET", "/users/a/b/keys", "", false},
		{paths, "GET", "/users/a/keys/", "", false},
		{paths, "GET", "/", "", true},
		{paths, "GET", "", "", false},
		{paths, "GET", "/other", "", false},
		{paths, "POST", "/repos/me/x", "", false},
		{paths, "get", "/repos/me/x", "", false},
		{policy.HostRule{Host: "a.org"}, "POST", "/x", "", true},
	} {
		if got := test.rule.AllowsRequest(policy.Request{Method: test.method, Path: test.path, Query: test.query, Type: fetchType}); got != test.want {
			t.Errorf("%s: %s %s?%s: got %v", test.rule, test.method, test.path, test.query, got)
		}
	}
}

// TestHostRuleMeets checks what two sets of rules allow together, and that each set
// reports what exceeds the other.
func TestHostRuleMeets(t *testing.T) {
	rule := func(host string, change func(*policy.HostRule)) policy.HostRule {
		r := policy.HostRule{Host: host}
		if change != nil {
			change(&r)
		}
		return r
	}
	methods := func(list ...string) func(*policy.HostRule) { return func(r *policy.HostRule) { r.Methods = list } }
	paths := func(list ...string) func(*policy.HostRule) { return func(r *policy.HostRule) { r.Paths = list } }
	ports := func(list ...uint16) func(*policy.HostRule) { return func(r *policy.HostRule) { r.Ports = list } }
	credential := func(r *policy.HostRule) { r.Credential = "c" }
	git := func(r *policy.HostRule) { r.GitRead = true }
	for name, test := range map[string]struct {
		a, b   []policy.HostRule
		want   string
		excess string // of a
	}{
		"methods": {
			[]policy.HostRule{rule("a.org", methods("GET", "POST"))}, []policy.HostRule{rule("a.org", methods("GET", "PUT"))},
			"a.org (GET)", "a.org (GET, POST)"},
		"no common method": {
			[]policy.HostRule{rule("a.org", methods("POST"))}, []policy.HostRule{rule("a.org", methods("GET"))}, "", "a.org (POST)"},
		"ports": {
			[]policy.HostRule{rule("a.org", ports(22, 80, 443))}, []policy.HostRule{rule("a.org", nil)}, "a.org", "a.org:22"},
		"paths": {
			[]policy.HostRule{rule("a.org", paths("/x/**", "/y"))}, []policy.HostRule{rule("a.org", paths("/*/z/**", "/y"))},
			"a.org (/x/z/**, /y)", "a.org (/x/**, /y)"},
		"a credential is not taken away": {
			[]policy.HostRule{rule("a.org", nil)}, []policy.HostRule{rule("a.org", credential)}, "", "a.org"},
		"nor added": {
			[]policy.HostRule{rule("a.org", credential)}, []policy.HostRule{rule("a.org", nil)}, "", "a.org (credential c)"},
		"git": {
			[]policy.HostRule{rule("a.org", git)}, []policy.HostRule{rule("a.org", nil)}, "a.org (git read)", ""},
		"git the other way round": {
			[]policy.HostRule{rule("a.org", nil)}, []policy.HostRule{rule("a.org", git)}, "a.org (git read)", "a.org"},
		"a narrower rule of the parent below a pattern": {
			[]policy.HostRule{rule("*.a.org", nil)}, []policy.HostRule{rule("*.a.org", nil), rule("api.a.org", methods("GET"))},
			"*.a.org | api.a.org (GET)", "api.a.org"},
		"nothing below a pattern": {
			[]policy.HostRule{rule("*.a.org", nil), rule("api.a.org", methods("POST"))},
			[]policy.HostRule{rule("*.a.org", nil), rule("api.a.org", methods("GET"))},
			"*.a.org", "api.a.org (POST)"},
	} {
		a, b := policy.Grant{Hosts: policy.HostsOfRules(test.a...)}, policy.Grant{Hosts: policy.HostsOfRules(test.b...)}
		if got := strings.Join(a.Meet(b).Hosts.Patterns(), " | "); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		var excess []string
		for _, e := range a.Within(b) {
			excess = append(excess, e.Which)
		}
		if got := strings.Join(excess, " | "); got != test.excess {
			t.Errorf("%s: excess: got %q, want %q", name, got, test.excess)
		}
		if name == "nothing below a pattern" {
			both := a.Meet(b).Hosts
			if both.Allows("api.a.org") || both.Find("api.a.org", 443) != nil || !both.Allows("b.a.org") {
				t.Errorf("%s: got %v", name, both.Find("api.a.org", 443))
			}
		}
	}
}

func TestSets(t *testing.T) {
	if s := policy.SetOf("b", "a", "b"); !slices.Equal(s.Names(), []string{"a", "b"}) || s.IsAll() || s.IsEmpty() || s.Has("*") {
		t.Errorf("got %v", s.Names())
	}
	if s := policy.SetOf("a", "*"); !s.IsAll() || !s.Has("z") || s.IsEmpty() || !slices.Equal(s.Names(), []string{"*"}) {
		t.Errorf("a star does not match all: %v", s.Names())
	}
	if s := policy.SetOf(); !s.IsEmpty() || s.Has("") || s.IsAll() {
		t.Error("the empty set has something")
	}
}
