package egress

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// findRule returns the rule that allows a request, or an error that says what is allowed.
func (s *stream) findRule(r *http.Request) (policy.HostRule, error) {
	q := policy.Request{Method: r.Method, Path: r.URL.Path, Query: decodePercent(r.URL.RawQuery)}
	if types := r.Header.Values("Content-Type"); len(types) == 1 {
		q.Type = types[0]
	}
	what := r.Method + " " + r.URL.EscapedPath()
	upgrades := r.Header.Get("Upgrade") != ""
	if upgrades {
		what = "a websocket at " + r.URL.EscapedPath()
	}
	ambiguous := whyAmbiguous(r.URL)
	var allowed []string
	for _, rule := range s.rules {
		allowed = append(allowed, rule.String())
		switch {
		case !rule.AllowsRequest(q), upgrades && !rule.CanWrite(): // a websocket begins with a GET and can write
		case len(rule.Paths) > 0 && ambiguous != "":
			return rule, refusal("the path has " + ambiguous + ", which servers read in different ways")
		case (len(rule.Methods) > 0 || rule.GitRead) && hasMethodParameter(r.URL):
			return rule, refusal("the query has _method, which some servers read as another method")
		default:
			return rule, nil
		}
	}
	return policy.HostRule{}, refusal(what + " is not allowed; allowed is " + strings.Join(allowed, ", "))
}

// whyAmbiguous returns which part of a path servers read in different ways, "" if none.
func whyAmbiguous(u *url.URL) string {
	escaped := strings.ToLower(u.EscapedPath())
	switch {
	case strings.Contains(escaped, "%2f"), strings.Contains(escaped, "%5c"), strings.Contains(u.Path, "\\"):
		return "an escaped slash or a backslash"
	case strings.Contains(u.Path, "%"):
		return "a double escape"
	case strings.Contains(u.Path, "//"):
		return "an empty segment"
	case strings.ContainsFunc(u.Path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "a control character"
	case !utf8.ValidString(u.Path):
		return "a byte that is not UTF-8"
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		name, _, _ := strings.Cut(segment, ";")
		if strings.HasPrefix(name, ".") && strings.Trim(name, ". ") == "" { // some servers ignore dots and spaces at the end
			return "a dot segment"
		}
	}
	return ""
}

// hasMethodParameter reports whether a query asks a server to take another method.
func hasMethodParameter(u *url.URL) bool {
	for name := range queryParts(u.RawQuery) {
		if strings.EqualFold(name, "_method") {
			return true
		}
	}
	return false
}

// overrides are headers by which some servers read another method, path or host than
// that of the request.
var overrides = []string{
	"x-http-method-override", "x-http-method", "x-method-override",
	"x-original-url", "x-original-uri", "x-rewrite-url", "x-forwarded-uri", "x-forwarded-path", "x-forwarded-prefix",
	"forwarded", "x-forwarded-host", "x-forwarded-server", "x-original-host", "x-host", "x-http-host-override",
}

// dropDoubles removes headers that some servers read as another one: they take an
// underscore for a hyphen. If the rules limit requests, it also removes overrides.
func dropDoubles(h http.Header, isLimited bool) {
	for name := range h {
		plain := strings.ReplaceAll(lower(name), "_", "-")
		switch plain {
		case "host", "content-length", "transfer-encoding", "connection", "upgrade", "trailer", "expect":
			if strings.Contains(name, "_") {
				delete(h, name)
			}
		}
		if isLimited && slices.Contains(overrides, plain) {
			delete(h, name)
		}
	}
}

// queryParts yields the names and values of a query, also of one that url.ParseQuery does
// not accept.
func queryParts(raw string) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for part := range strings.FieldsFuncSeq(raw, func(r rune) bool { return r == '&' || r == ';' }) {
			name, value, _ := strings.Cut(part, "=")
			if !yield(unescape(name), unescape(value)) {
				return
			}
		}
	}
}

func unescape(text string) string { return decodePercent(strings.ReplaceAll(text, "+", " ")) }

// decodePercent decodes the valid escapes of a text, also beside invalid ones: servers do.
func decodePercent(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if i+3 <= len(text) && text[i] == '%' {
			if plain, err := url.PathUnescape(text[i : i+3]); err == nil {
				b.WriteString(plain)
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
