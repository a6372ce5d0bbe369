package visible

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
)

// Quote returns a text of any length in full, as a Go string literal in ASCII if it has
// characters that a terminal may hide or interpret.
func Quote(text string) string {
	for _, r := range text {
		if !sandbox.Plain(r) || r == utf8.RuneError {
			return strconv.QuoteToASCII(text)
		}
	}
	return text
}

// FileError returns an error about a file under the name that the user knows, with the
// system's reason and without the path in it.
func FileError(name string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}
