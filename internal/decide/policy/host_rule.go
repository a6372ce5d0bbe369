package policy

import (
	"cmp"
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"

	"github.com/golem-forge/golem/sandbox"
)

// A HostRule allows connections to the hosts of a pattern. Each limit that is set narrows
// it further.
type HostRule struct {
	// Host is a name, an address, or "*." before a name: see [IsHost].
	Host string
	// Ports are the ports, 80 and 443 if there are none.
	Ports []uint16
	// Methods are the HTTP methods that pass, all if there are none.
	Methods []string
	// Paths are patterns of the URL paths that pass, all if there are none. A pattern
	// consists of segments: a text, "*" for one segment, and at the end "**" for any
	// number of them.
	Paths []string
	// GitRead lets only requests pass that read: GET, HEAD, and fetches by git.
	GitRead bool
	// Credential names the secret that golem adds to requests. A host with a credential
	// takes no other authentication. A grant must have the credential, too.
	Credential string

	nothing bool // the rule allows nothing, so that no shorter pattern does
}

// Ports of a rule that names none.
var webPorts = []uint16{80, 443}

// ParseHost reads a host with or without a port: "example.com", "*.example.com:8443",
// "192.0.2.7", "[2001:db8::1]:443".
func ParseHost(text string) (HostRule, error) {
	r := HostRule{Host: text}
	if name, port, ok := cutPort(text); ok && !strings.Contains(text, "/") {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '+' || port[0] == '0' {
			return HostRule{}, errors.New(sandbox.Shown(text) + ": not a port; write a number from 1 to 65535")
		}
		r = HostRule{Host: name, Ports: []uint16{uint16(n)}}
	}
	if err := r.Validate(); err != nil {
		return HostRule{}, err
	}
	return r.normalize(), nil
}

// cutPort splits a text at the colon before a port. An IPv6 address with a port is in
// brackets.
func cutPort(text string) (name, port string, ok bool) {
	if inner, rest, closed := strings.Cut(strings.TrimPrefix(text, "["), "]"); closed && text[0] == '[' {
		port, ok = strings.CutPrefix(rest, ":")
		return inner, port, ok && strings.Contains(inner, ":")
	}
	if strings.Count(text, ":") != 1 {
		return "", "", false
	}
	return strings.Cut(text, ":")
}

// CanWrite reports whether the rule allows more than reads.
func (r HostRule) CanWrite() bool {
	return !r.GitRead && (len(r.Methods) == 0 || slices.ContainsFunc(r.Methods, func(m string) bool { return m != "GET" && m != "HEAD" }))
}

// Validate returns why the rule is invalid, nil if it is not.
func (r HostRule) Validate() error {
	if strings.ContainsFunc(r.Host, func(c rune) bool { return c > unicode.MaxASCII }) {
		return errors.New(sandbox.Shown(r.Host) + ": a host with other letters than a to z; write it as DNS has it, with xn--, such as xn--bcher-kva.example")
	}
	if !IsHost(r.Host) {
		return errors.New(sandbox.Shown(r.Host) + ": not a host; write a name such as example.com, *.example.com for the names below it, or an address, with :PORT if it is not 80 or 443")
	}
	if slices.Contains(r.Ports, 0) {
		return errors.New(sandbox.Shown(r.Host) + ": 0 is not a port; write a number from 1 to 65535")
	}
	for _, m := range r.Methods {
		if m == "" || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" || m == "CONNECT" {
			return errors.New(sandbox.Shown(m) + ": not a method; write GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")
		}
	}
	for _, p := range r.Paths {
		if !isPathPattern(p) {
			return errors.New(sandbox.Shown(p) + ": not a pattern of paths; write a path such as /repos/me/**, where * is one segment and ** at the end any number")
		}
	}
	return nil
}

// normalize returns a valid rule in the canonical form.
func (r HostRule) normalize() HostRule {
	r = r.clone()
	r.Host = canonicalHost(r.Host)
	if len(r.Ports) == 0 {
		r.Ports = slices.Clone(webPorts)
	}
	r.Ports, r.Methods, r.Paths = sortUnique(r.Ports), sortUnique(r.Methods), sortUnique(r.Paths)
	return r
}

