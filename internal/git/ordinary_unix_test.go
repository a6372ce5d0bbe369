//go:build unix

package git_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/testutil"
)

// What a tree could make git run is tried as somebody else than root, too.
func TestOrdinaryUser(t *testing.T) {
	testutil.OrdinaryUser(t, "-test.run=^(TestNothingOfATreeIsRun|TestTargetRefuses|TestTokens|TestBranchesWithTricks|TestC14HooksOfAnotherUser)$")
}
