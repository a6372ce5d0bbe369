package tool

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
)

// MaxResult is the most text that a result has, maxDiff that of a diff in it, and
// maxBrief how many changes are told in a line each.
const (
	MaxResult = 1 << 20
	maxDiff   = 64 << 10
	maxBrief  = 200
)

// A Result is what came of a call. Its texts are for a model: virtual names
// only, and every error explains itself.
type Result struct {
	Text string // for a model, and for a person
	Data any    // the same for a program, as JSON
	// Media are what is no text, for callers that take it.
	Media []Media
	// Changes are what was done.
	Changes []Change
	// Brief is true where there may be so many changes that a line for each says enough.
	Brief bool
	// Notes are what else there is to know: what was left out.
	Notes []string

	// Record is what the journal should know of the outcome: how a command ended,
	// and in what boundary.
	Record string

	// Landing is what was made and is not done yet: the gate decides about it.
	Deferred *DeferredChanges

	// Err is why it was not done, nil if it was. Where it was done in part, the
	// rest says how far.
	Err *sandbox.Error
	// Pending names the request that waits for an answer, where Err says so.
	Pending *Pending
	// Nobody is true where the call was refused because nobody could be asked.
	Unattended bool
	// Stop is true where the user said that all of it should end.
	Stop bool
}

// Pending is a request that waits for an answer. Made again after a yes, the
// same call passes once.
type Pending struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
}

// OK reports whether the call was done.
func (r Result) OK() bool { return r.Err == nil }

// String returns the result as a model reads it.
func (r Result) String() string {
	if r.Err == nil && len(r.Changes) == 0 && len(r.Notes) == 0 {
		return shorten(strings.TrimSuffix(r.Text, "\n"), MaxResult)
	}
	var b strings.Builder
	if r.Err != nil {
		b.WriteString("Error: " + r.Err.Error())
		if r.Text != "" {
			b.WriteString("\n" + strings.TrimSuffix(r.Text, "\n"))
		}
	} else {
		b.WriteString(strings.TrimSuffix(r.Text, "\n"))
		for i, c := range r.Changes {
			switch {
			case r.Brief && i == maxBrief:
				fmt.Fprintf(&b, "\nand %d more", len(r.Changes)-i)
			case r.Brief && i > maxBrief:
			case r.Brief:
				b.WriteString("\n" + c.summaryLine())
			case c.Diff != "":
				b.WriteString("\n" + strings.TrimSuffix(c.Diff, "\n"))
			}
		}
	}
	for _, n := range r.Notes {
		b.WriteString("\nnote: " + n)
	}
	return shorten(b.String(), MaxResult)
}

// shorten shortens a text in the middle, and says by how much.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head, tail := most*2/3, len(text)-most/4
	for !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + fmt.Sprintf("\n… %d bytes left out here; ask for less at a time …\n", tail-head) + text[tail:]
}

// failed returns the result of a tool whose call failed. The text of an error that is not
// a *sandbox.Error may contain host paths, so it is not passed on.
func failed(name string, err error) Result {
	var refused refusal
	if errors.As(err, &refused) {
		return refused.result
	}
	var known *sandbox.Error
	if errors.As(err, &known) {
		return Result{Err: known}
	}
	return Result{Err: &sandbox.Error{Op: name, Code: sandbox.CodeOf(err), Hint: "the tool could not do it; try another way"}}
}
