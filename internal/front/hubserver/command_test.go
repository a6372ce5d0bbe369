package hubserver

import (
	"bytes"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/records/version"
)

// TestVersion checks that golem-hub says which one it is, and starts no hub.
func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"version"}} {
		var out, errs bytes.Buffer
		if code := Main(args, &out, &errs); code != 0 || !strings.HasPrefix(out.String(), "golem-hub "+version.Release) || errs.Len() > 0 {
			t.Errorf("%q: got %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
	var out, errs bytes.Buffer
	if code := Main([]string{"version", "x"}, &out, &errs); code != 2 || !strings.Contains(errs.String(), "has no command") {
		t.Errorf("got %d, %q", code, errs.String())
	}
}
