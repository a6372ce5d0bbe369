//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd && !windows

package cli

import (
	"context"
	"os"
	"time"
)

const colours = false

func ends() []os.Signal { return []os.Signal{os.Interrupt} }

func suspends() []os.Signal { return nil }

func suspendSelf() {}

// findTerminal returns nil: golem cannot ask anyone on this system.
func findTerminal(bool) *os.File { return nil }

// A keyboard has no terminal on this system.
type keyboard struct{}

func newKeyboard(*os.File) *keyboard { return &keyboard{} }

func (*keyboard) ready() (restore func(), err error) { return nil, errNobody }

func (*keyboard) settle(context.Context, time.Duration) (early bool, err error) {
	return false, errNobody
}

func (*keyboard) line(context.Context, time.Duration, func() error) (string, error) {
	return "", errNobody
}
