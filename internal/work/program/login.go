package program

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/records/keyring"
	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/toolset/foreign"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// usesLogin reports whether the user can log in at a server: no header takes the place of
// the login.
func usesLogin(s worker.Server) bool {
	return s.Remote != nil && !slices.ContainsFunc(s.Remote.Headers, func(h worker.RemoteHeader) bool { return strings.EqualFold(h.Name, "Authorization") })
}

// loginOf returns the user's login at a server, with the requests that renew it. It is nil if
// the server has none. The server chose the hosts of these requests, so only its own may
// have a private address.
func (d *OpenWorker) loginOf(s worker.Server, workers []string) (*foreign.LoginStore, *network.OwnRequests) {
	p := d.program
	if !usesLogin(s) || p.options.Login == nil {
		return nil, nil
	}
	requests := d.networks.OwnRequests("MCP server "+s.Name, "your login at "+s.Name, workers)
	own := s.Remote.Host()
	requests.LimitPrivate(func(host string) bool {
		return host == own && (d.networks.MayBePrivate == nil || d.networks.MayBePrivate(host))
	})
	store := &foreign.LoginStore{Name: s.Name, URL: s.Remote.URL, Requests: requests, Find: func() (foreign.Login, error) { return p.options.findLogin(s) }}
	if p.options.KeepLogin != nil {
		store.Keep = func(l foreign.Login) error { return p.options.keepLogin(l) }
	}
	return store, requests
}

// findLogin returns the stored login at a server.
func (o Options) findLogin(s worker.Server) (l foreign.Login, err error) {
	text, err := o.Login(foreign.LoginName(s.Remote.URL))
	if errors.Is(err, keyring.ErrNotFound) {
		return l, foreign.ErrNoLogin
	}
	if err == nil && json.Unmarshal([]byte(text), &l) != nil {
		err = &sandbox.Error{Op: "login", Path: s.Name, Code: sandbox.ErrInvalid, Hint: "the stored login is damaged; golem mcp login " + s.Name + " logs in again"}
	}
	return l, err
}

func (o Options) keepLogin(l foreign.Login) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return o.KeepLogin(foreign.LoginName(l.URL), string(text))
}

// foreignSecrets returns the secrets of the user that programs and servers of workers get.
func (p *Program) foreignSecrets() (values []string) {
	if len(p.Workers) == 0 {
		return nil
	}
	values = p.foreign().Secrets(p.options.Environ)
	for _, w := range p.Workers {
		for _, s := range w.Servers {
			if s.Remote == nil {
				continue
			}
			for _, h := range s.Remote.Headers {
				if h.Secret == "" || p.options.Secret == nil {
					continue
				}
				if value, err := p.options.Secret(h.Secret); err == nil {
					values = append(values, strings.TrimSpace(value))
				}
			}
			if usesLogin(s) && p.options.Login != nil {
				if l, err := p.options.findLogin(s); err == nil {
					values = append(values, l.Hidden()...)
				}
			}
		}
	}
	return values
}

// serverToLogIn returns an MCP server of a worker that the user can log in at. step is nil if
// the program has no worker.
func serverToLogIn(step *calltree.Step, name string) (worker.Server, error) {
	fail := func(code sandbox.Code, hint string) (worker.Server, error) {
		return worker.Server{}, &sandbox.Error{Op: "login", Path: name, Code: code, Hint: hint}
	}
	var names []string
	if step != nil {
		for _, s := range step.Worker.Servers {
			switch {
			case s.Remote != nil:
				names = append(names, s.Name)
			case s.Name == name:
				return fail(sandbox.ErrInvalid, "golem starts this server itself, so there is no login; env in the worker file gives it a variable of yours")
			}
			if s.Name != name {
				continue
			}
			if !usesLogin(s) {
				return fail(sandbox.ErrInvalid, "the worker file sends an Authorization header to it; remove the header to log in")
			}
			return s, nil
		}
	}
	if len(names) == 0 {
		return fail(sandbox.ErrNotFound, "this worker has no MCP server with a url; --worker names another worker, golem workers lists them")
	}
	return fail(sandbox.ErrNotFound, strictyaml.DidYouMean(name, names))
}

// LoginName returns the name of the secret with the login at a server of a worker.
func (p *Program) LoginName(workerName, name string) (string, error) {
	step, err := p.reach(workerName)
	if err != nil {
		return "", err
	}
	s, err := serverToLogIn(step, name)
	if err != nil {
		return "", err
	}
	return foreign.LoginName(s.Remote.URL), nil
}

// Login logs the user in at a server of the gate's worker, and stores the login. The
// browser returns to the address redirect. Ask lets the user log in.
func (d *OpenWorker) Login(ctx context.Context, name, redirect string, ask func(ctx context.Context, address, host string) (url.Values, error)) error {
	s, err := serverToLogIn(d.step, name)
	if err != nil {
		return err
	}
	dialer, err := d.networks.Remote(s.Name, s.Remote.URL, d.Hosts(), d.Workers, func() string { return "" }, func() (http.Header, []string, error) { return nil, nil, nil })
	if err != nil {
		return err
	}
	if _, err := dialer.Check(); err != nil {
		return &sandbox.Error{Op: "login", Path: name, Code: "blocked", Hint: err.Error()}
	}
	store, requests := d.loginOf(s, d.Workers)
	if store == nil || store.Keep == nil {
		return &sandbox.Error{Op: "login", Path: name, Code: "blocked", Hint: "golem stores no login here; run golem mcp login on your own machine"}
	}
	defer requests.Close()
	login, err := foreign.LogIn(ctx, foreign.LoginOptions{Name: s.Name, URL: s.Remote.URL, Requests: requests, Redirect: redirect, Ask: ask})
	if err != nil {
		return err
	}
	return store.Keep(login)
}
