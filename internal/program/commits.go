package program

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/git"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/toolset/changes"
)

// openGit opens the private git store of the program.
func openGit(ctx context.Context, p *Program) (*git.Store, error) {
	folders, ok := environ(p.hostEnv().safe(), "PATH")
	if !ok {
		folders = "/usr/bin" + string(os.PathListSeparator) + "/bin"
	}
	return git.Open(ctx, filepath.Join(p.state, storeName), git.Find(folders, p.hostEnv().canWorkerWrite))
}

// gitOpener returns a function that opens the private git store of the program.
func gitOpener(p *Program) func(context.Context) (*git.Store, error) {
	return func(ctx context.Context) (*git.Store, error) { return openGit(ctx, p) }
}

// ReadCommits reads the commits that a session has made and that the user's repositories
// do not have. skipped says which cannot be read.
func ReadCommits(ctx context.Context, p *Program, one *session.Session) (list []changes.CommitRepository, skipped []string, err error) {
	c := p.Sessions().Commits(one, gitOpener(p))
	imports, skipped, err := c.Imports(ctx)
	if err != nil {
		return nil, skipped, err
	}
	for _, im := range imports {
		r, late := changes.ReadCommits(ctx, one.ID, im)
		list, err = append(list, r), errors.Join(err, late)
		im.Close()
	}
	return list, skipped, err
}

// CountCommits returns how many commits a session has made that the user's repositories
// do not have.
func CountCommits(ctx context.Context, p *Program, one *session.Session) (n int, err error) {
	imports, _, err := p.Sessions().Commits(one, gitOpener(p)).Imports(ctx)
	for _, im := range imports {
		n += len(im.Commits)
		im.Close()
	}
	return n, err
}
