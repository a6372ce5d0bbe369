// Package testutil has helpers for the tests of many packages. Only tests import it.
package testutil

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Rounds returns n, multiplied by GOLEM_TEST_ROUNDS if that is set.
func Rounds(n int) int {
	if times, err := strconv.Atoi(os.Getenv("GOLEM_TEST_ROUNDS")); err == nil {
		return n * times
	}
	return n
}

// Law checks a property with rapid on Rounds(n) random cases, unless the caller chose a
// number of checks.
func Law(t *testing.T, n int, law func(*rapid.T)) {
	t.Helper()
	if n = Rounds(n); testing.Short() {
		n /= 5
	}
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() == checks.DefValue {
		old := checks.Value.String()
		flag.Set("rapid.checks", strconv.Itoa(n))
		defer flag.Set("rapid.checks", old)
	}
	rapid.Check(t, law)
}
