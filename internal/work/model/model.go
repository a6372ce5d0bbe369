// Package model is the interface to language models. Each vendor has a directory below
// it. Only that directory knows the format of the vendor's messages.
package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// A Model answers conversations. It may be used by many goroutines at once.
type Model interface {
	// Answer sends a conversation and returns the model's answer. It calls tell, which
	// may be nil, with pieces of text and thinking as they arrive. An incomplete answer
	// is an error: an *Error, or the error of the context.
	Answer(ctx context.Context, r Request, tell func(Piece)) (Answer, error)
}

// A Request is a conversation and the tools that the model may ask for.
type Request struct {
	Worker    string    `json:"worker,omitempty"` // who asks; not sent to vendors
	System    string    `json:"system,omitempty"`
	Messages  []Message `json:"messages"`
	Tools     []Tool    `json:"tools,omitempty"`
	MaxTokens int64     `json:"max_tokens,omitempty"` // of the answer; 0 leaves it to the vendor
	// Schema, if set, is the schema of the answer's text. A vendor without support for it
	// ignores it; the caller checks the answer anyway.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Effort is how much the model thinks before it answers. A vendor without support for it
	// ignores it.
	Effort Effort `json:"effort,omitempty"`
	// Temperature, if set, is how much chance is in the answer. A vendor or a model that
	// refuses the number gets none.
	Temperature *float64 `json:"temperature,omitempty"`
	// Thoughts asks for readable thoughts from vendors that send them only on request.
	Thoughts bool `json:"thoughts,omitempty"`
}

// An Effort is how much a model thinks before it answers. The zero value leaves it to the
// vendor.
type Effort string

// The efforts.
const (
	NoEffort     Effort = "none" // it does not think, if the model allows that
	LowEffort    Effort = "low"
	MediumEffort Effort = "medium"
	HighEffort   Effort = "high"
)

// A Role is the side that wrote a message.
type Role string

// The roles. Results of tools are in messages of the user.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// A Message is what one side wrote, in order.
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

// Thinking is a thought of the model. Vendors require it back unchanged.
type Thinking struct {
	Text  string          `json:"text,omitempty"`
	Proof json.RawMessage `json:"proof,omitempty"` // the vendor's signature
}

// A Call asks for a tool. Its arguments are the model's text, which may not be JSON.
type Call struct {
	ID   string `json:"id"` // unique in the conversation
	Tool string `json:"tool"`
	Args string `json:"args"`
	// Proof is the vendor's signature, which it requires back.
	Proof json.RawMessage `json:"proof,omitempty"`
}

// A Result is the result of a call.
type Result struct {
	ID     string `json:"id"` // of the call
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// A File is a file in a message.
type File struct {
	Name string `json:"name"`
	Type string `json:"type"` // such as image/png
	Data []byte `json:"data,omitempty"`
	From string `json:"-"` // the name as the user or the worker gave it, for the journal

	// Size and Digest describe the content where a record is shown without it.
	Size   int    `json:"size,omitempty"`
	Digest string `json:"digest,omitempty"` // sha256 in hex
}

// WithoutData returns the file with its size and digest in place of its content.
func (f File) WithoutData() File {
	if f.Data == nil {
		return f
	}
	sum := sha256.Sum256(f.Data)
	return File{Name: f.Name, Type: f.Type, Size: len(f.Data), Digest: hex.EncodeToString(sum[:])}
}

// A Tool is a tool that the model may ask for.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // of its arguments; an object
}

// A Piece is a part of an answer that has just arrived.
type Piece struct {
	Text     string
	Thinking string
	Note     string // for the user: golem asked again without a setting that the server refused
}

// An Answer is a complete answer of a model. It may be empty: some models add nothing to
// the results of tools.
type Answer struct {
	Parts []Part `json:"parts"`
	Stop  Stop   `json:"stop"`
	Usage Usage  `json:"usage"`
	Model string `json:"model,omitempty"` // the model that answered, by its vendor's name
	Why   string `json:"why,omitempty"`   // the vendor's word for a refusal, such as SAFETY
}

// A Stop is the reason why an answer ended.
type Stop string

// The reasons.
const (
	Done    Stop = "done"    // the answer is finished
	Calls   Stop = "calls"   // the model waits for tools
	Length  Stop = "length"  // the limit of tokens was reached; the end may be missing
	Refused Stop = "refused" // the model or its vendor refused
)

// Calls returns the calls to make. It returns none unless the answer waits for tools. An
// answer that reached its limit may have calls among its parts that only look complete.
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

// Usage counts tokens. Input does not include the tokens read from a cache.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	CacheHour  int64 `json:"cache_hour,omitempty"` // tokens of CacheWrite that are kept for an hour, which costs more
	Charged    int64 `json:"charged,omitempty"`    // millionths of a dollar, if the server says what it charges
}

// Clamped returns the usage without numbers that cannot be true: servers report negative and
// huge ones.
func (u Usage) Clamped() Usage {
	const most = 1 << 40
	for _, n := range []*int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.CacheHour, &u.Charged} {
		*n = min(max(*n, 0), most)
	}
	return u
}

// Add returns the sum.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.CacheHour + v.CacheHour, u.Charged + v.Charged}
}

// Max returns the higher of each number. Servers send running totals.
func (u Usage) Max(v Usage) Usage {
	return Usage{max(u.Input, v.Input), max(u.Output, v.Output), max(u.CacheRead, v.CacheRead), max(u.CacheWrite, v.CacheWrite), max(u.CacheHour, v.CacheHour), max(u.Charged, v.Charged)}
}

// An Error is the reason why there is no answer.
type Error struct {
	Class Class         `json:"class"`
	Model string        `json:"model"`           // the model's name in the request
	What  string        `json:"what"`            // one line for people, without keys
	Hint  string        `json:"hint,omitempty"`  // what to do
	After time.Duration `json:"after,omitempty"` // when to try again; 0 if the server did not say
}

// A Class is the kind of an error.
type Class string

// The classes.
const (
	Overloaded Class = "overloaded" // or rate limited; may work later
	Broken     Class = "broken"     // the connection or the server failed; may work later
	TimedOut   Class = "timeout"
	Unreached  Class = "unreached" // there is no such host, or nothing answers there
	Denied     Class = "denied"    // the key is missing, wrong or not allowed to use the model
	Unknown    Class = "unknown"   // there is no such model
	TooLong    Class = "too_long"  // the conversation does not fit
	Bad        Class = "bad"       // the request or the answer is malformed
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
