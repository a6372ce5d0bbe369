package explain

import (
	"context"
	"path/filepath"

	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/sandbox"
)

// A Given is a mount that a question is about, and where it was said.
type Given struct {
	Said         string // a flag, word for word, or file:line
	Source, Base sandbox.Host
	Target       string
	Access       sandbox.Access
	Layer        bool // what is changed is kept in a layer of the session
	Suffixes     []string
	MaxFileBytes int64

	look *look // what is mounted: the folder, to look at
}

// Mode is the word for how far the mount may be used.
func (g *Given) Mode() string {
	if g.Layer {
		return project.Overlay
	}
	return g.Access.String()
}

// holds reports whether the host folder of g holds the file.
func (g *Given) holds(file sandbox.Host) bool {
	rel, err := filepath.Rel(string(g.look.Traits().Host), string(file))
	return err == nil && filepath.IsLocal(rel)
}

// Look makes the sandbox that the mounts describe, of backends that look and
// do not act.
func Look(given []*Given, protect []string) (*sandbox.Sandbox, error) {
	c := sandbox.Config{Protect: protect}
	for _, g := range given {
		dir, err := sandbox.DirIn(g.Base, g.Source)
		if err != nil {
			return nil, &GivenError{g, err}
		}
		g.look = &look{Backend: dir}
		c.Mounts = append(c.Mounts, sandbox.Mount{Target: g.Target, Backend: g.look, Access: g.Access,
			Suffixes: g.Suffixes, MaxFileBytes: g.MaxFileBytes})
	}
	return sandbox.New(c)
}

// A GivenError says of a mount that it cannot be made.
type GivenError struct {
	Given *Given
	Err   error
}

// Error names where the mount was said, and what the sandbox said of it.
func (e *GivenError) Error() string {
	text := e.Given.Said + ": " + string(sandbox.CodeOf(e.Err))
	if cause, ok := e.Err.(*sandbox.Error); ok && cause.Hint != "" {
		text += "; " + cause.Hint
	}
	return text
}

// Unwrap returns what the sandbox said.
func (e *GivenError) Unwrap() error { return e.Err }

// Mounts answers whether an operation may be done at a path of these mounts, and what
// decides it. It asks the sandbox that would be made, on the real folders; no content is
// read and nothing is changed.
func Mounts(ctx context.Context, op, path string, given []*Given) (Answer, error) {
	s, err := Look(given, nil)
	if err != nil {
		return Answer{}, err
	}
	return Ask(ctx, op, path, s, given), nil
}
