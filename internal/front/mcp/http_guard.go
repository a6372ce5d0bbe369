package mcp

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/work/program"
	foreign "github.com/golem-forge/golem/internal/work/toolset/foreign"
)

// An httpGuard lets a request through if it names this server and holds the token. A
// request from a web page must come from an allowed origin.
type httpGuard struct {
	hosts, origins []string
	token, url     string
	next           http.Handler
}

func newHTTPGuard(l program.HTTPOptions, at net.Addr) *httpGuard {
	d := &httpGuard{hosts: slices.Clone(l.Hosts), origins: l.Origins, token: l.Token}
	scheme := "http"
	if l.Cert != "" {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(at.String()) // the listener returned a valid address
	d.hosts = append(d.hosts, net.JoinHostPort(host, port))
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		d.hosts = append(d.hosts, net.JoinHostPort("localhost", port))
	}
	d.url = scheme + "://" + net.JoinHostPort(host, port) + endpoint
	if d.token == "" {
		d.token = rand.Text()
	}
	return d
}

// ServeHTTP implements http.Handler.
func (d *httpGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for key, value := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(key, value)
	}
	status, why := d.checkRequest(r)
	if why == "" && answerPreflight(w, r) {
		return
	}
	if why == "" {
		status, why = d.checkAccess(r)
	}
	if why == "" {
		status, why = readBody(w, r)
	}
	if why == "" {
		d.next.ServeHTTP(w, r)
		return
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	// Do not read the rest of the request, and do not wait for it.
	w.Header().Set("Connection", "close")
	http.NewResponseController(w).SetReadDeadline(time.Now())
	http.Error(w, why, status)
}

// checkRequest returns why a request has a wrong host, origin or path. It returns "" if all
// three are right.
func (d *httpGuard) checkRequest(r *http.Request) (status int, why string) {
	origins := r.Header.Values("Origin")
	switch {
	case r.URL.Host != "" || !slices.Contains(d.hosts, r.Host):
		return http.StatusForbidden, "this server is not called so; --host adds a name"
	case len(origins) > 1 || len(origins) == 1 && !slices.Contains(d.origins, origins[0]):
		return http.StatusForbidden, "pages of this origin may not use it; --origin adds one"
	case r.URL.Path != endpoint || r.URL.RawQuery != "":
		return http.StatusNotFound, "there is " + endpoint + " alone"
	}
	return 0, ""
}

// answerPreflight sets the headers that let a page of an allowed origin read the answers. It
// answers a preflight request of a browser, and reports whether this was one.
func answerPreflight(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	head := w.Header()
	head.Set("Access-Control-Allow-Origin", origin)
	head.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate")
	head.Set("Vary", "Origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	head.Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	head.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	if r.Header.Get("Access-Control-Request-Private-Network") != "" {
		head.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// checkAccess returns why a request has a wrong method or token. It returns "" if both are
// right.
func (d *httpGuard) checkAccess(r *http.Request) (status int, why string) {
	authorization := r.Header.Values("Authorization")
	switch {
	case !slices.Contains([]string{http.MethodPost, http.MethodGet, http.MethodDelete}, r.Method):
		return http.StatusMethodNotAllowed, "POST, GET or DELETE"
	case len(authorization) != 1 || !d.hasToken(authorization[0]):
		return http.StatusUnauthorized, "send the header Authorization: Bearer TOKEN, with the token that golem mcp printed at its start"
	}
	return 0, ""
}

// hasToken reports whether a header holds the token.
func (d *httpGuard) hasToken(authorization string) bool {
	kind, token, _ := strings.Cut(authorization, " ")
	return strings.EqualFold(kind, "Bearer") && subtle.ConstantTimeCompare([]byte(token), []byte(d.token)) == 1
}

// readBody reads a whole request within bodyTime. After that the connection may stay open
// for as long as the answer takes. readBody returns why it refuses the request, or "".
func readBody(w http.ResponseWriter, r *http.Request) (status int, why string) {
	c := http.NewResponseController(w)
	c.SetReadDeadline(time.Now().Add(bodyTime))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	c.SetReadDeadline(time.Time{})
	levels, values := foreign.Shape(body)
	switch _, is := errors.AsType[*http.MaxBytesError](err); {
	case is:
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("a message has at most %d bytes; send less at a time", maxMessage)
	case err != nil:
		return http.StatusBadRequest, "the request has no end"
	case levels > foreign.MaxLevels:
		return http.StatusBadRequest, errLevels.Error()
	case values > foreign.MaxValues:
		return http.StatusBadRequest, errValues.Error()
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")):
		return http.StatusBadRequest, "batches are not part of the protocol any more; send one message a request"
	}
	if r.Method == http.MethodPost { // the library stops reading after the first message
		switch _, err := decode(body); {
		case errors.As(err, new(refusal)):
			return http.StatusBadRequest, err.Error()
		case err != nil:
			return http.StatusBadRequest, "this is no message of JSON-RPC 2.0; send one a request"
		}
		if bad := filecontent.CheckJSON(body); bad != nil { // decode passes on a bad answer, for the call that waits for it
			return http.StatusBadRequest, "the message: " + bad.Error()
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return 0, ""
}
