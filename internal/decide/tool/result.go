package tool

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
)

// MaxResult is how many bytes of text a result may have, maxDiff how many a diff in it,
// and maxBrief how many changes are listed in one line each.
const (
	MaxResult = 1 << 20
	maxDiff   = 64 << 10
	maxBrief  = 200
)

// A Result is the outcome of a call. Its texts are for a model: they have only virtual
// names, and every error explains itself.
type Result struct {
	Text   string // for a model, and for a person
	Output string // what a command wrote; it follows Text without a gap
	Data   any    // the same for a program, as JSON
	// ForModel is the part of Text that only a model needs, such as the version of a file.
	// Stderr is what a failed command wrote to its standard error.
	ForModel, Stderr string
	// Done says how many changes were applied or undone, and names the first ones. It
	// follows Text and Output as a line of its own.
	Done *Done
	// Media is content that is not text, for callers that accept it.
	Media []Media
	// Changes are the changes that were made.
	Changes []Change
	// Final says why the applied changes cannot be undone, "" if they can.
	Final string
	// Brief is true if there may be many changes, so that one line for each is enough.
	Brief bool
	// Notes are further remarks, such as what was skipped.
	Notes []string

	// Settings are values of the project file, KEY=VALUE, with which the call would not have
	// reached a limit or asked for a host in vain. The gate makes Allow of them: what the user
	// types.
	Settings, Allow []string

	// Record is what the journal records about the outcome: how a command ended, and in
	// what jail.
	Record string

	// Deferred are changes that the gate has yet to decide about.
	Deferred *DeferredChanges

	// Err is why the call failed, nil if it succeeded. If it was done in part, the other
	// fields say how far.
	Err *sandbox.Error
	// Pending is the pending request, if Err is that the call waits for approval.
	Pending *Pending
	// Unattended is true if the call was refused because nobody could be asked.
	Unattended bool
	// Stop is true if the user wants the whole run to end.
	Stop bool
}

// Pending is a request that waits for an answer. After an approval, the same call passes
// once.
type Pending struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
	// Earlier says why an earlier answer does not count, "" if there is none.
	Earlier string `json:"earlier,omitempty"`
}

// OK reports whether the call succeeded.
func (r Result) OK() bool { return r.Err == nil }

// Words returns the text of the result: what the tool says, what a command wrote, and which
// changes were applied or undone.
func (r Result) Words() string {
	text := r.Text + r.Output
	if r.Done == nil {
		return text
	}
	return strings.TrimPrefix(strings.TrimSuffix(text, "\n")+"\n"+r.Done.String(), "\n")
}

// withhold removes the text and the data from the result.
func (r *Result) withhold() {
	r.Text, r.Output, r.ForModel, r.Stderr, r.Data, r.Done = "", "", "", "", nil, nil
}

// FirstLine returns the result in one line for a person. It ends with … if there is more.
func (r Result) FirstLine() string {
	line, rest, _ := strings.Cut(strings.TrimSpace(r.String()), "\n")
	line = strings.Replace(line, r.ForModel, "", 1)
	if strings.TrimSpace(rest) != "" {
		line += " …"
	}
	return line
}

// String returns the result as a model reads it.
func (r Result) String() string {
	text := strings.TrimSuffix(r.Words(), "\n")
	if r.Err == nil && len(r.Changes) == 0 && len(r.Notes) == 0 && len(r.Allow) == 0 {
		return shorten(text, MaxResult)
	}
	var b strings.Builder
	if r.Err != nil {
		b.WriteString("Error: " + r.Err.Error())
		if text != "" {
			b.WriteString("\n" + text)
		}
	} else {
		b.WriteString(text)
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
	for _, command := range r.Allow {
		b.WriteString("\nnote: the user can allow more: " + command)
	}
	return shorten(b.String(), MaxResult)
}

// shorten cuts the middle out of a text that is longer than most bytes, and says how
// much.
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
	return text[:head] + fmt.Sprintf("\n… %d bytes omitted here; ask for less at a time …\n", tail-head) + text[tail:]
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
