package export

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// An Endpoint is a service from the configuration.
type Endpoint struct {
	Name      string
	ForModels bool // models may send to it, too
	URL       string
	Method    string
	Type      string
	Headers   []Header
	Denied    string // the policy that forbids the address, "" for none
}

// A Header is a header of a request. Its value may be a secret, so only Shown is ever
// displayed.
type Header struct {
	Name    string
	Shown   string // for example: Bearer, from TOKEN
	Value   string
	Missing string // a variable that is not set
}

const (
	maxBody   = 8 << 20  // bytes of a request
	maxAnswer = 64 << 10 // bytes of a response that are shown
)

type sendArgs struct {
	Endpoint string   `json:"endpoint" jsonschema:"the name of an endpoint in the configuration"`
	Path     string   `json:"path" jsonschema:"the file whose content is the body"`
	Override []string `json:"override,omitempty" jsonschema:"pass on a file that a scanner holds back: PATH=REASON; the journal records the reason"`
}

// send returns the tool that sends a file to a service. It is for the user and, if the
// configuration says so of a service, for models.
func (s Set) send() tool.Tool {
	const op = "api_send"
	t := newTool(op, "Send the content of a file to a service that the configuration names. It always asks, with the body.")
	t.Verbs, t.UsesNetwork = []policy.Verb{policy.Read}, true
	if names := s.endpointNames(false); len(names) > 0 {
		t.Mode, t.ForUser = policy.Both, true
		t.Description += " Services for models: " + strings.Join(names, ", ") + "."
	}
	return tool.New(t, func(_ context.Context, names tool.Names, a sendArgs) (tool.Plan, error) {
		to, err := s.endpoint(op, a.Endpoint, names.IsUserCall())
		if err != nil {
			return tool.Plan{}, err
		}
		if len(a.Override) > 0 && !names.IsUserCall() {
			return tool.Plan{}, &sandbox.Error{Op: op, Code: "manual_only", Hint: "only the user can send a file that a scanner holds back; leave override out"}
		}
		at, err := names.Locate(op, a.Path, sandbox.ReadOnly, false)
		if err != nil {
			return tool.Plan{}, err
		}
		a.Path = at
		prepare := func(ctx context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
			h, body, err := s.body(ctx, op, files, at, to)
			if err != nil {
				return tool.Preparation{}, err
			}
			run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
				if err := h.checkUnchanged(ctx, op, files); err != nil {
					return tool.Result{}, err
				}
				return s.post(ctx, op, h, body, to)
			}
			c := h.toolChange(tool.Copy, to.Method+" "+to.URL)
			c.About += "; sent as " + to.Type
			for _, header := range to.Headers {
				c.About += "; " + header.Name + ": " + header.Shown
			}
			wish := fmt.Sprintf("send %s of %s to %s (%s)", visible.Amount(h.size), sandbox.Shown(at), to.Name, to.URL)
			return newPreparation(op, wish, run, []heldFile{h}, nil, []tool.Change{c}, a.Override)
		}
		plan := tool.NewChangePlan(prepare, names.ReadEffects(at)...)
		plan.Args = a
		return plan, nil
	})
}

// endpoint returns the endpoint of a name. A model gets only those that are for models.
func (s Set) endpoint(op, name string, forUser bool) (Endpoint, error) {
	names := s.endpointNames(forUser)
	hint := "the endpoints are " + strings.Join(names, ", ") + "; name one of them"
	for _, e := range s.Endpoints {
		if e.Name != name || s.Client == nil {
			continue
		}
		if e.Denied != "" {
			return e, &sandbox.Error{Op: op, Path: name, Code: "blocked", Hint: e.Denied + " does not list the host of " + sandbox.Shown(e.URL) + "; ask who wrote it to add the host"}
		}
		if forUser || e.ForModels {
			return e, nil
		}
		return e, &sandbox.Error{Op: op, Path: name, Code: "manual_only", Hint: "only the user sends to it; " + hint}
	}
	if len(names) == 0 {
		hint = "the configuration names no endpoint; write one: clearance: {endpoints: {tracker: {url: https://HOST/path}}}"
	}
	return Endpoint{}, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrNotFound, Hint: hint}
}

// endpointNames returns the names of the endpoints for the user, or of those for models.
func (s Set) endpointNames(forUser bool) (names []string) {
	for _, e := range s.Endpoints {
		if forUser || e.ForModels {
			names = append(names, e.Name)
		}
	}
	return names
}

