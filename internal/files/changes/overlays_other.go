//go:build !linux

package changes

import (
	"context"
	"io/fs"
	"os"

	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// Overlays are the overlays of a session. This system has none.
type Overlays struct{}

// Open returns an error.
func Open(sandbox.Host, []Directory, bool) (*Overlays, error) { return nil, errNoOverlays }

// Look returns an error.
func Look(sandbox.Host, []Directory) (*Overlays, error) { return nil, errNoOverlays }

// OpenCopies returns an error.
func OpenCopies(sandbox.Host, []Directory, CopyOptions) (*Overlays, []Skip, error) {
	return nil, nil, errNoOverlays
}

// StartHelper does nothing.
func (*Overlays) StartHelper() {}

// Path returns "".
func (*Overlays) Path(Directory) sandbox.Host { return "" }

// OpenDirectory returns an error.
func (*Overlays) OpenDirectory(Directory) (*os.File, error) { return nil, errNoOverlays }

// IsBusy returns false.
func (*Overlays) IsBusy() bool { return false }

// MayBeBusy returns false.
func MayBeBusy(sandbox.Host) bool { return false }

// SetHolder does nothing.
func (*Overlays) SetHolder(Holder) {}

// Holder returns none.
func (*Overlays) Holder() (Holder, bool) { return Holder{}, false }

// Process returns none.
func Process(*Overlays) int { return 0 }

// AwaitCalls returns at once.
func AwaitCalls(context.Context, *Overlays, func(Holder)) error { return nil }

// Enter returns an error.
func (*Overlays) Enter(fresh, changes bool) (func() error, error) { return nil, errNoOverlays }

// Touched returns nothing.
func (*Overlays) Touched() []string { return nil }

// Changes returns an error.
func (*Overlays) Changes() ([]Change, string, error) { return nil, "", errNoOverlays }

// States returns an error.
func (*Overlays) States(Change) (own, real overlay.State, err error) {
	return own, real, errNoOverlays
}

// Base returns nothing.
func (*Overlays) Base(Change) []byte { return nil }

// Texts returns nothing.
func (*Overlays) Texts(Change, int64) (real, own []byte) { return nil, nil }

// OpenTexts returns a reader that finds nothing.
func OpenTexts(*Overlays) *Texts { return nil }

// Texts reads the contents of changed files.
type Texts struct{}

// Content returns an error.
func (*Texts) Content(Change, int64) (real, own []byte, err error) {
	return nil, nil, errNoOverlays
}

// Open fails.
func (*Texts) Open(Change) (*os.File, error) { return nil, fs.ErrNotExist }

func (*Texts) oldFiles(*Change, *int) []OldFile { return nil }

// Close does nothing.
func (*Texts) Close() {}

// OtherTargets returns nothing.
func (*Overlays) OtherTargets() []string { return nil }

// Usage returns zeros.
func (*Overlays) Usage() (files int, bytes int64) { return 0, 0 }

// DiskUse returns zero.
func DiskUse(session, other sandbox.Host) (bytes int64, whole bool) { return 0, true }

// PlanDiscard returns an error.
func (*Overlays) PlanDiscard([]string) ([]Change, string, error) {
	return nil, "", errNoOverlays
}

// Discard returns an error.
func (*Overlays) Discard(sandbox.Host, []string, func([]Change) error, []string) error {
	return errNoOverlays
}

// Begin returns an error.
func (*Overlays) Begin(sandbox.Host, []Pick) (*Transaction, error) { return nil, errNoOverlays }

// Close does nothing.
func (*Overlays) Close() error { return nil }

// Remove returns an error.
func (*Overlays) Remove(func() error) error { return errNoOverlays }

// FinishRemoval does nothing: there are no overlays here.
func FinishRemoval(sandbox.Host) error { return nil }

// Mounted returns false.
func (*Overlays) Mounted() bool { return false }

// Helper returns nil.
func (*Overlays) Helper() *jail.Helper { return nil }

// Prepare does nothing.
func (*Overlays) Prepare([]jail.Mount, jail.Level) error { return nil }

// Join does nothing.
func (*Overlays) Join(string, bool) (bool, string) { return false, "" }

// Serve does nothing.
func (*Overlays) Serve() func() { return func() {} }

// Relocate does nothing: there are no overlays here.
func Relocate(sandbox.Host, []Directory, func(target, name string) bool) error { return nil }

// Receive returns an error.
func Receive(sandbox.Host, Directory, func(upper string) error, func(name string) bool) error {
	return errNoOverlays
}
