package foreign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/sandbox"
)

// A Starter starts the program of a server in the jail.
type Starter interface {
	// Able returns an error if no program can run.
	Able() error
	// Open starts the program. The program sees only the files that the sandbox shows.
	Open(files *sandbox.Sandbox, c jail.Command) (*jail.Process, error)
}

// A Program is the command of a server and its permissions.
type Program struct {
	Command jail.Command
	Folder  string // the directory of the worker's files that it reads, with everything below; "" for none
	Network bool
	Secrets []string      // the user's, which no result may show
	Time    time.Duration // limit for a call
	Only    []string      // the wanted tools; none for all
	Remote  *Remote       // nil for a server that golem starts
}

// A Server is an MCP server of a worker. golem starts it when it is first needed, and
// again after it has ended. The caller of NewServer must close it.
type Server struct {
	name    string
	program Program
	start   Starter
	listing Listing // the list that the server must have

	mu      sync.Mutex
	version string // of the protocol
	live    *live
	refused error // set if the server lists other tools
}

// A live is a server that runs.
type live struct {
	link
	session *mcp.ClientSession
	listing Listing
}

// A link is a connection with a server.
type link interface {
	mcp.Transport
	Close() error
	isEnded() bool
	// brokenError returns why the connection is unusable, nil if it is usable.
	brokenError() *sandbox.Error
	// describeEnd ends the connection, and says why a call failed.
	describeEnd(err error, network bool) string
}

// NewServer returns a server with a name. Without a starter golem can only show its
// tools.
func NewServer(name string, p Program, s Starter) *Server {
	return &Server{name: name, program: p, start: s, version: protocol}
}

// Close ends the server, if it runs.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	return nil
}

func (s *Server) end() {
	if s.live != nil {
		s.live.Close()
		s.live.session.Close()
		s.live = nil
	}
}

// The versions of the protocol that golem uses. It tries the handshake first: many servers
// end if another request comes before it.
const (
	protocol  = "2025-11-25" // the newest that begins with a handshake
	stateless = "2026-07-28" // without a handshake
)

// ensureRunning returns the server with its tools listed. It starts the server if it does not
// run.
func (s *Server) ensureRunning(ctx context.Context, files *sandbox.Sandbox) (*live, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused != nil {
		return nil, s.refused
	}
	if s.live != nil && !s.live.isEnded() {
		return s.live, nil
	}
	s.end()
	l, failed, err := s.connect(ctx, files, s.version)
	if err != nil && s.version == protocol && lacksHandshake(failed) && ctx.Err() == nil {
		if other, _, wrong := s.connect(ctx, files, stateless); wrong == nil {
			l, err, s.version = other, nil, stateless
		}
	}
	if err != nil {
		return nil, err
	}
	s.live = l
	if s.listing != nil && l.listing.Hash() != s.listing.Hash() {
		s.refused = &sandbox.Error{Op: "mcp", Path: s.name, Code: "untrusted", Hint: "its tools are not those that it had when you trusted it: " +
			strings.Join(l.listing.Diff(s.listing, false), "; ") + "; golem tools --accept " + s.name + " shows them, and accepts them"}
		s.end()
		return nil, s.refused
	}
	return l, nil
}

// lacksHandshake reports whether a server answered that it does not know the handshake, or
// only newer versions of the protocol.
func lacksHandshake(err error) bool {
	var wrong wireError
	if errors.As(err, &wrong) {
		return slices.Contains([]int64{jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidRequest, jsonrpc.CodeInvalidParams, mcp.CodeUnsupportedProtocolVersion}, wrong.Code)
	}
	return err != nil && (strings.Contains(err.Error(), "unsupported protocol version") || strings.Contains(err.Error(), http.StatusText(http.StatusBadRequest)))
}

// connect starts the server and lists its tools. If it fails, failed is the error of the
// connection, and err the one for the caller.
func (s *Server) connect(ctx context.Context, files *sandbox.Sandbox, version string) (l *live, failed, err error) {
	to, err := s.open(files)
	if err != nil {
		return nil, nil, err
	}
	if remote, ok := to.(*remoteConn); ok && version == stateless {
		remote.version = version
	}
	defer endWith(ctx, to)()
	l = &live{link: to}
	client := mcp.NewClient(&mcp.Implementation{Name: "golem", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}}) // otherwise the library would repeat a call as often as the server asks
	l.session, err = client.Connect(ctx, to, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err == nil {
		if l.listing, err = list(ctx, l.session, s.program.Only); err != nil {
			l.session.Close()
		}
	}
	if err != nil {
		return nil, err, s.callError(ctx, to, err)
	}
	return l, nil, nil
}

