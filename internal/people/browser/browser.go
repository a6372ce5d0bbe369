// Package browser opens a page in the user's browser, with the desktop's own program for
// that.
//
// It looks for the program only in the system's own directories, not in PATH: a directory
// in PATH may be writable for workers.
package browser

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrNone reports that there is no program that opens a browser, or no desktop.
var ErrNone = errors.New("no xdg-open or open here, or no desktop")

// programs lists the programs in the order in which Open tries them.
var programs = []string{"xdg-open", "open"}

// timeout ends a program that does not return.
const timeout = 10 * time.Second

// Open opens a file in the user's browser. It does not take an address: every user of the
// machine can read the arguments of a program, and an address may hold a secret.
func Open(ctx context.Context, directories, environ []string, file string) error {
	desktop := false
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		desktop = desktop || value != "" && (name == "DISPLAY" || name == "WAYLAND_DISPLAY" || name == "__CFBundleIdentifier" || name == "TERM_PROGRAM")
	}
	if !desktop {
		return ErrNone
	}
	for _, program := range programs {
		for _, directory := range directories {
			found := filepath.Join(directory, program)
			if info, err := os.Stat(found); err != nil || !info.Mode().IsRegular() {
				continue
			}
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			cmd := exec.CommandContext(ctx, found, file)
			cmd.Env, cmd.WaitDelay = environ, time.Second
			return cmd.Run()
		}
	}
	return ErrNone
}
