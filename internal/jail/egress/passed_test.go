package egress

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// TestRequestName checks that a record names a request as rules limit it, and has a star for what a
// rule could not limit.
func TestRequestName(t *testing.T) {
	for _, c := range []struct{ method, url, upgrade, want string }{
		{"GET", "/a/b?q=secret", "", "GET /a/b"},
		{"POST", "/a%20b", "", "POST /a b"},
		{"GET", "/a%2fb", "", "GET *"},
		{"GET", "/a/../b", "", "GET *"},
		{"GET", "//a", "", "GET *"},
		{"GET", "/a*b", "", "GET *"},
		{"GET", "/x?_method=DELETE", "", "* /x"},
		{"GET", "/live", "websocket", "* /live"},
		{"get", "/x", "", "* /x"},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://example.com"+c.url, nil)
		if r.Method = c.method; c.upgrade != "" {
			r.Header.Set("Upgrade", c.upgrade)
		}
		if got := requestName(r); got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.method, c.url, got, c.want)
		}
	}
}

// TestPassed checks that the list of requests stays short, and never says less than what passed.
func TestPassed(t *testing.T) {
	var p passed
	for range 3 {
		p.add("GET /a")
	}
	if got := p.all(); !slices.Equal(got, []string{"GET /a"}) {
		t.Errorf("got %q", got)
	}
	for i := range 1000 {
		p.add(fmt.Sprintf("GET /%d", i))
	}
	p.add("POST /b")
	if got := p.all(); !slices.Equal(got, []string{"GET *", "POST /b"}) {
		t.Errorf("got %q", got)
	}
	for i := range 1000 {
		p.add(fmt.Sprintf("M%d /b", i))
	}
	if got := p.all(); len(got) > 2*maxPassed || got[0] != "* *" {
		t.Errorf("got %d requests, the first is %q", len(got), got[0])
	}
}
