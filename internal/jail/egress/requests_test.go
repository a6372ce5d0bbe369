package egress_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
)

// requestCases are requests to a host with rules, and whether they pass. Plain HTTP and
// TLS must agree.
var requestCases = []struct {
	rules        []policy.HostRule
	method, path string
	ok           bool
}{
	{[]policy.HostRule{{Methods: []string{"GET", "HEAD"}}}, "GET", "/x", true},
	{[]policy.HostRule{{Methods: []string{"GET", "HEAD"}}}, "GET", "/@scope%2fname", true},
	{[]policy.HostRule{{Methods: []string{"GET", "HEAD"}}}, "POST", "/x", false},
	{[]policy.HostRule{{Methods: []string{"GET", "HEAD"}}}, "get", "/x", false},
	{[]policy.HostRule{{Methods: []string{"GET", "POST"}}}, "POST", "/x?_method=DELETE", false},
	{[]policy.HostRule{{Methods: []string{"GET", "POST"}}}, "POST", "/x?a=1;%5fmethod=DELETE", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "POST", "/repos/me/x", true},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/caf%C3%A9", true},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/x?path=../%2f", true},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/other", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/../other", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/%2e%2e/other", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/..%2fother", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/..%5Cother", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/..;/other", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/%252e%252e/other", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me//x", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/%00", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/%c0%ae%c0%ae/other", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/..%20/other", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/.../other", false},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "/repos/me/.github/a..b", true},
	{[]policy.HostRule{{Paths: []string{"/repos/me/**"}}}, "GET", "//repos/me/x", false},
	{[]policy.HostRule{{Paths: []string{"/a"}, Methods: []string{"GET"}}, {Paths: []string{"/b"}, Methods: []string{"POST"}}}, "POST", "/b", true},
	{[]policy.HostRule{{Paths: []string{"/a"}, Methods: []string{"GET"}}, {Paths: []string{"/b"}, Methods: []string{"POST"}}}, "POST", "/a", false},
	{[]policy.HostRule{{GitRead: true}}, "GET", "/me/x.git/info/refs?service=git-upload-pack", true},
	{[]policy.HostRule{{GitRead: true}}, "POST", "/me/x.git/git-upload-pack", true},
	{[]policy.HostRule{{GitRead: true}}, "GET", "/me/x.git/info/refs?service=git-receive-pack", false},
	{[]policy.HostRule{{GitRead: true}}, "GET", "/me/x.git/info/refs?service=git%2Dreceive%2Dpack", false},
	{[]policy.HostRule{{GitRead: true}}, "GET", "/me/x.git/info/refs?%zz&service=git-receive-pack", false},
	{[]policy.HostRule{{GitRead: true}}, "GET", "/me/x.git/info/refs?service=git%2Dreceive%2Dpack&%", false},
	{[]policy.HostRule{{GitRead: true}}, "GET", "/me/x.git/info/refs?service=git%2Dreceive%252Dpack", false},
	{[]policy.HostRule{{GitRead: true}}, "GET", "/me/x.git/info/refs?service=git-upload-pack&service=git-receive%2", false},
	{[]policy.HostRule{{GitRead: true}}, "GET", "/me/x.git/info/refs?service=git%2Dupload-pack", true},
	{[]policy.HostRule{{GitRead: true}}, "GET", "/me/x.git/info/refs", true},
	{[]policy.HostRule{{GitRead: true}}, "GET", "/search?q=a%", true},
	{[]policy.HostRule{{GitRead: true}}, "POST", "/me/x.git/git-receive-pack", false},
	{[]policy.HostRule{{GitRead: true}}, "POST", "/me/x.git/git%2Dreceive-pack", false},
	{[]policy.HostRule{{GitRead: true}}, "POST", "/session", false},
	{[]policy.HostRule{{GitRead: true}}, "POST", "/api/v4/projects/1/repository/files/git-upload-pack?content=x", false},
	{[]policy.HostRule{{GitRead: true}}, "DELETE", "/me/x.git/git-upload-pack", false},
}

// gitFetch is the type of all requests of requestCases. That of a fetch must have it.
const gitFetch = "application/x-git-upload-pack-request"

