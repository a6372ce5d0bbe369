// Package part runs the processes of a jail: golem starts itself again for each of
// them. They need none of the other packages, so they run before Go initialises those,
// which takes longer than all that a process of a jail does before its first command.
// The main package imports part for this effect only.
package part

import (
	"os"

	"github.com/golem-forge/golem/internal/transaction"
)

func init() {
	if code, is := transaction.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
}
