//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package terminal

import (
	"errors"
	"os"
)

// A Line connects golem's own streams with those of a program. On this system there is
// none, because golem runs no programs here.
type Line struct {
	Stdin, Stdout, Stderr *os.File
	Wanted                bool
	Signals               <-chan os.Signal
}

// Open returns an error.
func Open(stdin, stdout, stderr *os.File) (*Line, error) {
	return nil, errors.New("terminals of programs are not to be had on this system")
}

// Connect returns the same error as Open.
func (*Line) Connect(*os.File) error {
	_, err := Open(nil, nil, nil)
	return err
}

// SawReadOnly returns false.
func (*Line) SawReadOnly() bool { return false }

// Suspend does nothing.
func (*Line) Suspend() {}

// Lend does nothing.
func (*Line) Lend(func()) bool { return false }

// Close does nothing.
func (*Line) Close() error { return nil }
