//go:build unix

package clearance_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/testutil"
)

// What is pushed to a target is pushed as somebody else than root, too.
func TestOrdinaryUser(t *testing.T) {
	testutil.OrdinaryUser(t, "-test.run=^(TestThreats|TestPushToALocalTarget|TestPushOverSSH|TestALinkedWorktree)$/^(G.*|clean|in_the_way|changed_as_staged|inherit)$")
}
