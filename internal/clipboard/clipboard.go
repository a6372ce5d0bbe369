// Package clipboard puts a text into the user's clipboard: by the program that a desktop
// has for it, or by asking the terminal, which also reaches over ssh.
//
// The programs are looked for where a system keeps its own, and not in PATH: a folder
// there may be one that workers write to.
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

// Folders returns where the programs are looked for.
func Folders() []string {
	return []string{"/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"}
}

// ErrNone is that there is no program, or no desktop for it.
var ErrNone = errors.New("no wl-copy, xclip or pbcopy here, or no desktop")

// programs are those that are tried, with the variable that says that there is a
// desktop for it.
var programs = []struct {
	name    string
	args    []string
	desktop string
}{
	{"wl-copy", []string{"--type", "text/plain;charset=utf-8"}, "WAYLAND_DISPLAY"},
	{"xclip", []string{"-selection", "clipboard", "-in"}, "DISPLAY"},
	{"pbcopy", nil, ""},
}

// passed are the variables that such a program needs. It gets no others.
var passed = []string{"WAYLAND_DISPLAY", "DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "HOME", "LANG", "LC_ALL", "LC_CTYPE"}

// patience is how long a program may take: one that waits for a desktop that is not
// there would do so for ever.
const patience = 5 * time.Second

// Copy puts a text into the clipboard of a desktop, and returns by which program.
func Copy(ctx context.Context, folders, environ []string, text string) (name string, err error) {
	var environment []string
	has := func(name string) bool {
		return slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") && v != name+"=" })
	}
	for _, v := range environ {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(passed, name) {
			environment = append(environment, v)
		}
	}
	for _, p := range programs {
		for _, folder := range folders {
			file := filepath.Join(folder, p.name)
			if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || p.desktop != "" && !has(p.desktop) {
				continue
			}
			ctx, cancel := context.WithTimeout(ctx, patience)
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

// Sequence returns what asks a terminal to put a text into the clipboard: OSC 52. Some
// terminals refuse, and none says so.
func Sequence(text string) string {
	return "\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(text)) + "\a"
}
