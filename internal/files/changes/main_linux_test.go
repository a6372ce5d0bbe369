package changes_test

import (
	"os"
	"testing"

	"github.com/golem-forge/golem/internal/files/changes"
)

func TestMain(m *testing.M) {
	if code, is := changes.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
