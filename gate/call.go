package gate

import (
	"encoding/json"

	"github.com/golem-forge/golem/sandbox"
)

// A Call asks for a tool.
type Call struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"` // an object; none means {}
}

// Origin says who makes a call. The zero Origin is nobody, and every tool refuses it.
type Origin uint8

// The origins of calls.
const (
	Model Origin = 1 + iota // a language model
	User                    // a person, who acts through the program
	Peer                    // another agent
)

// A Result is the outcome of a call. Its texts are for a model: they have only virtual names.
type Result struct {
	Text    string   // what was done, or the error
	Data    any      // the same for a program, if the tool has such data
	Changes []Change // the changes that were made
	Notes   []string // further remarks
	// Err is why the call failed, nil if it succeeded. Its hint says what is allowed, or what
	// to do next.
	Err *sandbox.Error
	// Pending is the request, if the call waits for a decision: see [Request.Later].
	Pending *Pending
}
