package desk

import (
	"context"
	"io/fs"
	"net"
	"net/http"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/sandbox"
	"github.com/golem-forge/golem/web"
)

// demoName is the name of the demo's server in the browser. The browser keeps files for it, and
// no other server uses it.
const demoName = "golem-demo.localhost"

// demoPolicy is the content security policy of web/demo/index.html, and of its Worker. The user
// may name an endpoint of a model or of GitHub.
const demoPolicy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; connect-src 'self' https: http://127.0.0.1:* http://localhost:*; base-uri 'none'; form-action 'none'"

// serveDemo serves the demo of the npm package until ctx ends. It has nothing of the user: the
// demo keeps its files in the browser.
func serveDemo(ctx context.Context, l net.Listener, o inbox.DeskOptions) error {
	files, err := fs.Sub(web.Package, "package")
	if err == nil {
		_, err = fs.Stat(files, wasmFile)
	}
	if err != nil {
		return &sandbox.Error{Op: "golem desk --demo", Code: sandbox.ErrNotFound, Hint: "this golem was built without the demo; take one of a release, or run make build-demo in a clone of golem"}
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	host := net.JoinHostPort(demoName, port)
	return serveUntil(ctx, l, newDemo(host, files), func() { o.Ready("http://"+host+"/demo/", "") })
}

// wasmFile is the program of the package. A browser decompresses it.
const wasmFile = "golem.wasm.gz"

// newDemo returns the server of the demo.
func newDemo(host string, files fs.FS) http.Handler {
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w, demoPolicy+"; frame-ancestors 'none'")
		switch {
		case r.Host != host:
			refuse(w, http.StatusForbidden, "this is not the address of golem desk --demo; use the one that it printed")
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			refuse(w, http.StatusMethodNotAllowed, "the demo has only files")
		case r.URL.Path == "/golem.wasm":
			w.Header().Set("Content-Type", "application/wasm")
			w.Header().Set("Content-Encoding", "gzip")
			http.ServeFileFS(w, r, files, wasmFile)
		default:
			serve.ServeHTTP(w, r)
		}
	})
}
