package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/people/desktop"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
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
			notifyUser(ctx, terminal, "a question waits for you")
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// notifyUser tells the user that something waits, as the configuration says. terminal may
// be nil.
func notifyUser(ctx context.Context, terminal io.Writer, what string) {
	how := preferences().Notify
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
