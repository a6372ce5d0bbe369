package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/people/inbox"
)

// TestCallsNamed checks that the first letters of one id name a call or a job only if the user
// sees the call before the answer.
func TestCallsNamed(t *testing.T) {
	call := func(id, job string) (c inbox.HubCall) {
		c.ID, c.Job.ID = id, job
		return c
	}
	all := []inbox.HubCall{call("abc1", "job1"), call("abd2", "job1"), call("x", "abc")}
	for _, test := range []struct {
		id    string
		shown bool
		want  string // the ids of calls, or a part of the error
	}{
		{"abd2", true, "abd2"}, {"abd2", false, "abd2"},
		{"abd", true, "abd2"}, {"abd", false, "only by its whole id: abd2"},
		{"job", true, "abc1 abd2"}, {"job1", false, "abc1 abd2"}, {"job", false, "only by its whole id: job1"},
		{"ab", true, "ab begins 3 ids: abc, abc1, abd2; type more"},
		{"abc", true, "x"}, // a whole id, although another one begins with it
		{"x", false, "x"},
		{"z", true, ""}, {"", true, ""},
	} {
		got, err := callsNamed(slices.Clone(all), test.id, test.shown)
		var ids []string
		for _, c := range got {
			ids = append(ids, c.ID)
		}
		text := strings.Join(ids, " ")
		if err != nil {
			text = err.Error()
		}
		if text != test.want && (err == nil || !strings.Contains(text, test.want)) {
			t.Errorf("%q, shown %v: %s, want %s", test.id, test.shown, text, test.want)
		}
	}
}
