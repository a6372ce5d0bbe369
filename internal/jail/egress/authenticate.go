package egress

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// findSecret returns the secret for a request that a rule with a credential allows. It
// removes the placeholder from the request, and refuses any other authentication.
func (s *stream) findSecret(r *http.Request, rule policy.HostRule) (*secret, error) {
	secret := s.n.secrets[rule.Credential]
	switch {
	case secret == nil:
		return nil, refusal("the credential " + rule.Credential + " has no value; set one with golem secret set " + rule.Credential)
	case !s.ended && !secret.plain && !isLoopback(s.host):
		return nil, refusal("golem sends the credential " + rule.Credential + " only over TLS; use https://" + s.host)
	}
	own := func(what string) error {
		return refusal("the request has an authentication of its own (" + what + "); " + s.host + " takes only the credential " + rule.Credential + ", which golem adds")
	}
	for name, values := range r.Header {
		if !isAuthHeader(name) {
			continue
		}
		for _, v := range values {
			if v != "" && !secret.carries(v) {
				return nil, own(name)
			}
		}
		delete(r.Header, name)
	}
	for _, v := range r.Header.Values("Content-Type") {
		if strings.HasPrefix(strings.ToLower(v), "multipart/mixed") { // Google's hosts read the parts as requests
			return nil, refusal("the body may have requests in it (multipart/mixed), with an authentication of their own; send them one by one")
		}
	}
	for _, v := range r.Header.Values("Sec-Websocket-Protocol") {
		if isAuthHeader(v) {
			return nil, own("Sec-WebSocket-Protocol")
		}
	}
	var kept []string
	removed := false
	for _, part := range strings.FieldsFunc(r.URL.RawQuery, func(c rune) bool { return c == '&' || c == ';' }) {
		for name, value := range queryParts(part) {
			switch {
			case !isAuthParameter(name):
				kept = append(kept, part)
			case value != secret.placeholder:
				return nil, own("the parameter " + name)
			default:
				removed = true
			}
		}
	}
	if removed {
		r.URL.RawQuery = strings.Join(kept, "&")
	}
	return secret, nil
}

// keepReadable removes from a request what would make its answer unreadable for golem:
// compression, and parts of a text.
func keepReadable(h http.Header) {
	h.Set("Accept-Encoding", "identity")
	for _, name := range []string{"Range", "If-Range", "Sec-Websocket-Extensions"} {
		h.Del(name)
	}
}

// noticePlaceholders records placeholders of credentials that are not for this host.
func (s *stream) noticePlaceholders(r *http.Request, here *secret) {
	for name, secret := range s.n.secrets {
		if secret == here {
			continue
		}
		notice := func(where string) {
			record := s.record(Noticed)
			record.Request = r.Method + " " + r.URL.EscapedPath()
			record.Why = "the placeholder of the credential " + name + " in " + where + ": the credential is not for this host"
			s.n.report(record)
		}
		if strings.Contains(r.URL.Path, secret.placeholder) {
			notice("the path")
		}
		if strings.Contains(unescape(r.URL.RawQuery), secret.placeholder) {
			notice("the query")
		}
		for header, values := range r.Header {
			if slices.ContainsFunc(values, secret.carries) {
				notice(header)
			}
		}
	}
}

// authWords are parts of names of headers that carry authentication.
var authWords = []string{"auth", "token", "key", "secret", "cookie", "credential", "passw", "signature", "jwt", "bearer"}

// isAuthHeader reports whether a header may carry authentication, by its name: vendors
// have many names for it.
func isAuthHeader(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "sec-websocket-key", "idempotency-key", "x-idempotency-key":
		return false
	}
	for _, word := range authWords {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// isAuthParameter reports whether a parameter of a query may carry authentication. Names
// such as page_token and max_tokens do not.
func isAuthParameter(name string) bool {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
	switch plain {
	case "key", "token", "auth", "authorization", "bearer", "jwt", "sig", "sid", "pass", "pwd", "xamzcredential", "xamzsecuritytoken", "googleaccessid",
		"uploadid": // an upload that somebody else began
		return true
	}
	for _, end := range []string{"apikey", "accesskey", "accesskeyid", "accesstoken", "authtoken", "oauthtoken", "bearertoken", "idtoken", "privatetoken", "jobtoken",
		"sessiontoken", "secret", "secretkey", "subscriptionkey", "password", "passwd", "signature", "credential", "credentials", "sessionid"} {
		if strings.HasSuffix(plain, end) {
			return true
		}
	}
	return false
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() || host == "localhost"
}
