// Package models opens the model with a name of the form vendor:name. It decides which
// key is sent to which host. A key goes only to the host it belongs to, or to a host that
// the user named. A project's file cannot send a key to another host unless it names the
// key.
package models

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/anthropic"
	"github.com/golem-forge/golem/internal/work/model/gemini"
	"github.com/golem-forge/golem/internal/work/model/openai"
	"github.com/golem-forge/golem/internal/work/model/replay"
	"github.com/golem-forge/golem/internal/work/model/scripted"
	"github.com/golem-forge/golem/internal/work/model/wire"
	"github.com/golem-forge/golem/sandbox"
)

// Options name the model to open, and pass in the environment.
type Options struct {
	Spec string // vendor:name, scripted:FILE or replay:FILE

	// Base is the address of the server, "" for the vendor's own. KeyName is the
	// environment variable with its key, "" for the vendor's own. ByProject says that a
	// file of the project set them, not the user.
	Base      string
	KeyName   string
	ByProject bool
	API       API // of the server; "" for the one that the model needs
	// MayUse reports whether a server may be used that is neither a vendor's own nor named by
	// the user's environment, by its host and port. nil is for all.
	MayUse func(host string) bool
	// Check returns an error if a policy forbids a server that is not the vendor's own, even
	// if the user named it. nil allows all.
	Check func(server string) error

	Env     func(name string) (string, bool)
	Keyring func(service, user string) (string, error) // the user's secrets, nil for none; service is golem, user the vendor
	Read    func(file string) ([]byte, error)          // reads files of scripted and replay

	Transport   http.RoundTripper // sends the requests; nil for one without a proxy
	First, Idle time.Duration     // see wire.Server; 0 for the defaults
	Whole       time.Duration
}

// An API is one of the APIs that a server of the vendor openai may have.
type API string

// The APIs.
const (
	Chat      API = "chat"      // chat completions
	Responses API = "responses" // the one that sends thoughts back
)

// A vendor is the part of a name before the colon.
type vendor struct {
	name    string
	base    string   // its own server
	baseVar string   // the user's variable for another server
	keys    []string // the user's variables for its key
	chat    openai.Dialect
}

const (
	scriptedName = "scripted"
	replayName   = "replay"
	ollamaName   = "ollama"
	claudeName   = "anthropic"
	openaiName   = "openai"
	geminiName   = "gemini"
)

