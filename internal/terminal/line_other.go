//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package terminal

import (
	"errors"
	"os"
)

// A Line is between golem's own streams and a program that has them in its stead.
// There is none on this system: no program is run.
type Line struct {
	Stdin, Stdout, Stderr *os.File
	Wanted                bool
	Signals               <-chan os.Signal
}

// Open returns an error.
func Open(stdin, stdout, stderr *os.File) (*Line, error) {
	return nil, errors.New("terminals of programs are not to be had on this system")
}

// Connect returns the error that Open does.
func (*Line) Connect(*os.File) error {
	_, err := Open(nil, nil, nil)
	return err
}

// Suspend does nothing.
func (*Line) Suspend() {}

// Close does nothing.
func (*Line) Close() error { return nil }
