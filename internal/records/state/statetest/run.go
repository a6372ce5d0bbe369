package statetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/golem-forge/golem/internal/records/state"
)

// AppendRun appends lines to the log of the run in a session. It creates the session, whose
// directory is dir, if it is missing.
func AppendRun(t *testing.T, dir string, lines ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "session.json"), []byte(`{"id":"`+filepath.Base(dir)+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	folder, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	log, err := folder.Log("run", 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var records [][]byte
	for _, line := range lines {
		records = append(records, []byte(line))
	}
	if err := log.Append(false, func(state.Tail) ([][]byte, []byte, error) { return records, nil, nil }); err != nil {
		t.Fatal(err)
	}
}
