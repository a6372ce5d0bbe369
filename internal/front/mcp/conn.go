package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/tool"
	foreign "github.com/golem-forge/golem/internal/toolset/foreign"
)

// grace is how long calls may still take when the client has nothing more to say.
const grace = 2 * time.Second

// A conn is the connection with a client over two streams, one message a line. A line
// that is no message is answered with an error, and the next one is read. At most as many
// calls as there are slots are let through at a time; others wait in line, so that a
// client which does not read its answers takes no memory for them. What is no call, an
// answer of the user or the end of a call, is let through at once.
type conn struct {
	in    io.ReadCloser
	out   io.Writer
	slots slots
	stop  <-chan struct{} // ends it

	inTurn func(tool.Call) *turn // gives a call its turn, nil for none

	direct atomic.Pointer[directly] // nil until there is a session

	lead  lead
	input *bufio.Reader // whoever leads uses this, and over
	over  bool

	lines   chan line     // to Read
	ahead   atomic.Int32  // lines that were handed on, and calls of them that wait for a slot
	idle    chan struct{} // something was answered, when there is nothing more to read
	closing sync.Once
	closed  chan struct{}

	writing sync.Mutex // one does at a time

	// Only Read uses these.
	queue []waiting
	held  int // bytes of the queue
	ended <-chan time.Time

	mu     sync.Mutex
	calls  map[string]standing // not answered yet
	under  int                 // how many of them are under way
	quick  map[string]bool     // the tools whose last call was
	ending bool                // there is nothing more to read
}

// A standing is how far a call has come.
type standing struct {
	under  bool               // it is let through
	cancel context.CancelFunc // ends it, where the library does not
	turn   *turn              // that its request carries, nil for none
}

// A waiting is a call that waits for a slot.
type waiting struct {
	*jsonrpc.Request
	key  string
	size int
}

func newConn(in io.ReadCloser, out io.Writer, s slots, stop <-chan struct{}) *conn {
	c := &conn{in: in, out: out, slots: s, stop: stop, lead: lead{free: make(chan struct{}, 1)}, input: bufio.NewReaderSize(in, 64<<10), lines: make(chan line),
		idle: make(chan struct{}, 1), closed: make(chan struct{}), calls: make(map[string]standing), quick: make(map[string]bool)}
	c.lead.watch = time.AfterFunc(time.Hour, c.lookAfter)
	c.lead.watch.Stop()
	// A read of standard input cannot be ended; the goroutine ends with it.
	c.pass()
	return c
}

// Connect implements mcp.Transport.
func (c *conn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection.
func (c *conn) SessionID() string { return "" }

// Close implements mcp.Connection.
func (c *conn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		c.in.Close()
	})
	return nil
}

// Read implements mcp.Connection.
func (c *conn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		if len(c.queue) > 0 {
			select {
			case <-c.slots.free:
				return c.next(), nil
			default:
			}
		}
		if c.ended != nil && len(c.queue) == 0 && c.running() == 0 {
			return nil, io.EOF
		}
		lines, free := c.lines, c.slots.free
		if c.held > maxHeld || c.ended != nil {
			lines = nil
		}
		if len(c.queue) == 0 {
			free = nil
		}
		select {
		case <-c.stop:
			return nil, io.EOF
		case <-c.closed:
			return nil, io.EOF
		case <-c.ended:
			return nil, io.EOF
		case <-c.idle:
		case <-free:
			return c.next(), nil
		case l := <-lines:
			if l.err != nil {
				c.ended = time.After(grace)
				c.mu.Lock()
				c.ending = true
				c.mu.Unlock()
				continue
			}
			message, err := c.take(l)
			c.ahead.Add(-1)
			if err != nil {
				return nil, err
			}
			if message != nil {
				return message, nil
			}
		}
	}
}

