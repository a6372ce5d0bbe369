package cli

import (
	"context"
	"errors"
	"os"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/terminal"
)

// attach runs a command on the streams of this process. If these are a terminal, the
// command gets a terminal of its own, connected to it.
func attach(ctx context.Context, s *jail.Session, c jail.Command) (r jail.Result, err error) {
	line, err := terminal.Open(os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, line.Close()) }()
	at := jail.Attached{Stdin: line.Stdin, Stdout: line.Stdout, Stderr: line.Stderr, Signals: line.Signals, Stopped: line.Suspend}
	if line.Wanted {
		if at.Terminal, err = s.Terminal(); err != nil {
			return r, err
		}
		defer at.Terminal.Close()
		if err := line.Connect(at.Terminal.Person); err != nil {
			return r, err
		}
		defer line.Close() // close it before the command's terminal
	}
	return s.Attach(ctx, c, at)
}
