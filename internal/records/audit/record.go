package audit

import (
	"strings"
	"time"
)

// Kind is the kind of a record.
type Kind string

// The kinds of records.
const (
	Intent  Kind = "intent"  // a call was decided and is about to run
	Outcome Kind = "outcome" // the call succeeded or failed
	Refusal Kind = "refusal" // the call was not made
	Answer  Kind = "answer"  // somebody answered a pending request, or revoked a rule
	Repair  Kind = "mend"    // the journal itself was repaired
)

// A Record is one entry of the journal. It says who did what, and who approved it. It has
// names, effects and decisions, and never the content of a file, the output of a tool or
// a secret.
type Record struct {
	// Write sets Number, Time, Prev and Seal.
	Number uint64    `json:"n"`
	Time   time.Time `json:"time"`

	Kind    Kind     `json:"kind"`
	Call    string   `json:"call,omitempty"`    // the same in an intent and its outcome
	Session string   `json:"session,omitempty"` // the id of the session, or of the process if there is none
	Origin  string   `json:"origin,omitempty"`  // model, user, peer
	Workers []string `json:"workers,omitempty"` // the chain, the entry worker first
	Tool    string   `json:"tool,omitempty"`
	// Args are the arguments: names and numbers as they are, and of a content only its
	// size.
	Args    map[string]any `json:"args,omitempty"`
	Effects []string       `json:"effects,omitempty"` // write /out/a.md
	// Decision is preApproved, yes, no, pending or blocked, and "" for a call that was
	// refused before any decision.
	Decision string `json:"decision,omitempty"`
	By       string `json:"by,omitempty"`   // the position of a rule, a mode, the user, or a remembered rule
	Seen     string `json:"seen,omitempty"` // for an approval: "all 14 items" were shown, or "unseen"
	// Front is where a person decided, such as a terminal. Shown are the items that were on
	// screen completely, in words: names and versions, and no content.
	Front   string   `json:"front,omitempty"`
	Shown   []string `json:"shown,omitempty"`
	Text    string   `json:"text,omitempty"`   // hash of the text that was on screen, if golem has kept it
	Digest  string   `json:"digest,omitempty"` // digest of the exact call, including its changes
	Request string   `json:"request,omitempty"`
	Code    string   `json:"code,omitempty"` // "" if the call succeeded
	Note    string   `json:"note,omitempty"`
	Files   *Files   `json:"files,omitempty"` // changed by a command, or deleted

	Prev string `json:"prev"` // hash of the line before
	Seal string `json:"seal"` // seal of this line, made with the journal's key
}

// Wait is what Write waits for.
type Wait uint8

// The ways to wait.
const (
	// Queued returns at once. The record is in the file as soon as a later record that
	// somebody waits for is. It is for calls without an effect yet.
	Queued Wait = iota
	// Written returns when the record is in the file: it survives this process.
	Written
	// Durable returns when the record is synced: it survives a crash of the machine.
	Durable
)

// Least returns the shortest wait that is allowed for a record, so that nothing happens
// without a record. An intent that changes something is synced first. A call's outcome or
// refusal is in the file before its caller gets it.
func (r Record) Least() Wait {
	if r.Kind != Intent {
		return Written
	}
	for _, e := range r.Effects {
		if !strings.HasPrefix(e, "read ") {
			return Durable
		}
	}
	return Queued
}
