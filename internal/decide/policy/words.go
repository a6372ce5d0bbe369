package policy

import (
	"errors"
	"slices"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// Origin says who makes a call. The zero value is nobody.
type Origin uint8

// The origins of calls.
const (
	Nobody Origin = iota
	Model         // a language model that golem runs
	User          // the user, by a command
	Peer          // another agent, over MCP
)

func (o Origin) String() string { return word(o, "nobody", "model", "user", "peer") }

// NoWorker stands for the worker in calls that the user makes without one.
const NoWorker = "project"

// Mode says who may call a tool. The zero value admits nobody.
type Mode uint8

// The modes of tools.
const (
	Closed Mode = iota
	LLM         // the model and peers
	Manual      // only the user
	Both        // all three
)

func (m Mode) String() string { return word(m, "closed", "llm", "manual", "both") }

// Admits reports whether a caller may use a tool of this mode.
func (m Mode) Admits(o Origin) bool {
	switch o {
	case Model, Peer:
		return m == LLM || m == Both
	case User:
		return m == Manual || m == Both
	}
	return false
}

// Approval says what must happen before an effect. The zero value is Blocked, and the
// order is Blocked < Ask < PreApproved.
type Approval uint8

// The levels of approval.
const (
	Blocked     Approval = iota // it does not happen
	Ask                         // the user is asked
	PreApproved                 // it happens
	unset                       // no rule: above all levels that a rule can give
)

func (c Approval) String() string { return word(c, "blocked", "ask", "preApproved", "unset") }

// ParseApproval parses the word that String returns.
func ParseApproval(text string) (Approval, bool) {
	for _, c := range []Approval{Blocked, Ask, PreApproved} {
		if c.String() == text {
			return c, true
		}
	}
	return Blocked, false
}

// Verb is a kind of effect. The zero value is no effect and is always blocked.
type Verb uint8

// The verbs, with their targets.
const (
	Nothing Verb = iota
	Read         // a file, by its virtual name
	Write        // a file
	Delete       // a file
	Attach       // a file, for another worker
	Run          // a command
	Connect      // a host
	Call         // a worker
	Use          // a tool, whatever else it does
)

func (v Verb) String() string {
	return word(v, "nothing", "read", "write", "delete", "attach", "run", "connect", "call", "use")
}

// isFileVerb reports whether the target of the verb is a file.
func (v Verb) isFileVerb() bool { return v >= Read && v <= Attach }

// defaultApproval returns the approval for a verb without a rule.
func (v Verb) defaultApproval() Approval {
	switch v {
	case Read, Attach, Call, Use:
		return PreApproved
	case Write, Delete, Run, Connect:
		return Ask
	}
	return Blocked
}

// An Effect is a verb with its target: write /out/a.md.
type Effect struct {
	Verb   Verb   `json:"verb"`
	Target string `json:"target"` // a canonical virtual name for files, a name otherwise
	// Tree is true if the effect includes everything below a directory. Rules ignore it,
	// because they always hold below their target. An approver sees it.
	Tree bool `json:"tree,omitempty"`
}

func (e Effect) String() string {
	text := e.Verb.String() + " " + e.Target
	if e.Tree {
		text = strings.TrimSuffix(text, "/") + "/**"
	}
	return text
}

// ReadsFile reports whether one of the effects reads a file, by itself or with a
// directory.
func ReadsFile(effects []Effect, name string) bool {
	return slices.ContainsFunc(effects, func(e Effect) bool { return e.Verb == Read && AtOrBelow(e.Target, name) })
}

// MarshalText returns the word that String returns.
func (o Origin) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the word that String returns.
func (o *Origin) UnmarshalText(text []byte) error { return parseWord(o, Peer, text) }

// MarshalText returns the word that String returns.
func (v Verb) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the word that String returns.
func (v *Verb) UnmarshalText(text []byte) error { return parseWord(v, Use, text) }

// parseWord finds the value whose word is the text.
func parseWord[T interface {
	~uint8
	String() string
}](v *T, last T, text []byte) error {
	for w := T(0); w <= last; w++ {
		if w.String() == string(text) {
			*v = w
			return nil
		}
	}
	return errors.New("no such word: " + sandbox.Shown(string(text)))
}

func word[T ~uint8](v T, words ...string) string {
	if int(v) < len(words) {
		return words[v]
	}
	return "invalid"
}
