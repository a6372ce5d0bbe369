package sandbox

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Code is the class of an error. It never changes, is in lower case, and programs can
// rely on it. A Code is an error itself, so errors.Is(err, sandbox.ErrReadOnly) works.
// Codes also match fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and fs.ErrInvalid where
// they fit.
type Code string

// The codes of this package. Other packages add their own.
const (
	ErrNotFound      Code = "not_found"      // there is no such file, or it is hidden
	ErrExists        Code = "exists"         // the file or directory already exists
	ErrInvalid       Code = "invalid"        // the name or argument is not valid
	ErrOutside       Code = "outside"        // a symlink or the host leads out of the mount
	ErrReadOnly      Code = "read_only"      // it may be read but not changed
	ErrProtected     Code = "protected"      // a protected path; only clearance changes it
	ErrNotRegular    Code = "not_regular"    // a pipe, socket or device
	ErrIsDir         Code = "is_dir"         // a directory where a file is needed
	ErrNotDir        Code = "not_dir"        // a file where a directory is needed
	ErrTooLarge      Code = "too_large"      // over a size limit
	ErrSuffix        Code = "suffix"         // the file name has a suffix that is not allowed
	ErrConflict      Code = "conflict"       // the file has changed since it was read
	ErrExceedsParent Code = "exceeds_parent" // a limit asks for more access than the parent has
	ErrNotEmpty      Code = "not_empty"      // the directory is not empty
	ErrLimit         Code = "limit"          // a resource has run out
	ErrInternal      Code = "internal"       // the host failed
)

// Error returns the code as a string.
func (c Code) Error() string { return string(c) }

// Is matches the errors of io/fs.
func (c Code) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return c == ErrNotFound
	case fs.ErrExist:
		return c == ErrExists || c == ErrNotEmpty
	case fs.ErrInvalid:
		return c == ErrInvalid
	case fs.ErrPermission:
		return c == ErrReadOnly || c == ErrProtected || c == ErrOutside || c == ErrSuffix
	}
	return false
}

// An Error is the error that the operations of a Sandbox return. It reads "op /path:
// code; hint" and contains only virtual paths. The hint says what is allowed.
type Error struct {
	Op   string // the operation: read, write, list, …
	Path string // the virtual name, in canonical form if it has one
	Code Code
	Hint string // what is allowed, or what to do next
}

// Error returns the error as one short line. It quotes and shortens the name as [Shown]
// does.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Path != "" {
		if e.Op != "" {
			b.WriteString(" ")
		}
		b.WriteString(Shown(e.Path))
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(string(e.Code))
	if e.Hint != "" {
		b.WriteString("; ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

// Unwrap returns the code, for errors.Is.
func (e *Error) Unwrap() error { return e.Code }

// CodeOf returns the code of err: "" for nil, and ErrInternal for an error without a
// code.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return ErrInternal
}

// Shown returns name in a form that is safe to print on one line. It quotes a name that
// has characters that are not [Plain] and writes them as escapes, and it cuts the middle
// of a long name.
func Shown(name string) string { return printable(name, 84) }

// brief is Shown with a smaller length, for a name inside a hint.
func brief(name string) string { return printable(name, 36) }

func printable(name string, most int) string {
	name = shorten(name, most)
	for _, r := range name {
		if !Plain(r) || r == utf8.RuneError || r == '"' {
			return shorten(strconv.QuoteToASCII(name), most)
		}
	}
	return name
}

// Plain reports whether a reader can see which character r is. It is false for control,
// bidirectional and zero-width characters, tags, fillers and variation selectors.
func Plain(r rune) bool {
	switch {
	case r >= 0x180b && r <= 0x180f, r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef, // variation selectors
		r == 0x034f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x2800, r == 0x3164, r == 0xffa0:
		return false
	}
	return strconv.IsPrint(r)
}

// shorten cuts the middle of a text that has more than most bytes.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head, tail := most*2/3, len(text)-most/3
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + "…" + text[tail:]
}

// classify returns the code for an error of a backend, and a hint on the cause. It drops
// the text of an error of the host, because that may contain host paths.
func classify(err error) (Code, string) {
	var c Code
	if errors.As(err, &c) {
		return c, ""
	}
	if c, hint := classifyErrno(err); c != "" {
		return c, hint
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotFound, ""
	case errors.Is(err, fs.ErrExist):
		return ErrExists, ""
	case errors.Is(err, fs.ErrPermission):
		return ErrOutside, "the host denies access"
	case errors.Is(err, fs.ErrInvalid):
		return ErrInvalid, ""
	}
	return ErrInternal, "the host failed"
}
