package tool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// A Call asks for a tool.
type Call struct {
	Tool string
	Args []byte // JSON
}

// A Gate holds everything that decides about the calls of one worker. It is a value, and
// many goroutines may use it at once. A Gate without Files or Journal refuses every call,
// and one without an Approver every call that needs approval.
type Gate struct {
	Tools    []Tool
	Grant    policy.Grant
	Files    *sandbox.Sandbox // the worker's own
	Approver Approver
	Journal  Journal
	Workers  []string // from the entry worker to this one
	Taint    Taint    // records untrusted input; may be nil
	Undo     Undo     // saves what a call is about to change; may be nil
	Hooks    Hooks    // look at calls before and after they are made; may be nil

	// Again tells the user how to make a call again that waited for approval; "" means to
	// run the golem command again.
	Again string

	// NoFile says that the program has no project file, so that flags set its values.
	NoFile bool

	// ShowReads puts the content of the files that a call reads or attaches into its request,
	// because the user cannot look at them elsewhere.
	ShowReads bool

	// Enter, if set, is called before a call looks at files, and again before it runs.
	// The call invokes leave when it is done with the files. With fresh, the call must see
	// the changes that others have made to the files since the last time.
	Enter func(fresh, changes bool) (leave func() error, err error)

	// Changed, if set, returns what commands have changed in the session since its last call,
	// nil for nothing. The gate calls it after each call that may change something.
	Changed func() *audit.Files

	// Turn, if set, lets a call wait for others that were asked for before it. The gate
	// calls it before a question, and before a call begins that changes something. With
	// alone, the calls before must have ended; otherwise it is enough that they have
	// begun. The gate refuses the call with the error of Turn.
	Turn func(ctx context.Context, alone bool) error
}

// An invocation is one call on its way through the gate.
type invocation struct {
	Gate   // from addRules on, its Grant has the rules for this call
	origin policy.Origin
	record audit.Record // everything that the journal learns about the call
	saved  func() error // waits until undo has saved the call; nil without undo
	files  *audit.Files // that the call changed in the session
}

func newInvocation(g Gate, origin policy.Origin, tool string) *invocation {
	return &invocation{Gate: g, origin: origin,
		record: audit.Record{Call: newID(), Origin: origin.String(), Workers: g.Workers, Tool: tool}}
}

// lookAtFiles calls look, which does not change files, between Enter and leave.
func (in *invocation) lookAtFiles(look func() error) error {
	leave, err := in.enter(true, false)
	if err != nil {
		return err
	}
	defer leave()
	return look()
}

// enter calls Enter, if it is set.
func (in *invocation) enter(fresh, changes bool) (leave func() error, err error) {
	if in.Enter == nil {
		return func() error { return nil }, nil
	}
	if leave, err = in.Enter(fresh, changes); err != nil {
		next := "try again in a moment"
		if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
			next = "make the state directory writable for you, or choose another with --state DIR or GOLEM_STATE"
		}
		err = &sandbox.Error{Op: in.record.Tool, Code: sandbox.ErrConflict, Hint: "the session's overlay cannot be used now: " + cause(err) + "; nothing was done; " + next}
	}
	return leave, err
}

// recoverPanic turns a panic of a tool into an error of this call.
func (in *invocation) recoverPanic(err *error) {
	if v := recover(); v != nil {
		in.record.Note = shorten(fmt.Sprint("panic: ", v), 512)
		*err = &sandbox.Error{Op: in.record.Tool, Code: sandbox.ErrInternal, Hint: "the tool broke; this call failed, others will work"}
	}
}

// nameStop replaces an error without a text for the caller by one that says that the call
// was stopped, if it was.
func (in *invocation) nameStop(ctx context.Context, err error) error {
	var known *sandbox.Error
	if err == nil || ctx.Err() == nil || errors.As(err, &known) {
		return err
	}
	return &sandbox.Error{Op: in.record.Tool, Code: "timeout", Hint: "golem stopped it before it finished"}
}

// cause returns the last part of an error's text, without the paths before it.
func cause(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	text := err.Error()
	if strings.Contains(text, "/") {
		return "see the user's terminal"
	}
	return text
}
