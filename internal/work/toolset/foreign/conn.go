package foreign

import (
	"bufio"
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
	chatter int // messages since the last answer

	writing sync.Mutex // held while a line is written

	mu    sync.Mutex
	waits map[string]bool // requests without an answer yet
	err   *sandbox.Error  // why the connection is unusable
}

func newConn(p *jail.Process) *conn {
	return &conn{process: p, in: bufio.NewReaderSize(p, 64<<10), waits: make(map[string]bool)}
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
		levels, values := Shape(line)
		if levels > MaxLevels {
			return nil, c.markBroken(sandbox.ErrLimit, fmt.Sprintf("the server sent a message of more than %d levels", MaxLevels))
		}
		if values > MaxValues {
			return nil, c.markBroken(sandbox.ErrLimit, fmt.Sprintf("the server sent a message of more than %d values", MaxValues))
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
			c.chatter = 0
			return message, nil
		}
		if c.chatter++; c.chatter > maxChatter {
			return nil, c.markBroken(sandbox.ErrLimit, fmt.Sprintf("the server sent %d messages that golem had not asked for", maxChatter))
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

// takeRequest reports whether a request with this id waits for an answer, and removes it.
func (c *conn) takeRequest(id json.RawMessage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.waits[string(id)]
	delete(c.waits, string(id))
	return asked
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
			return trimLine(whole), nil
		case errors.Is(err, bufio.ErrBufferFull):
		default: // an incomplete last line is not a message
			return nil, io.EOF
		}
	}
}

// trimLine returns a line without its line end and without blanks around it.
func trimLine(line []byte) []byte {
	blank := func(b byte) bool { return b == '\n' || b == '\r' || b == ' ' || b == '\t' }
	for len(line) > 0 && blank(line[len(line)-1]) {
		line = line[:len(line)-1]
	}
	for len(line) > 0 && blank(line[0]) {
		line = line[1:]
	}
	return line
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
	if request, ok := message.(*jsonrpc.Request); ok && request.ID.IsValid() {
		id, err := json.Marshal(request.ID.Raw())
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.waits[string(id)] = true
		c.mu.Unlock()
	}
	return c.write(data)
}

func (c *conn) write(line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.process.Write(append(line, '\n'))
	return err
}

// markBroken records why nothing more is read from the server.
func (c *conn) markBroken(code sandbox.Code, why string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = &sandbox.Error{Code: code, Hint: why}
	return c.err
}

// brokenError returns the error that broken recorded, nil if there is none.
func (c *conn) brokenError() *sandbox.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
