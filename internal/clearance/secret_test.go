package clearance_test

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// writeProcesses writes the command lines of all processes, if the system has /proc.
func writeProcesses(to io.Writer) {
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range list {
		data, _ := os.ReadFile(name)
		to.Write(append(data, '\n'))
	}
}

// findFilesWith returns the files of a directory that contain a secret.
func findFilesWith(t *testing.T, dir, secret string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if bytes.Contains(data, []byte(secret)) {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
