package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// patience is how long the session may take to end when the server ends.
const patience = 5 * time.Second

// Serve serves a program to other agents until ctx ends or the client disconnects. It has
// the type cli.Server.
func Serve(ctx context.Context, p *program.Program, v program.WorkerOptions, o program.ServeOptions) error {
	address := ""
	if o.HTTP != nil { // check this before a session starts
		var err error
		if address, err = listenAddress(*o.HTTP); err != nil {
			o.OnOpen(err)
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{options: o, ctx: ctx, slots: new(slots), turns: turns{files: make(map[string][]*turn)}, parked: make(map[string]*call)}
	v.Beside = s
	s.tidy = collectLazily()
	defer s.tidy.Stop()
	gate, err := p.OpenWorker(v)
	if o.OnOpen(err); err != nil {
		return err
	}
	s.gate = gate
	s.key = sync.OnceValues(func() ([]byte, error) { return gate.Secret("mcp") })
	readable, writable := quoteNames(gate.Files.ReadableRoots()), quoteNames(gate.Files.WritableRoots())
	fmt.Fprintf(o.Errs, "golem: serving as %s: reads %s; writes %s\n", strings.Join(gate.Workers, " → "), cmp.Or(readable, "nothing"), cmp.Or(writable, "nothing"))
	for _, note := range slices.Concat(s.startNotes(p), gate.StartNotes, gate.Notes) {
		fmt.Fprintln(o.Errs, "golem: "+note)
	}
	s.prepare()
	if o.HTTP != nil {
		err = s.listen(address, *o.HTTP)
	} else {
		err = s.serveStreams()
	}
	s.mu.Lock() // a call that is about to enter is counted or sees the end
	cancel()
	s.mu.Unlock()
	s.ending.Wait()
	return errors.Join(err, gate.Close())
}

// startNotes returns notes about the session of a client and the tools that always ask for
// approval.
func (s *server) startNotes(p *program.Program) (notes []string) {
	if s.gate.Session != nil {
		notes = append(notes, "works in session "+naming.Label(s.gate.Session))
	}
	if s.gate.IsBusy() {
		notes = append(notes, "another golem works on this session: calls fail until it ends; golem mcp --session new starts another session")
	}
	var asks []string
	for _, t := range s.gate.ToolsFor(policy.Peer) {
		if s.gate.HighestApproval(t) == policy.Ask {
			asks = append(asks, t.Name)
		}
	}
	if len(asks) > 0 && approval.Mode(p.Project.Approval) == approval.Interactive {
		notes = append(notes, fmt.Sprintf("asks before calls of %s; if the client has no forms, run golem approve ID within %v", strings.Join(asks, ", "), min(s.options.Wait, maxAlone)))
	}
	return notes
}

// A server offers the gate of a program to clients.
type server struct {
	options program.ServeOptions
	ctx     context.Context // ends when the server ends
	gate    *program.OpenWorker
	sdk     *mcp.Server
	slots   *slots
	turns   turns
	changes map[string]bool        // the tools that change the files that a call names
	key     func() ([]byte, error) // the key for request states

	tidy   *time.Timer    // frees memory when no call runs
	ending sync.WaitGroup // calls that run
	asked  atomic.Int32   // how many of them wait for a person
	kept   atomic.Int64   // bytes of those
	held   atomic.Int64   // bytes of calls that wait for a slot

	under sync.Map // an *under for each call

	undecided undecidedList

	mu     sync.Mutex       // also held by enter, so no call enters while the server ends
	parked map[string]*call // calls that wait for the client to return with an answer, by request id
}

// serveStreams serves the one client on the streams.
func (s *server) serveStreams() error {
	c := newConn(s.options.In, s.options.Out, s.slots, s.ctx.Done())
	c.inTurn = s.queueTurn
	session, err := s.sdk.Connect(s.ctx, c, nil)
	if err != nil {
		return err
	}
	c.direct.Store(&directly{s.ctx, session, s.callDirect})
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err = <-ended:
		return err
	case <-s.ctx.Done():
	}
	select {
	case <-ended:
	case <-time.After(patience): // it writes to a client that does not read
	}
	return nil
}

// prepare builds the parts that all clients share.
func (s *server) prepare() {
	s.sdk = mcp.NewServer(&mcp.Implementation{Name: "golem", Title: "Golem Forge", Version: s.options.Version}, &mcp.ServerOptions{
		Instructions: s.instructions(),
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}},
		SubscribeHandler: func(_ context.Context, r *mcp.SubscribeRequest) error {
			if r.Params.URI != approvalsURI { // the other resources change with every call
				return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "golem sends notifications only for " + approvalsURI}
			}
			return nil
		},
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	s.changes = changesFiles(s.gate.Tools)
	offered := make(map[string]bool)
	for _, t := range s.gate.ToolsFor(policy.Peer) {
		offered[t.Name] = true
	}
	for _, r := range s.resources(offered) {
		s.sdk.AddResource(&mcp.Resource{URI: r.uri, Name: r.name, Description: r.about, MIMEType: r.mime}, r.handler())
	}
	if offered["git_diff"] {
		s.sdk.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: stagedURI + "/{id}", Name: "staged commit", MIMEType: "text/plain",
			Description: "What a staged commit changes, as git_diff shows it."}, s.readStagedCommit)
	}
	listed := sync.OnceValue(s.listTools)
	if s.options.HTTP != nil {
		listed() // the library checks headers against schemas before anything else
	}
	// The gate also answers calls of unlisted tools. It knows older names, and for
	// unknown names it lists the tools. The library lets only listed tools return a form.
	s.sdk.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			switch r := r.(type) {
			case *mcp.ServerRequest[*mcp.InitializeParams]:
				// A session that starts with initialize has an older version, even if the
				// client asks for a newer one. The library answers with the older version
				// but uses the requested one.
				if r.Params != nil && r.Params.ProtocolVersion >= multiRound {
					r.Params.ProtocolVersion = newestAsked
				}
			case *mcp.ListToolsRequest:
				listed()
			case *mcp.CallToolRequest:
				if !listed()[r.Params.Name] {
					return s.callUnlisted(ctx, r)
				}
			}
			return next(ctx, method, r)
		}
	})
	s.sdk.AddReceivingMiddleware(s.guard)
}

