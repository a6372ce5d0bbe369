package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/golem-forge/golem/internal/policy"
)

// An Approver answers whether a call may be done that the grant lets happen
// only with consent. What the grant blocks never gets here.
type Approver interface {
	// Approve answers at once or when somebody has answered; it may be asked by
	// several calls at a time. When ctx ends the answer is no.
	Approve(ctx context.Context, r Request) Answer
}

// A Request is a call that needs consent, with all there is to know about it.
// Its texts come from a worker: who shows them escapes them.
type Request struct {
	// Digest is of the exact call, with what it would change: an answer is bound to it.
	Digest string `json:"digest"`
	// Same is of the call alone: the same tool, arguments and effects by the same
	// workers.
	CallDigest string          `json:"same"`
	Origin     policy.Origin   `json:"origin"`
	Workers    []string        `json:"workers"` // the entry worker first
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args"`
	// Effects are all; Asks those that need consent, the tool itself among them
	// where a rule says so.
	Effects   []policy.Effect `json:"effects"`
	ToApprove []policy.Effect `json:"asks"`
	// Rule is the place of the rule that asks; "" for a default. Why says what it
	// asks for, where that is not plain.
	Rule    string   `json:"rule,omitempty"`
	Why     string   `json:"why,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Wish says what the changes come to, where that is not plain, and Warnings what to
	// look at first.
	Summary  string   `json:"wish,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// MoreWarnings is that of the prepared call.
	MoreWarnings int `json:"more_warnings,omitempty"`
	// Problem says why the changes are not known. Unknown is true where the call is made all
	// the same: golem finds the changes out only after the approval.
	Problem string `json:"problem,omitempty"`
	Unknown bool   `json:"unknown,omitempty"`
	// Taint is the untrusted place that the worker has read, "" for none. Only an answer
	// that somebody gave to this request, with the taint in view, counts for it.
	Taint string `json:"taint,omitempty"`
	// Guessed is that of the plan.
	Guess string `json:"guessed,omitempty"`
	// Clears is true of what brings something into what the user trusts: no rule and
	// no file answers it, only the user's own flag.
	OnlyUser bool `json:"clears,omitempty"`
}

// Verdict is an answer's word. The zero value is No.
type Verdict uint8

// The verdicts.
const (
	Declined Verdict = iota
	Approved
	Undecided // nobody has answered yet
)

// An Answer is what an Approver says. The zero Answer is a no.
type Answer struct {
	Verdict    Verdict
	By         string // who or what answered: user, approve_all, a remembered rule
	Note       string // why not, which reaches the model; of a yes what else was said
	ID         string // of the request that waits
	Unattended bool   // there is nobody who could be asked
	Stop       bool   // everything should end
	// Unseen is true of a yes for something that was not shown completely: the answer
	// named the digest, or a mode gave it. Of any other yes of a person, Items is how
	// many items were shown. approval.CheckSeen sets both.
	Unseen bool
	Items  int
	// Keep, where set, remembers a yes for later calls. The gate calls it once the
	// yes is in the journal.
	Keep func() error `json:"-"`
}

// SeenText returns how much of a request a yes was given to, as the journal records it: ""
// for an answer that is no yes, or that a rule gave.
func (a Answer) SeenText() string {
	switch {
	case a.Verdict != Approved:
		return ""
	case a.Unseen:
		return "unseen"
	case a.Items == 1:
		return "1 item"
	case a.Items > 1:
		return fmt.Sprintf("all %d items", a.Items)
	}
	return ""
}

// setDigests fills in what a request is bound to.
func (r *Request) setDigests() error {
	type same struct {
		Workers []string
		Origin  policy.Origin
		Tool    string
		Args    json.RawMessage
		Effects []policy.Effect
	}
	call := same{r.Workers, r.Origin, r.Tool, r.Args, r.Effects}
	var err error
	if r.CallDigest, err = digest(call); err != nil {
		return err
	}
	r.Digest, err = digest(struct {
		Call     same
		Changes  []Change
		Wish     string   `json:",omitempty"`
		Warnings []string `json:",omitempty"`
		Taint    string   `json:",omitempty"`
		Problem  string
		More     int `json:",omitempty"`
	}{call, r.Changes, r.Summary, r.Warnings, r.Taint, r.Problem, r.MoreWarnings})
	return err
}

func digest(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
