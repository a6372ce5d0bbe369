package tool

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// A Journal records what calls do. See audit.Journal.
type Journal interface {
	Write(r audit.Record, wait audit.Wait) error
}

// An Undo saves what a call is about to change, so that the user can undo the call. Save
// writes the copy. The change may begin when wait has returned nil: then the copy is on the
// disk. RemoveFailed removes what was saved for a call that failed, if the call has changed
// nothing.
type Undo interface {
	Save(call, tool string, changes []Change) (wait func() error, err error)
	RemoveFailed(call string) error
}

// recordIntent writes to the journal what is about to happen. If it fails, nothing happens.
// A call that changes something waits until the intent is on the disk. Undo writes the old
// content before that, and both reach the disk at the same time: if golem stops in between,
// the call has changed nothing, and an undo detects this. The approval is remembered only
// after the intent is written.
func (in *invocation) recordIntent(ctx context.Context, plan callPlan, prepared preparedCall, approval approval) error {
	if err := ctx.Err(); err != nil {
		return timeoutError(plan.tool.currentName(), err)
	}
	if in.Undo != nil && prepared.Undoable && len(prepared.Changes) > 0 {
		var err error
		if in.saved, err = in.Undo.Save(in.record.Call, plan.tool.currentName(), prepared.Changes); err != nil {
			return undoError(plan.tool.currentName(), err)
		}
	}
	in.record.Kind, in.record.Files = audit.Intent, prepared.Deletes
	wait := audit.Durable
	if plan.changesNothing() {
		wait = audit.Queued
	}
	if err := in.Journal.Write(in.record, wait); err != nil {
		if in.saved != nil {
			in.saved() // closes its file
		}
		return journalError(plan.tool.currentName(), err)
	}
	if approval.keep != nil && approval.keep() != nil {
		in.record.Note = "golem could not save the rule"
	}
	return nil
}

// recordOutcome writes to the journal how the call ended. If it fails, a call that only
// reads returns an error in place of its result.
func (in *invocation) recordOutcome(plan callPlan, r Result) Result {
	out := audit.Record{Kind: audit.Outcome, Call: in.record.Call, Origin: in.record.Origin, Workers: in.Workers, Tool: plan.tool.currentName(), Note: in.record.Note, Files: in.files}
	if r.Record != "" {
		out.Note = r.Record
	}
	if r.Err != nil {
		out.Code = string(r.Err.Code)
	}
	if err := in.Journal.Write(out, audit.Written); err != nil {
		if plan.changesNothing() {
			return failed(plan.tool.currentName(), journalError(plan.tool.currentName(), err))
		}
		r.Notes = append(r.Notes, sayDone(r)+"golem could not write its outcome to the journal ("+cause(err)+"); the journal has only its beginning")
	}
	return r
}

// refuse returns the result of a call that did nothing, and writes it to the journal. The
// call stays refused if that fails.
func (in *invocation) refuse(err error) Result {
	r := failed(in.record.Tool, err)
	if in.Journal == nil {
		return r
	}
	in.record.Kind, in.record.Code = audit.Refusal, string(r.Err.Code)
	if in.Journal.Write(in.record, audit.Written) != nil {
		r.Notes = append(r.Notes, "golem could not write this refusal to the journal")
	}
	return r
}

func timeoutError(op string, err error) error {
	hint := "it was stopped before anything was done"
	if errors.Is(err, context.DeadlineExceeded) {
		hint = "the time limit passed before anything was done"
	}
	return &sandbox.Error{Op: op, Code: "timeout", Hint: hint}
}

func undoError(op string, err error) error {
	return &sandbox.Error{Op: op, Code: sandbox.ErrInternal,
		Hint: "nothing was done, because golem cannot save the content that the call replaces (" + cause(err) + "); the user can free space in the state directory, or choose another with --state"}
}

func journalError(op string, err error) error {
	return &sandbox.Error{Op: op, Code: sandbox.ErrInternal,
		Hint: "nothing was done, because the journal cannot be written (" + cause(err) + "); the user can check it with golem audit verify"}
}

// effectTexts returns effects as the journal has them.
func effectTexts(effects []policy.Effect) []string {
	var list []string
	for _, e := range effects {
		list = append(list, e.String())
	}
	return list
}

// newID returns a random ID of a call. The records of one call share it.
func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// withoutContent returns arguments as the journal has them: with a size in place of each
// private one.
func (t Tool) withoutContent(keys map[string]any) map[string]any {
	for _, key := range t.Private {
		if value, given := keys[key]; given {
			keys[key] = sizeOf(value)
		}
	}
	return keys
}

func sizeOf(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%d bytes", len(v))
	case []any:
		return fmt.Sprintf("%d entries", len(v))
	}
	return "omitted"
}