// body reads the content to send.
func (s Set) body(ctx context.Context, op string, files *sandbox.Sandbox, name string, to Endpoint) (h heldFile, body []byte, err error) {
	for _, header := range to.Headers {
		if header.Missing != "" {
			return h, nil, &sandbox.Error{Op: op, Path: to.Name, Code: sandbox.ErrNotFound, Hint: "the header " + header.Name + " comes from the variable " + header.Missing + ", which is not set here; set it"}
		}
	}
	if h, err = s.readAndExamine(ctx, op, files, name); err != nil {
		return h, nil, err
	}
	if h.size > maxText && h.size <= maxBody {
		body, err = files.Read(name)
	} else {
		body = h.text
	}
	switch {
	case err != nil:
		return h, nil, withOp(op, name, err)
	case h.size <= maxBody && fmt.Sprintf("%x", sha256.Sum256(body)) != h.sum:
		return h, nil, changedError(op, name)
	case h.size > maxBody:
		return h, nil, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrTooLarge, Hint: fmt.Sprintf("golem sends at most %s; send less", visible.Amount(maxBody))}
	case strings.HasSuffix(to.Type, "json") && !json.Valid(body):
		return h, nil, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrInvalid, Hint: "the endpoint takes " + to.Type + ", and this is not valid JSON; fix the file, or set the endpoint's type"}
	}
	return h, body, nil
}

// A sent is the response of a service.
type sent struct {
	Endpoint string `json:"endpoint"`
	Status   int    `json:"status"`
	Type     string `json:"type,omitempty"`
	Body     string `json:"body,omitempty"`
	Cut      bool   `json:"cut,omitempty"`
}

// post sends the content once.
func (s Set) post(ctx context.Context, op string, h heldFile, body []byte, to Endpoint) (tool.Result, error) {
	request, err := http.NewRequestWithContext(ctx, to.Method, to.URL, bytes.NewReader(body))
	if err != nil {
		return tool.Result{}, &sandbox.Error{Op: op, Path: to.Name, Code: sandbox.ErrInvalid, Hint: "its url or method is invalid; check clearance.endpoints"}
	}
	request.GetBody = nil // prevents that the client sends it again
	request.Header.Set("Content-Type", to.Type)
	request.Header.Set("User-Agent", "golem")
	request.Header.Set("Accept-Encoding", "identity") // golem does not look for the values of headers in a compressed answer
	for _, header := range to.Headers {
		request.Header.Set(header.Name, header.Value)
	}
	answer, err := s.Client.Do(request)
	if err != nil {
		return tool.Result{}, &sandbox.Error{Op: op, Path: to.Name, Code: "network", Hint: to.hide(cause(err)) + "; golem does not know whether it arrived: check before you send it again"}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	data := sent{Endpoint: to.Name, Status: answer.StatusCode, Type: visible.Line(to.hide(answer.Header.Get("Content-Type")), 100), Cut: err != nil || len(text) > maxAnswer}
	data.Body = to.hide(strings.ToValidUTF8(string(text[:min(len(text), maxAnswer)]), "\ufffd"))
	coding := strings.Join(answer.Header.Values("Content-Encoding"), ", ")
	isPlain := coding == "" || strings.EqualFold(coding, "identity")
	if !isPlain {
		data.Body, data.Cut = "", false
	}
	said := fmt.Sprintf("%s of %s were sent to %s, which answered %d %s", visible.Amount(h.size), sandbox.Shown(h.name), to.Name, data.Status, http.StatusText(data.Status))
	r := tool.Result{Text: said, Data: data, Record: said}
	if data.Body != "" {
		r.Text += ":\n" + visible.Text(data.Body)
	}
	if data.Cut {
		r.Notes = append(r.Notes, "the answer is longer than the part that is shown")
	}
	if !isPlain {
		r.Notes = append(r.Notes, "golem does not show the answer: the service compressed it ("+visible.Line(coding, 40)+"), although golem asked it not to")
	}
	switch code := data.Status; {
	case code >= 300 && code < 400:
		r.Err = &sandbox.Error{Op: op, Path: to.Name, Code: "network", Hint: "it redirects to another address, and golem does not follow; if that address is right, write it into the configuration"}
	case code < 200 || code >= 300:
		hint := fmt.Sprintf("it answered %d %s", code, http.StatusText(code))
		if isPlain {
			hint += "; its answer is above"
		}
		r.Err = &sandbox.Error{Op: op, Path: to.Name, Code: "network", Hint: hint}
	}
	return r, nil
}

// hide removes the values of headers from a text.
func (e Endpoint) hide(text string) string {
	var values []string
	for _, h := range e.Headers {
		for _, word := range append([]string{h.Value}, strings.Fields(h.Value)...) {
			if len(word) >= 6 {
				values = append(values, word)
			}
		}
	}
	return egress.NewHider(values).Text(text)
}

// cause returns why there was no response, without the address, which the user knows.
func cause(err error) string {
	var at *url.Error
	if errors.As(err, &at) {
		if at.Timeout() {
			return "it did not answer in time"
		}
		err = at.Err
	}
	return visible.Line(err.Error(), 200)
}
