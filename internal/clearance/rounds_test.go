package clearance_test

import (
	"os"
	"strconv"
)

// rounds is n, or as many times n as GOLEM_TEST_ROUNDS says.
func rounds(n int) int {
	if times, err := strconv.Atoi(os.Getenv("GOLEM_TEST_ROUNDS")); err == nil {
		return n * max(times, 1)
	}
	return n
}
