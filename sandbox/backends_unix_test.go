//go:build linux || darwin

package sandbox_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// TestOrdinaryUser runs the tests that use the disk as another user than root.
func TestOrdinaryUser(t *testing.T) {
	out := testutil.OrdinaryUser(t, "-test.v", "-test.run=^(TestBackends|TestAttacks)$/^(dir|root|base)$", "-test.skip=^TestAttacks$/^base$")
	attempts := 0
	for line := range strings.SplitSeq(out, "\n") {
		if rest, ok := strings.CutSuffix(line, " attempts"); ok {
			words := strings.Fields(rest)
			n, _ := strconv.Atoi(words[len(words)-1])
			attempts += n
		}
	}
	if attempts < 10_000 {
		t.Errorf("%d attempts, want more", attempts)
	}
}
