package desk

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
)

// cookieName is the name of the cookie of the desk.
const cookieName = "golem_desk"

// maxBody is the size of a request in bytes that the desk reads.
const maxBody = 4 << 20

// A guard lets only the user's browser in. A request must name the address of the desk,
// its random path and its cookie, and a POST must come from a page of the desk.
type guard struct {
	host   string // the Host header of requests for this desk
	prefix string // the random path: /…/
	cookie string
	origin *http.CrossOriginProtection
	policy string // the content security policy of all pages
	login  func(http.ResponseWriter)
	next   http.Handler

	mu    sync.Mutex
	token string // "" after it was used
	used  string // the token after it was used
}

func newGuard(host string) *guard {
	return &guard{host: host, prefix: "/" + strings.ToLower(rand.Text()) + "/", cookie: rand.Text(), token: rand.Text(), origin: http.NewCrossOriginProtection()}
}

// address returns the address that logs a browser in, once.
func (g *guard) address() string { return "http://" + g.host + g.prefix + "?token=" + g.token }

// useToken reports whether a token is the one of the address. It works once.
func (g *guard) useToken(token string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token == "" || !equal(g.token, token) {
		return false
	}
	g.token, g.used = "", token
	return true
}

// explainToken says why a token does not log a browser in.
func (g *guard) explainToken(token string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used != "" && equal(g.used, token) {
		return "this address was used already, and it works once; run golem desk again for another one"
	}
	return "the token in this address is wrong; copy the whole address that golem desk printed"
}

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w, g.policy)
	if r.Host != g.host { // the name of another site may lead here
		refuse(w, http.StatusForbidden, "this is not the address of golem desk; use the one that it printed")
		return
	}
	if len(r.URL.Path) < len(g.prefix) || !equal(r.URL.Path[:len(g.prefix)], g.prefix) {
		refuse(w, http.StatusUnauthorized, notYours)
		return
	}
	known := g.hasCookie(r)
	if token := r.URL.Query().Get("token"); token != "" && r.URL.Path == g.prefix && r.Method == http.MethodGet {
		switch {
		case g.useToken(token):
			w.Header().Set("Clear-Site-Data", `"storage"`) // removes service workers
			if !isNavigation(r) {
				refuse(w, http.StatusForbidden, "not the browser itself, but a service worker or a page asked for this address: another server has had this port before; run golem desk again with another port")
				return
			}
			http.SetCookie(w, &http.Cookie{Name: cookieName, Value: g.cookie, Path: g.prefix, HttpOnly: true, SameSite: http.SameSiteStrictMode})
			g.login(w)
		case known: // the user has opened the address again
			http.Redirect(w, r, g.prefix, http.StatusSeeOther)
		default:
			refuse(w, http.StatusUnauthorized, g.explainToken(token))
		}
		return
	}
	if !known {
		refuse(w, http.StatusUnauthorized, notYours)
		return
	}
	if err := g.origin.Check(r); err != nil {
		refuse(w, http.StatusForbidden, "a page of another site sent this request")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	http.StripPrefix(strings.TrimSuffix(g.prefix, "/"), g.next).ServeHTTP(w, r)
}

// setHeaders sets the headers of all pages.
func setHeaders(w http.ResponseWriter, policy string) {
	for key, value := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
		"Content-Security-Policy": policy, "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		"Permissions-Policy": "camera=(), geolocation=(), microphone=()",
	} {
		w.Header().Set(key, value)
	}
}

// redirect sends the browser to another page of the desk. It returns nil, as server.render does.
func (g *guard) redirect(w http.ResponseWriter, r *http.Request, to string) error {
	http.Redirect(w, r, g.prefix+to, http.StatusSeeOther)
	return nil
}

// isNavigation reports whether a browser asks for a page because the user opened an address.
// A server that had the port of the desk before may have left a service worker in the
// browser, or an open page. Both belong to the origin of the desk, so they could read its
// pages and decide in the user's name. Only the browser can write these headers.
func isNavigation(r *http.Request) bool {
	to := r.Header.Get("Sec-Fetch-Dest") // "" without a browser
	return (to == "" || to == "document") && r.Header.Get("Sec-Fetch-Site") != "same-origin" && r.Header.Get("Service-Worker-Navigation-Preload") == ""
}

const notYours = "log in with the address that golem desk printed"

func (g *guard) hasCookie(r *http.Request) bool {
	c, err := r.Cookie(cookieName)
	return err == nil && equal(c.Value, g.cookie)
}

// equal compares in the same time for every text of the same length.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// refuse answers a request that is not served.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte("golem: " + why + "\n"))
}
