package job_test

import (
	"os"
	"testing"

	"github.com/golem-forge/golem/internal/transaction"
)

func TestMain(m *testing.M) {
	if code, is := transaction.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
