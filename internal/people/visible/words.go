package visible

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
)

// Age says how long before now a time was; "" for no time.
func Age(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 24*time.Hour:
		return Count(int(d.Hours()), "hour") + " ago"
	default:
		return Count(int(d.Hours()/24), "day") + " ago"
	}
}

// Each returns a text for each element of a list. The result is never nil.
func Each[T any](list []T, text func(T) string) []string {
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = text(one)
	}
	return texts
}

// Width returns the maximum number of terminal columns of a text.
func Width(text string) (n int) {
	for _, r := range text {
		n += Cells(r)
	}
	return n
}

// Verb returns the form of a verb for one thing or for several: waits, wait.
func Verb[N int | int64 | uint64](n N, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// HomeRelative returns a host path as ~/… if it is in the user's home directory.
func HomeRelative(name, home string) string {
	if below, err := filepath.Rel(home, name); err == nil && home != "" && filepath.IsLocal(below) {
		return filepath.Join("~", below)
	}
	return name
}

// CommandLine quotes words for a shell, so that a user can copy the line. A word that
// sandbox.Shown changes is printed in that form, and cannot be used as typed.
func CommandLine(words ...string) string {
	var line []string
	for _, w := range words {
		plain := strings.IndexFunc(w, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./:=@%+,", r)
		}) < 0
		if shown := sandbox.Shown(w); shown != w {
			w = shown
		} else if !plain || w == "" {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		line = append(line, w)
	}
	return strings.Join(line, " ")
}

// UndoNote says whether golem undo undoes the changes that a result has applied. final is tool.Result.Final.
func UndoNote(final string) string {
	if final != "" {
		return "golem undo cannot restore what was there: " + final
	}
	return "golem undo restores what was there"
}

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
	if cause, is := errors.AsType[*fs.PathError](err); is {
		err = cause.Err
	}
	if name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