func sortUnique[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

func (r HostRule) clone() HostRule {
	r.Ports, r.Methods, r.Paths = slices.Clone(r.Ports), slices.Clone(r.Methods), slices.Clone(r.Paths)
	return r
}

// NeedsRequests reports whether the rule can be checked only by reading requests, so that
// golem must end TLS.
func (r HostRule) NeedsRequests() bool {
	return len(r.Methods) > 0 || len(r.Paths) > 0 || r.GitRead || r.Credential != ""
}

// String returns the rule as text: "api.github.com:8443 (GET; /repos/me/**)".
func (r HostRule) String() string {
	text := r.Host
	if !slices.Equal(r.Ports, webPorts) && len(r.Ports) > 0 {
		if strings.Contains(text, ":") {
			text = "[" + text + "]"
		}
		mark := ":"
		for _, port := range r.Ports {
			text += mark + strconv.Itoa(int(port))
			mark = ","
		}
	}
	var limits []string
	for _, list := range [][]string{r.Methods, r.Paths} {
		if len(list) > 0 {
			limits = append(limits, strings.Join(list, ", "))
		}
	}
	if r.GitRead {
		limits = append(limits, "git read")
	}
	if r.Credential != "" {
		limits = append(limits, "credential "+r.Credential)
	}
	if len(limits) == 0 {
		return text
	}
	return text + " (" + strings.Join(limits, "; ") + ")"
}

// A Request is the part of an HTTP request that rules look at.
type Request struct {
	Method string
	Path   string // as the server reads it, without escapes and dot segments
	Query  string // without escapes
	Type   string // the Content-Type, "" for none or several
}

// AllowsRequest reports whether a request passes the rule. The host and the port are those
// of the rule.
func (r HostRule) AllowsRequest(q Request) bool {
	switch {
	case r.nothing,
		len(r.Methods) > 0 && !slices.Contains(r.Methods, q.Method),
		r.GitRead && !q.isRead():
		return false
	}
	return len(r.Paths) == 0 || slices.ContainsFunc(r.Paths, func(p string) bool { return pathWithin(q.Path, p) })
}

// isRead reports whether a request only reads: no push by git, and no method that writes,
// except the one with which git fetches. That one has no query and a type of its own, so
// that no server reads parameters from it: its path may also be that of another service. The
// list of references may name only the service that fetches.
func (q Request) isRead() bool {
	const push = "receive-pack"
	if strings.Contains(strings.ToLower(q.Path+"?"+q.Query), push) {
		return false
	}
	if strings.HasSuffix(strings.TrimRight(strings.ToLower(q.Path), "/"), "/info/refs") && q.Query != "" && q.Query != "service=git-upload-pack" {
		return false
	}
	isFetch := strings.HasSuffix(q.Path, "/git-upload-pack") && q.Query == "" && q.Type == "application/x-git-upload-pack-request"
	return q.Method == "GET" || q.Method == "HEAD" || q.Method == "POST" && isFetch
}

// isWithin reports whether s allows every request that r allows, at one host and port.
func (r HostRule) isWithin(s HostRule) bool {
	return r.Credential == s.Credential && (r.GitRead || !s.GitRead) &&
		(len(s.Methods) == 0 || len(r.Methods) > 0 && !slices.ContainsFunc(r.Methods, func(m string) bool { return !slices.Contains(s.Methods, m) })) &&
		(len(s.Paths) == 0 || len(r.Paths) > 0 && !slices.ContainsFunc(r.Paths, func(p string) bool {
			return !slices.ContainsFunc(s.Paths, func(q string) bool { return pathWithin(p, q) })
		}))
}

// meet returns the rule for the requests that both allow, at one host and port. It
// returns false if there are none.
func (r HostRule) meet(s HostRule) (HostRule, bool) {
	if r.Credential != s.Credential {
		return HostRule{}, false
	}
	both := HostRule{GitRead: r.GitRead || s.GitRead, Credential: r.Credential, Methods: r.Methods, Paths: r.Paths}
	switch {
	case len(r.Methods) == 0:
		both.Methods = s.Methods
	case len(s.Methods) > 0:
		both.Methods = slices.DeleteFunc(slices.Clone(r.Methods), func(m string) bool { return !slices.Contains(s.Methods, m) })
		if len(both.Methods) == 0 {
			return HostRule{}, false
		}
	}
	switch {
	case len(r.Paths) == 0:
		both.Paths = s.Paths
	case len(s.Paths) > 0:
		if both.Paths = meetPaths(r.Paths, s.Paths); len(both.Paths) == 0 {
			return HostRule{}, false
		}
	}
	return both, true
}

// compactRules returns rules in the canonical order, with those that differ only in their
// ports made one. Rules with a credential come first within a host.
func compactRules(rules []HostRule) []HostRule {
	// sort.Slice keeps the program for browsers small: slices.SortFunc is compiled for each type.
	sort.Slice(rules, func(i, j int) bool {
		r, s := rules[i], rules[j]
		return cmp.Or(r.compareExceptPorts(s), slices.Compare(r.Ports, s.Ports)) < 0
	})
	var list []HostRule
	for _, r := range rules {
		if last := len(list) - 1; last >= 0 && list[last].compareExceptPorts(r) == 0 {
			list[last].Ports = sortUnique(slices.Concat(list[last].Ports, r.Ports))
			continue
		}
		list = append(list, r)
	}
	return list
}

func (r HostRule) compareExceptPorts(s HostRule) int {
	rank := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(
		strings.Compare(r.Host, s.Host),
		rank(r.Credential == "")-rank(s.Credential == ""),
		strings.Compare(r.Credential, s.Credential),
		slices.Compare(r.Methods, s.Methods),
		slices.Compare(r.Paths, s.Paths),
		rank(r.GitRead)-rank(s.GitRead),
		rank(r.nothing)-rank(s.nothing),
	)
}
