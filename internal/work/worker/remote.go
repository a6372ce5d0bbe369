package worker

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// A Remote is an MCP server that golem reaches over HTTP.
type Remote struct {
	URL     string
	Headers []RemoteHeader // ordered by name
	Trusted bool           // its results are not untrusted input
	Place   strictyaml.Place
}

// A RemoteHeader is a header of each request to a server: a text, followed by a secret of
// the user or the value of an environment variable.
type RemoteHeader struct {
	Name, Prefix     string
	Secret, Variable string // one of them is set
}

// Source describes where the value comes from, for people.
func (h RemoteHeader) Source() string {
	if h.Secret != "" {
		return "your secret " + h.Secret
	}
	return "$" + h.Variable
}

// Host returns the host of the server as a URL has it.
func (r Remote) Host() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// Identity returns a text that is the same for the same server.
func (r Remote) Identity() string {
	parts := []string{r.URL}
	for _, h := range r.Headers {
		parts = append(parts, h.Name+": "+h.Prefix+h.Source())
	}
	return strings.Join(parts, "\x00")
}

// remoteKeys returns the keys of a server with a URL.
func remoteKeys() []strictyaml.Key {
	return []strictyaml.Key{
		{Name: "url", Type: strictyaml.Text, Example: "https://mcp.example.com/mcp",
			Doc: "The address of a server that golem reaches over HTTP, in place of `command`: https, or http on this machine. The host must be one that the worker reaches."},
		{Name: "headers", Type: strictyaml.Free, Example: "{Authorization: Bearer secret SEARCH}",
			Doc: "Headers of each request to `url`. A value ends in `secret NAME`, which `golem secret set NAME` stores, or in `env NAME`, an environment variable of yours. No other server gets it."},
		{Name: "trust", Type: strictyaml.Word, Words: []string{"trusted", "untrusted"}, Default: "untrusted", Example: "trusted",
			Doc: "Whether the results of a server with `url` are untrusted input."},
	}
}

var (
	headerName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`) })
	headerValue = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^((?:[A-Za-z][A-Za-z0-9-]{0,30} )?)(secret|env) ([A-Za-z0-9_][A-Za-z0-9._-]{0,63})$`)
	})
)

// ownHeaders are headers that golem sets itself.
var ownHeaders = []string{"accept", "accept-encoding", "connection", "content-length", "content-type", "cookie", "host", "last-event-id", "mcp-protocol-version", "mcp-session-id", "origin", "te", "trailer", "transfer-encoding", "upgrade"}

// readServer reads one MCP server.
func (r *foreignReader) readServer(f strictyaml.Field) Server {
	s := Server{Foreign: r.readProgram("mcp", f)}
	at, ok := f.Value.At("url")
	if !ok {
		for _, key := range []string{"headers", "trust"} {
			if n, ok := f.Value.At(key); ok {
				r.problems.Add(n, s.what("mcp")+"."+key+": no url", "leave it out: it is for a server that golem reaches over HTTP, with url")
			}
		}
		return s
	}
	for _, key := range []string{"command", "with", "files", "network", "level", "env", "state"} {
		if n, ok := f.Value.At(key); ok {
			r.problems.Add(n, s.what("mcp")+"."+key+" beside url", "leave it out: golem starts no program for a server with url")
		}
	}
	s.Remote = &Remote{URL: at.Text, Place: at.Place}
	if why := checkRemote(at.Text); why != "" {
		r.problems.Add(at, s.what("mcp")+".url: "+why, "write an address such as https://mcp.example.com/mcp")
	}
	if trust, ok := f.Value.At("trust"); ok {
		s.Remote.Trusted = trust.Text == "trusted"
	}
	headers, _ := f.Value.At("headers")
	if headers.Kind != strictyaml.Null && headers.Kind != strictyaml.Map {
		r.problems.Add(headers, s.what("mcp")+".headers: "+headers.Kind.String(), "it is a map, such as {Authorization: Bearer secret SEARCH}")
	}
	for _, h := range headers.Fields {
		match := headerValue().FindStringSubmatch(h.Value.Text)
		switch {
		case !headerName().MatchString(h.Key.Text) || slices.Contains(ownHeaders, strings.ToLower(h.Key.Text)):
			r.problems.Add(h.Key, s.what("mcp")+".headers: "+shown(h.Key.Text), "it is the name of a header that the server asks for, such as Authorization; golem sets those of the protocol itself")
		case match == nil: // the text may be the secret itself
			r.problems.Add(h.Value, s.what("mcp")+".headers."+h.Key.Text+": no source", "write secret NAME for a secret that golem secret set stores, or env NAME for an environment variable; a word may stand before it, such as Bearer secret NAME")
		case match[2] == "env" && (!isVariable(match[3]) || canChoosePrograms(match[3]) || strings.HasPrefix(match[3], "GOLEM_")):
			r.problems.Add(h.Value, s.what("mcp")+".headers."+h.Key.Text+": "+shown(match[3]), "write the name of an environment variable, such as SEARCH_API_KEY")
		default:
			header := RemoteHeader{Name: h.Key.Text, Prefix: match[1]}
			if header.Secret = match[3]; match[2] == "env" {
				header.Secret, header.Variable = "", match[3]
			}
			s.Remote.Headers = append(s.Remote.Headers, header)
		}
	}
	slices.SortFunc(s.Remote.Headers, func(a, b RemoteHeader) int {
		return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return s
}

// checkRemote returns why an address is not that of a server, "" if it is.
func checkRemote(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || len(text) > 2000 {
		return "not an address"
	}
	address, notName := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || notName == nil && address.IsLoopback()
	switch {
	case u.Scheme != "https" && !(u.Scheme == "http" && local):
		return "not https"
	case u.User != nil:
		return "a name before the host; golem adds credentials itself"
	case u.Fragment != "" || strings.ContainsAny(text, " \\"):
		return "not an address"
	}
	host := u.Hostname()
	if rule := (policy.HostRule{Host: host}); net.ParseIP(host) == nil && (rule.Validate() != nil || strings.Contains(host, "*")) {
		return "not a host"
	}
	return ""
}
