//go:build !linux

package changes

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// This system has neither overlays nor a jail, so there are no records and no changes to
// apply or discard.

var errNoOverlays = errors.New("there are no overlays on this system")

// CanCopy reports whether this system can work on copies.
const CanCopy = false

type (
	store  struct{}
	record struct{}

	readers struct{}
)

// Child is jail.Child.
func Child(args []string, stderr io.Writer) (code int, is bool) {
	return jail.Child(args, stderr, nil)
}

// A Recorder records nothing.
type Recorder struct{ Dir sandbox.Host }

// Prepare returns an error.
func (Recorder) Prepare(*jail.Helper, []jail.Mount, int) (jail.Record, error) {
	return nil, errNoOverlays
}

// Finish returns the result without changes.
func Finish(r jail.Result, err error) (Result, error) { return Result{Result: r}, err }

// Apply returns an error.
func (*Transaction) Apply([]string) ([]string, error) { return nil, errNoOverlays }

// Active returns "".
func Active(sandbox.Host) (command string, process int) { return "", 0 }

// WhyFinal returns "".
func (*Transaction) WhyFinal() string { return "" }

// Discard does nothing.
func (*Transaction) Discard() error { return nil }

// Content returns an error.
func (*Transaction) Content(Change, int64) (old, new []byte, err error) {
	return nil, nil, errNoOverlays
}

func (*Transaction) oldFiles(*Change, *int) []OldFile { return nil }

// Walk returns an error.
func (*Transaction) Walk(Change, func(string, fs.DirEntry) bool) error { return errNoOverlays }

// Exists returns false.
func (*Transaction) Exists(string) bool { return false }

// Open returns an error.
func (*Transaction) Open(Change) (*os.File, error) { return nil, errNoOverlays }

// An AppliedTransaction is an applied transaction. This system has none.
type AppliedTransaction struct{ Changes []Change }

// Last returns fs.ErrNotExist.
func Last(sandbox.Host) (*AppliedTransaction, error) { return nil, fs.ErrNotExist }

// History returns nothing.
func History(sandbox.Host) ([]*AppliedTransaction, error) { return nil, nil }

// AppliedAt returns the zero time.
func AppliedAt(sandbox.Host) time.Time { return time.Time{} }

// At returns the zero time.
func (*AppliedTransaction) At() time.Time { return time.Time{} }

// Session returns "".
func (*AppliedTransaction) Session() sandbox.Host { return "" }

// LostSession returns "".
func (*AppliedTransaction) LostSession() string { return "" }

// WhyFinal returns "".
func (*AppliedTransaction) WhyFinal() string { return "" }

// Recover finds nothing.
func Recover(sandbox.Host) (Recovered, error) { return Recovered{}, nil }

// IsInterrupted returns false.
func IsInterrupted(sandbox.Host) bool { return false }

// Name returns "".
func (*AppliedTransaction) Name() string { return "" }

// Directories returns nothing.
func (*AppliedTransaction) Directories() []Directory { return nil }

// Each returns an error.
func (*AppliedTransaction) Each(func(name string, now, then overlay.State) error) error {
	return errNoOverlays
}

// NeedsSession returns false.
func NeedsSession(dir, session sandbox.Host) bool { return false }

// UndoInto returns false.
func UndoInto(dir, session sandbox.Host) (process int, is bool) { return 0, false }

// Undo returns an error.
func (*AppliedTransaction) Undo(*Overlays) ([]string, error) { return nil, errNoOverlays }

// Forget returns an error.
func (*AppliedTransaction) Forget() error { return errNoOverlays }

// CommandCopies are copies for one command. This system has none.
type CommandCopies struct{ Mounts []jail.Mount }

// CopyForCommand returns an error.
func CopyForCommand(sandbox.Host, []jail.Mount, int64) (*CommandCopies, error) {
	return nil, errNoOverlays
}

// Finish returns an error.
func (*CommandCopies) Finish() (*Transaction, error) { return nil, errNoOverlays }

// Discard does nothing.
func (*CommandCopies) Discard() error { return nil }

// IsChangedSince reports whether a file was changed, or moved to its name, at or after a time in
// nanoseconds.
func IsChangedSince(fs.FileInfo, int64) bool { return true }
