package approval_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/display"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
)

// TestReporter checks that a sheet marks everything that the digest of a request does not
// cover, if another machine reports it.
func TestReporter(t *testing.T) {
	r := tool.Request{Origin: policy.Model, Workers: []string{"main"}, Tool: "shell", Rule: "main.worker:3", Why: "the user wants it", Earlier: "it was approved before"}
	text := func() string {
		var rows []string
		for _, row := range display.NewSheet(r, 1000).Head {
			rows = append(rows, row.Text)
		}
		return strings.Join(rows, "\n")
	}
	if got := text(); strings.Contains(got, "says") || !strings.Contains(got, "(tool shell, network off, asked by main.worker:3)") {
		t.Errorf("got %s", got)
	}
	r.Reporter = "the node"
	got := text()
	for _, want := range []string{"(tool shell; the node says: network off, not tainted, asked by main.worker:3)", "the node says: because of the user wants it", "the node says: it was approved before"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
