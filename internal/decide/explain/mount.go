package explain

import (
	"context"
	"path/filepath"

	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// A Mount is a mount that a question is about.
type Mount struct {
	From         string // a flag as the user wrote it, or file:line
	Source, Base sandbox.Host
	Target       string
	Access       sandbox.Access
	Overlay      bool // changes stay in the overlay of a session
	Suffixes     []string
	MaxFileBytes int64

	probe *probe // the backend of the mount
}

// Mode returns the mode of the mount: ro, rw or overlay.
func (g *Mount) Mode() string {
	if g.Overlay {
		return project.Overlay
	}
	return g.Access.String()
}

// holds reports whether the host directory of g holds the file.
func (g *Mount) holds(file sandbox.Host) bool {
	rel, err := filepath.Rel(string(g.probe.Traits().Host), string(file))
	return err == nil && filepath.IsLocal(rel)
}

// NewSandbox returns the sandbox that the mounts describe. Its backends check operations
// without doing them.
func NewSandbox(given []*Mount, protect []string) (*sandbox.Sandbox, error) {
	c := sandbox.Config{Protect: protect}
	for _, g := range given {
		dir, err := sandbox.DirIn(g.Base, g.Source)
		if err != nil {
			return nil, &MountError{g, err}
		}
		g.probe = &probe{Backend: dir}
		c.Mounts = append(c.Mounts, sandbox.Mount{Target: g.Target, Backend: g.probe, Access: g.Access,
			Suffixes: g.Suffixes, MaxFileBytes: g.MaxFileBytes})
	}
	return sandbox.New(c)
}

// A MountError says why a mount cannot be made.
type MountError struct {
	Mount *Mount
	Err   error
}

// Error names the flag or line of the mount, and the error of the sandbox.
func (e *MountError) Error() string {
	text := e.Mount.From + ": " + string(sandbox.CodeOf(e.Err))
	if cause, ok := e.Err.(*sandbox.Error); ok && cause.Hint != "" {
		text += "; " + cause.Hint
	}
	return text
}

// Unwrap returns the error of the sandbox.
func (e *MountError) Unwrap() error { return e.Err }

// Mounts answers whether an operation is allowed at a path of these mounts, and what
// decides it. It asks a sandbox on the real directories. It reads no content and changes
// nothing.
func Mounts(ctx context.Context, op, path string, given []*Mount) (Answer, error) {
	s, err := NewSandbox(given, nil)
	if err != nil {
		return Answer{}, err
	}
	return Ask(ctx, op, path, s, given), nil
}