// take returns the message of a line, nil where there is none that continues at once.
func (c *conn) take(l line) (jsonrpc.Message, error) {
	refuse := func(id json.RawMessage, code int, why string) (jsonrpc.Message, error) {
		if len(id) == 0 {
			id = json.RawMessage("null")
		}
		text, err := json.Marshal(why)
		if err != nil {
			return nil, err
		}
		return nil, c.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, text))
	}
	data := bytes.Trim(l.data, blanks)
	levels, values := foreign.Shape(data)
	switch {
	case l.long != nil:
		return refuse(idIn(l.long), jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message has at most %d bytes; send less at a time", maxMessage))
	case len(data) == 0:
		return nil, nil
	case data[0] == '[':
		return refuse(nil, jsonrpc.CodeInvalidRequest, "batches are not part of the protocol any more; send one message a line")
	case levels > foreign.MaxLevels:
		return refuse(nil, jsonrpc.CodeInvalidRequest, errLevels.Error())
	}
	message, err := decode(data)
	if err == nil && values > foreign.MaxValues {
		err = errValues
	}
	if err != nil && !json.Valid(data) {
		return refuse(nil, jsonrpc.CodeParseError, "this line is not JSON; send one message a line")
	}
	if why := refusal(""); errors.As(err, &why) {
		var id json.RawMessage
		if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() {
			id = json.RawMessage(keyOf(request.ID))
		}
		return refuse(id, jsonrpc.CodeInvalidRequest, err.Error())
	}
	if err != nil {
		return refuse(nil, jsonrpc.CodeInvalidRequest, "this is no message of JSON-RPC 2.0")
	}
	request, ok := message.(*jsonrpc.Request)
	if !ok {
		return message, nil
	}
	if !request.IsCall() {
		c.withdraw(request)
		return request, nil
	}
	key := keyOf(request.ID)
	if !c.note(key, standing{}) {
		return refuse(json.RawMessage(key), jsonrpc.CodeInvalidRequest, "a call with this id is under way; each has its own")
	}
	c.queue = append(c.queue, waiting{request, key, len(data)})
	c.ahead.Add(1)
	c.held += len(data)
	return nil, nil
}

// next lets the first of the calls that wait through.
func (c *conn) next() *jsonrpc.Request {
	first := c.queue[0]
	c.queue[0] = waiting{}
	c.queue = c.queue[1:]
	c.held -= first.size
	s := standing{under: true, turn: c.inTurn(callIn(first.Request))}
	if s.turn != nil {
		first.Request.Extra = s.turn.carrier()
	}
	c.ahead.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[first.key] = s
	c.under++
	return first.Request
}

// note takes note of a call, and reports whether there is none by this id already.
func (c *conn) note(key string, s standing) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.calls[key]; there {
		return false
	}
	c.calls[key] = s
	if s.under {
		c.under++
	}
	return true
}

// running returns how many calls are under way.
func (c *conn) running() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.under
}

// withdraw takes a call out of the line that the client does not want any more, or ends
// it. What the library has begun, it ends.
func (c *conn) withdraw(r *jsonrpc.Request) {
	var p map[string]json.RawMessage
	if r.Method != "notifications/cancelled" || json.Unmarshal(r.Params, &p) != nil {
		return
	}
	id, err := idOf(p["requestId"])
	if err != nil {
		return
	}
	key := keyOf(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.calls[key].cancel; cancel != nil {
		cancel()
	}
	i := slices.IndexFunc(c.queue, func(w waiting) bool { return w.key == key })
	if i < 0 {
		return
	}
	c.held -= c.queue[i].size
	c.queue = slices.Delete(c.queue, i, i+1)
	c.ahead.Add(-1)
	delete(c.calls, key)
}

// Write implements mcp.Connection.
func (c *conn) Write(_ context.Context, message jsonrpc.Message) error {
	response, ok := message.(*jsonrpc.Response)
	if ok && response.Error != nil {
		response.Error = plainly(response.Error)
	}
	data, err := encode(message)
	if err != nil && ok { // an error from Write ends the connection
		data, err = encode(&jsonrpc.Response{ID: response.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the answer has no JSON form"}})
	}
	if err != nil {
		return err
	}
	err = c.write(data)
	if ok {
		c.answered(keyOf(response.ID))
	}
	return err
}

// answered makes room for another call.
func (c *conn) answered(key string) {
	c.mu.Lock()
	was, ending := c.calls[key], c.ending
	if was.under {
		delete(c.calls, key)
		c.under--
	}
	c.mu.Unlock()
	if was.turn != nil {
		was.turn.drop()
	}
	if was.under {
		c.slots.leave()
	}
	if !ending {
		return
	}
	select {
	case c.idle <- struct{}{}:
	default:
	}
}

func (c *conn) write(data []byte) error { return c.writeLine(append(data, '\n')) }

func (c *conn) writeLine(data []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.out.Write(data)
	return err
}
