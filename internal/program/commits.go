package program

import (
	"context"

	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/internal/session"
)

// gitOpener returns a function that opens the private git store of the program.
func gitOpener(p *Program) func(context.Context) (*git.Store, error) {
	return func(ctx context.Context) (*git.Store, error) {
		return p.hostEnv().OpenGit(ctx, p.Storage.Sessions.State)
	}
}

// Commits returns a reader of the commits of a session.
func Commits(p *Program, one *session.Session) *session.Commits {
	return p.Storage.Sessions.Commits(one, gitOpener(p))
}
