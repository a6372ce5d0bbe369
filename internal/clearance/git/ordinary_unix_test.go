//go:build unix

package git_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// TestOrdinaryUser runs tests as a user other than root.
func TestOrdinaryUser(t *testing.T) {
	testutil.OrdinaryUser(t, "-test.run=^(TestTreeRunsNothing|TestTargetRefuses|TestTokens|TestBranchesWithTricks|TestHooksOfAnotherUser)$")
}
