package inbox_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/inbox"
)

// TestStateText checks that a job of a restored hub shows the number of its attempt.
func TestStateText(t *testing.T) {
	for attempt, want := range map[int]string{
		0: "in doubt", 1: "in doubt", 3: "in doubt (attempt 3)",
		1000: "in doubt (the hub was restored)", 1003: "in doubt (attempt 3, the hub was restored)",
	} {
		if got := (inbox.Job{State: hub.InDoubt, Attempt: attempt}).StateText(); got != want {
			t.Errorf("attempt %d: %q, want %q", attempt, got, want)
		}
	}
}
