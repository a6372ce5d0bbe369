package cli

import (
	"testing"

	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// TestFindSession checks that a beginning of an id chooses a session only if no other
// session begins like that.
func TestFindSession(t *testing.T) {
	var all []*workSession
	for _, id := range []string{"newest", "abcdef", "abcxyz", "lastly", "last2a"} {
		all = append(all, &workSession{Session: &session.Session{ID: id}})
	}
	for id, want := range map[string]string{
		"abcdef": "abcdef", "abcd": "abcdef", "abcx": "abcxyz", "n": "newest", "new": "newest",
		"last": "newest", "lastl": "lastly", "last2a": "last2a",
		"": "usage", "a": "usage", "abc": "usage", "las": "usage",
		"abcdefg": "absent", "ABCDEF": "absent", "bcdef": "absent", " abcdef": "absent", "abcdef ": "absent",
		"*": "absent", "abc*": "absent", "a?cdef": "absent", ".": "absent", "..": "absent", "/": "absent", "../newest": "absent",
		"newest/..": "absent", "newest/": "absent", "abcdef\x00": "absent", "-": "absent", "--": "absent", "Last": "absent", "\u043dewest": "absent",
	} {
		w, err := findSession(all, id)
		_, usage := err.(usageError)
		got := ""
		switch {
		case usage:
			got = "usage"
		case sandbox.CodeOf(err) == sandbox.ErrNotFound:
			got = "absent"
		case err == nil:
			got = w.ID
		}
		if got != want {
			t.Errorf("%q: got %s (%v), want %s", id, got, err, want)
		}
	}
	if w, err := findSession(all[:1], ""); err == nil {
		t.Errorf("an empty id chooses session %s", w.ID)
	}
	if w, err := findSession(nil, "last"); err == nil {
		t.Errorf("last chooses %v of no sessions", w)
	}
}
