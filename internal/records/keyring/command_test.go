package keyring_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/records/keyring"
)

func TestRun(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // it has no sh
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("#!/bin/sh\necho printed by mine\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + dir + ":/usr/bin:/bin"
	for _, c := range []struct {
		command     string
		value, want string // want is in the error
	}{
		{"mine", "printed by mine", ""},
		{filepath.Join(dir, "mine"), "printed by mine", ""},
		{"pwd", "/", ""},
		{"./mine", "", "is a relative path"},
		{"missing", "", "no program missing in your PATH"},
		{"true", "", "true printed nothing"},
		{"sh -c exit${IFS}3", "", "sh: exit status 3"},
	} {
		got, err := keyring.Run(t.Context(), strings.Fields(c.command), []string{path})
		if got != c.value || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, %v", c.command, got, err)
		}
	}
}
