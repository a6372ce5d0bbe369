package foreign

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// Limits of what a server may send.
const (
	maxMessage = 8 << 20 // bytes of a message
	maxChatter = 10_000  // messages that nobody has asked for, between two answers
)

// Limits of the shape of a message from any sender: its levels, and its values and keys.
// Decoding takes up to fifty times the bytes of each value or key.
const (
	MaxLevels = 64
	MaxValues = 250_000
)

// A conn is the connection with a server, with one message a line. It returns only the
// answers to requests of golem. It drops notifications and refuses requests of the
// server.
type conn struct {
	process *jail.Process
	in      *bufio.Reader
	secrets egress.Hider

	writing sync.Mutex // held while a line is written

	exchange
}

// An exchange is the state of a connection: the requests without an answer yet, and why the
// connection is unusable.
type exchange struct {
	mu      sync.Mutex
	waits   map[string]bool
	chatter int // messages since the last answer
	err     *sandbox.Error
}

func newConn(p *jail.Process) *conn {
	return &conn{process: p, in: bufio.NewReaderSize(p, 64<<10)}
}

// Connect implements mcp.Transport.
func (c *conn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection.
func (c *conn) SessionID() string { return "" }

// Close implements mcp.Connection. It ends the server.
func (c *conn) Close() error {
	c.process.Close()
	return nil
}

// Read implements mcp.Connection.
func (c *conn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, err := c.readLine()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			continue
		}
		if err := c.checkShape(line); err != nil {
			return nil, err
		}
		var head struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(line, &head); err != nil {
			return nil, c.garbageError(line)
		}
		if bad := filecontent.CheckJSON(line); bad != nil {
			return nil, c.markBroken(sandbox.ErrInvalid, "the server sent an ambiguous message: "+bad.Error())
		}
		if head.Method == "" && c.takeRequest(head.ID) {
			message, err := jsonrpc.DecodeMessage(c.secrets.JSON(line))
			if err != nil {
				return nil, c.garbageError(line)
			}
			return message, nil
		}
		if err := c.countUnasked(); err != nil {
			return nil, err
		}
		if head.Method != "" && len(head.ID) > 0 {
			if err := c.answer(head.ID, head.Method); err != nil {
				return nil, err
			}
		}
	}
}

// answer answers a request of the server. It answers ping, and refuses everything else.
func (c *conn) answer(id json.RawMessage, method string) error {
	with := fmt.Sprintf(`"error":{"code":%d,"message":"golem answers no requests of a server"}`, jsonrpc.CodeMethodNotFound)
	if method == "ping" {
		with = `"result":{}`
	}
	return c.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`, id, with))
}

// garbageError returns the error for a line that is not a message.
func (c *conn) garbageError(line []byte) error {
	return c.markBroken(sandbox.ErrInvalid, "the server wrote something that is no message of the protocol: "+visible.Line(c.secrets.Text(string(line[:min(len(line), 400)])), 80)+
		"; messages for people belong on its standard error")
}

// readLine reads a line. It fails if the line is longer than a message may be.
func (c *conn) readLine() ([]byte, error) {
	var whole []byte
	for {
		part, err := c.in.ReadSlice('\n')
		if len(whole)+len(part) > maxMessage {
			return nil, c.markBroken(sandbox.ErrLimit, fmt.Sprintf("the server sent a message of more than %d bytes", maxMessage))
		}
		whole = append(whole, part...)
		switch {
		case err == nil:
			return bytes.Trim(whole, "\n\r \t"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		default: // an incomplete last line is not a message
			return nil, io.EOF
		}
	}
}

// Shape returns the number of nested levels of a JSON text and, roughly, the number of
// its values and keys. A decoder recurses once for each level.
func Shape(text []byte) (levels, values int) {
	depth, quoted, escaped := 0, false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
			values++
			levels = max(levels, depth)
		case c == '}' || c == ']':
			depth--
		case c == ',' || c == ':':
			values++
		}
	}
	return levels, values
}

// Write implements mcp.Connection.
func (c *conn) Write(_ context.Context, message jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	if err := c.expect(message); err != nil {
		return err
	}
	return c.write(data)
}

func (c *conn) write(line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.process.Write(append(line, '\n'))
	return err
}

// expect notes that a message waits for an answer, if it is a request.
func (e *exchange) expect(message jsonrpc.Message) error {
	request, ok := message.(*jsonrpc.Request)
	if !ok || !request.ID.IsValid() {
		return nil
	}
	id, err := json.Marshal(request.ID.Raw())
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waits == nil {
		e.waits = make(map[string]bool)
	}
	e.waits[string(id)] = true
	return nil
}

// takeRequest reports whether a request with this id waits for an answer, and removes it.
func (e *exchange) takeRequest(id json.RawMessage) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	asked := e.waits[string(id)]
	delete(e.waits, string(id))
	if asked {
		e.chatter = 0
	}
	return asked
}

// countUnasked counts a message that no request waits for. It returns an error after too many.
func (e *exchange) countUnasked() error {
	e.mu.Lock()
	e.chatter++
	tooMuch := e.chatter > maxChatter
	e.mu.Unlock()
	if tooMuch {
		return e.markBroken(sandbox.ErrLimit, fmt.Sprintf("the server sent %d messages that golem had not asked for", maxChatter))
	}
	return nil
}

// checkShape returns an error for a message with too many levels or values.
func (e *exchange) checkShape(text []byte) error {
	levels, values := Shape(text)
	switch {
	case levels > MaxLevels:
		return e.markBroken(sandbox.ErrLimit, fmt.Sprintf("the server sent a message of more than %d levels", MaxLevels))
	case values > MaxValues:
		return e.markBroken(sandbox.ErrLimit, fmt.Sprintf("the server sent a message of more than %d values", MaxValues))
	}
	return nil
}

// markBroken records why nothing more is read from the server. The first reason counts.
func (e *exchange) markBroken(code sandbox.Code, why string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = &sandbox.Error{Code: code, Hint: why}
	}
	return e.err
}

// brokenError returns the error that markBroken recorded, nil if there is none.
func (e *exchange) brokenError() *sandbox.Error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}
