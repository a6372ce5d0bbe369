package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/keyring"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// credentials are the secrets that golem adds to requests of a gate's commands. It
// reads one when a command first has a network with it.
type credentials struct {
	project     *project.Project
	environ     []string
	hostEnviron func() []string
	secret      func(name string) (string, error)
	now         func() time.Time

	mu    sync.Mutex
	ready map[string]egress.Credential
}

// find returns the credentials of a network. The error says what to type if one has no
// value.
func (h *credentials) find(hosts policy.Hosts) (map[string]egress.Credential, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := make(map[string]egress.Credential)
	for _, r := range hosts.Rules() {
		if r.Credential == "" {
			continue
		}
		c, ok := h.ready[r.Credential]
		if !ok {
			var err error
			if c, err = h.read(r.Credential); err != nil {
				return nil, err
			}
			if h.ready == nil {
				h.ready = make(map[string]egress.Credential)
			}
			h.ready[r.Credential] = c
		}
		found[r.Credential] = c
	}
	return found, nil
}

// read reads the value of a credential and makes its placeholder.
func (h *credentials) read(name string) (egress.Credential, error) {
	fail := func(code sandbox.Code, hint string) (egress.Credential, error) {
		return egress.Credential{}, &sandbox.Error{Op: "credential", Path: name, Code: code, Hint: hint}
	}
	c, ok := h.project.Credential(name)
	if !ok {
		return fail(sandbox.ErrNotFound, "define it under credentials in golem-forge.config.yaml or in your own configuration")
	}
	value := c.Value
	switch {
	case value != "":
	case c.Variable != "":
		text, _ := project.LookupEnv(h.environ, c.Variable)
		if value = strings.TrimSpace(text); value == "" {
			return fail(sandbox.ErrNotFound, "the environment variable "+c.Variable+" is not set; set it and start golem again, or store the value with golem secret set "+name+" and write from: keyring")
		}
	case c.Secret != "":
		text, err := "", error(keyring.ErrNotFound)
		if h.secret != nil {
			text, err = h.secret(c.Secret)
		}
		if errors.Is(err, keyring.ErrNotFound) {
			return fail(sandbox.ErrNotFound, "there is no secret "+c.Secret+"; store it with golem secret set "+c.Secret)
		}
		if err != nil {
			return fail(sandbox.ErrInvalid, visible.Line(err.Error(), 300))
		}
		value = text
	case len(c.Command) > 0:
		text, err := keyring.Run(context.Background(), c.Command, h.hostEnviron())
		if err != nil {
			return fail(sandbox.ErrInvalid, visible.Line(err.Error(), 300)+"; "+c.From.String()+" names it")
		}
		value = text
	}
	var renew func() (string, error)
	if c.TTL > 0 {
		renew = h.renewer(c, value)
	}
	ready, err := egress.Prepare(egress.Credential{Value: value, Header: c.Header, Placeholder: c.Placeholder, Plain: c.Plain, Renew: renew})
	if err != nil {
		return fail(sandbox.ErrInvalid, fmt.Sprintf("%v (%s)", err, c.Source()))
	}
	return ready, nil
}

// renewer returns the function that makes the value of a credential anew when its time is
// over. If its program fails, it waits a moment before it runs the program again: a request
// may come every millisecond.
func (h *credentials) renewer(c project.Credential, value string) func() (string, error) {
	const pause = 5 * time.Second
	var mu sync.Mutex
	var failed error
	until := h.now().Add(c.TTL)
	return func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if h.now().Before(until) {
			return value, failed
		}
		text, err := keyring.Run(context.Background(), c.Command, h.hostEnviron())
		if failed, until = nil, h.now().Add(c.TTL); err != nil {
			// The reason may have parts of the value, and commands see this error.
			failed, until = errors.New("its program failed; run it yourself to see why: "+c.From.String()+" names it"), h.now().Add(min(pause, c.TTL))
			return value, failed
		}
		value = text
		return value, nil
	}
}

// hide returns the environment of a command: with placeholders in place of the values of
// all credentials that golem has read, and in the variables in which programs look for
// those of its network.
func (h *credentials) hide(hosts policy.Hosts, env []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	env = slices.Clone(env)
	for _, c := range h.ready {
		for i, one := range env {
			name, value, _ := strings.Cut(one, "=")
			env[i] = name + "=" + strings.ReplaceAll(value, c.Value, c.Placeholder)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.ready)) {
		c, _ := h.project.Credential(name)
		needed := slices.ContainsFunc(hosts.Rules(), func(r policy.HostRule) bool { return r.Credential == name })
		if has, _ := project.LookupEnv(env, c.As); needed && c.As != "" && has == "" {
			env = append(env, c.As+"="+h.ready[name].Placeholder)
		}
	}
	return env
}
