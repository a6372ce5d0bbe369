package project

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/records/secret"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// An Endpoint is a service that results are sent to: by the user and, if ForModels is set,
// by workers whose calls the user approves one by one.
type Endpoint struct {
	Name      string
	ForModels bool
	URL       string
	Method    string
	Type      string
	Headers   []EndpointHeader // ordered by name
	From      strictyaml.Place
}

// An EndpointHeader is a header of each request: a text, followed by the value of an
// environment variable.
type EndpointHeader struct{ Name, Text, Variable string }

func endpointsKey() strictyaml.Key {
	return strictyaml.Key{Name: "endpoints", Type: strictyaml.Named, Example: "{tracker: {url: https://tracker.example.com/api/notes}}",
		Doc: "Services by name, for `api_send`. No model names an address.", Keys: []strictyaml.Key{
			{Name: "url", Type: strictyaml.Text, Example: "https://tracker.example.com/api/notes", Doc: "The address: https, or http on this machine. Required."},
			{Name: "mode", Type: strictyaml.Word, Words: []string{"manual", "both"}, Default: "manual", Example: "both",
				Doc: "Who may send: `manual` only you, `both` also workers with the toolset `clearance`. golem asks you about every call, with the whole body."},
			{Name: "method", Type: strictyaml.Word, Words: []string{"POST", "PUT", "PATCH"}, Default: "POST", Example: "PUT", Doc: "The HTTP method."},
			{Name: "type", Type: strictyaml.Text, Default: "application/json", Example: "text/markdown", Doc: "The media type of the body. golem checks that JSON is valid."},
			{Name: "headers", Type: strictyaml.Free, Example: `{Authorization: "Bearer env:TRACKER_TOKEN"}`,
				Doc: "HTTP headers. golem replaces `env:NAME` at the end of a value with that environment variable, so you write no secret into the file. Nobody else sees the value."},
		}}
}

var (
	headerValue = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:([!-~][ -~]* )?env:([A-Za-z_][A-Za-z0-9_]*)|([!-~][ -~]*)?)$`)
	})
	contentType = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-z0-9.+-]+/[a-z0-9.+-]+(?:; ?charset=[A-Za-z0-9-]+)?$`)
	})
)

// readEndpoints reads the services that the user may send results to.
func (l clearanceReader) readEndpoints() {
	all, _ := l.tree.At("clearance", "endpoints")
	for _, f := range all.Fields {
		if !l.wrong[all.Place] && l.isValid(f.Key) && l.isValid(f.Value) {
			l.readEndpoint(f)
		}
	}
	slices.SortFunc(l.project.Endpoints, func(a, b Endpoint) int { return strings.Compare(a.Name, b.Name) })
}

func (l clearanceReader) readEndpoint(f strictyaml.Field) {
	label := "clearance.endpoints." + sandbox.Shown(f.Key.Text)
	e := Endpoint{Name: f.Key.Text, Method: "POST", Type: "application/json", From: f.Key.Place}
	if why := checkName(e.Name); why != "" {
		l.problems.Add(f.Key, label+": "+why, "choose another name, such as tracker")
		return
	}
	switch n, ok := f.Value.At("url"); {
	case !ok:
		l.problems.Add(f.Key, label+" has no url", "write the address that it is sent to")
	case checkEndpoint(n.Text) != "":
		l.problems.Add(n, label+".url: "+checkEndpoint(n.Text), "write https://HOST/path, or http://localhost:PORT/path, without user and password")
	default:
		e.URL = n.Text
	}
	f.Value.Decode(map[string]any{"method": &e.Method, "type": &e.Type}, nil)
	if n, ok := f.Value.At("mode"); ok {
		e.ForModels = n.Text == "both"
	}
	if n, ok := f.Value.At("type"); ok && !contentType().MatchString(n.Text) {
		l.problems.Add(n, label+".type: "+sandbox.Shown(n.Text)+" is no type of a content", "application/json and text/plain are")
	}
	if n, ok := f.Value.At("headers"); ok {
		e.Headers = l.readHeaders(label+".headers", n)
	}
	l.project.Endpoints = append(l.project.Endpoints, e)
}

// readHeaders reads the headers of a request. Its problems never show a value, because
// somebody may have written a secret there.
func (l clearanceReader) readHeaders(label string, n strictyaml.Node) []EndpointHeader {
	if n.Kind != strictyaml.Map {
		l.problems.Add(n, label+": not a map of texts", `write {Authorization: "Bearer env:TOKEN"}`)
		return nil
	}
	var list []EndpointHeader
	for _, f := range n.Fields {
		name := f.Key.Text
		parts := headerValue().FindStringSubmatch(f.Value.Text)
		switch {
		case !secret.IsHeader(name):
			l.problems.Add(f.Key, label+": "+sandbox.Shown(name)+" is no name of a header", "letters, digits and - are in one")
		case secret.IsOwnedHeader(name):
			l.problems.Add(f.Key, label+": "+name+" is not for you to set", "leave it out; type: says what the body is")
		case f.Value.Kind != strictyaml.Scalar || parts == nil:
			l.problems.Add(f.Value, label+"."+name+": no value of a header", "write one line of plain text, or env:NAME for the value of a variable")
		case parts[2] == "" && isSecretHeader(name):
			l.problems.Add(f.Value, label+"."+name+": a secret is not written down", "write env:NAME, and set that variable where you call golem")
		default:
			list = append(list, EndpointHeader{Name: name, Text: parts[1] + parts[3], Variable: parts[2]})
		}
	}
	slices.SortFunc(list, func(a, b EndpointHeader) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// isSecretHeader reports whether the name of a header says that its value is a secret.
func isSecretHeader(name string) bool {
	name = strings.ToLower(name)
	return name == "authorization" || name == "cookie" || strings.HasSuffix(name, "-key") || strings.HasSuffix(name, "-token") || strings.HasSuffix(name, "-secret")
}

// checkEndpoint returns why a text is not the address of a service, "" if it is. The reason
// does not quote the text, because there may be a secret in it.
func checkEndpoint(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || strings.ContainsFunc(text, func(r rune) bool { return !sandbox.Plain(r) || r == ' ' }):
		return "it is no address"
	case u.User != nil:
		return "a user or a secret in the address"
	case u.Fragment != "":
		return "there is a # in it"
	case u.Scheme == "https":
		return ""
	case u.Scheme != "http":
		return "it is neither https nor http"
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "results would go to another machine unencrypted"
	}
	return ""
}
