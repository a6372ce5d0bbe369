package audit

import (
	"strings"
	"time"
)

// Kind is what a record tells.
type Kind string

// The kinds of records.
const (
	Intent  Kind = "intent"  // a call was decided and is about to be done
	Outcome Kind = "outcome" // it was done, or went wrong
	Refusal Kind = "refusal" // it was not done
	Answer  Kind = "answer"  // somebody answered a pending request, or revoked a rule
	Mend    Kind = "mend"    // the journal itself was fixed
)

// A Record is one entry of the journal. What it tells is for people who ask
// later who did what, and who let it happen: names, effects and decisions, and
// never the content of a file, the output of a tool or a secret.
type Record struct {
	// Number, Time, Prev and Seal are the journal's own: Write sets them.
	Number uint64    `json:"n"`
	Time   time.Time `json:"time"`

	Kind    Kind     `json:"kind"`
	Call    string   `json:"call,omitempty"`    // the same in an intent and its outcome
	Session string   `json:"session,omitempty"` // the process or session that made it
	Origin  string   `json:"origin,omitempty"`  // model, user, peer
	Workers []string `json:"workers,omitempty"` // the chain, the entry worker first
	Tool    string   `json:"tool,omitempty"`
	// Args are the arguments as they may be kept: names and numbers as they are,
	// of a content only how many bytes it has.
	Args    map[string]any `json:"args,omitempty"`
	Effects []string       `json:"effects,omitempty"` // write /out/a.md
	// Decision is what was decided: preApproved, yes, no, pending, blocked, and
	// for a refusal that came before any decision "".
	Decision string `json:"decision,omitempty"`
	By       string `json:"by,omitempty"`     // a rule's place, a mode, the user, a remembered rule
	Seen     string `json:"seen,omitempty"`   // of a yes: "all 14 items" were shown, or "unseen"
	Digest   string `json:"digest,omitempty"` // of the exact call, what it would change included
	Request  string `json:"request,omitempty"`
	Code     string `json:"code,omitempty"` // "" for an outcome that went well
	Note     string `json:"note,omitempty"`

	Prev string `json:"prev"` // the hash of the line before
	Seal string `json:"seal"` // the line's own, by the journal's key
}

// Wait is how long Write waits.
type Wait uint8

// The ways to wait.
const (
	// Queued returns at once; the record is in the file when any later record of
	// this journal that waits is. For what has no effect yet.
	Queued Wait = iota
	// Written returns when the record is in the file: it outlives this process.
	Written
	// Durable returns when the record is on the disk: it outlives the machine.
	Durable
)

// Least returns how long Write has to wait for a record at least, so that nothing happens
// that is in no journal: an intent that changes something is on the disk first, and what
// was done or refused is in the file before anybody is told.
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
