package network

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
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
