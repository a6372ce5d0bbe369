//go:build !linux

package jail

import (
	"context"
	"os"
)

// A Terminal is the controlling terminal for one command. It does not exist on this
// system, because Start always fails.
type Terminal struct{ Person *os.File }

// Close does nothing.
func (*Terminal) Close() error { return nil }

// Terminal returns the error of Start.
func (*Jail) Terminal() (*Terminal, error) {
	_, err := Start(Policy{}, nil)
	return nil, err
}

// Attach returns the error of Start.
func (*Jail) Attach(context.Context, Command, Attached) (Result, error) {
	_, err := Start(Policy{}, nil)
	return Result{}, err
}