var vendors = []vendor{
	{name: claudeName, base: "https://api.anthropic.com/", baseVar: "ANTHROPIC_BASE_URL", keys: []string{"ANTHROPIC_API_KEY"}},
	{name: openaiName, base: "https://api.openai.com/v1/", baseVar: "OPENAI_BASE_URL", keys: []string{"OPENAI_API_KEY"},
		chat: openai.Dialect{PDF: openai.FilePDF, Schema: openai.AlwaysSchema}},
	{name: geminiName, base: "https://generativelanguage.googleapis.com/v1beta/", baseVar: "GEMINI_BASE_URL", keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
	{name: "openrouter", base: "https://openrouter.ai/api/v1/", baseVar: "OPENROUTER_BASE_URL", keys: []string{"OPENROUTER_API_KEY"},
		chat: openai.Dialect{PDF: openai.FilePDF, Effort: openai.EffortObject, Thoughts: openai.ThoughtDetails, Charges: true}},
	{name: "mistral", base: "https://api.mistral.ai/v1/", baseVar: "MISTRAL_BASE_URL", keys: []string{"MISTRAL_API_KEY"},
		chat: openai.Dialect{PDF: openai.DocumentPDF, Effort: openai.EffortNoneHigh, Thoughts: openai.ThoughtChunks, NoUsage: true, Strict: true}},
	{name: "deepseek", base: "https://api.deepseek.com/", baseVar: "DEEPSEEK_BASE_URL", keys: []string{"DEEPSEEK_API_KEY"},
		chat: openai.Dialect{NoImages: true, Schema: openai.NoSchema, Effort: openai.EffortSwitch, Thoughts: openai.ThoughtAlways}},
	{name: "groq", base: "https://api.groq.com/openai/v1/", baseVar: "GROQ_BASE_URL", keys: []string{"GROQ_API_KEY"}},
	{name: "xai", base: "https://api.x.ai/v1/", baseVar: "XAI_BASE_URL", keys: []string{"XAI_API_KEY"}, chat: openai.Dialect{Schema: openai.AlwaysSchema}},
	{name: ollamaName, base: "http://localhost:11434/v1/", baseVar: "OLLAMA_HOST"},
}

// Names returns the names of all vendors.
func Names() []string {
	names := []string{scriptedName, replayName}
	for _, v := range vendors {
		names = append(names, v.name)
	}
	slices.Sort(names)
	return names
}

// VendorAt returns the vendor whose own server has a host, "" for none.
func VendorAt(host string) string {
	switch host {
	case "chatgpt.com": // subscriptions have servers of their own
		return openaiName
	case "cloudcode-pa.googleapis.com":
		return geminiName
	}
	for _, v := range vendors {
		if u, err := url.Parse(v.base); err == nil && u.Hostname() == host && v.name != ollamaName {
			return v.name
		}
	}
	return ""
}

// Open returns the model. It sends nothing yet.
func Open(o Options) (model.Model, error) {
	before, name, _ := strings.Cut(o.Spec, ":")
	fail := func(what, hint string) (model.Model, error) {
		return nil, &model.Error{Class: model.Bad, Model: visible.Name(o.Spec), What: what, Hint: hint}
	}
	if name == "" {
		return fail("not vendor:name", "such as anthropic:claude-sonnet-4-5, ollama:qwen3 or scripted:demo.yaml")
	}
	if before == scriptedName || before == replayName {
		data, err := o.Read(name)
		if err != nil {
			return fail("the file cannot be read: "+visible.Line(err.Error(), 200), "name a file that is there")
		}
		if before == scriptedName {
			return opened(scripted.New(name, data))
		}
		return opened(replay.New(name, data))
	}
	i := slices.IndexFunc(vendors, func(v vendor) bool { return v.name == before })
	if i < 0 {
		hint := "vendors are " + strings.Join(Names(), ", ")
		if near := sandbox.Nearest(before, Names()); len(near) > 0 {
			hint = "did you mean " + near[0] + "? " + hint
		}
		return fail("there is no vendor "+visible.Name(before), hint)
	}
	v := vendors[i]
	s, err := v.server(o)
	if err != nil {
		return nil, err
	}
	switch {
	case o.API != "" && v.name != openaiName:
		return fail("the vendor "+v.name+" has only one API", "remove model_server.api; it is for openai:NAME")
	case v.name == claudeName:
		s.Header = anthropic.Header
		return anthropic.New(name, s), nil
	case v.name == geminiName && !strings.HasSuffix(s.Base.Path, "/openai/"):
		s.Header = gemini.Header
		return gemini.New(name, s), nil
	}
	s.Header, s.Scheme = openai.Header, openai.Scheme
	chat := v.chat
	switch elsewhere := s.Base.String() != v.base; {
	case o.API == Responses, o.API == "" && v.name == openaiName && openai.Reasons(name) && !elsewhere:
		return openai.NewResponses(name, s), nil
	case o.API == "" && v.name == openaiName && openai.Reasons(name):
		return &either{responses: openai.NewResponses(name, s), chat: openai.New(name, chat, s)}, nil
	}
	if v.name == openaiName && s.Base.String() != v.base && !openai.Reasons(name) {
		chat.Schema = openai.AloneSchema // a server of the user's, which may not know more
	}
	return openai.New(name, chat, s), nil
}

// An either is a model of a server that may not have the API responses.
type either struct {
	responses, chat model.Model
	lacks           atomic.Bool // the server has only chat completions
}

// FileTypes implements [model.FileTaker].
func (e *either) FileTypes() []string { return model.FileTypes(e.responses) }

// Answer implements [model.Model].
func (e *either) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	if !e.lacks.Load() {
		answer, err := e.responses.Answer(ctx, r, tell)
		var wrong *model.Error
		if !errors.As(err, &wrong) || !isMissing(wrong) {
			return answer, err
		}
	}
	answer, err := e.chat.Answer(ctx, r, tell)
	if err == nil {
		e.lacks.Store(true)
	}
	return answer, err
}

// isMissing reports whether a server answers that it does not have an API: in whatever way
// servers say that about an address.
func isMissing(e *model.Error) bool {
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(e.What), w) })
	}
	return e.Class == model.Unknown || says("answers 405", "answers 501") ||
		says("answers 400") && says("responses", "endpoint", "route", "path", "url", "unsupported api", "unknown request") && !says("'input", "response_format", "parameter")
}

