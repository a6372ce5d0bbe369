package jail

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// Plain returns the text of an error without the host's paths that errors of the system
// contain.
func Plain(err error) string {
	var of *fs.PathError
	var between *os.LinkError
	switch {
	case errors.As(err, &of):
		return of.Op + ": " + of.Err.Error()
	case errors.As(err, &between):
		return between.Op + ": " + between.Err.Error()
	}
	return err.Error()
}

// CommandError returns an error of the jail as a worker may read it. The jail names no
// directory of the host except those that it makes itself.
func CommandError(err error) error {
	var known *sandbox.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	hint := "run golem doctor to check this machine"
	if text := Plain(err); strings.Contains(text, "no space left on device") || strings.Contains(text, "disk quota exceeded") {
		hint = "the disk with golem's state directory is full; free some space there, or remove old sessions with golem sessions prune, and try again"
	}
	return &sandbox.Error{Op: "shell", Code: sandbox.ErrInternal, Hint: strings.TrimPrefix(Plain(err), "jail: ") + "; " + hint}
}
