package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/tool"
	foreign "github.com/golem-forge/golem/internal/toolset/mcp"
)

// What a client may send.
const (
	maxMessage = 16 << 20 // bytes of a message
	maxNested  = 64       // levels of one
	maxLine    = 64 << 20 // bytes of calls that wait for their turn
	maxShown   = 4 << 10  // bytes at each end of a message that is too long, to find its id in
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

	inTurn func(tool.Call) (*turn, *mcp.RequestExtra) // gives a call its turn

	direct atomic.Pointer[directly] // nil until there is a session

	lead  lead
	input *bufio.Reader // whoever leads uses this, and over
	over  bool

	lines   chan line
	ahead   atomic.Int32  // lines that were handed on, and calls of them that wait
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
	turn   *turn              // nil for none
}

// A line is what was read.
type line struct {
	data []byte
	long []byte // of one that is too long, both ends
	err  error
}

// A waiting is a call that waits for its turn.
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
		if c.held > maxLine || c.ended != nil {
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

// take returns the message of a line, nil where there is none that goes on at once.
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
	data := bytes.TrimSpace(l.data)
	switch {
	case l.long != nil:
		return refuse(idIn(l.long), jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message has at most %d bytes; send less at a time", maxMessage))
	case len(data) == 0:
		return nil, nil
	case data[0] == '[':
		return refuse(nil, jsonrpc.CodeInvalidRequest, "batches are not part of the protocol any more; send one message a line")
	case foreign.Nested(data) > maxNested:
		return refuse(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message has at most %d levels", maxNested))
	}
	message, err := decode(data)
	if err != nil && !json.Valid(data) {
		return refuse(nil, jsonrpc.CodeParseError, "this line is not JSON; send one message a line")
	}
	if errors.Is(err, errID) {
		return refuse(nil, jsonrpc.CodeInvalidRequest, err.Error())
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
	id, err := json.Marshal(request.ID.Raw())
	if err != nil {
		return nil, err
	}
	key := string(id)
	if !c.note(key, standing{}) {
		return refuse(id, jsonrpc.CodeInvalidRequest, "a call with this id is under way; each has its own")
	}
	c.queue = append(c.queue, waiting{request, key, len(data)})
	c.ahead.Add(1)
	c.held += len(data)
	return nil, nil
}

// errID says which ids there are. The library would answer with another number.
var errID = errors.New("the id of a call is a text or a whole number, of at most 2^53")

// decode returns the message that a line holds. The library would do it, with ten times
// the memory. Names count as they are written: who looks at a message on its way must find
// in it what is found here.
func decode(data []byte) (jsonrpc.Message, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	if m["method"] == nil {
		return jsonrpc.DecodeMessage(data)
	}
	var version, method string
	for key, value := range map[string]*string{"jsonrpc": &version, "method": &method} {
		if text, ok := m[key]; ok {
			if err := json.Unmarshal(text, value); err != nil {
				return nil, err
			}
		}
	}
	id, err := idOf(m["id"])
	if err == nil && version != "2.0" {
		err = errors.New("another version")
	}
	return &jsonrpc.Request{ID: id, Method: method, Params: m["params"]}, err
}

// idOf returns the id that is written in a message, none where there is none.
func idOf(text json.RawMessage) (id jsonrpc.ID, err error) {
	var name any
	if text != nil {
		err = json.Unmarshal(text, &name)
	}
	if n, ok := name.(float64); ok && (n != math.Trunc(n) || math.Abs(n) > 1<<53) {
		err = errID
	}
	if err != nil {
		return id, err
	}
	return jsonrpc.MakeID(name)
}

// encode returns a message as a line. What was done is JSON already, and is not read
// again.
func encode(message jsonrpc.Message) ([]byte, error) {
	r, ok := message.(*jsonrpc.Response)
	if !ok || r.Error != nil || len(r.Result) == 0 || bytes.IndexByte(r.Result, '\n') >= 0 {
		return jsonrpc.EncodeMessage(message)
	}
	id, err := json.Marshal(r.ID.Raw())
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, len(r.Result)+len(id)+64)
	data = append(append(data, `{"jsonrpc":"2.0","id":`...), id...)
	return append(append(append(data, `,"result":`...), r.Result...), '}'), nil
}

// next lets the first of the calls that wait through.
func (c *conn) next() *jsonrpc.Request {
	first := c.queue[0]
	c.queue[0] = waiting{}
	c.queue = c.queue[1:]
	c.held -= first.size
	s := standing{under: true}
	var extra *mcp.RequestExtra
	if s.turn, extra = c.inTurn(callIn(first.Request)); extra != nil {
		first.Request.Extra = extra
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
	key, err := keyOf(p["requestId"])
	if err != nil {
		return
	}
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

// keyOf returns an id in the one way in which it is kept, however it is written.
func keyOf(text json.RawMessage) (string, error) {
	id, err := idOf(text)
	if err != nil {
		return "", err
	}
	key, err := json.Marshal(id.Raw())
	return string(key), err
}

// Write implements mcp.Connection.
func (c *conn) Write(_ context.Context, message jsonrpc.Message) error {
	response, ok := message.(*jsonrpc.Response)
	if ok && response.Error != nil {
		response.Error = plainly(response.Error)
	}
	data, err := encode(message)
	if err != nil {
		return err
	}
	err = c.write(data)
	if ok {
		key, _ := json.Marshal(response.ID.Raw())
		c.answered(string(key))
	}
	return err
}

// plainly returns an error of the library's as a client reads it: with a code, and
// without the names of its types.
func plainly(err error) error {
	text := err.Error()
	var known *jsonrpc.Error
	switch {
	case strings.Contains(text, "unmarshaling "):
		what := "they are an object, with the members that the protocol names"
		if _, place, ok := strings.Cut(text, " into Go struct field "); ok {
			place, _, _ = strings.Cut(place, " ")
			if parts := strings.SplitN(place, ".", 3); len(parts) == 3 { // package, type, member
				what = parts[2] + " is not of the type that the protocol says"
			}
		}
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid params: " + what}
	case errors.As(err, &known) && known.Code != 0:
		return err
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: text}
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

// readLine reads a line. Of one that is longer than a message may be it keeps the ends.
func readLine(in *bufio.Reader) line {
	var whole, tail []byte
	size := 0
	for {
		part, err := in.ReadSlice('\n')
		if size += len(part); size <= maxMessage {
			whole = append(whole, part...)
		} else {
			tail = append(tail, part...)
			tail = slices.Delete(tail, 0, max(0, len(tail)-maxShown))
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil: // what it has begun to write is no message
			return line{err: io.EOF}
		case size <= maxMessage:
			return line{data: whole}
		}
		return line{long: slices.Concat(whole[:maxShown], []byte("\n"), tail)}
	}
}

// idPlaces are the places of an id in a message of which only the ends are known.
var idPlaces = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("[^"\\]{1,100}"|-?\d{1,18})\s*,`),
		regexp.MustCompile(`,\s*"id"\s*:\s*("[^"\\]{1,100}"|-?\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`),
	}
})

// idIn finds the id of a message that is too long, where clients write it: so the one
// that waits for an answer gets it.
func idIn(ends []byte) json.RawMessage {
	for _, place := range idPlaces() {
		if m := place.FindSubmatch(ends); m != nil {
			return m[1]
		}
	}
	return nil
}

// Slots are for calls that are under way.
type slots struct {
	free chan struct{}
	done <-chan struct{}
}

// maxCalls is how many calls are under way at a time.
const maxCalls = 64

func newSlots(done <-chan struct{}) slots {
	s := slots{make(chan struct{}, maxCalls), done}
	for range maxCalls {
		s.free <- struct{}{}
	}
	return s
}

// enter waits for a slot.
func (s slots) enter() {
	select {
	case <-s.free:
	case <-s.done:
	}
}

// leave frees a slot.
func (s slots) leave() {
	select {
	case s.free <- struct{}{}:
	case <-s.done:
	}
}
