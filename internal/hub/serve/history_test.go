package serve

import (
	"testing"

	"github.com/golem-forge/golem/internal/hub"
)

// TestHistory compares revisions with the history of data that has 60 calls.
func TestHistory(t *testing.T) {
	t.Parallel()
	calls := func(n uint64) *uint64 { return &n }
	h := history{Since: 10, Starts: []begun{{11, "a", calls(20)}, {12, "b", calls(30)}, {13, "cut off", nil}, {14, "d", calls(50)}}}
	for _, c := range []struct {
		name string
		hub.Revision
		want bool
	}{
		{"before what a person confirmed", hub.Revision{Start: 9, ID: "x", Calls: 99}, true},
		{"the current start", hub.Revision{Start: 14, ID: "d", Calls: 60}, true},
		{"more calls than there are", hub.Revision{Start: 14, ID: "d", Calls: 61}, false},
		{"an earlier start", hub.Revision{Start: 11, ID: "a", Calls: 30}, true},
		{"more calls than the next start had, as after a copy of a running hub", hub.Revision{Start: 11, ID: "a", Calls: 31}, false},
		{"the next start was cut off", hub.Revision{Start: 12, ID: "b", Calls: 50}, true},
		{"more calls than the start after it had", hub.Revision{Start: 12, ID: "b", Calls: 51}, false},
		{"a start that the data lacks", hub.Revision{Start: 15, ID: "e", Calls: 1}, false},
		{"another start with the same time", hub.Revision{Start: 14, ID: "e", Calls: 1}, false},
	} {
		if got := h.has(c.Revision, 60); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}
