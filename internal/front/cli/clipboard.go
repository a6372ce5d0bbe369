package cli

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/people/desktop"
	"github.com/golem-forge/golem/sandbox"
)

// clipboardOf returns a function that copies text to the user's clipboard. It uses a
// program of the desktop, or else a terminal. terminal may be nil.
func clipboardOf(terminal *os.File) func(ctx context.Context, text string) (string, error) {
	return func(ctx context.Context, text string) (string, error) {
		name, err := desktop.Copy(ctx, desktop.Directories(), os.Environ(), text)
		switch {
		case err == nil:
			return "by " + name, nil
		case !errors.Is(err, desktop.ErrNone):
			return "", &sandbox.Error{Op: "clipboard_copy", Code: sandbox.ErrInternal, Hint: name + " could not do it: " + err.Error() + "; try it by itself"}
		}
		for _, f := range []*os.File{terminal, os.Stderr, os.Stdout} {
			if f != nil && term.IsTerminal(int(f.Fd())) {
				if _, err := io.WriteString(f, desktop.CopySequence(text)); err == nil {
					return "golem asked the terminal to copy it by OSC 52; if nothing was copied, the terminal does not support that", nil
				}
			}
		}
		return "", &sandbox.Error{Op: "clipboard_copy", Code: sandbox.ErrNotFound,
			Hint: "there is no wl-copy, xclip or pbcopy with a desktop, and no terminal to ask; golem tool file_export writes a file"}
	}
}
