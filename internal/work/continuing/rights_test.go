package continuing_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/continuing"
	"github.com/golem-forge/golem/sandbox"
)

// TestBeyond checks what counts as more than a session began with.
func TestBeyond(t *testing.T) {
	t.Parallel()
	with := func(hosts policy.Hosts, source string, access sandbox.Access, kept bool, credentials ...string) (r continuing.Rights) {
		r.SetHosts(hosts)
		r.AddMount(source, "/", access, kept)
		r.Credentials = credentials
		return r
	}
	read := policy.HostsOfRules(policy.HostRule{Host: "example.com", Methods: []string{"GET"}})
	keyed := policy.HostsOfRules(policy.HostRule{Host: "example.com", Credential: "key"})
	some := policy.HostsOf("example.com", "*.example.org")
	for _, test := range []struct {
		name       string
		now, began continuing.Rights
		want       string
	}{
		{"the same", with(some, "/nosuch/a", sandbox.ReadWrite, true, "K"), with(some, "/nosuch/a", sandbox.ReadWrite, true, "K"), ""},
		{"less of all", with(policy.HostsOf("a.example.org"), "/nosuch/a/b", sandbox.ReadOnly, false), with(some, "/nosuch/a", sandbox.ReadWrite, false, "K"), ""},
		{"a list after all hosts", with(some, "/nosuch/a", sandbox.ReadOnly, false), with(policy.AllHosts(), "/nosuch/a", sandbox.ReadOnly, false), ""},
		{"all hosts after a list", with(policy.AllHosts(), "/nosuch/a", sandbox.ReadOnly, false), with(some, "/nosuch/a", sandbox.ReadOnly, false), "network: every host"},
		{"every method after one", with(policy.HostsOf("example.com"), "/nosuch/a", sandbox.ReadOnly, false), with(read, "/nosuch/a", sandbox.ReadOnly, false), "network: example.com"},
		{"with a credential", with(keyed, "/nosuch/a", sandbox.ReadOnly, false), with(some, "/nosuch/a", sandbox.ReadOnly, false), "network: example.com (credential key)"},
		{"a directory above", with(some, "/nosuch", sandbox.ReadOnly, false), with(some, "/nosuch/a", sandbox.ReadWrite, false), "mount: /nosuch at / (ro)"},
		{"direct writes after an overlay", with(some, "/nosuch/a", sandbox.ReadWrite, false), with(some, "/nosuch/a", sandbox.ReadWrite, true), "mount: /nosuch/a at / (rw)"},
		{"another credential", with(some, "/nosuch/a", sandbox.ReadOnly, false, "K", "L"), with(some, "/nosuch/a", sandbox.ReadOnly, false, "K"), "credential: L"},
		{"after nothing", with(some, "/nosuch/a", sandbox.ReadOnly, false, "K\x1b"), continuing.Rights{}, "network: *.example.org, network: example.com, mount: /nosuch/a at / (ro), credential: K\\x1b"},
	} {
		if got := strings.Join(test.now.Beyond(test.began), ", "); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}
