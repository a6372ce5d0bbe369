// Package pager shows a long text in the user's pager, as git and gh do. The user chooses
// the program by an environment variable, and it runs as the user, outside any jail.
package pager

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// Command returns the pager that the environment chooses: GOLEM_PAGER, PAGER, or else less.
// It is "" if the user wants none, which an empty value or cat says.
func Command(environ []string) string {
	for _, name := range []string{"GOLEM_PAGER", "PAGER"} {
		for _, entry := range environ {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				if value = strings.TrimSpace(value); value == "cat" {
					return ""
				}
				return value
			}
		}
	}
	return "less"
}

// Show runs a pager with a text as its input, on the terminal that out is, until the user
// leaves it. A pager that the user leaves before the end of the text is no error. The error
// is ErrNone if the pager could not be started, and nothing was shown.
func Show(command string, environ []string, out *os.File, text string) error {
	words := strings.Fields(command)
	if len(words) == 0 {
		return ErrNone
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = environ
	if !slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, "LESS=") }) {
		cmd.Env = append(slices.Clone(environ), "LESS=FRX") // as git does: colours, no clearing, no paging of a short text
	}
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return ErrNone
	}
	_, err = io.WriteString(input, text)
	input.Close()
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		err = nil
	}
	var ended *exec.ExitError
	if late := cmd.Wait(); late != nil && !errors.As(late, &ended) {
		err = errors.Join(err, late)
	}
	return err
}

// ErrNone is the error of a pager that cannot be started.
var ErrNone = errors.New("no pager")
