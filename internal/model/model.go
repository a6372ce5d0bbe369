// Package model is the one interface to language models. A vendor is a directory below
// it; nothing else knows how a vendor's messages look on the wire.
package model

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// A Model answers conversations. It may be used by many goroutines at once.
type Model interface {
	// Answer sends a conversation, and returns what the model said to it. Tell is called
	// with pieces of text and of thinking as they come, and may be nil. An answer that
	// did not arrive whole is an error: *Error, or that of the context.
	Answer(ctx context.Context, r Request, tell func(Piece)) (Answer, error)
}

// A Request is a conversation so far, and what the model may ask for.
type Request struct {
	Worker    string    `json:"worker,omitempty"` // who asks; vendors are not told
	System    string    `json:"system,omitempty"`
	Messages  []Message `json:"messages"`
	Tools     []Tool    `json:"tools,omitempty"`
	MaxTokens int64     `json:"max_tokens,omitempty"` // of the answer; 0 is what the model's vendor thinks best
	// Schema, where set, is what the answer's text must fit. A vendor that cannot be told
	// ignores it: the answer is checked anyway.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// A Role says whose message it is.
type Role string

// The roles. What tools answered is in a message of the user's side.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// A Message is what one side said, in order.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// A Part is a piece of a message: exactly one of its fields is set.
type Part struct {
	Text     string    `json:"text,omitempty"`
	Thinking *Thinking `json:"thinking,omitempty"`
	Call     *Call     `json:"call,omitempty"`
	Result   *Result   `json:"result,omitempty"`
	File     *File     `json:"file,omitempty"`
}

// Thinking is what a model thought. Vendors want it back as they gave it.
type Thinking struct {
	Text  string          `json:"text,omitempty"`
	Proof json.RawMessage `json:"proof,omitempty"` // the vendor's own
}

// A Call asks for a tool. Its arguments are what the model wrote, which may be no JSON.
type Call struct {
	ID   string `json:"id"` // unlike any other in the conversation
	Tool string `json:"tool"`
	Args string `json:"args"`
	// Proof is the vendor's own, and wanted back.
	Proof json.RawMessage `json:"proof,omitempty"`
}

// A Result is what came of a call.
type Result struct {
	ID     string `json:"id"` // of the call
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// A File is handed to the model with a message.
type File struct {
	Name string `json:"name"`
	Type string `json:"type"` // such as image/png
	Data []byte `json:"data"`
}

// A Tool is one that the model may ask for.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // of its arguments, an object's
}

// A Piece is some more of an answer, as it comes.
type Piece struct {
	Text     string
	Thinking string
}

// An Answer is what a model said, whole. It may be empty: some models have nothing to
// add to the results of tools.
type Answer struct {
	Parts []Part `json:"parts"`
	Stop  Stop   `json:"stop"`
	Usage Usage  `json:"usage"`
	Model string `json:"model,omitempty"` // the one that answered, as its vendor calls it
}

// A Stop says why an answer ended.
type Stop string

// The reasons.
const (
	Done    Stop = "done"    // it was finished
	Calls   Stop = "calls"   // it waits for tools
	Length  Stop = "length"  // it had no more room: what comes last may be cut off
	Refused Stop = "refused" // the model or its vendor would not
)

// Calls returns the calls to run: none unless the answer waits for tools. Those of an
// answer that had no more room stay among its parts, and may lack their end even where
// they look whole.
func (a Answer) Calls() []Call {
	var calls []Call
	if a.Stop == Calls {
		for _, p := range a.Parts {
			if p.Call != nil {
				calls = append(calls, *p.Call)
			}
		}
	}
	return calls
}

// Text returns the text of the answer.
func (a Answer) Text() string {
	var text strings.Builder
	for _, p := range a.Parts {
		text.WriteString(p.Text)
	}
	return text.String()
}

// Usage counts tokens. Those read from a cache are not among Input.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// Add returns the sum.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite}
}

// An Error is why there is no answer.
type Error struct {
	Class Class         `json:"class"`
	Model string        `json:"model"`           // as it was asked for
	What  string        `json:"what"`            // in a person's words, on one line; no key is in it
	Hint  string        `json:"hint,omitempty"`  // what to do
	After time.Duration `json:"after,omitempty"` // when to try again, 0 if nobody said
}

// A Class says what kind of error it is.
type Class string

// The classes.
const (
	Overloaded Class = "overloaded" // or limited by rate: later it may work
	Broken     Class = "broken"     // the connection, or the server's end of it: later it may work
	TimedOut   Class = "timeout"
	Denied     Class = "denied"   // the key is missing or wrong, or may not use the model
	Unknown    Class = "unknown"  // there is no such model
	TooLong    Class = "too_long" // the conversation does not fit
	Bad        Class = "bad"      // the request or the answer is not as it should be
)

// Error implements error.
func (e *Error) Error() string {
	text := "model " + e.Model + ": " + string(e.Class)
	for _, more := range []string{e.What, e.Hint} {
		if more != "" {
			text += "; " + more
		}
	}
	return text
}

// Passing reports whether the same request may succeed later.
func (e *Error) Passing() bool {
	return e.Class == Overloaded || e.Class == Broken || e.Class == TimedOut
}
