package foreign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// A Dialer connects to a server over HTTP.
type Dialer interface {
	// Check reports whether the user must approve the connection. The error says why golem
	// refuses it.
	Check() (ask bool, err error)
	// Dial returns what sends the requests to the server, and nowhere else.
	Dial() (Requests, error)
}

// Requests send requests to a server. They are closed after use.
type Requests interface {
	http.RoundTripper
	io.Closer
	// Hidden returns the secrets in the headers, which no result may show.
	Hidden() []string
}

// A Remote is the address of a server that golem reaches over HTTP.
type Remote struct {
	URL    string
	Source string      // the address as the source of untrusted input, "" if its results are trusted
	Dialer Dialer      // nil if golem can only show its tools
	Login  *LoginStore // the user's login there; nil if a header takes its place
}

// A remoteConn is the connection with a server over HTTP. It returns only the answers to
// requests of golem. It drops notifications and refuses requests of the server.
type remoteConn struct {
	url      string
	requests Requests
	inner    mcp.Connection // set by Connect
	store    *LoginStore
	login    *loggedIn // nil without a login

	exchange        // its lock also guards version and closed
	version  string // of the protocol, once the server has named it
	closed   bool
}

func newRemoteConn(url string, r Requests) *remoteConn {
	return &remoteConn{url: url, requests: r}
}

// errRedirect is the error of a server that answers with another address.
var errRedirect = errors.New("the server redirects to another address, and golem follows no redirect; write the address that it names as url")

// Connect implements mcp.Transport.
func (c *remoteConn) Connect(ctx context.Context) (mcp.Connection, error) {
	client := &http.Client{Transport: c, CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect }}
	transport := &mcp.StreamableClientTransport{Endpoint: c.url, HTTPClient: client, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: maxMessage}
	if c.login != nil {
		transport.OAuthHandler = c.login
	}
	inner, err := transport.Connect(ctx)
	c.inner = inner
	return c, err
}

// SessionID implements mcp.Connection.
func (c *remoteConn) SessionID() string { return c.inner.SessionID() }

// Close implements mcp.Connection. It ends all requests.
func (c *remoteConn) Close() error {
	c.mu.Lock()
	broken, closed := c.err != nil, c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	if broken { // nothing more is sent to it
		c.requests.Close()
	}
	if c.inner != nil {
		c.inner.Close()
	}
	return c.requests.Close()
}

func (c *remoteConn) isEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed || c.err != nil
}

// RoundTrip implements http.RoundTripper. It limits what the server sends.
func (c *remoteConn) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := r.Clone(r.Context())
	c.mu.Lock()
	if c.version != "" && sent.Header.Get("Mcp-Protocol-Version") == "" {
		sent.Header.Set("Mcp-Protocol-Version", c.version)
	}
	c.mu.Unlock()
	sent.Header.Set("User-Agent", "golem")
	answer, err := c.requests.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden {
		if c.login != nil && !c.login.hasRenewed(sent) {
			return answer, nil // the SDK asks the login for another token
		}
		answer.Body.Close()
		return nil, c.markBroken("denied", c.describeRefusal(answer.StatusCode))
	}
	answer.Body = &limitedBody{ReadCloser: answer.Body, left: maxMessage, over: func() error {
		return c.markBroken(sandbox.ErrLimit, fmt.Sprintf("the server sent an answer of more than %d bytes", maxMessage))
	}}
	return answer, nil
}

// describeRefusal says what to do if the server wants a key or a login.
func (c *remoteConn) describeRefusal(code int) string {
	switch {
	case c.login != nil:
		return fmt.Sprintf("the server answers %d: it refuses your login; %s logs in again", code, c.store.logIn())
	case c.store != nil && code == http.StatusUnauthorized:
		return "the server answers 401: it wants a login or a key; " + c.store.logIn() + " logs in; for a key, golem secret set NAME stores it, and headers: {Authorization: Bearer secret NAME} in the worker file sends it"
	}
	return fmt.Sprintf("the server answers %d: it accepts no request without a key, or not this one; store the key with golem secret set NAME, and write headers: {Authorization: Bearer secret NAME} in the worker file", code)
}

// A limitedBody fails after a number of bytes.
type limitedBody struct {
	io.ReadCloser
	left int64
	over func() error
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, b.over()
	}
	return n, err
}

// Read implements mcp.Connection.
func (c *remoteConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		message, err := c.inner.Read(ctx)
		if err != nil {
			return nil, err
		}
		if answer, ok := message.(*jsonrpc.Response); ok {
			if id, err := json.Marshal(answer.ID.Raw()); err == nil && c.takeRequest(id) {
				return answer, c.accept(answer)
			}
		}
		if err := c.countUnasked(); err != nil {
			return nil, err
		}
		if request, ok := message.(*jsonrpc.Request); ok && request.ID.IsValid() {
			if err := c.inner.Write(ctx, refuse(request)); err != nil {
				return nil, err
			}
		}
	}
}

// refuse returns the answer to a request of the server. It answers ping, and refuses
// everything else.
func refuse(request *jsonrpc.Request) *jsonrpc.Response {
	if request.Method == "ping" {
		return &jsonrpc.Response{ID: request.ID, Result: json.RawMessage("{}")}
	}
	return &jsonrpc.Response{ID: request.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "golem answers no requests of a server"}}
}

// hider returns the hider of the secrets that the server got.
func (c *remoteConn) hider() egress.Hider {
	return egress.NewHider(slices.Concat(c.requests.Hidden(), c.login.secrets()))
}

// accept checks an answer, and removes the user's secrets from it.
func (c *remoteConn) accept(answer *jsonrpc.Response) error {
	if err := c.checkShape(answer.Result); err != nil {
		return err
	}
	if len(answer.Result) > 0 {
		if bad := filecontent.CheckJSON(answer.Result); bad != nil {
			return c.markBroken(sandbox.ErrInvalid, "the server sent an ambiguous message: "+bad.Error())
		}
	}
	secrets := c.hider()
	answer.Result = secrets.JSON(answer.Result)
	var wrong wireError
	if errors.As(answer.Error, &wrong) {
		answer.Error = &jsonrpc.Error{Code: wrong.Code, Message: secrets.Text(wrong.Message), Data: secrets.JSON(wrong.Data)}
	}
	var first struct {
		Version string `json:"protocolVersion"`
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == "" && json.Unmarshal(answer.Result, &first) == nil && len(first.Version) <= len(protocol) {
		c.version = visible.Line(first.Version, len(protocol))
	}
	return nil
}

// Write implements mcp.Connection.
func (c *remoteConn) Write(ctx context.Context, message jsonrpc.Message) error {
	if err := c.expect(message); err != nil {
		return err
	}
	return c.inner.Write(ctx, message)
}

// describeEnd closes the connection and says why a call failed.
func (c *remoteConn) describeEnd(err error, _ bool) string {
	c.Close()
	if errors.Is(err, errRedirect) {
		return errRedirect.Error()
	}
	return "the request to the server failed: " + cutEnd(err.Error())
}
