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

	"github.com/golem-forge/golem/internal/decide/tool"
	foreign "github.com/golem-forge/golem/internal/work/toolset/foreign"
)

// grace is how long calls may still run after the end of the client's input.
const grace = 2 * time.Second

// A conn is the connection with a client over two streams, one message a line. It answers
// a line that is not a message with an error and reads the next one. It lets at most as
// many calls through as there are slots. Other calls wait in a queue, so a client that
// does not read its answers takes no memory for them. Messages that are not calls pass at
// once, such as an answer of the user or a cancellation.
type conn struct {
	in    io.ReadCloser
	out   io.Writer
	slots *slots
	stop  <-chan struct{} // closed when the connection must end

	inTurn func(tool.Call) *turn // returns the turn of a call, nil for none

	direct atomic.Pointer[directly] // nil until there is a session

	lead  lead
	input *bufio.Reader // only the leader uses input and over
	over  bool

	lines   chan line     // lines for Read
	ahead   atomic.Int32  // lines sent to Read, and their calls that wait for a slot
	idle    chan struct{} // a call was answered after the end of the input
	closing sync.Once
	closed  chan struct{}

	writing sync.Mutex // held while a line is written

	// Only Read uses these.
	queue  []waiting
	held   int     // bytes in the queue
	ticket *ticket // of the first call of the queue; nil for none
	ended  <-chan time.Time

	mu     sync.Mutex
	calls  map[string]standing // calls without an answer yet
	under  int                 // how many of them run
	quick  map[string]bool     // whether the last call of a tool was quick
	ending bool                // the input has ended
}

// A standing is the state of a call.
type standing struct {
	under  bool               // the call runs
	size   int                // the bytes that it has of the slots
	cancel context.CancelFunc // cancels a direct call; nil if the library runs the call
	turn   *turn              // the turn that its request carries, nil for none
}

// A waiting is a call that waits for a slot.
type waiting struct {
	*jsonrpc.Request
	key  string
	size int
}

func newConn(in io.ReadCloser, out io.Writer, s *slots, stop <-chan struct{}) *conn {
	c := &conn{in: in, out: out, slots: s, stop: stop, lead: lead{free: make(chan struct{}, 1)}, input: bufio.NewReaderSize(in, 64<<10), lines: make(chan line),
		idle: make(chan struct{}, 1), closed: make(chan struct{}), calls: make(map[string]standing), quick: make(map[string]bool)}
	c.lead.watch = time.AfterFunc(time.Hour, c.checkLeader)
	c.lead.watch.Stop()
	// Nothing can interrupt a read of stdin. The goroutine ends when that read returns.
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
		var ready <-chan struct{}
		if len(c.queue) > 0 {
			if c.ticket == nil {
				c.ticket = c.slots.ask(weigh(c.queue[0].size))
			}
			ready = c.ticket.ready
			select {
			case <-ready:
				return c.next(), nil
			default:
			}
		}
		if c.ended != nil && len(c.queue) == 0 && c.countRunning() == 0 {
			return nil, io.EOF
		}
		lines := c.lines
		if c.held > maxHeld || c.ended != nil {
			lines = nil
		}
		select {
		case <-c.stop:
			return nil, io.EOF
		case <-c.closed:
			return nil, io.EOF
		case <-c.ended:
			return nil, io.EOF
		case <-c.idle:
		case <-ready:
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

// take returns the message of a line, or nil if no message passes at once.
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
		return refuse(findID(l.long), jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message has at most %d bytes; send less at a time", maxMessage))
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
		c.cancelCall(request)
		return request, nil
	}
	key := keyOf(request.ID)
	if !c.recordCall(key, standing{}) {
		return refuse(json.RawMessage(key), jsonrpc.CodeInvalidRequest, "a call with this id is under way; each has its own")
	}
	c.queue = append(c.queue, waiting{request, key, len(data)})
	c.ahead.Add(1)
	c.held += len(data)
	return nil, nil
}

// next removes the first call from the queue and marks it as running.
func (c *conn) next() *jsonrpc.Request {
	first := c.queue[0]
	c.queue[0] = waiting{}
	c.queue = c.queue[1:]
	c.held -= first.size
	c.ticket = nil
	s := standing{under: true, size: weigh(first.size), turn: c.inTurn(parseCall(first.Request))}
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

// recordCall records a call. It reports whether the id was free.
func (c *conn) recordCall(key string, s standing) bool {
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

// countRunning returns how many calls run.
func (c *conn) countRunning() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.under
}

// cancelCall handles a cancellation by the client. It removes the call from the queue or
// cancels it. The library cancels the calls that it has started.
func (c *conn) cancelCall(r *jsonrpc.Request) {
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
	if i == 0 && c.ticket != nil {
		c.slots.giveUp(c.ticket)
		c.ticket = nil
	}
	c.queue = slices.Delete(c.queue, i, i+1)
	c.ahead.Add(-1)
	delete(c.calls, key)
}

// Write implements mcp.Connection.
func (c *conn) Write(_ context.Context, message jsonrpc.Message) error {
	response, ok := message.(*jsonrpc.Response)
	if ok && response.Error != nil {
		response.Error = plainError(response.Error)
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
		c.removeAnswered(keyOf(response.ID))
	}
	return err
}

// removeAnswered removes a call that was answered and frees its slot.
func (c *conn) removeAnswered(key string) {
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
		c.slots.leave(was.size)
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
