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

// findTerminal returns nil: there is nobody to ask here.
func findTerminal(bool) *os.File { return nil }

// A keyboard is that of nobody.
type keyboard struct{}

func newKeyboard(*os.File) *keyboard { return &keyboard{} }

func (*keyboard) ready() (restore func(), err error) { return nil, errNobody }

func (*keyboard) settle(context.Context, time.Duration) (early bool, err error) {
	return false, errNobody
}

func (*keyboard) line(context.Context, time.Duration, func() error) (string, error) {
	return "", errNobody
}

func (*keyboard) take(context.Context, time.Duration) (release func(), err error) {
	return nil, errNobody
}

// A guard would share a terminal with a golem that asks at it; there are no locks on
// terminals here.
type guard struct{}

func openGuard(*os.File) *guard { return nil }

func (*guard) share() (release func(), free bool) { return func() {}, true }
