package file

import (
	"context"
	"errors"
	"fmt"

	"github.com/golem-forge/golem/sandbox"
)

func binaryError(at, kind string, size int64) error {
	return &sandbox.Error{Op: "read", Path: at, Code: sandbox.ErrInvalid,
		Hint: fmt.Sprintf("cannot read a binary file as text (%s, %d bytes); file_info describes it; give it to the user, or to a worker that takes attachments", kind, size)}
}

func notEmptyError(name, why string) error {
	return &sandbox.Error{Op: "delete", Path: name, Code: sandbox.ErrNotEmpty, Hint: why + "; set recursive to delete the directory with its contents"}
}

// tooLargeError returns the error for a file that is too large for its new place. The error
// says what to do instead.
func tooLargeError(name, why string) error {
	return &sandbox.Error{Path: name, Code: sandbox.ErrTooLarge,
		Hint: why + "; nothing was done; use it where it is, name a directory with a higher limit, or ask the user"}
}

// plainError returns an error that golem may show. Errors from outside the sandbox may
// contain host paths.
func plainError(err error) *sandbox.Error {
	var known *sandbox.Error
	if errors.As(err, &known) {
		return known
	}
	return &sandbox.Error{Op: "read", Code: sandbox.ErrInternal, Hint: "the host failed"}
}

// stoppedError returns the error of a read that did not complete.
func stoppedError(at string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &sandbox.Error{Op: "read", Path: at, Code: errTimeout, Hint: "it was stopped"}
	}
	return &sandbox.Error{Op: "read", Path: at, Code: sandbox.ErrInternal, Hint: "the host failed"}
}

func changedError(op, name string) error {
	return conflictError(op, name, "it changed meanwhile, and nothing was done; read it again and repeat")
}

func conflictError(op, name, hint string) error {
	return &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrConflict, Hint: hint}
}

// withOp returns an error of the sandbox with the operation that the caller asked for.
func withOp(op string, err error) error {
	var known *sandbox.Error
	if !errors.As(err, &known) {
		return err
	}
	mine := *known
	mine.Op = op
	return &mine
}
