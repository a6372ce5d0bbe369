package program

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/toolset/foreign"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// listingsFile holds the first tool list of each MCP server. golem compares later lists
// with it.
const listingsFile = "mcp.json"

// keptListings is how many lists are kept.
const keptListings = 50

type listingRecord struct {
	Key     string          `json:"key"`
	Server  string          `json:"server"`
	Time    time.Time       `json:"time"`
	Listing foreign.Listing `json:"listing"`
}

// listingKey identifies a server by all that defines it. A server that was changed, and
// trusted again, has another key.
func (x foreignTools) listingKey(s worker.Server) string {
	tools := worker.Words(s.Tools)
	slices.Sort(tools)
	files := x.files.Hash(x.files.NamesOf(s.Foreign))
	key := fmt.Appendf(nil, "%q %q %q %s", s.Name, worker.Words(s.Command), tools, files)
	if len(s.Env) > 0 {
		key = fmt.Appendf(key, " %q", worker.Words(s.Env))
	}
	return fmt.Sprintf("%x", sha256.Sum256(key))
}

// listing returns the stored list of a server, nil if it never ran.
func (x foreignTools) listing(s worker.Server) (foreign.Listing, error) {
	if !exists(x.state) {
		return nil, nil
	}
	folder, err := state.Open(x.state)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	data, err := folder.Read(listingsFile)
	if err != nil {
		return nil, err
	}
	records, err := readListings(data)
	if i := slices.IndexFunc(records, func(r listingRecord) bool { return r.Key == x.listingKey(s) }); i >= 0 {
		return records[i].Listing, err
	}
	return nil, err
}

func readListings(data []byte) (records []listingRecord, err error) {
	if data == nil {
		return nil, nil
	}
	if err := json.Unmarshal(data, &records); err != nil {
		return nil, fmt.Errorf("the record of what MCP servers have listed is damaged: %w; move %s away, and accept their tools again", err, listingsFile)
	}
	return records, nil
}

// keepListing stores the list of a server.
func (x foreignTools) keepListing(s worker.Server, l foreign.Listing) error {
	folder, err := state.Open(x.state)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Update(listingsFile, func(old []byte) ([]byte, error) {
		records, err := readListings(old)
		if err != nil {
			return nil, err
		}
		key := x.listingKey(s)
		records = slices.DeleteFunc(records, func(r listingRecord) bool { return r.Key == key })
		records = append(records, listingRecord{key, s.Name, x.now(), append(foreign.Listing{}, l...)})
		return json.Marshal(records[max(0, len(records)-keptListings):])
	})
}

// serverTools returns the tools of a worker's MCP servers, and notes about servers
// without tools. Start returns a server whose program can be started; without it tools
// can only be listed from the stored list. List, if set, lists the tools of a server that
// never ran.
func (x foreignTools) serverTools(step *Step, limit time.Duration, others []tool.Tool, start func(worker.Server, foreign.Program) (*foreign.Server, error),
	list func(worker.Server, *foreign.Server) (foreign.Listing, error)) (tools []tool.Tool, notes []string, err error) {
	if step == nil {
		return nil, nil, nil
	}
	for _, s := range step.Worker.Servers {
		server := foreign.NewServer(s.Name, programOf(s, limit), nil)
		if start != nil {
			if server, err = start(s, programOf(s, limit)); err != nil {
				return nil, nil, err
			}
		}
		l, err := x.listing(s)
		if err != nil {
			return nil, nil, err
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
		own, err := x.toolsOf(step, s, server, l, slices.Concat(others, tools))
		if err != nil {
			notes = append(notes, "no tools of the MCP server "+s.Name+": "+err.Error())
			continue
		}
		tools = append(tools, own...)
	}
	return tools, notes, nil
}

// toolsOf returns the tools of a server. It is an error if one has the name of another
// tool.
func (x foreignTools) toolsOf(step *Step, s worker.Server, server *foreign.Server, l foreign.Listing, others []tool.Tool) ([]tool.Tool, error) {
	return server.Tools(l, func(runs string) []policy.Rule {
		rules := rulesOf(step, s.Tool(), runs)
		if len(rules) == 0 {
			rules = []policy.Rule{{Verb: policy.Run, Target: runs, Approval: policy.Ask}}
		}
		return withNetworkRules(rules, s.Foreign)
	}, func(name string) bool {
		return slices.Contains(reservedNames(), name) || x.isWorker(name) || x.isCustom(name) ||
			slices.ContainsFunc(others, func(t tool.Tool) bool { return t.Name == name })
	})
}

// programOf returns the program of a server.
func programOf(s worker.Server, limit time.Duration) foreign.Program {
	program := foreign.Program{Command: commandOf(s.Foreign), Network: s.Network != nil, Time: callTime(limit, s.Timeout), Only: worker.Words(s.Tools)}
	if s.Reach != nil {
		program.Folder = s.Reach.Folder
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

// list lists the tools of a server through the gate. The user's trust in the program that
// names the server is the approval to start it.
func (d *Gate) list(ctx context.Context, g tool.Gate, s worker.Server, server *foreign.Server) (l foreign.Listing, err error) {
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

// Offer lists the tools of a server of the gate's worker.
func (d *Gate) Offer(ctx context.Context, name string) (Offer, error) {
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
	return Offer{}, &sandbox.Error{Op: "mcp", Path: name, Code: sandbox.ErrNotFound, Hint: didYouMeanServer(name, names)}
}

func didYouMeanServer(name string, names []string) string {
	if len(names) == 0 {
		return "this worker has no MCP server"
	}
	return didYouMean(name, names)
}

func (d *Gate) offer(ctx context.Context, s worker.Server) (o Offer, err error) {
	c, err := d.foreignCommands(d.Gate, s.Foreign)
	if err != nil {
		return o, err
	}
	defer c.Close()
	server := foreign.NewServer(s.Name, programOf(s, d.Grant.Limits.Time), c)
	defer server.Close()
	old, err := d.program.foreign().listing(s)
	if err != nil {
		return o, err
	}
	l, err := d.list(ctx, d.Gate, s, server)
	if err != nil {
		return o, err
	}
	others := slices.DeleteFunc(slices.Clone(d.Tools), func(t tool.Tool) bool { return t.Toolset == "mcp" })
	if _, err := d.program.foreign().toolsOf(d.step, s, server, l, others); err != nil {
		return o, err
	}
	return Offer{Differences: l.Diff(old, true), Known: old != nil, keep: func() error { return d.program.foreign().keepListing(s, l) }}, nil
}
