package model

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// SentArgs returns the arguments of a call as an object, which vendors require. If the
// model wrote something else, the object contains it word for word.
func (c Call) SentArgs() json.RawMessage {
	if trimmed := bytes.TrimSpace([]byte(c.Args)); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) && utf8.Valid(trimmed) {
		return trimmed
	}
	wrapped, _ := json.Marshal(map[string]string{"INVALID_JSON": c.Args}) // a string can always be encoded
	return wrapped
}
