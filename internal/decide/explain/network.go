package explain

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// A NetworkAnswer says whether commands of a worker may connect to a host, and what
// decides it. All text in it is safe to print.
type NetworkAnswer struct {
	URL     string   `json:"url"`
	Host    string   `json:"host"`
	Port    uint16   `json:"port"`
	Worker  string   `json:"worker,omitempty"`
	Allowed bool     `json:"allowed"`
	Trusted *bool    `json:"trusted,omitempty"`
	Reason  string   `json:"reason"`
	Rule    string   `json:"rule,omitempty"`  // the rule that allows it
	From    string   `json:"from"`            // where the hosts are written
	Limit   string   `json:"limit,omitempty"` // the policy of this machine or the user that forbids it
	Hosts   []string `json:"hosts"`           // all that may be reached, "*" for every host
}

// Network answers whether commands of the subject may get a URL. The URL may also be a
// host with or without a port.
func (s Subject) Network(text string) (NetworkAnswer, error) {
	host, port, path, plain, err := splitURL(text)
	if err != nil {
		return NetworkAnswer{}, err
	}
	a := NetworkAnswer{URL: sandbox.Shown(text), Host: sandbox.Shown(host), Port: port, Worker: s.chainText(), From: s.HostsFrom, Hosts: shown(s.Grant.Hosts.Patterns())}
	if s.Grant.Hosts.IsAll() {
		a.Hosts = []string{"*"}
	}
	at := a.Host + ":" + strconv.Itoa(int(port))
	rules := s.Grant.Hosts.Find(host, port)
	request := policy.Request{Method: "GET", Path: path}
	i := slices.IndexFunc(rules, func(r policy.HostRule) bool { return r.AllowsRequest(request) })
	switch {
	case s.Grant.Hosts.IsEmpty():
		a.Reason = "commands here have no network"
	case len(rules) == 0:
		a.Reason = at + " is not among the hosts"
		if other := slices.IndexFunc(s.Grant.Hosts.Rules(), func(r policy.HostRule) bool { return r.Host == host }); other >= 0 {
			a.Reason = at + " is not among the hosts: the list has " + host + " with other ports"
		}
	case i < 0:
		a.Reason = "no rule for " + at + " allows a GET of " + sandbox.Shown(path)
	case plain && rules[i].Credential != "" && host != "127.0.0.1" && host != "::1":
		a.Rule, a.Reason = sandbox.Shown(rules[i].String()), "golem sends the credential "+sandbox.Shown(rules[i].Credential)+" only over TLS; use https://"+a.Host
	case s.Grant.Hosts.IsAll():
		a.Allowed, a.Reason = true, "commands here reach every host"
	default:
		a.Allowed, a.Rule, a.Reason = true, sandbox.Shown(rules[i].String()), at+" is among the hosts"
	}
	if s.HostLimit != nil && !a.Allowed {
		if a.Limit = s.HostLimit(host, port); a.Limit != "" {
			a.Reason, a.From = at+" is not allowed on this machine: "+a.Limit, a.Limit
		}
	}
	if s.Trusted {
		return a, nil
	}
	trusted := false
	a.Trusted = &trusted
	return a, nil
}

// splitURL returns the host, the port and the path of a URL, or of a host with or without a
// port. Plain is true for a URL without TLS.
func splitURL(text string) (host string, port uint16, path string, plain bool, err error) {
	bad := errors.New(sandbox.Shown(text) + " is not a URL; write https://api.example.com/path, or a host such as api.example.com:443")
	full := text
	if !strings.Contains(text, "://") {
		full = "https://" + text
	}
	u, err := url.Parse(full)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return "", 0, "", false, bad
	}
	number := u.Port()
	if number == "" {
		number = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443", "ssh": "22", "git": "9418"}[u.Scheme]
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return "", 0, "", false, bad
	}
	if rule, wrong := policy.ParseHost(u.Hostname()); wrong == nil {
		host = policy.HostsOfRules(rule).Rules()[0].Host
	} else {
		host = u.Hostname()
	}
	return host, uint16(n), cmp.Or(u.Path, "/"), u.Scheme == "http" || u.Scheme == "ws", nil
}
