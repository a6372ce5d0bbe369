package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// TestC12LateErrorSaysWhatWasDone: an error after the call does not hide that the call
// was done.
func TestC12LateErrorSaysWhatWasDone(t *testing.T) {
	late := errors.New("doors.json: no space left on device")
	r := tool.Result{Changes: []tool.Change{{Path: "/a.txt", Op: tool.Create}}}
	err := afterCall("write_file", r, late)
	if want := "write_file was done (create /a.txt), but golem could not finish its records: "; err == nil || !strings.HasPrefix(err.Error(), want) || !errors.Is(err, late) {
		t.Errorf("got %v, want %s…", err, want)
	}
	r.Err = &sandbox.Error{Op: "write", Code: sandbox.ErrReadOnly}
	if err := afterCall("write_file", r, late); err != late {
		t.Errorf("a call that failed: got %v", err)
	}
	if err := afterCall("write_file", tool.Result{}, nil); err != nil {
		t.Errorf("without an error: got %v", err)
	}
}
