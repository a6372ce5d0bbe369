package program

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/taint"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/records/keyring"
	"github.com/golem-forge/golem/internal/work/foreigntools"
	"github.com/golem-forge/golem/internal/work/model/models"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/toolset/foreign"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// foreignCommands returns the runner of a foreign program for a gate. The program sees
// its own files, and has the network only if it declares it.
func (d *OpenWorker) foreignCommands(g tool.Gate, f worker.Foreign) (*session.Commands, error) {
	mounts, err := d.program.foreign().WriteFiles(f)
	if err != nil {
		return nil, err
	}
	kept, variables, err := d.program.foreign().OpenState(f, g.Workers[len(g.Workers)-1])
	if err != nil {
		return nil, err
	}
	var hosts policy.Hosts
	if f.Network != nil {
		hosts = g.Hosts()
	}
	g.Grant.Level = max(g.Grant.Level, f.Level)
	source := func() string { return "" }
	if t, ok := g.Taint.(*taint.Tracker); ok {
		source = t.CommandSource
	}
	o := session.CommandOptions{Gate: g, Hosts: hosts, Egress: d.networks.Egress(hosts, g.Workers, source), Owner: d.work.OwnerOf(g, hosts, "program", f.Name+"\x00"+foreigntools.Identity(f)),
		Etc: d.program.Project.Etc, GPU: d.program.Project.GPU, Mounts: append(mounts, kept...), ReadOnly: f.Reach == nil || f.Reach.ReadOnly}
	o.Env, o.Missing = foreigntools.Environment(f, d.program.options.Environ)
	o.Env = append(o.Env, variables...)
	return d.work.Commands(o), nil
}

// hidingCommands run a program and hide the secrets that it got in its output.
type hidingCommands struct {
	*session.Commands
	secrets egress.Hider
}

// Run implements custom.Runner.
func (c hidingCommands) Run(ctx context.Context, files *sandbox.Sandbox, command jail.Command, layered bool) (changes.Result, error) {
	r, err := c.Commands.Run(ctx, files, command, layered)
	for _, o := range []*jail.Output{&r.Stdout, &r.Stderr} {
		if o.Hidden == 0 {
			o.Head, o.Tail = append(o.Head, o.Tail...), nil
		}
		o.Head, o.Tail = []byte(c.secrets.Text(string(o.Head))), []byte(c.secrets.Text(string(o.Tail)))
	}
	return r, err
}

// newServer returns an MCP server of a worker for a gate, and what is closed after use.
func (d *OpenWorker) newServer(g tool.Gate, s worker.Server, p foreign.Program) (*foreign.Server, []io.Closer, error) {
	if p.Remote != nil {
		source := func() string { return "" }
		if t, ok := g.Taint.(*taint.Tracker); ok {
			source = t.Source
		}
		dialer, err := d.networks.Remote(s.Name, p.Remote.URL, g.Hosts(), g.Workers, source, func() (http.Header, []string, error) { return d.program.options.remoteHeaders(s) })
		if err != nil {
			return nil, nil, err
		}
		p.Remote.Dialer = remoteDialer{dialer}
		closers := []io.Closer{}
		if login, requests := d.loginOf(s, g.Workers); login != nil {
			p.Remote.Login, closers = login, append(closers, requests)
		}
		server := foreign.NewServer(s.Name, p, nil)
		return server, append(closers, server), nil
	}
	c, err := d.foreignCommands(g, s.Foreign)
	if err != nil {
		return nil, nil, err
	}
	p.Secrets = foreigntools.SecretsOf(s.Foreign, d.program.options.Environ)
	server := foreign.NewServer(s.Name, p, c)
	return server, []io.Closer{c, server}, nil
}

// A remoteDialer is a network.Remote as a foreign.Dialer.
type remoteDialer struct{ *network.Remote }

// Dial implements foreign.Dialer.
func (r remoteDialer) Dial() (foreign.Requests, error) { return r.Remote.Dial() }

// remoteHeaders returns the headers for a server, and the secrets in them. A secret that
// is the key of a model goes only to that model's host.
func (o Options) remoteHeaders(s worker.Server) (header http.Header, hidden []string, err error) {
	header = make(http.Header)
	fail := func(name, hint string) (http.Header, []string, error) {
		return nil, nil, &sandbox.Error{Op: "mcp", Path: s.Name, Code: sandbox.ErrNotFound, Hint: name + ": " + hint}
	}
	for _, h := range s.Remote.Headers {
		var value string
		if h.Variable != "" {
			text, _ := project.LookupEnv(o.Environ, h.Variable)
			if value = strings.TrimSpace(text); value == "" {
				return fail(h.Name, "the environment variable "+h.Variable+" is not set; set it and start golem again")
			}
		} else {
			if slices.ContainsFunc(models.KeySources(), func(k models.KeySource) bool { return k.Vendor == h.Secret }) {
				return fail(h.Name, "the secret "+h.Secret+" is the key of a model, and goes only to its host; store the key of the server under another name")
			}
			text, err := "", error(keyring.ErrNotFound)
			if o.Secret != nil {
				text, err = o.Secret(h.Secret)
			}
			if errors.Is(err, keyring.ErrNotFound) {
				return fail(h.Name, "there is no secret "+h.Secret+"; store it with golem secret set "+h.Secret)
			}
			if err != nil {
				return nil, nil, err
			}
			value = strings.TrimSpace(text)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fail(h.Name, h.Source()+" has characters that no header may have; store it again")
		}
		header.Set(h.Name, h.Prefix+value)
		hidden = append(hidden, value)
	}
	return header, hidden, nil
}

// Offer lists the tools of a server of the gate's worker.
func (d *OpenWorker) Offer(ctx context.Context, name string) (foreigntools.Offer, error) {
	var names []string
	if d.step != nil {
		for _, s := range d.step.Worker.Servers {
			names = append(names, s.Name)
			if s.Name != name {
				continue
			}
			return d.offer(ctx, s)
		}
	}
	hint := "this worker has no MCP server; golem tools lists its tools"
	if len(names) > 0 {
		hint = strictyaml.DidYouMean(name, names)
	}
	return foreigntools.Offer{}, &sandbox.Error{Op: "mcp", Path: name, Code: sandbox.ErrNotFound, Hint: hint}
}

func (d *OpenWorker) offer(ctx context.Context, s worker.Server) (o foreigntools.Offer, err error) {
	server, running, err := d.newServer(d.Gate, s, foreigntools.ProgramOf(s, d.Grant.Limits.Time))
	if err != nil {
		return o, err
	}
	defer closeAll(running)
	return d.program.foreign().Offer(ctx, d.Gate, d.step, s, server)
}
