package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/people/desktop"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
	"golang.org/x/term"
)

// preferences returns the preferences in the user's configuration.
var preferences = sync.OnceValue(func() project.Preferences {
	home, _ := os.UserHomeDir()
	return program.Options{Home: home, Config: configFile(home)}.Preferences()
})

// waitsLong is how long a question waits before golem tells the user.
const waitsLong = 10 * time.Second

// notifyLater tells the user that a question waits, unless stop is called before it has
// waited long. stop waits until golem is done with it.
func notifyLater(terminal io.Writer) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
		case <-time.After(waitsLong):
			what := "a question waits for you"
			notifyUser(ctx, terminal, what)
			if dir, err := os.Getwd(); err == nil {
				name := visible.Line(filepath.Base(dir), maxWhat)
				channels().Deliver(ctx, func() (desktop.Notice, bool) {
					return desktop.Notice{Text: what + " in " + name, Directory: name}, true
				})
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// notifyUser tells the user at this machine that something waits, as the configuration says.
// terminal may be nil.
func notifyUser(ctx context.Context, terminal io.Writer, what string) {
	how := preferences().Notify.Show
	if how == "off" {
		return
	}
	if how != "bell" {
		dir, _ := os.Getwd()
		text := what + " in " + visible.Line(filepath.Base(dir), maxWhat)
		if err := desktop.Notify(ctx, desktop.Directories(), os.Environ(), "golem", text); err == nil || how == "desktop" {
			return
		}
	}
	if terminal != nil {
		io.WriteString(terminal, "\a")
	}
}

// clipboardOf returns a function that copies text to the user's clipboard. It uses a
// program of the desktop, or else a terminal. terminal may be nil.
func clipboardOf(terminal *os.File) func(ctx context.Context, text string) (string, error) {
	return func(ctx context.Context, text string) (string, error) {
		name, err := desktop.Copy(ctx, desktop.Directories(), os.Environ(), text)
		switch {
		case err == nil:
			return "by " + name, nil
		case !errors.Is(err, desktop.ErrNone):
			return "", &sandbox.Error{Op: "clipboard_copy", Code: sandbox.ErrInternal, Hint: name + " could not do it: " + err.Error() + "; try it by itself"}
		}
		for _, f := range []*os.File{terminal, os.Stderr, os.Stdout} {
			if f != nil && term.IsTerminal(int(f.Fd())) {
				if _, err := io.WriteString(f, desktop.CopySequence(text)); err == nil {
					return "golem asked the terminal to copy it by OSC 52; if nothing was copied, the terminal does not support that", nil
				}
			}
		}
		return "", &sandbox.Error{Op: "clipboard_copy", Code: sandbox.ErrNotFound,
			Hint: "there is no wl-copy, xclip or pbcopy with a desktop, and no terminal to ask; golem tool file_export writes a file"}
	}
}
