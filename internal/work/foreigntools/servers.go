package foreigntools

import (
	"context"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/toolset/foreign"
	"github.com/golem-forge/golem/internal/work/worker"
)

// Servers returns the tools of a worker's MCP servers, and notes about servers
// without tools. Start returns a server whose program can be started; without it tools
// can only be listed from the stored list. List, if set, lists the tools of a server that
// never ran.
func (x Tools) Servers(step *calltree.Step, limit time.Duration, others []tool.Tool, start func(worker.Server, foreign.Program) (*foreign.Server, error),
	list func(worker.Server, *foreign.Server) (foreign.Listing, error)) (tools []tool.Tool, notes []string, err error) {
	if step == nil {
		return nil, nil, nil
	}
	for _, s := range step.Worker.Servers {
		server := foreign.NewServer(s.Name, ProgramOf(s, limit), nil)
		if start != nil {
			if server, err = start(s, ProgramOf(s, limit)); err != nil {
				return nil, nil, err
			}
		}
		l, older, err := x.Listing(s)
		if err != nil {
			return nil, nil, err
		}
		if l == nil && list == nil && older {
			notes = append(notes, "the MCP server "+s.Name+" has changed since its tools were listed; golem tools --accept "+s.Name+" lists them again, and so does the next run")
			continue
		}
		if l == nil && list == nil {
			notes = append(notes, "the tools of the MCP server "+s.Name+" are not known yet; golem tools --accept "+s.Name+" lists them, and so does the first run")
			continue
		}
		if l == nil {
			if l, err = list(s, server); err != nil {
				notes = append(notes, "no tools of the MCP server "+s.Name+": "+err.Error())
				continue
			}
		}
		own, err := x.OfServer(step, s, server, l, slices.Concat(others, tools))
		if err != nil {
			notes = append(notes, "no tools of the MCP server "+s.Name+": "+err.Error())
			continue
		}
		tools = append(tools, own...)
	}
	return tools, notes, nil
}

// OfServer returns the tools of a server. It is an error if one has the name of another
// tool.
func (x Tools) OfServer(step *calltree.Step, s worker.Server, server *foreign.Server, l foreign.Listing, others []tool.Tool) ([]tool.Tool, error) {
	return server.Tools(l, func(runs string) []policy.Rule {
		rules := rulesOf(step, s.Tool(), runs)
		if len(rules) == 0 {
			rules = []policy.Rule{{Verb: policy.Run, Target: runs, Approval: policy.Ask}}
		}
		return withNetworkRules(rules, s.Foreign)
	}, func(name string) bool {
		return slices.Contains(x.Reserved, name) || x.isWorker(name) || calltree.HasCustom(x.Workers, name) ||
			slices.ContainsFunc(others, func(t tool.Tool) bool { return t.Name == name })
	})
}

// ProgramOf returns the program of a server.
func ProgramOf(s worker.Server, limit time.Duration) foreign.Program {
	program := foreign.Program{Command: commandOf(s.Foreign), Network: s.Network != nil, Time: callTime(limit, s.Timeout), Only: worker.Words(s.Tools)}
	if s.Reach != nil {
		program.Folder = s.Reach.Folder
	}
	if r := s.Remote; r != nil {
		program.Remote = &foreign.Remote{URL: r.URL}
		if !r.Trusted {
			program.Remote.Source = "https://" + r.Host()
		}
	}
	return program
}

// callTime returns the timeout of a call to a server: the limit of commands, or less.
func callTime(limit, own time.Duration) time.Duration {
	if limit <= 0 {
		limit = 2 * time.Minute
	}
	if own > 0 {
		limit = min(limit, own)
	}
	return limit
}

// List lists the tools of a server through the gate. The user's trust in the program that
// names the server is the approval to start it.
func List(ctx context.Context, g tool.Gate, s worker.Server, server *foreign.Server) (l foreign.Listing, err error) {
	runs := foreign.EffectTarget(s.Name)
	rules := withNetworkRules([]policy.Rule{{Verb: policy.Run, Target: runs, Approval: policy.PreApproved, From: s.Place.String()}}, s.Foreign)
	g.Tools = []tool.Tool{server.Lister(rules, func(got foreign.Listing) error {
		l = got
		return nil
	})}
	if r := g.Do(ctx, policy.User, tool.Call{Tool: runs}); r.Err != nil {
		return nil, r.Err
	}
	return l, nil
}

// An Offer is the tool list of a server, to be accepted by the user.
type Offer struct {
	Differences []string // from the stored list, or all tools
	Known       bool     // there is a stored list
	keep        func() error
}

// Accept stores the list. golem compares later lists with it.
func (o Offer) Accept() error { return o.keep() }

// Offer lists the tools of a server through the gate, for the user to accept.
func (x Tools) Offer(ctx context.Context, g tool.Gate, step *calltree.Step, s worker.Server, server *foreign.Server) (o Offer, err error) {
	old, _, err := x.Listing(s)
	if err != nil {
		return o, err
	}
	l, err := List(ctx, g, s, server)
	if err != nil {
		return o, err
	}
	others := slices.DeleteFunc(slices.Clone(g.Tools), func(t tool.Tool) bool { return t.Toolset == "mcp" })
	if _, err := x.OfServer(step, s, server, l, others); err != nil {
		return o, err
	}
	return Offer{Differences: l.Diff(old, true), Known: old != nil, keep: func() error { return x.KeepListing(s, l) }}, nil
}
