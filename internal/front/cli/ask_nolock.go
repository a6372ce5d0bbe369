//go:build !linux

package cli

import (
	"context"
	"os"
	"time"
)

// take does not lock the terminal against other processes. A process cannot reopen its
// terminal by file descriptor here.
func (k *keyboard) take(context.Context, time.Duration) (release func(), err error) {
	return func() {}, nil
}

// A guard does nothing here, because golem locks terminals only on Linux.
type guard struct{}

func openGuard(*os.File) *guard { return nil }

func (*guard) share() (release func(), free bool) { return func() {}, true }
