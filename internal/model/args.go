package model

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/tool"
)

// ArgsPiece returns a piece of a call's arguments. text is the vendor library's decoding
// of raw, the JSON string that the server sent. If raw is not valid Unicode, the library
// has replaced a part of it with U+FFFD. Then the piece ends in a byte that no decoder of
// arguments accepts, so golem refuses the call instead of making a different one.
func ArgsPiece(text, raw string) string {
	if raw != "" && tool.CheckJSON([]byte(raw)) != nil {
		return text + "\xff"
	}
	return text
}

// SentArgs returns the arguments of a call as an object, which vendors require. If the
// model wrote something else, the object contains it word for word.
func (c Call) SentArgs() json.RawMessage {
	if trimmed := bytes.TrimSpace([]byte(c.Args)); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) && utf8.Valid(trimmed) {
		return trimmed
	}
	wrapped, _ := json.Marshal(map[string]string{"INVALID_JSON": c.Args}) // a string can always be encoded
	return wrapped
}
