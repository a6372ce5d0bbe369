package jail_test

import (
	"errors"
	"testing"

	"github.com/golem-forge/golem/internal/jail"
)

// TestNotBegun kills the holder of a session. A command that needs a new cell then has an
// error that says that it has not begun, so that the caller may start it in a new session.
func TestNotBegun(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		for name, begin := range map[string]func(*jail.Jail) error{
			"terminal": func(s *jail.Jail) error { _, err := s.Terminal(); return err },
			"service":  func(s *jail.Jail) error { _, err := s.Serve(jail.Shell("true")); return err },
		} {
			p := newTestSession(t, m, jail.Limits{})
			p.sh("true")
			kill(pidOf("jail-hold"))
			if err := begin(p.Jail); !errors.Is(err, jail.ErrNotBegun) {
				t.Errorf("%s: %v, want an error that it has not begun", name, err)
			}
		}
	})
}
