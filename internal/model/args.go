package model

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/tool"
)

// ArgsPiece returns a piece of a call's arguments: text is what the vendor's library made
// of raw, the JSON string that the server sent. Where raw is no Unicode text the library
// has put U+FFFD in its place, so the piece ends in a byte that no decoder of arguments
// accepts: golem refuses the call instead of making another one.
func ArgsPiece(text, raw string) string {
	if raw != "" && tool.CheckJSON([]byte(raw)) != nil {
		return text + "\xff"
	}
	return text
}

// SentArgs returns the arguments of a call as vendors take them back: an object. What the
// model wrote is in it word for word where that was none.
func (c Call) SentArgs() json.RawMessage {
	if trimmed := bytes.TrimSpace([]byte(c.Args)); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) && utf8.Valid(trimmed) {
		return trimmed
	}
	wrapped, _ := json.Marshal(map[string]string{"INVALID_JSON": c.Args}) // a text can always be written
	return wrapped
}
