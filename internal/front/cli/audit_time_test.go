package cli

import (
	"testing"
	"time"
)

// TestParseTime checks the words for points in time, also on the day that has the name and
// across a change of the clocks.
func TestParseTime(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here")
	}
	now := time.Date(2026, 10, 26, 14, 30, 0, 0, zone) // a Monday; the clocks changed the day before
	for text, want := range map[string]string{
		"today":            "2026-10-26 00:00",
		"Yesterday":        "2026-10-25 00:00",
		"monday":           "2026-10-26 00:00",
		"mon":              "2026-10-26 00:00",
		"tuesday":          "2026-10-20 00:00",
		"sunday":           "2026-10-25 00:00",
		"saturday":         "2026-10-24 00:00",
		"2h":               "2026-10-26 12:30",
		"7d":               "2026-10-19 14:30",
		"2w":               "2026-10-12 14:30",
		"2026-10-01":       "2026-10-01 00:00",
		"2026-10-01 08:15": "2026-10-01 08:15",
	} {
		got, err := parseTime(text, now)
		if err != nil || got.Format("2006-01-02 15:04") != want {
			t.Errorf("%s: got %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "mo", "mondays", "tomorrow", "-2h", "d", "99999999d"} {
		if got, err := parseTime(text, now); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
