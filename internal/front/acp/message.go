package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/work/toolset/foreign"
)

const (
	// maxMessage is the most bytes of a message. Prompts and tool calls may contain images.
	maxMessage = 32 << 20
	// maxID is the most bytes of an id.
	maxID = 256
)

// The error codes of JSON-RPC that golem answers with.
const (
	codeParse   = -32700
	codeInvalid = -32600
	codeMethod  = -32601
	codeParams  = -32602
	codeEnded   = -32000
)

// errLong is the error for a line with more than maxMessage bytes.
var errLong = fmt.Errorf("a message has at most %d MiB", maxMessage>>20)

// readLine reads a line without its end. It keeps nothing of a line that is too long, and
// returns errLong for it. An incomplete last line is not a message.
func readLine(in *bufio.Reader) ([]byte, error) {
	var text []byte
	size := 0
	for {
		part, err := in.ReadSlice('\n')
		if size += len(part); size <= maxMessage {
			text = append(text, part...)
		} else {
			text = nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, io.EOF
		case size > maxMessage:
			return nil, errLong
		default:
			return bytes.TrimSpace(text), nil
		}
	}
}

// A message is a message of JSON-RPC.
type message struct {
	line   []byte // as it came
	fields map[string]json.RawMessage
	id     string // in its canonical form, "" for a notification
	method string // "" for an answer
}

// params returns the parameters of a request.
func (m message) params() json.RawMessage { return m.fields["params"] }

// isAnswer reports whether the message answers a request.
func (m message) isAnswer() bool { return m.method == "" }

// parse returns the message in a line. It refuses messages that two readers may understand
// differently. The returned message has the id if only something else is wrong.
func parse(line []byte) (message, error) {
	m := message{line: line}
	if levels, values := foreign.Shape(line); levels > foreign.MaxLevels || values > foreign.MaxValues {
		return m, fmt.Errorf("a message has at most %d levels and %d values", foreign.MaxLevels, foreign.MaxValues)
	}
	if err := json.Unmarshal(line, &m.fields); err != nil || m.fields == nil {
		return m, errors.New("a message is one JSON object on a line")
	}
	var err error
	if m.id, err = idOf(m.fields["id"]); err != nil {
		return m, err
	}
	if err := filecontent.CheckJSON(line); err != nil {
		return m, err
	}
	var version string
	if json.Unmarshal(m.fields["jsonrpc"], &version) != nil || version != "2.0" {
		return m, errors.New(`a message has "jsonrpc": "2.0"`)
	}
	method, isRequest := m.fields["method"]
	if isRequest && (json.Unmarshal(method, &m.method) != nil || m.method == "") {
		return m, errors.New("a method is a text")
	}
	_, result := m.fields["result"]
	_, wrong := m.fields["error"]
	switch {
	case isRequest && (result || wrong):
		return m, errors.New("a message is a request or an answer, and not both")
	case !isRequest && (m.id == "" || result == wrong):
		return m, errors.New("an answer has an id, and either a result or an error")
	}
	return m, nil
}

// isWhole reports whether an id is a whole number that every reader of JSON has exactly.
func isWhole(id string) bool {
	n, err := strconv.ParseInt(id, 10, 64)
	return err == nil && -1e15 < n && n < 1e15 && strconv.FormatInt(n, 10) == id
}

// idOf returns the canonical form of an id, "" if there is none.
func idOf(raw json.RawMessage) (string, error) {
	var text string
	switch {
	case raw == nil || string(raw) == "null":
		return "", nil
	case len(raw) <= maxID && json.Unmarshal(raw, &text) == nil:
		id, err := json.Marshal(text)
		return string(id), err
	case isWhole(string(raw)):
		return string(raw), nil
	}
	return "", fmt.Errorf("an id is a text of at most %d bytes, or a whole number", maxID)
}

// A failure is the error in an answer.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// encode returns a message of golem's own. The id is in its canonical form, and null if it
// is "".
func encode(id string, fields map[string]any) []byte {
	fields["jsonrpc"] = "2.0"
	if id != "" {
		fields["id"] = json.RawMessage(id)
	}
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err) // the fields are texts, numbers and lists of them
	}
	return line
}

// refuse returns the answer that refuses a request.
func refuse(id string, code int, why string) []byte {
	fields := map[string]any{"error": failure{code, why}}
	if id == "" {
		fields["id"] = nil
	}
	return encode(id, fields)
}

// replace returns a JSON object with another value for a key. Everything else stays as it
// is, except the order of the keys.
func replace(object json.RawMessage, key string, value any) (json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if fields == nil {
		fields = map[string]json.RawMessage{}
	}
	fields[key] = raw
	return json.Marshal(fields)
}
