package session

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/files/claim"
)

// markMaker marks a session as one that this process has started.
func (s *Session) markMaker() (err error) {
	file := filepath.Join(s.dir, makerName)
	if err = os.WriteFile(file, nil, 0o600); err == nil {
		s.held, err = claim.Hold(file)
	}
	return err
}

// unmarkMaker says that the session was closed.
func (s *Session) unmarkMaker() error {
	if s.held == nil {
		return nil
	}
	err := os.Remove(filepath.Join(s.dir, makerName))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, s.held.Close())
	s.held = nil
	return err
}

// isAbandoned reports whether the golem that started a session was killed, and nobody has
// continued the session.
func (s *Session) isAbandoned() bool {
	held, ok := claim.Seize(filepath.Join(s.dir, makerName))
	if ok {
		held.Close()
	}
	return ok
}
