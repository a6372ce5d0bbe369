package visible

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
)

// Quote returns a text in full. If the text has characters that a terminal may hide or
// interpret, the result is a Go string literal in ASCII.
func Quote(text string) string {
	for _, r := range text {
		if !sandbox.Plain(r) || r == utf8.RuneError {
			return strconv.QuoteToASCII(text)
		}
	}
	return text
}

// FileError returns an error with the name that the user knows and the reason of the
// system. If err is a path error, its path is dropped.
func FileError(name string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	if name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
