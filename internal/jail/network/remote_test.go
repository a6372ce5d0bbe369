package network

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
)

// TestRemotePrivate checks that an MCP server over HTTP is at a private address only if the
// user lists the address itself or allows private addresses, and that no other host gets a
// request or its key. TestNameWithPrivateAddress of package egress is about names.
func TestRemotePrivate(t *testing.T) {
	got := 0
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if got++; r.Header.Get("Authorization") != "Bearer key" {
			t.Errorf("got the headers %v", r.Header)
		}
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	local := strings.Replace(address, "127.0.0.1", "localhost", 1)
	for _, one := range []struct {
		at, rule string
		private  bool
		want     bool
	}{
		{at: address, rule: address, want: true},
		{at: local, rule: local, want: true},
		{at: local, rule: address, want: true},
		{at: address, rule: "", want: false}, // the whole network
		{at: local, rule: "", want: false},
		{at: address, rule: "", private: true, want: true},
	} {
		n, journal := newNetworks(t, &asker{}, approval.Interactive)
		n.Project.AllowPrivate = one.private
		hosts := policy.AllHosts()
		if one.rule != "" {
			rule, err := policy.ParseHost(one.rule)
			if err != nil {
				t.Fatal(err)
			}
			hosts = policy.HostsOfRules(rule)
		}
		header := http.Header{"Authorization": {"Bearer key"}}
		r, err := n.Remote("far", "http://"+one.at+"/mcp", hosts, nil, func() string { return "" }, func() (http.Header, []string, error) { return header, []string{"key"}, nil })
		if err != nil {
			t.Fatal(err)
		}
		requests, err := r.Dial()
		if err != nil {
			t.Fatal(err)
		}
		got = 0
		answer, err := send(requests, "http://"+one.at+"/mcp")
		if err == nil && answer.StatusCode != http.StatusOK {
			t.Logf("%+v: %s", one, answer.Status)
		}
		if (got == 1) != one.want {
			t.Errorf("%+v: got %v and %d requests", one, err, got)
		}
		if _, err := send(requests, "http://other.example.org/mcp"); err == nil || !strings.Contains(err.Error(), "only to "+one.at) {
			t.Errorf("another host: got %v", err)
		}
		if err := requests.Close(); err != nil {
			t.Error(err)
		}
		if len(journal.records) == 0 {
			t.Errorf("%+v: the journal has no record", one)
		}
	}
}

func send(requests *RemoteRequests, address string) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodPost, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := requests.RoundTrip(r)
	if err == nil {
		answer.Body.Close()
	}
	return answer, err
}
