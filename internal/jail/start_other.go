//go:build !linux

package jail

import (
	"context"
	"net"
	"runtime"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// A Jail runs commands with one policy. This system has none, so Start returns an
// error.
type Jail struct{}

// Start returns an error. This version of golem runs commands only on Linux, and never
// without a jail.
func Start(Policy, func() time.Time) (*Jail, error) {
	why, fix := notHere(runtime.GOOS)
	return nil, &sandbox.Error{Op: "jail", Code: ErrNoSandbox, Hint: why + "; " + fix}
}

// GPU reports that commands use none.
func GPU() (names []string, why, fix string) {
	why, fix = notHere(runtime.GOOS)
	return nil, why, fix
}

// Run returns the error that Start does.
func (*Jail) Run(context.Context, Command) (Result, error) {
	_, err := Start(Policy{}, nil)
	return Result{}, err
}

// Ended reports that no command can be run.
func (*Jail) Ended() bool { return true }

// Close does nothing.
func (*Jail) Close() error { return nil }

// Holds returns nothing: no limit is held here.
func (*Jail) Holds() []Held { return nil }

// HasLoopback returns false: there are no commands.
func (*Jail) HasLoopback() bool { return false }

// DialLoopback returns the error that Start does.
func (*Jail) DialLoopback(uint16) (net.Conn, error) {
	_, err := Start(Policy{}, nil)
	return nil, err
}

// Open returns the error that Start does.
func (*Jail) Open(Command) (*Process, error) {
	_, err := Start(Policy{}, nil)
	return nil, err
}
