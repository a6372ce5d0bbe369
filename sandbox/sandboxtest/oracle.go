package sandboxtest

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
)

// The oracles are rules for every operation on every name:
//
//	leak    no result and no error contains a secret from outside, or a host path
//	tamper  nothing outside changes, and nothing at all if the operation is refused
//	hang    the operation returns
//	shape   an error is an *Error: short, on one line, with a code and a hint

// maxErrorText is the largest length of an error text.
const maxErrorText = 300

// knownCodes are the codes that an operation of a sandbox may return.
var knownCodes = []sandbox.Code{
	sandbox.ErrNotFound, sandbox.ErrExists, sandbox.ErrInvalid, sandbox.ErrOutside, sandbox.ErrReadOnly, sandbox.ErrProtected,
	sandbox.ErrNotRegular, sandbox.ErrIsDir, sandbox.ErrNotDir, sandbox.ErrTooLarge, sandbox.ErrSuffix, sandbox.ErrConflict,
	sandbox.ErrExceedsParent, sandbox.ErrNotEmpty, sandbox.ErrLimit,
}

// misshapen returns the defects in the form of an error.
func misshapen(err error, ofFS bool) (wrong []string) {
	if ofFS {
		wrapped, ok := err.(*fs.PathError)
		if !ok {
			return []string{fmt.Sprintf("is a %T, not a *fs.PathError", err)}
		}
		err = wrapped.Err
	}
	e, ok := err.(*sandbox.Error)
	if !ok {
		return []string{fmt.Sprintf("is or wraps a %T, not a *sandbox.Error", err)}
	}
	text := e.Error()
	if len(text) > maxErrorText {
		wrong = append(wrong, fmt.Sprintf("has %d bytes", len(text)))
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		wrong = append(wrong, "is not one printable line")
	}
	if !slices.Contains(knownCodes, e.Code) {
		wrong = append(wrong, fmt.Sprintf("has the code %q", e.Code))
	}
	if e.Hint == "" {
		wrong = append(wrong, "has no hint")
	}
	if e.Op == "" || !errors.Is(err, e.Code) {
		wrong = append(wrong, "has no operation, or is not its code")
	}
	return wrong
}

// An outcome is the visible result of an operation.
type outcome struct {
	text  string // all returned text
	err   error
	fault error // the defect that the operation reported itself
	hung  bool
}

// watch runs an operation, and stops waiting if it hangs.
func watch(act func(a *attempt) error, a *attempt) outcome {
	done := make(chan outcome, 1)
	go func() {
		err := act(a)
		done <- outcome{text: a.out.String(), err: err, fault: a.fault}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case o := <-done:
		return o
	case <-timer.C:
		return outcome{hung: true}
	}
}

// leaks returns the secrets in an outcome. The name that the attacker gave may be in it.
func (w *world) leaks(o outcome, given string, a attack) (found []string) {
	text := o.text
	if o.err != nil {
		text += "\n" + o.err.Error()
	}
	if !a.mayRead && strings.Contains(text, w.canary) {
		found = append(found, "the canary came back")
	}
	if w.dir != "" && strings.Contains(text, w.dir) && !strings.Contains(given, w.dir) {
		found = append(found, "a host path came back")
	}
	for _, hidden := range a.hides {
		if strings.Contains(text, hidden) && !strings.Contains(given, hidden) {
			found = append(found, fmt.Sprintf("%q came back", hidden))
		}
	}
	return found
}

// tampered returns the changes that must not be: outside, in files of keep, and all
// changes if the operation was refused.
func (w *world) tampered(list []string, refused bool, keep []string) (found []string) {
	for _, change := range list {
		name := changedName(change)
		kept := slices.ContainsFunc(keep, func(k string) bool { return name == k || strings.HasPrefix(name, k+"/") })
		if refused || kept || !w.mounted(name) && !w.above(name) {
			found = append(found, change)
		}
	}
	return found
}

// above reports whether a mount is below name. Then the name appears and disappears with
// the mount.
func (w *world) above(name string) bool {
	for m := range w.mounts {
		if name == "." || strings.HasPrefix(m, path.Clean(name)+"/") {
			return true
		}
	}
	return false
}
