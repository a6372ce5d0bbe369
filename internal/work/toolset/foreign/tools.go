package foreign

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// wireError is an error that a server returns instead of a result.
type wireError = *jsonrpc.Error

// EffectTarget returns the target of the effect of using the named tool, or of starting the named
// server.
func EffectTarget(name string) string { return "mcp " + name }

// Tools returns the tools of a listing. The function rules returns the rules for a tool.
// The function taken reports whether another tool has a name.
func (s *Server) Tools(l Listing, rules func(runs string) []policy.Rule, taken func(name string) bool) ([]tool.Tool, error) {
	s.listing = l
	var tools []tool.Tool
	for _, d := range l {
		about := tool.Tool{Name: s.name + "_" + d.Name, Toolset: "mcp", Mode: policy.Both, Verbs: []policy.Verb{policy.Run}}
		about.Program = EffectTarget(about.Name)
		about.Rules = rules(about.Program)
		about.Description = "A tool of the MCP server " + s.name + ", which describes it as: " + visible.Cut(visible.Text(strings.TrimSpace(d.Description)), maxShown)
		refuse := func(why string) error {
			return &sandbox.Error{Op: "mcp", Path: s.name, Code: sandbox.ErrInvalid, Hint: "its tool " + visible.Line(d.Name, 80) + ": " + why +
				"; name those that you want with tools: […] in the worker file"}
		}
		if !isName(about.Name) {
			return nil, refuse("no tool can be called " + visible.Line(about.Name, 100) + ": letters, digits, _ and -, 64 at most")
		}
		if taken(about.Name) {
			return nil, refuse(about.Name + " is another tool, or a worker; give the server another name")
		}
		schema, err := plainSchema(d.Schema)
		if err == nil {
			about, err = tool.Dynamic(about, schema, s.plan(about, d.Name))
		}
		if err != nil {
			return nil, refuse(err.Error())
		}
		tools = append(tools, about)
	}
	return tools, nil
}

// plan returns the function that plans the calls of a tool.
func (s *Server) plan(about tool.Tool, name string) func(context.Context, tool.Names, json.RawMessage) (tool.Plan, error) {
	return func(_ context.Context, names tool.Names, args json.RawMessage) (tool.Plan, error) {
		return s.newPlan(names, about.Program, func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
			r, secrets, err := s.call(ctx, files, name, args)
			if err != nil {
				return tool.Result{}, err
			}
			accepted, _ := tool.AcceptedMedia(ctx)
			return newResult(about.Name, r, accepted, secrets), nil
		})
	}
}

// newPlan returns the plan of an action of the server.
func (s *Server) newPlan(names tool.Names, runs string, run tool.Run) (tool.Plan, error) {
	effects := []policy.Effect{{Verb: policy.Run, Target: runs}}
	if r := s.program.Remote; r != nil {
		return s.newRemotePlan(r, effects, run)
	}
	if s.program.Folder == "" {
		effects = append(effects, names.ConnectEffects(s.program.Network)...)
	} else {
		shown := names.CommandEffectsIn(s.program.Folder, true, s.program.Network)
		if len(shown) == 0 || shown[0].Verb != policy.Read {
			return tool.Plan{}, &sandbox.Error{Op: "mcp", Path: s.program.Folder, Code: sandbox.ErrNotFound,
				Hint: "the server " + s.name + " reads this directory, and nothing in it may be read here without approval"}
		}
		effects = append(effects, shown...)
	}
	able := func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
		return tool.NewPreparation(run), s.start.Able()
	}
	return tool.NewChangePlan(able, effects...), nil
}

