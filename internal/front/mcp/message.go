package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/golem-forge/golem/internal/tool"
	foreign "github.com/golem-forge/golem/internal/toolset/foreign"
	"github.com/golem-forge/golem/internal/visible"
)

// What a client may send.
const (
	maxMessage = 16 << 20 // bytes of a message
	maxShown   = 4 << 10  // bytes at each end of a message that is too long, to find its id in
	// maxHello is how many bytes a client says of itself at most: they are kept as long as
	// its session, in many times the memory.
	maxHello = 64 << 10
	maxName  = 1 << 10 // bytes of an id or a method, which answers repeat
)

// blanks are what JSON takes for one.
const blanks = " \t\r\n"

// A line is what was read.
type line struct {
	data []byte
	long []byte // of one that is too long, both ends
	err  error
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

// A refusal is why a message is not taken, in words for the client.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

var (
	// errID says which ids there are. The library would answer with another number.
	errID     = refusal(fmt.Sprintf("the id of a call is a text of at most %d bytes, or a whole number of at most 2^53", maxName))
	errLevels = refusal(fmt.Sprintf("a message has at most %d levels", foreign.MaxLevels))
	errValues = refusal(fmt.Sprintf("a message has at most %d values; send less at a time", foreign.MaxValues))
	errMethod = refusal(fmt.Sprintf("there is no method whose name has more than %d bytes", maxName))
	errPlain  = refusal("the name of a method has printable characters only")
	errHello  = refusal(fmt.Sprintf("what a client says of itself when it begins has at most %d bytes", maxHello))
)

// decode returns the message that a line holds. The library would do it, with ten times
// the memory. Names count as they are written: who looks at a message on its way must find
// in it what is found here.
func decode(data []byte) (jsonrpc.Message, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	if m["method"] == nil {
		if bad := tool.CheckJSON(data); bad != nil { // whoever waits for it is told
			id, err := idOf(m["id"])
			return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the message: " + bad.Error()}}, err
		}
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
	switch {
	case err != nil:
	case version != "2.0":
		err = errors.New("another version")
	case len(method) > maxName:
		err = errMethod
	case !isPrintable(method):
		err = errPlain
	case method == "initialize" && len(m["params"]) > maxHello:
		err = errHello
	default:
		if bad := tool.CheckJSON(data); bad != nil {
			err = refusal("the message: " + bad.Error())
		}
	}
	return &jsonrpc.Request{ID: id, Method: method, Params: m["params"]}, err
}

// idOf returns the id that is written in a message, none where there is none.
func idOf(text json.RawMessage) (id jsonrpc.ID, err error) {
	var name any
	if text != nil {
		err = json.Unmarshal(text, &name)
	}
	if n, ok := name.(float64); ok && (n != math.Trunc(n) || math.Abs(n) > 1<<53) || len(text) > maxName {
		err = errID
	}
	if err != nil {
		return id, err
	}
	return jsonrpc.MakeID(name)
}

// keyOf returns an id in the one way in which it is kept, however it was written.
func keyOf(id jsonrpc.ID) string {
	key, _ := json.Marshal(id.Raw()) // texts and numbers always have a JSON form
	return string(key)
}

// encode returns a message as a line. What was done is JSON already, and is not read
// again.
func encode(message jsonrpc.Message) ([]byte, error) {
	r, ok := message.(*jsonrpc.Response)
	if !ok || r.Error != nil || len(r.Result) == 0 || bytes.IndexByte(r.Result, '\n') >= 0 {
		return jsonrpc.EncodeMessage(message)
	}
	id := keyOf(r.ID)
	data := make([]byte, 0, len(r.Result)+len(id)+64)
	data = append(append(data, `{"jsonrpc":"2.0","id":`...), id...)
	return append(append(append(data, `,"result":`...), r.Result...), '}'), nil
}

// plainly returns an error of the library's as a client reads it: with a code, without the
// names of its types, and without all of what the client has sent.
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
	case errors.As(err, &known) && known.Code != 0 && len(text)+len(known.Data) <= maxShown:
		return err
	}
	code := int64(jsonrpc.CodeInvalidRequest)
	if known != nil && known.Code != 0 {
		code = known.Code
	}
	return &jsonrpc.Error{Code: code, Message: visible.Cut(text, maxName)}
}

// idPlaces are the places of an id in a message of which only the ends are known.
var idPlaces = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("[^"\\]{1,100}"|-?(?:0|[1-9]\d{0,14}))\s*,`),
		regexp.MustCompile(`,\s*"id"\s*:\s*("[^"\\]{1,100}"|-?(?:0|[1-9]\d{0,14}))\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`),
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
