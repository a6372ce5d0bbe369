package network

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/work/project"
)

// TestOwnRequestsOfJob checks that golem's own requests reach a private address only if the
// machine's user chose the host.
func TestOwnRequestsOfJob(t *testing.T) {
	got := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got++ }))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	_, port, _ := strings.Cut(address, ":")
	for _, one := range []struct {
		host string
		may  func(host string) bool
		want bool
	}{
		{address, nil, true},
		{address, func(string) bool { return false }, false},
		{address, func(host string) bool { return host == address }, true},
		{address, func(host string) bool { return host == "localhost:"+port }, false},
	} {
		n, _ := newNetworks(t, &asker{}, approval.Interactive)
		n.MayBePrivate = one.may
		requests := n.OwnRequests("api_send", "an approved call", nil)
		got = 0
		r, err := http.NewRequest(http.MethodPost, "http://"+one.host+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := requests.RoundTrip(r)
		if err == nil {
			answer.Body.Close()
		}
		if (err == nil) != one.want || (got == 1) != one.want {
			t.Errorf("%s: got %v and %d requests, want %v", one.host, err, got, one.want)
		}
		if err := requests.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOwnRequestsWithinPolicy checks that the hosts of a policy hold for what golem itself sends
// for workers, and that github.com stands for its API.
func TestOwnRequestsWithinPolicy(t *testing.T) {
	n, _ := newNetworks(t, &asker{}, approval.Interactive)
	layer, err := project.ParsePolicy("policy.yaml", []byte("network: {allow: [github.com, \"127.0.0.1:9\"]}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Project.Ceiling = project.Ceiling{layer}
	requests := n.OwnRequests("pr", "an approved pull request", nil)
	defer requests.Close()
	for address, denied := range map[string]bool{
		"https://github.com/o/r": false, "https://api.github.com/repos/o/r": false, "http://127.0.0.1:9/": false,
		"https://api.github.com:8443/": true, "https://login.example.com/": true, "http://127.0.0.1:10/": true, "https://github.com.example.com/": true,
	} {
		r, err := http.NewRequest(http.MethodPost, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := requests.deny(r.URL); (err != nil) != denied {
			t.Errorf("%s: got %v", address, err)
		}
		if !denied {
			continue
		}
		if _, err := requests.RoundTrip(r); err == nil || !strings.Contains(err.Error(), "is not allowed: a policy") {
			t.Errorf("%s: got %v", address, err)
		}
	}
}
