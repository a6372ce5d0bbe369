package node

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestFit checks that every result fits into the hub, also one whose JSON is longer than itself:
// a refused result would make another node do the job again.
func TestFit(t *testing.T) {
	if got := fit("short", maxAnswer); got != "short" {
		t.Errorf("got %q", got)
	}
	for name, text := range map[string]string{"long": strings.Repeat("a", 4<<20), "escaped": strings.Repeat("\x01", 1<<20), "invalid": strings.Repeat("\xff", 1<<20), "wide": strings.Repeat("\U0001F600", 1<<18)} {
		got := fit(text, maxAnswer)
		data, err := json.Marshal(got)
		if err != nil || len(data) > maxAnswer+100 || len(got) < 1000 && name != "invalid" || !strings.Contains(got, "in the session") {
			t.Errorf("%s: %d bytes, %d as JSON, %v", name, len(got), len(data), err)
		}
	}
}