func TestRequestsOfPlainHTTP(t *testing.T) {
	for _, test := range requestCases {
		for i := range test.rules {
			test.rules[i].Host = "example.com"
		}
		w := newWorld(t, test.rules...)
		var log requestLog
		w.site("example.com", &log)
		w.open()
		answer := exchange(w.mustDial("example.com", 80), test.method+" "+test.path+" HTTP/1.1\r\nHost: example.com\r\nContent-Type: "+gitFetch+"\r\nX-HTTP-Method-Override: DELETE\r\n\r\n")
		want := ""
		if test.ok {
			want = test.method + " example.com" + test.path
		}
		if got := log.seen(); got != want {
			t.Errorf("%v: the server got %q, want %q; the program got %q", test.rules, got, want, answer)
		}
		if !test.ok && test.method != "get" {
			if r := w.awaitStep(egress.Denied, "example.com"); r.Why == "" || !strings.HasPrefix(r.Request, test.method+" ") || strings.Contains(r.Request, "?") {
				t.Errorf("got %+v", r)
			}
		}
	}
}

// TestReadsWithHeaders checks requests that only their headers turn into writes: a server may
// take a fetch for another service, and a websocket can write.
func TestReadsWithHeaders(t *testing.T) {
	read, get := policy.HostRule{Host: "example.com", GitRead: true}, policy.HostRule{Host: "example.com", Methods: []string{"GET"}}
	const fetch, socket = "POST /files/git-upload-pack", "Connection: Upgrade\r\nUpgrade: websocket"
	for _, test := range []struct {
		rules            []policy.HostRule
		request, headers string
		ok               bool
	}{
		{[]policy.HostRule{read}, fetch, "Content-Type: " + gitFetch, true},
		{[]policy.HostRule{read}, fetch, "Content-Type: application/json", false},
		{[]policy.HostRule{read}, fetch, "Content-Type: " + gitFetch + "\r\nContent-Type: application/json", false},
		{[]policy.HostRule{read}, fetch, "X-Type: none", false},
		{[]policy.HostRule{read}, "GET /", socket, false},
		{[]policy.HostRule{get}, "GET /", socket, false},
		{[]policy.HostRule{get}, "GET /", "Connection: Upgrade\r\nUpgrade: h2c", true}, // without the upgrade
		{[]policy.HostRule{get, {Host: "example.com", Paths: []string{"/live"}}}, "GET /live", socket, true},
	} {
		w := newWorld(t, test.rules...)
		var log requestLog
		w.site("example.com", &log)
		w.open()
		answer := exchange(w.mustDial("example.com", 80), test.request+" HTTP/1.1\r\nHost: example.com\r\n"+test.headers+"\r\n\r\n")
		if got := log.seen(); (got != "") != test.ok {
			t.Errorf("%v: %s with %q: the server got %q; the program got %q", test.rules, test.request, test.headers, got, answer)
		}
	}
}

// TestGitReadRefusesSSH checks that git read passes no other protocol than HTTP.
func TestGitReadRefusesSSH(t *testing.T) {
	w := newWorld(t, policy.HostRule{Host: "example.com", Ports: []uint16{22}, GitRead: true})
	w.echo("example.com", 22)
	w.open()
	if got := exchange(w.mustDial("example.com", 22), "SSH-2.0-OpenSSH_9.9\r\n"); strings.Contains(got, "SSH-2.0") {
		t.Errorf("got %q", got)
	}
	if r := w.awaitStep(egress.Closed, "example.com"); !strings.Contains(r.Why, "no HTTP request") || len(w.dialled) > 0 {
		t.Errorf("got %+v, dialled %v", r, w.dialled)
	}
}

// TestMethodOverride checks that a server does not see a header that changes the method,
// the path or the host, nor one that it could take for another.
func TestMethodOverride(t *testing.T) {
	w := newWorld(t, policy.HostRule{Host: "example.com", Methods: []string{"POST"}})
	headers := make(chan http.Header, 1)
	w.site("example.com", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { headers <- r.Header; io.WriteString(out, "ok") }))
	w.open()
	exchange(w.mustDial("example.com", 80), "POST / HTTP/1.1\r\nHost: example.com\r\nX-HTTP-Method-Override: DELETE\r\nx-method-override: PUT\r\nX-HTTP-Method: PUT\r\nX_HTTP_Method-Override: PUT\r\nX-Original-URL: /evil\r\nx_rewrite_url: /evil\r\nX-Forwarded-Host: evil.org\r\nForwarded: host=evil.org\r\nX_Forwarded_Host: evil.org\r\nTransfer_Encoding: chunked\r\nContent_Length: 5\r\nHost_: evil\r\nX-Other: 1\r\nContent-Length: 0\r\n\r\n")
	h := <-headers
	for name := range h {
		if !slices.Contains([]string{"X-Other", "Content-Length", "User-Agent", "Accept-Encoding", "Host_"}, name) {
			t.Errorf("the server got %s", name)
		}
	}
	if h.Get("X-Other") != "1" {
		t.Errorf("got %v", h)
	}
}