// open starts the server, or prepares the connection with a remote one.
func (s *Server) open(files *sandbox.Sandbox) (link, error) {
	if r := s.program.Remote; r != nil {
		requests, err := r.Dialer.Dial()
		if err != nil {
			return nil, err
		}
		conn := newRemoteConn(r.URL, requests)
		conn.store = r.Login
		conn.login, err = r.Login.open(func(why string) error { return conn.markBroken("denied", why) })
		if err != nil {
			return nil, errors.Join(err, requests.Close())
		}
		return conn, nil
	}
	c := s.program.Command
	if s.program.Folder != "" && files.CanRead(s.program.Folder) {
		c.Dir = jail.Inside(files, s.program.Folder)
	}
	process, err := s.start.Open(files, c)
	if err != nil {
		return nil, err
	}
	conn := newConn(process)
	conn.secrets = egress.NewHider(s.program.Secrets)
	return conn, nil
}

// call calls a tool of the server. It also returns the hider of the secrets that the server got.
func (s *Server) call(ctx context.Context, files *sandbox.Sandbox, tool string, args json.RawMessage) (*mcp.CallToolResult, egress.Hider, error) {
	ctx, cancel := context.WithTimeout(ctx, s.program.Time)
	defer cancel()
	l, err := s.ensureRunning(ctx, files)
	if err != nil {
		return nil, egress.Hider{}, err
	}
	defer endWith(ctx, l.link)()
	r, err := l.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return nil, egress.Hider{}, s.callError(ctx, l.link, err)
	}
	if r.NeedsInput() {
		return nil, egress.Hider{}, &sandbox.Error{Op: "mcp", Path: s.name, Code: "failed", Hint: "the server sent a request instead of an answer, and golem answers no requests of a server"}
	}
	return r, s.hider(l.link), nil
}

// hider returns the hider of the secrets that the server got.
func (s *Server) hider(l link) egress.Hider {
	if remote, ok := l.(*remoteConn); ok {
		return remote.hider()
	}
	return egress.NewHider(s.program.Secrets)
}

// callError returns the error of a call that failed. A server that answered with an error
// keeps running. Any other server has ended, or failed ends it.
func (s *Server) callError(ctx context.Context, c link, err error) error {
	said := func(code sandbox.Code, hint string) error {
		return &sandbox.Error{Op: "mcp", Path: s.name, Code: code, Hint: hint}
	}
	again := again
	if s.program.Remote != nil {
		again = "; golem closed the connection, and the next call opens it again"
	}
	var known *sandbox.Error
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		c.Close()
		return said("timeout", fmt.Sprintf("the server did not answer within %v", s.program.Time)+again)
	case ctx.Err() != nil:
		c.Close()
		return said("stopped", "the call was stopped"+again)
	case c.brokenError() != nil:
		c.Close()
		return said(c.brokenError().Code, c.brokenError().Hint+again)
	case errors.As(err, &known): // an error in its list of tools
		c.Close()
		return said(known.Code, known.Hint)
	case errors.As(err, new(wireError)):
		return said("failed", "the server says: "+cutEnd(err.Error()))
	}
	return said("failed", c.describeEnd(err, s.program.Network))
}

// again says what becomes of a server that golem ended.
const again = "; it was ended, and the next call starts it again"

// describeEnd implements link.
func (c *conn) describeEnd(err error, network bool) string {
	r, _ := c.process.Close()
	hint := fmt.Sprintf("the server ended with exit %d", r.Code)
	if r.Signal != "" && !r.Stopped {
		hint = "the signal " + r.Signal + " ended the server"
	}
	if r.Stopped {
		hint = "the server could not be understood: " + cutEnd(err.Error()) + again
	}
	if text, _ := r.Stderr.Text(); strings.TrimSpace(text) != "" {
		hint += "; it said: " + cutEnd(c.secrets.Text(strings.TrimSpace(text)))
		if !network && unreachablePattern().MatchString(text) {
			hint += "; it has no network and an empty home directory; a server that installs packages when it starts, as with npx, needs network: true in the worker file"
		}
	}
	return hint
}

// isEnded implements link.
func (c *conn) isEnded() bool { return c.process.Ended() }

// endWith ends a server that golem started if ctx ends before the returned function is
// called. The requests to another one end with ctx anyway.
func endWith(ctx context.Context, l link) func() {
	c, ok := l.(*conn)
	if !ok {
		return func() {}
	}
	stop := c.process.Until(ctx)
	return func() { stop() }
}

// unreachablePattern matches messages of programs that could not reach the network.
func unreachablePattern() *regexp.Regexp {
	return regexp.MustCompile(`(?i)EAI_AGAIN|ENOTFOUND|ENETUNREACH|getaddrinfo|name resolution|network is unreachable|name or service not known|(could not|failed to|cannot) resolve|no such host|dns error`)
}