// newRemotePlan returns the plan of an action of a server that golem reaches over HTTP.
func (s *Server) newRemotePlan(r *Remote, effects []policy.Effect, run tool.Run) (tool.Plan, error) {
	if r.Dialer == nil {
		return tool.Plan{}, &sandbox.Error{Op: "mcp", Path: s.name, Code: "blocked", Hint: "golem has no network here"}
	}
	ask, err := r.Dialer.Check()
	if err != nil {
		return tool.Plan{}, &sandbox.Error{Op: "mcp", Path: s.name, Code: "blocked", Hint: err.Error()}
	}
	plan := tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
		return tool.NewPreparation(run), nil
	}, effects...)
	plan.AlwaysAsk, plan.TaintedBy = ask, r.Source
	if u, err := url.Parse(r.URL); ask && err == nil {
		plan.Asks = u
	}
	return plan, nil
}

// Lister returns the tool with which the user lists the tools of a server. Starting the
// server is an effect like others. Lister passes the list to keep.
func (s *Server) Lister(rules []policy.Rule, keep func(Listing) error) tool.Tool {
	about := tool.Tool{Name: EffectTarget(s.name), Toolset: "mcp", Mode: policy.Manual, Unlisted: true, Verbs: []policy.Verb{policy.Run},
		Description: "List the tools of an MCP server.", Program: EffectTarget(s.name), Rules: rules}
	return tool.New(about, func(_ context.Context, names tool.Names, _ struct{}) (tool.Plan, error) {
		return s.newPlan(names, about.Program, func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
			ctx, cancel := context.WithTimeout(ctx, s.program.Time)
			defer cancel()
			l, err := s.ensureRunning(ctx, files)
			if err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Text: fmt.Sprintf("%d tools", len(l.listing))}, keep(l.listing)
		})
	})
}

// newResult returns the answer of a server as a result. It includes the images that the
// caller accepts. The hider removes a secret whose pieces are in several parts of the answer.
func newResult(name string, r *mcp.CallToolResult, accepted tool.Accepted, secrets egress.Hider) tool.Result {
	var parts []string
	var media []tool.Media
	room := accepted.Bytes
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			parts = append(parts, c.Text)
		case *mcp.ImageContent:
			kind := filecontent.MediaType(c.Data) // golem does not trust the type that the server names
			if !strings.HasPrefix(kind, "image/") || !slices.Contains(accepted.Types, kind) || len(c.Data) > room {
				parts = append(parts, fmt.Sprintf("[an image, %s, %d bytes, not shown]", visible.Line(c.MIMEType, 60), len(c.Data)))
				continue
			}
			room -= len(c.Data)
			media = append(media, tool.Media{Type: kind, Data: c.Data})
			parts = append(parts, fmt.Sprintf("[an image, %s, %d bytes]", kind, len(c.Data)))
		case *mcp.AudioContent:
			parts = append(parts, fmt.Sprintf("[a sound, %s, %d bytes, not played]", visible.Line(c.MIMEType, 60), len(c.Data)))
		case *mcp.ResourceLink:
			parts = append(parts, "[a link to "+visible.Line(c.URI, 200)+"]")
		case *mcp.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				parts = append(parts, c.Resource.Text)
			} else {
				parts = append(parts, "[content that is no text, not shown]")
			}
		default:
			parts = append(parts, "[content of a kind that is not known]")
		}
	}
	text := secrets.Text(strings.ToValidUTF8(strings.Join(parts, "\n"), "\uFFFD"))
	if r.IsError {
		return tool.Result{Err: &sandbox.Error{Op: name, Code: "failed", Hint: "the server says: " + cutEnd(text)}, Record: "failed"}
	}
	if text == "" && r.StructuredContent != nil {
		if data, err := json.Marshal(r.StructuredContent); err == nil {
			text = string(data)
		}
	}
	return tool.Result{Text: text, Data: r.StructuredContent, Media: media, Record: "answered"}
}

// maxSaid is how many bytes golem passes on of the text of a server's error.
const maxSaid = 2000

// cutEnd returns the end of a long text.
func cutEnd(text string) string {
	if len(text) > maxSaid {
		text = "…" + text[len(text)-maxSaid:]
	}
	return strings.ToValidUTF8(text, "")
}