// listTools adds the tools to the library and returns the names of the listed ones. It runs on
// first use, because the schemas take longer than the rest of the start.
func (s *server) listTools() map[string]bool {
	listed := make(map[string]bool)
	for _, t := range s.gate.ToolsFor(policy.Peer) {
		if err := s.add(t); err != nil {
			fmt.Fprintf(s.options.Errs, "golem: skipped the tool %s: %v\n", sandbox.Shown(t.Name), err)
			continue
		}
		listed[t.Name] = true
	}
	return listed
}

// callUnlisted answers a call of a tool that the library does not list. Such a call cannot
// return a form. The library marks its own results as complete. Others can set that mark
// only by decoding JSON.
func (s *server) callUnlisted(ctx context.Context, r *mcp.CallToolRequest) (mcp.Result, error) {
	result, err := s.callOnce(ctx, r)
	if err != nil || r.ProtocolVersion() < multiRound {
		return result, err
	}
	var typed mcp.CallToolResult
	if err := json.Unmarshal([]byte(`{"resultType": "complete"}`), &typed); err != nil {
		return nil, err
	}
	typed.Content, typed.IsError = result.Content, result.IsError
	return &typed, nil
}

// add lists a tool. The library panics if it does not understand all of a schema.
func (s *server) add(t tool.Tool) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("its schema cannot be listed: %.200v", why)
		}
	}()
	s.sdk.AddTool(&mcp.Tool{Name: t.Name, Title: t.Label, Description: t.Description, InputSchema: t.Schema(),
		Annotations: annotations(t, s.gate.HasNetwork())}, s.call)
	return nil
}

// annotations describes a tool by its verbs.
func annotations(t tool.Tool, network bool) *mcp.ToolAnnotations {
	reads := len(t.Verbs) > 0 && !t.ChangesState && !slices.ContainsFunc(t.Verbs, func(v policy.Verb) bool { return v != policy.Read })
	open := t.Program != "" || t.UsesNetwork || slices.ContainsFunc(t.Verbs, func(v policy.Verb) bool {
		return v == policy.Connect || v == policy.Call || v == policy.Run && network
	})
	destroys := !reads
	return &mcp.ToolAnnotations{Title: t.Label, ReadOnlyHint: reads, DestructiveHint: &destroys, IdempotentHint: reads, OpenWorldHint: &open}
}

// instructions returns the text that explains the sandbox to a model.
func (s *server) instructions() string {
	var b strings.Builder
	b.WriteString("These tools work in a sandbox of Golem Forge. ")
	readable, writable := s.gate.Files.ReadableRoots(), s.gate.Files.WritableRoots()
	if len(readable) > 0 {
		b.WriteString("There is one file system, with paths such as /dir/file; list_files shows it. Readable: " + quoteNames(readable) + ". ")
		if len(writable) > 0 {
			b.WriteString("Writable: " + quoteNames(writable) + ". ")
		} else {
			b.WriteString("Nothing can be written. ")
		}
		b.WriteString("No other path exists here, and none of the host's. read_file gives a version; with if_version a write fails if the file has changed since. ")
	}
	if slices.ContainsFunc(s.gate.ToolsFor(policy.Peer), func(t tool.Tool) bool { return t.Name == "shell" }) {
		b.WriteString("Commands run in the same files, begin at their top, and should use relative paths. ")
		if s.gate.Session == nil { // in a session changes take effect at once
			b.WriteString("The changes of a command are decided when it ends. ")
		}
	}
	if s.gate.Session != nil {
		b.WriteString("Changes are kept in a session, and reach the user's own directory only when the user applies them. You cannot apply them. ")
	}
	b.WriteString("Some calls need the user's approval, and wait for it. A call that was refused says why and what is allowed; do not repeat it as it is. " +
		"One that is pending has an id: tell the user to run golem approve with it, and make the same call again afterwards. " +
		"The resource " + approvalsURI + " says what the user decided; a subscription to it tells you when.")
	return b.String()
}

func quoteNames(names []string) string { return strings.Join(visible.Each(names, sandbox.Shown), ", ") }
