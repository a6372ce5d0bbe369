// Package testutil has helpers for the tests of many packages. Only tests import it.
package testutil

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Rounds is n, or as many times n as GOLEM_TEST_ROUNDS says.
func Rounds(n int) int {
	if times, err := strconv.Atoi(os.Getenv("GOLEM_TEST_ROUNDS")); err == nil {
		return n * times
	}
	return n
}

// Law runs a law on so many rounds of n cases, which are new each time, unless the caller
// chose a number.
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
