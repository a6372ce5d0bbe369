package desk

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/golem-forge/golem/internal/people/inbox"
)

// TestDemo asks the server of the demo. TestPackage in web uses the page in a browser.
func TestDemo(t *testing.T) {
	h := newDemo("golem-demo.localhost:1", fstest.MapFS{"demo/index.html": {Data: []byte("page")}, wasmFile: {Data: []byte("zipped")}})
	for _, c := range []struct {
		method, host, path string
		status             int
		body               string
	}{
		{"GET", "golem-demo.localhost:1", "/demo/", 200, "page"},
		{"HEAD", "golem-demo.localhost:1", "/demo/", 200, ""},
		{"GET", "golem-demo.localhost:1", "/golem.wasm", 200, "zipped"},
		{"GET", "golem-demo.localhost:1", "/../go.mod", 404, ""},
		{"GET", "127.0.0.1:1", "/demo/", 403, "use the one that it printed"},
		{"GET", "example.com", "/demo/", 403, "use the one that it printed"},
		{"POST", "golem-demo.localhost:1", "/demo/", 405, "only files"},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(c.method, "/", nil)
		r.Host, r.URL.Path = c.host, c.path
		h.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%v: got %d %q", c, w.Code, w.Body)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%v: the policy is %q", c, policy)
		}
		if c.path == "/golem.wasm" && (w.Header().Get("Content-Type") != "application/wasm" || w.Header().Get("Content-Encoding") != "gzip") {
			t.Errorf("the headers are %v", w.Header())
		}
	}
	page, err := os.ReadFile("../../../web/demo/index.html")
	if err != nil || !strings.Contains(string(page), `content="`+demoPolicy+`"`) {
		t.Errorf("the page has another policy, or cannot be read: %v", err)
	}
	err = Serve(t.Context(), inbox.DeskOptions{Demo: true, Listen: "127.0.0.1:0"})
	if err == nil || !strings.Contains(err.Error(), "make build-demo") {
		t.Errorf("without the files: got %v", err)
	}
	if err := Serve(t.Context(), inbox.DeskOptions{Demo: true, Listen: "0.0.0.0:0"}); err == nil || !strings.Contains(err.Error(), "only for this machine") {
		t.Errorf("on another address: got %v", err)
	}
}
