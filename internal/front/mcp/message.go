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
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/people/visible"
	foreign "github.com/golem-forge/golem/internal/work/toolset/foreign"
)

// The limits for messages of a client.
const (
	maxMessage = 16 << 20 // bytes of a message
	maxShown   = 4 << 10  // bytes at each end of a message that is too long, to find its id
	// maxHello limits the bytes of a client's initialize parameters. golem keeps them for
	// the whole session, in many times the memory.
	maxHello = 64 << 10
	maxName  = 1 << 10 // bytes of an id or a method, which answers repeat
)

// blanks are the characters that JSON treats as white space.
const blanks = " \t\r\n"

// A line is a line of the input or the end of it.
type line struct {
	data []byte
	long []byte // both ends of a line that is too long
	err  error
}

// readLine reads a line. It keeps only both ends of a line that is longer than
// maxMessage.
func readLine(in *bufio.Reader) line {
	var parts [][]byte // joined at the end, because a slice that grows leaves several times its size
	var tail []byte
	size := 0
	for {
		part, err := in.ReadSlice('\n')
		if size += len(part); size <= maxMessage {
			parts = append(parts, bytes.Clone(part))
		} else {
			tail = append(tail, part...)
			tail = slices.Delete(tail, 0, max(0, len(tail)-maxShown))
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil: // an incomplete last line is not a message
			return line{err: io.EOF}
		case size > maxMessage:
			return line{long: slices.Concat(parts[0][:min(len(parts[0]), maxShown)], []byte("\n"), tail)}
		case len(parts) == 1:
			return line{data: parts[0]}
		}
		return line{data: slices.Concat(parts...)}
	}
}

// A refusal is the reason why golem refuses a message, in words for the client.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

var (
	// errID describes the valid ids. The library would answer other ids with a different
	// number.
	errID     = refusal(fmt.Sprintf("the id of a call is a text of at most %d bytes, or a whole number of at most 2^53", maxName))
	errLevels = refusal(fmt.Sprintf("a message has at most %d levels", foreign.MaxLevels))
	errValues = refusal(fmt.Sprintf("a message has at most %d values; send less at a time", foreign.MaxValues))
	errMethod = refusal(fmt.Sprintf("there is no method whose name has more than %d bytes", maxName))
	errPlain  = refusal("the name of a method has printable characters only")
	errHello  = refusal(fmt.Sprintf("what a client says of itself when it begins has at most %d bytes", maxHello))
)

// decode returns the message in a line. The library would need ten times the memory for
// it. Member names must match exactly, so that a proxy that inspects a message finds the
// same members.
func decode(data []byte) (jsonrpc.Message, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	if m["method"] == nil {
		if bad := filecontent.CheckJSON(data); bad != nil { // the call that waits for this response gets the error
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
		if bad := filecontent.CheckJSON(data); bad != nil {
			err = refusal("the message: " + bad.Error())
		}
	}
	return &jsonrpc.Request{ID: id, Method: method, Params: m["params"]}, err
}

// idOf returns the id in a message. It returns the zero ID if the message has none.
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

// keyOf returns the canonical form of an id.
func keyOf(id jsonrpc.ID) string {
	key, _ := json.Marshal(id.Raw()) // strings and numbers always have a JSON form
	return string(key)
}

// encode returns a message as a line. It does not parse a result again, because that is
// JSON already.
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

// plainError returns an error of the library in a form for clients. It has a code and no
// names of Go types, and it does not repeat the whole message of the client.
func plainError(err error) error {
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

// idPlaces match the id in a message of which only both ends are known.
var idPlaces = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*("[^"\\]{1,100}"|-?(?:0|[1-9]\d{0,14}))\s*,`),
		regexp.MustCompile(`,\s*"id"\s*:\s*("[^"\\]{1,100}"|-?(?:0|[1-9]\d{0,14}))\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`),
	}
})

// findID finds the id of a message that is too long, in the places where clients write it.
// So the call that waits for an answer gets it.
func findID(ends []byte) json.RawMessage {
	for _, place := range idPlaces() {
		if m := place.FindSubmatch(ends); m != nil {
			return m[1]
		}
	}
	return nil
}

// isPrintable reports whether text can be quoted without escapes other than \" and \\,
// which Go and JSON write alike.
func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
}
