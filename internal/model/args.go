package model

import (
	"bytes"
	"encoding/json"
)

// SentArgs returns the arguments of a call as vendors take them back: an object. What the
// model wrote is in it word for word where that was none.
func (c Call) SentArgs() json.RawMessage {
	if trimmed := bytes.TrimSpace([]byte(c.Args)); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) {
		return trimmed
	}
	wrapped, _ := json.Marshal(map[string]string{"INVALID_JSON": c.Args}) // a text can always be written
	return wrapped
}
