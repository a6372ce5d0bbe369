// Package desktop uses the programs of the user's desktop: for the clipboard, which a terminal
// can set too, for notifications and for the browser. It also sends notices elsewhere.
//
// It looks for the programs only in the system's own directories, not in PATH: a directory
// in PATH may be writable for workers.
package desktop

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Directories returns the directories in which golem finds the programs.
func Directories() []string {
	return []string{"/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"}
}

// ErrNone reports that there is no program, or no desktop for one.
var ErrNone = errors.New("no desktop")

// A program is a program of a desktop. It is skipped if none of the variables has a value,
// unless it names none.
type program struct {
	name    string
	args    []string
	desktop []string
}

// run runs the first program that is there, and returns its name. The timeout ends a program
// that waits forever for a desktop.
func run(ctx context.Context, timeout time.Duration, directories, environ []string, input string, programs ...program) (string, error) {
	has := func(name string) bool {
		return slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") && v != name+"=" })
	}
	var names []string
	for _, p := range programs {
		names = append(names, p.name)
		if len(p.desktop) > 0 && !slices.ContainsFunc(p.desktop, has) {
			continue
		}
		for _, directory := range directories {
			file := filepath.Join(directory, p.name)
			if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
				continue
			}
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			cmd := exec.CommandContext(ctx, file, p.args...)
			cmd.Env, cmd.Dir, cmd.WaitDelay, cmd.Stdin = environ, "/", time.Second, strings.NewReader(input)
			return p.name, cmd.Run()
		}
	}
	return "", fmt.Errorf("no %s here, or %w", strings.Join(names, " or "), ErrNone)
}

// only returns those variables of an environment that have one of the names.
func only(environ []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(names, name)
	})
}

// Copy copies text to the clipboard of the desktop and returns the name of the program
// that did it.
func Copy(ctx context.Context, directories, environ []string, text string) (name string, err error) {
	environ = only(environ, "WAYLAND_DISPLAY", "DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "HOME", "LANG", "LC_ALL", "LC_CTYPE")
	return run(ctx, 5*time.Second, directories, environ, text,
		program{"wl-copy", []string{"--type", "text/plain;charset=utf-8"}, []string{"WAYLAND_DISPLAY"}},
		program{"xclip", []string{"-selection", "clipboard", "-in"}, []string{"DISPLAY"}},
		program{"pbcopy", nil, nil})
}

// CopySequence returns the escape sequence (OSC 52) that asks a terminal to copy text to the
// clipboard. Some terminals refuse it, and none reports that.
func CopySequence(text string) string {
	return "\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(text)) + "\a"
}

// Notify shows a notification. The text must be plain: a desktop may interpret markup in it,
// so Notify removes the characters of markup.
func Notify(ctx context.Context, directories, environ []string, title, text string) error {
	environ = only(environ, "DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "HOME", "LANG", "LC_ALL", "LC_CTYPE")
	plain := strings.NewReplacer("<", "", ">", "", "&", "and").Replace
	_, err := run(ctx, 5*time.Second, directories, environ, "",
		program{"notify-send", []string{"--app-name=golem", "--", plain(title), plain(text)}, []string{"DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"}})
	return err
}

// OpenFile opens a file in the user's browser. It does not take an address: every user of the
// machine can read the arguments of a program, and an address may hold a secret.
func OpenFile(ctx context.Context, directories, environ []string, file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	variables := []string{"DISPLAY", "WAYLAND_DISPLAY", "__CFBundleIdentifier", "TERM_PROGRAM"}
	_, err = run(ctx, 10*time.Second, directories, environ, "", program{"xdg-open", []string{file}, variables}, program{"open", []string{file}, variables})
	return err
}
