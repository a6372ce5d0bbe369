package jail_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/jail"
)

// TestPackagedProfile compares the profile in packages with the one that golem doctor --fix writes.
func TestPackagedProfile(t *testing.T) {
	testutil.Golden(t, "../../packaging/apparmor", jail.AppArmor("/usr/bin/golem"))
}
