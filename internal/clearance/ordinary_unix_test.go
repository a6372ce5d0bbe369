//go:build unix

package clearance_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// TestOrdinaryUser runs tests of pushes as a user other than root.
func TestOrdinaryUser(t *testing.T) {
	testutil.OrdinaryUser(t, "-test.run=^(TestThreats|TestPushToALocalTarget|TestPushOverSSH|TestLinkedWorktree)$/^(G.*|clean|in_the_way|changed_as_staged|inherit)$")
}
