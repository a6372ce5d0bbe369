package serve

import (
	"encoding/json"
	"fmt"

	"github.com/golem-forge/golem/internal/hub"
)

// An input is what a client sent with a request.
type input struct {
	value json.RawMessage
	data  []byte
}

func read(text json.RawMessage, value any) error {
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, value); err != nil {
		return invalid("the request cannot be read: %v", err)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &hub.Error{Code: hub.CodeInvalid, Text: fmt.Sprintf(format, args...)}
}

func refused(text string) error { return &hub.Error{Code: hub.CodeRefused, Text: text} }

func missing(format string, args ...any) error {
	return &hub.Error{Code: hub.CodeMissing, Text: fmt.Sprintf(format, args...)}
}

func stale(job string) error {
	return &hub.Error{Code: hub.CodeStale, Text: "another attempt works on job " + job + " now, or nobody does; this one stops"}
}