// opened converts a model to the interface, with a nil for an error.
func opened[M model.Model](m M, err error) (model.Model, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// server returns the address of the vendor's model, and the key for it.
func (v vendor) server(o Options) (wire.Server, error) {
	s := wire.Server{Model: o.Spec, Transport: o.Transport, First: o.First, Idle: o.Idle, Whole: o.Whole}
	fail := func(class model.Class, what, hint string) (wire.Server, error) {
		return s, &model.Error{Class: class, Model: visible.Name(o.Spec), What: what, Hint: hint}
	}
	text, byProject, from := o.Base, o.ByProject, "base_url"
	if env, ok := o.Env(v.baseVar); ok && env != "" && (text == "" || byProject) {
		text, byProject, from = env, false, v.baseVar
		if v.name == ollamaName {
			text = ollamaHost(env)
		}
	}
	own, _ := url.Parse(v.base) // a constant of the table
	s.Base = own
	if text != "" {
		base, why := address(text)
		if why != "" {
			return fail(model.Bad, from+" is no address of a server: "+why, "write https://host/path, or http://localhost:port/path")
		}
		s.Base = base
	}
	elsewhere := s.Base.Scheme != own.Scheme || s.Base.Host != own.Host
	if o.MayUse != nil && from != v.baseVar && !isVendors(s.Base) && !o.MayUse(s.Base.Host) {
		return fail(model.Bad, s.Base.Host+" is no server of a vendor, and this machine lets jobs use no other one", "golem node --reach "+s.Base.Host+" lets jobs use it")
	}
	if o.Check != nil && elsewhere {
		if err := o.Check(s.Base.String()); err != nil {
			return s, err
		}
	}

	names := v.keys
	if o.KeyName != "" && (!o.ByProject || byProject) {
		names = []string{o.KeyName}
	} else if elsewhere && byProject {
		names = nil // a file cannot send the user's key elsewhere without naming it
	}
	s.KeyFrom = strings.Join(names, " or ")
	s.Key = v.key(o, names, &s.KeyFrom)
	switch {
	case strings.ContainsFunc(s.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		s.Key = ""
		return fail(model.Denied, "the key from "+s.KeyFrom+" has a character that no key has", "set it again, without spaces and line breaks")
	case s.Key == "" && o.KeyName != "" && len(names) > 0:
		return fail(model.Denied, "no key in "+s.KeyFrom, "set "+s.KeyFrom+" to the key for "+s.Base.Host)
	case s.Key == "" && len(names) > 0 && !elsewhere:
		return fail(model.Denied, "no key in "+s.KeyFrom, fmt.Sprintf("set it to the key for %s, or store one with golem secret set %s", s.Base.Host, v.name))
	case s.Key != "" && s.Base.Scheme != "https" && !loopback(s.Base.Hostname()):
		s.Key = ""
		return fail(model.Denied, "the key from "+s.KeyFrom+" would go to "+s.Base.Host+" unencrypted", "use https; golem sends a key over http only to this machine")
	case s.KeyFrom == "":
		s.KeyFrom = "a variable for the key, named beside base_url"
	}
	return s, nil
}

// isVendors reports whether an address is a vendor's own on the internet.
func isVendors(base *url.URL) bool {
	return slices.ContainsFunc(vendors, func(v vendor) bool {
		own, _ := url.Parse(v.base)
		return base.Scheme == own.Scheme && base.Host == own.Host && !loopback(own.Hostname())
	})
}

// service is the name of golem's keys in the keyring.
const service = "golem"

// key returns the key from the first variable that is set, or from the keyring, and sets
// from to its source.
func (v vendor) key(o Options, names []string, from *string) string {
	for _, name := range names {
		if key, ok := o.Env(name); ok && strings.TrimSpace(key) != "" {
			*from = name
			return strings.TrimSpace(key)
		}
	}
	if o.Keyring != nil && len(names) > 0 && o.KeyName == "" {
		if key, err := o.Keyring(service, v.name); err == nil && strings.TrimSpace(key) != "" {
			*from = "the keyring"
			return strings.TrimSpace(key)
		}
	}
	return ""
}

// address parses the address of a server and returns why it is invalid. The reason does
// not repeat the address, which may contain a secret.
func address(text string) (u *url.URL, why string) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, "it cannot be read"
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, "it does not begin with https:// or http://"
	case u.Hostname() == "":
		return nil, "it names no host"
	case u.User != nil:
		return nil, "it has a name or a password in it"
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, "it has more than a path"
	}
	u.Host = strings.ToLower(u.Host)
	if !strings.HasSuffix(u.Path, "/") {
		u = u.JoinPath("/")
	}
	return u, ""
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ollamaHost converts OLLAMA_HOST to an address. The value may lack a scheme, a host or a
// port, and may be an address to listen on.
func ollamaHost(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "http", text
	}
	host, path, _ := strings.Cut(rest, "/")
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), "11434"
		if ok && scheme == "https" {
			port = "443"
		} else if ok {
			port = "80"
		}
	}
	if name == "" || name == "0.0.0.0" || name == "::" {
		name = "localhost"
	}
	if path = strings.Trim(path, "/"); path == "" {
		path = "v1"
	}
	return scheme + "://" + net.JoinHostPort(name, port) + "/" + path + "/"
}
