package program

import (
	"context"

	"github.com/golem-forge/golem/internal/foreigntools"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/internal/taint"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/toolset/foreign"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// foreign returns the custom tools and MCP servers of the program.
func (p *Program) foreign() foreigntools.Tools {
	return foreigntools.Tools{Workers: p.Workers, Files: p.toolFiles, State: p.state, Reserved: append(toolNames(), "exec"), Now: p.options.Now}
}

// foreignCommands returns the runner of a foreign program for a gate. The program sees
// its own files, and has the network only if it declares it.
func (d *Gate) foreignCommands(g tool.Gate, f worker.Foreign) (*session.Commands, error) {
	mounts, err := d.program.foreign().WriteFiles(f)
	if err != nil {
		return nil, err
	}
	var hosts policy.Hosts
	if f.Network != nil {
		hosts = g.Hosts()
	}
	source := func() string { return "" }
	if t, ok := g.Taint.(*taint.Tracker); ok {
		source = t.CommandSource
	}
	o := session.CommandOptions{Gate: g, Hosts: hosts, Egress: d.networks.Egress(hosts, g.Workers, source), Owner: d.work.OwnerOf(g, hosts, "program", f.Name+"\x00"+foreigntools.Identity(f)),
		Etc: d.program.Project.Etc, Mounts: mounts, ReadOnly: f.Reach == nil || f.Reach.ReadOnly}
	o.Env, o.Missing = foreigntools.Environment(f, d.program.options.Environ)
	return d.work.Commands(o), nil
}

// Offer lists the tools of a server of the gate's worker.
func (d *Gate) Offer(ctx context.Context, name string) (foreigntools.Offer, error) {
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

func (d *Gate) offer(ctx context.Context, s worker.Server) (o foreigntools.Offer, err error) {
	c, err := d.foreignCommands(d.Gate, s.Foreign)
	if err != nil {
		return o, err
	}
	defer c.Close()
	server := foreign.NewServer(s.Name, foreigntools.ProgramOf(s, d.Grant.Limits.Time), c)
	defer server.Close()
	return d.program.foreign().Offer(ctx, d.Gate, d.step, s, server)
}
