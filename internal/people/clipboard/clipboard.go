// Package clipboard copies text to the user's clipboard. It runs the desktop's own
// program for that, or asks the terminal, which also works over ssh.
//
// It looks for the programs only in the system's own directories, not in PATH: a
// directory in PATH may be writable for workers.
package clipboard

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Directories returns the directories in which Copy finds its programs.
func Directories() []string {
	return []string{"/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"}
}

// ErrNone reports that there is no program for the clipboard, or no desktop.
var ErrNone = errors.New("no wl-copy, xclip or pbcopy here, or no desktop")

// programs lists the programs in the order in which Copy tries them. A program with a
// desktop variable is skipped if that variable is not set.
var programs = []struct {
	name    string
	args    []string
	desktop string
}{
	{"wl-copy", []string{"--type", "text/plain;charset=utf-8"}, "WAYLAND_DISPLAY"},
	{"xclip", []string{"-selection", "clipboard", "-in"}, "DISPLAY"},
	{"pbcopy", nil, ""},
}

// variables are the only environment variables that a program gets.
var variables = []string{"WAYLAND_DISPLAY", "DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "HOME", "LANG", "LC_ALL", "LC_CTYPE"}

// timeout ends a program that waits forever for a desktop.
const timeout = 5 * time.Second

// Copy copies text to the clipboard of the desktop and returns the name of the program
// that did it.
func Copy(ctx context.Context, directories, environ []string, text string) (name string, err error) {
	var environment []string
	has := func(name string) bool {
		return slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") && v != name+"=" })
	}
	for _, v := range environ {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(variables, name) {
			environment = append(environment, v)
		}
	}
	for _, p := range programs {
		for _, directory := range directories {
			file := filepath.Join(directory, p.name)
			if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || p.desktop != "" && !has(p.desktop) {
				continue
			}
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			cmd := exec.CommandContext(ctx, file, p.args...)
			cmd.Env, cmd.Dir, cmd.WaitDelay = environment, "/", time.Second
			cmd.Stdin = strings.NewReader(text)
			if err := cmd.Run(); err != nil {
				return p.name, err
			}
			return p.name, nil
		}
	}
	return "", ErrNone
}

// Sequence returns the escape sequence (OSC 52) that asks a terminal to copy text to the
// clipboard. Some terminals refuse it, and none reports that.
func Sequence(text string) string {
	return "\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(text)) + "\a"
}
