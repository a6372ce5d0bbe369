//go:build !linux

package jail

import (
	"os"
	"time"

	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// Kept are the layers of a session; there are none on this system.
type Kept struct{}

// OpenKept returns an error.
func OpenKept(sandbox.Host, []Over, bool, func() time.Time) (*Kept, error) { return nil, errNoLayers }

// LookKept returns an error.
func LookKept(sandbox.Host, []Over, func() time.Time) (*Kept, error) { return nil, errNoLayers }

// Expect does nothing.
func (*Kept) Expect() {}

// CanCopy reports whether this system can work on copies.
const CanCopy = false

// OpenCopies returns an error.
func OpenCopies(sandbox.Host, []Over, Copying, func() time.Time) (*Kept, []LeftOut, error) {
	return nil, nil, errNoLayers
}

// An Apart holds copies; there are none on this system.
type Apart struct{ Mounts []Mount }

// SetApart returns an error.
func SetApart(sandbox.Host, []Mount, int64, func() time.Time) (*Apart, error) {
	return nil, errNoLayers
}

// Changed returns an error.
func (*Apart) Changed() (*Transaction, error) { return nil, errNoLayers }

// Drop does nothing.
func (*Apart) Drop() error { return nil }

// Through returns nothing.
func (*Kept) Through(Over) sandbox.Host { return "" }

// Folder returns an error.
func (*Kept) Folder(Over) (*os.File, error) { return nil, errNoLayers }

// Busy returns false.
func (*Kept) Busy() bool { return false }

// Enter returns an error.
func (*Kept) Enter(fresh, changes bool) (func() error, error) { return nil, errNoLayers }

// Changes returns an error.
func (*Kept) Changes() ([]Standing, string, error) { return nil, "", errNoLayers }

// Base returns nothing.
func (*Kept) Base(Standing) []byte { return nil }

// Texts returns nothing.
func (*Kept) Texts(Standing, int64) (real, own []byte) { return nil, nil }

// Others returns nothing.
func (*Kept) Others() []string { return nil }

// Usage returns nothing.
func (*Kept) Usage() (files int, bytes int64) { return 0, 0 }

// Lost returns an error.
func (*Kept) Lost([]string) ([]Standing, string, error) { return nil, "", errNoLayers }

// States returns an error.
func (*Kept) States(Standing) (own, real overlay.State, err error) { return own, real, errNoLayers }

// Discard returns an error.
func (*Kept) Discard([]string, func([]Standing) error) error { return errNoLayers }

// Take returns an error.
func (*Kept) Take(sandbox.Host, []Pick) (*Transaction, error) { return nil, errNoLayers }

// Close does nothing.
func (*Kept) Close() error { return nil }

// Remove returns an error.
func (*Kept) Remove() error { return errNoLayers }

// Touched returns nothing.
func (*Kept) Touched() []string { return nil }
