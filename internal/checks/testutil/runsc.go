package testutil

import (
	"os"
	"path/filepath"
	"testing"
)

// RunscEnv is the environment variable with the file of runsc for tests.
const RunscEnv = "GOLEM_TEST_RUNSC"

// runscVersion is the version of gvisor.dev/gvisor with which the level container is
// tested. scripts/runsc builds it.
const runscVersion = "v0.0.0-20260905035102-160fafc42237"

// Runsc returns the file of runsc that scripts/runsc built, or that the environment names.
// It skips the test if there is none.
func Runsc(t testing.TB) string {
	t.Helper()
	file := FindRunsc()
	if file == "" {
		t.Skip("not run: there is no runsc for the level container; scripts/runsc builds it in some minutes")
	}
	return file
}

// FindRunsc returns the same file, "" if there is none.
func FindRunsc() string {
	if file := os.Getenv(RunscEnv); file != "" {
		return file
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	file := filepath.Join(cache, "golem-test", "runsc-"+runscVersion)
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}
