//go:build unix

package cli

import (
	"fmt"
	"os"
	"syscall"
)

const exeSuffix = ""

// startHub replaces this process by golem-hub.
func startHub(args []string) error {
	file, err := findHub()
	if err != nil {
		return err
	}
	err = syscall.Exec(file, append([]string{file}, args...), os.Environ())
	return fmt.Errorf("%s does not start: %w", file, err)
}
