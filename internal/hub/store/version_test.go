package store

import (
	"strings"
	"testing"
)

// TestVersion checks which servers are refused, and that the reason says what to install.
func TestVersion(t *testing.T) {
	for version, want := range map[string]string{
		"2.9.25": "install at least 2.10", "2.10.0": "", "2.15.2": "", "3.0.0-beta": "", "1.4.1": "install at least 2.10", "": "at least 2.10 is needed",
	} {
		err := checkVersion(version)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", version, err, want)
		}
	}
}
