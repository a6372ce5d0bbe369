//go:build !linux

package jail

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/sandbox"
)

// A work is where changes are kept; there is none on this system.
type work struct{}

var errNoLayers = errors.New("there are no layers on this system")

// Land returns an error: no command has run.
func (*Transaction) Land([]string) ([]string, error) { return nil, errNoLayers }

// Drop does nothing.
func (*Transaction) Drop() error { return nil }

// Below returns an error: no command has run.
func (*Transaction) Below(Change, func(string) bool) error { return errNoLayers }

// Exists returns false: no command has run.
func (*Transaction) Exists(string) bool { return false }

// Open returns an error: no command has run.
func (*Transaction) Open(Change) (*os.File, error) { return nil, errNoLayers }

// Hash returns nothing.
func (*Transaction) Hash(Change) string { return "" }

// A Landed is a transaction that has landed; there is none on this system.
type Landed struct{ Changes []Change }

// Name is empty.
func (*Landed) Name() string { return "" }

// Over returns nothing.
func (*Landed) Over() []Over { return nil }

// Each returns an error.
func (*Landed) Each(func(name string, now, then overlay.State) error) error { return errNoLayers }

// Of is false.
func (*Landed) Of(sandbox.Host) bool { return false }

// Last returns fs.ErrNotExist.
func Last(sandbox.Host) (*Landed, error) { return nil, fs.ErrNotExist }

// Undo returns an error.
func (*Landed) Undo(*Kept, func() time.Time) ([]string, error) { return nil, errNoLayers }

// Forget returns an error.
func (*Landed) Forget() error { return errNoLayers }

// Recover finds nothing.
func Recover(sandbox.Host, func() time.Time) (int, error) { return 0, nil }

// Content returns an error: no command has run.
func (*Transaction) Content(Change, int64) (old, new []byte, err error) { return nil, nil, errNoLayers }
