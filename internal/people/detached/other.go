//go:build !linux

package detached

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// MaxOutput is how many bytes each of the two files with output has at most.
const MaxOutput = 8 << 20

// errNone is the error of everything here.
var errNone = errors.New("golem runs nothing in the background on this system")

// A Host keeps the terminal of a golem in the background. On this system there is none.
type Host struct{}

// Open returns an error.
func Open() (Ends, error) { return Ends{}, errNone }

// NewHost returns an error.
func NewHost(outer, first *os.File, now func() time.Time) (*Host, error) { return nil, errNone }

// TakeTerminal returns an error.
func (*Host) TakeTerminal() error { return errNone }

// Publish returns an error.
func (*Host) Publish(dir, session, command string) error { return errNone }

// Begin does nothing.
func (*Host) Begin() {}

// End does nothing.
func (*Host) End() {}

// Attached returns 0: no terminal is attached.
func (*Host) Attached() (terminal int) { return 0 }

// Close does nothing.
func (*Host) Close(code int) error { return nil }

// Dial returns an error.
func Dial(dir string) (*os.File, error) { return nil, errNone }

// Attach returns an error.
func Attach(conn *os.File, o Options) (Ending, error) { return Ending{}, errNone }

// Follow returns an error.
func Follow(ctx context.Context, dir string, w io.Writer, lost func() error) error { return errNone }

// isHeld reports that no golem runs in the background.
func isHeld(string) bool { return false }
