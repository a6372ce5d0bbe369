//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd && !windows

package cli

import (
	"context"
	"os"
	"time"
)

const colours = false

func ends() []os.Signal { return []os.Signal{os.Interrupt} }

// findTerminal returns nil: there is nobody to ask here.
func findTerminal(bool) *os.File { return nil }

// A keyboard is that of nobody.
type keyboard struct{}

func newKeyboard(*os.File) *keyboard { return &keyboard{} }

func (*keyboard) ready() (restore func(), err error) { return nil, errNobody }

func (*keyboard) flush() error { return errNobody }

func (*keyboard) line(context.Context, time.Duration) (string, error) { return "", errNobody }

func (*keyboard) take(context.Context, time.Duration) (release func(), err error) {
	return nil, errNobody
}
