package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/policy"
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
		{"example.com:443", nil, []string{"example.com", "example.com:443"}},
		{"*.2001:db8::1", nil, []string{"a.2001:db8::1"}},
		{"münchen.de", nil, []string{"münchen.de"}},
		{"\u212Aelvin.org", nil, []string{"kelvin.org"}},
	} {
		h := policy.HostsOf(test.pattern)
		for _, host := range test.yes {
			if !h.Allows(host) {
				t.Errorf("%q does not let %q through", test.pattern, host)
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
		t.Error("all and none")
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

func TestSets(t *testing.T) {
	if s := policy.SetOf("b", "a", "b"); !slices.Equal(s.Names(), []string{"a", "b"}) || s.IsAll() || s.IsEmpty() || s.Has("*") {
		t.Errorf("got %v", s.Names())
	}
	if s := policy.SetOf("a", "*"); !s.IsAll() || !s.Has("z") || s.IsEmpty() || !slices.Equal(s.Names(), []string{"*"}) {
		t.Errorf("a star is not all: %v", s.Names())
	}
	if s := policy.SetOf(); !s.IsEmpty() || s.Has("") || s.IsAll() {
		t.Error("the empty set has something")
	}
}
