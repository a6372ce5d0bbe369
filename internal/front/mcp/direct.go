package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	foreign "github.com/golem-forge/golem/internal/work/toolset/foreign"
)

// A direct call is a message that asks for a tool and holds only its name and arguments.
// Most messages are direct calls. They pass to the gate from here, because the library
// would take longer for each than the gate does. The library handles all other messages.
type direct struct {
	id   []byte // as written
	name string
	args []byte
}

// parseDirect returns the direct call in a line, if the line is one. Each part must occur
// exactly once, in its usual spelling. The library interprets all other lines.
func parseDirect(data []byte) (d direct, ok bool) {
	data = bytes.Trim(data, blanks)
	levels, values := foreign.Shape(data)
	if len(data) == 0 || data[0] != '{' || levels > foreign.MaxLevels || values > foreign.MaxValues || !json.Valid(data) || filecontent.CheckJSON(data) != nil {
		return d, false
	}
	var version, method, params []byte
	if !split(data, part{"jsonrpc", &version}, part{"id", &d.id}, part{"method", &method}, part{"params", &params}) {
		return d, false
	}
	if string(version) != `"2.0"` || string(method) != `"tools/call"` || params[0] != '{' || !isPlainID(d.id) {
		return d, false
	}
	var name []byte
	if !split(params, part{"name", &name}, part{"arguments", &d.args}) || !isPlainText(name) {
		return d, false
	}
	d.name = string(name[1 : len(name)-1])
	return d, d.args[0] == '{'
}

// A part is a member of a JSON object and the place to store its value.
type part struct {
	name string
	into *[]byte
}

// split finds the members of a valid JSON object. It reports whether they are exactly the
// parts.
func split(object []byte, parts ...part) bool {
	n := 0
	for name, value := range members(object) {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == string(name[1:len(name)-1]) })
		if i < 0 || *parts[i].into != nil {
			return false
		}
		*parts[i].into = value
		n++
	}
	return n == len(parts)
}

// members returns the members of a valid JSON object, names and values as written.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for at := spaceEnd(object, 1); at < len(object) && object[at] == '"'; at = spaceEnd(object, at+1) {
			end := valueEnd(object, at)
			name := object[at:end]
			at = spaceEnd(object, spaceEnd(object, end)+1) // after the colon
			end = valueEnd(object, at)
			if !yield(name, object[at:end]) {
				return
			}
			at = spaceEnd(object, end) // a comma or the end
		}
	}
}

func spaceEnd(data []byte, at int) int {
	for at < len(data) && (data[at] == ' ' || data[at] == '\t' || data[at] == '\r' || data[at] == '\n') {
		at++
	}
	return at
}

// valueEnd returns the end of the value that begins at a position of valid JSON.
func valueEnd(data []byte, at int) int {
	depth := 0
	for ; at < len(data); at++ {
		switch data[at] {
		case '"':
			for at++; data[at] != '"'; at++ {
				if data[at] == '\\' {
					at++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth == 0 { // a number or a literal
				for at < len(data) && !bytes.ContainsRune([]byte(" \t\r\n,}]"), rune(data[at])) {
					at++
				}
				return at
			}
			continue
		}
		if depth == 0 {
			return at + 1
		}
	}
	return at
}

// isPlainID reports whether an id is written in the form that keyOf returns.
func isPlainID(id []byte) bool {
	if id[0] == '"' {
		return isPlainText(id)
	}
	for _, b := range id {
		if b < '0' || b > '9' {
			return false
		}
	}
	return len(id) <= 15
}

// isPlainText reports whether a JSON string holds only letters, digits, - and _, and is not
// longer than maxName.
func isPlainText(text []byte) bool {
	if len(text) < 3 || len(text) > maxName || text[0] != '"' {
		return false
	}
	for _, b := range text[1 : len(text)-1] {
		if (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'z') && b != '-' && b != '_' {
			return false
		}
	}
	return true
}

// readDirect reads until it finds a direct call that can start at once. It passes all
// other lines to Read. It returns false at the end of the input.
func (c *conn) readDirect() (d started, ok bool) {
	for !c.over {
		l := readLine(c.input)
		if d, ok := c.start(l); ok {
			return d, true
		}
		c.over = l.err != nil
		c.ahead.Add(1)
		select {
		case c.lines <- l:
		case <-c.closed:
			c.over = true
		}
	}
	return started{}, false
}

// A started is a direct call that runs.
type started struct {
	direct
	ctx    context.Context
	cancel context.CancelFunc
	turn   *turn // nil for none
}

// start starts the direct call in a line. It does so only if the client is initialized,
// no other line is ahead, and a slot is free.
func (c *conn) start(l line) (s started, ok bool) {
	do := c.direct.Load()
	if do == nil || l.data == nil || c.ahead.Load() > 0 {
		return s, false
	}
	if s.direct, ok = parseDirect(l.data); !ok || !isInitialized(do.session) {
		return s, false
	}
	size := weigh(len(l.data))
	if !c.slots.tryEnter(size) {
		return s, false
	}
	s.ctx, s.cancel = context.WithCancel(do.ctx)
	if !c.recordCall(string(s.id), standing{under: true, size: size, cancel: s.cancel}) {
		s.cancel()
		c.slots.leave(size)
		return s, false
	}
	s.turn = c.inTurn(tool.Call{Tool: s.name, Args: s.args})
	return s, true
}

// isInitialized reports whether a client has initialized a session of a version before
// multiRound. Only there a call needs nothing except its name and arguments.
func isInitialized(session *mcp.ServerSession) bool {
	p := session.InitializeParams()
	return p != nil && p.ProtocolVersion < multiRound
}

// runCall runs a call and writes its answer with the help of a buffer. It records whether
// the call was quick.
func (c *conn) runCall(s started, b *bytes.Buffer) {
	begun := time.Now()
	defer s.cancel()
	do := c.direct.Load()
	result := do.call(s.ctx, &mcp.CallToolRequest{Session: do.session, Params: &mcp.CallToolParamsRaw{Name: s.name, Arguments: s.args}}, s.turn)
	if b.Reset(); b.Cap() > maxReused {
		*b = bytes.Buffer{}
	}
	b.WriteString(`{"jsonrpc":"2.0","id":`)
	b.Write(s.id)
	b.WriteString(`,"result":`)
	writeResult(b, result)
	b.WriteString("}\n")
	if c.writeLine(b.Bytes()) != nil {
		c.Close() // the client is gone
	}
	c.removeAnswered(string(s.id))
	c.setQuick(s.name, time.Since(begun) < quickly)
}

// maxReused is the largest capacity of a buffer that make reuses, in bytes.
const maxReused = 64 << 10

// A directly holds what direct calls need.
type directly struct {
	ctx     context.Context
	session *mcp.ServerSession
	call    func(context.Context, *mcp.CallToolRequest, *turn) *mcp.CallToolResult
}

// writeResult writes a result as the library would. Strings and bytes always have a JSON
// form.
func writeResult(b *bytes.Buffer, r *mcp.CallToolResult) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok || len(r.Content) > 1 {
		e.Encode(r)
		b.Truncate(b.Len() - len("\n"))
		return
	}
	b.Grow(len(text.Text) + len(text.Text)/8 + 64)
	b.WriteString(`{"content":[{"type":"text","text":`)
	e.Encode(text.Text)
	b.Truncate(b.Len() - len("\n"))
	b.WriteString(`}]`)
	if r.IsError {
		b.WriteString(`,"isError":true`)
	}
	b.WriteByte('}')
}
