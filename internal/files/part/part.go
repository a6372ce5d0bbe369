// Package part makes jails start faster. golem starts itself again for each process of a
// jail. Such a process needs none of golem's other packages, and to initialise them takes
// longer than to start a command. So part runs the process in an init function, before
// the other packages, and the process ends there. The main package imports part only for
// its init function.
package part

import (
	"os"

	"github.com/golem-forge/golem/internal/files/changes"
)

func init() {
	if code, is := changes.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
}
