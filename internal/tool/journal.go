package tool

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

// A Journal keeps what happened. See audit.Journal.
type Journal interface {
	Write(r audit.Record, wait audit.Wait) error
}

// An Undo keeps what a call is about to change, so that the user can undo the call. When
// Keep returns, that is on the disk.
type Undo interface {
	Keep(call, tool string, changes []Change) error
}

// begin writes down what is about to happen, if it still is. Without that nothing does.
// What changes nothing need not wait for it: its outcome does. A yes is remembered once
// it is written. What the call replaces is kept before: a call that is cut off in between
// has done nothing, which an undo sees.
func (p *pass) begin() error {
	if err := p.ctx.Err(); err != nil {
		return ended(p.tool.Name, err)
	}
	if p.Undo != nil && p.prepared.Undoable && len(p.prepared.Changes) > 0 {
		if err := p.Undo.Keep(p.id, p.tool.Name, p.prepared.Changes); err != nil {
			return &sandbox.Error{Op: p.tool.Name, Code: sandbox.ErrInternal,
				Hint: "nothing was done, because golem cannot keep what the call replaces (" + cause(err) + "); the user can free space in the state directory, or choose another with --state"}
		}
	}
	p.record.Kind = audit.Intent
	wait := audit.Durable
	if p.reads() {
		wait = audit.Queued
	}
	if err := p.Journal.Write(p.record, wait); err != nil {
		return unwritten(p.tool.Name, err)
	}
	p.begun = true
	if p.keep != nil && p.keep() != nil {
		p.record.Note = "the rule could not be kept"
	}
	return nil
}

// end writes down what came of it. What was read is handed out only if that
// could be written.
func (p *pass) end(r Result) Result {
	out := audit.Record{Kind: audit.Outcome, Call: p.id, Origin: p.record.Origin, Workers: p.Workers, Tool: p.tool.Name, Note: p.record.Note}
	if r.Record != "" {
		out.Note = r.Record
	}
	if r.Err != nil {
		out.Code = string(r.Err.Code)
	}
	if err := p.Journal.Write(out, audit.Written); err != nil {
		if p.reads() {
			return failed(p.tool.Name, unwritten(p.tool.Name, err))
		}
		done := "the call was done, but "
		if r.Err != nil {
			done = ""
		}
		r.Notes = append(r.Notes, done+"golem could not write its outcome to the journal ("+cause(err)+"); the journal has only its beginning")
	}
	return r
}

// refused writes down that nothing was done. It is refused whether or not this
// can be kept.
func (p *pass) refused(r Result) (notes []string) {
	if p.Journal == nil {
		return nil
	}
	p.record.Kind, p.record.Code = audit.Refusal, string(r.Err.Code)
	if p.Journal.Write(p.record, audit.Written) != nil {
		notes = append(notes, "the journal could not take this refusal")
	}
	return notes
}

func unwritten(op string, err error) error {
	return &sandbox.Error{Op: op, Code: sandbox.ErrInternal,
		Hint: "nothing was done, because the journal cannot be written (" + cause(err) + "); the user can see to it with golem audit verify"}
}

func spelled(effects []policy.Effect) []string {
	var list []string
	for _, e := range effects {
		list = append(list, e.String())
	}
	return list
}

// newID returns the name of a call: it ties an outcome to its intent.
func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// kept returns arguments as the journal may have them: without contents.
func (t Tool) kept(keys map[string]any) map[string]any {
	for _, key := range t.Private {
		if value, given := keys[key]; given {
			keys[key] = sizeOf(value)
		}
	}
	return keys
}

// sizeOf says how much a content is.
func sizeOf(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%d bytes", len(v))
	case []any:
		return fmt.Sprintf("%d entries", len(v))
	}
	return "left out"
}
