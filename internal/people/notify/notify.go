// Package notify shows a notification on the user's desktop, with the desktop's own
// program for that.
//
// It looks for the program only in the system's own directories, not in PATH: a directory
// in PATH may be writable for workers.
package notify

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrNone reports that there is no program for notifications, or no desktop.
var ErrNone = errors.New("no notify-send here, or no desktop")

// program is the program that shows a notification.
const program = "notify-send"

// variables are the only environment variables that the program gets.
var variables = []string{"DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "HOME", "LANG", "LC_ALL", "LC_CTYPE"}

// timeout ends a program that waits forever for a desktop.
const timeout = 5 * time.Second

// Send shows a notification. The text must be plain: a desktop may interpret markup in it,
// so Send removes the characters of markup.
func Send(ctx context.Context, directories, environ []string, title, text string) error {
	var environment []string
	desktop := false
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if slices.Contains(variables, name) {
			environment = append(environment, v)
		}
		desktop = desktop || value != "" && (name == "DISPLAY" || name == "WAYLAND_DISPLAY" || name == "DBUS_SESSION_BUS_ADDRESS")
	}
	if !desktop {
		return ErrNone
	}
	plain := strings.NewReplacer("<", "", ">", "", "&", "and").Replace
	for _, directory := range directories {
		file := filepath.Join(directory, program)
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, file, "--app-name=golem", "--", plain(title), plain(text))
		cmd.Env, cmd.WaitDelay = environment, time.Second
		return cmd.Run()
	}
	return ErrNone
}
