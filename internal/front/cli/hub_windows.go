package cli

import "github.com/golem-forge/golem/internal/people/visible"

const exeSuffix = ".exe"

// startHub says how to start golem-hub: a process cannot be replaced by another here.
func startHub([]string) error {
	file, err := findHub()
	if err != nil {
		return err
	}
	return usagef("start the program itself: %s", visible.CommandLine(file))
}
