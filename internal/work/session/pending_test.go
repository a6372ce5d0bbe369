package session

import (
	"slices"
	"testing"

	"github.com/golem-forge/golem/internal/files/changes"
)

// TestRecoveryNotes checks that golem names the files that it left as they are, and no others.
func TestRecoveryNotes(t *testing.T) {
	hint := func(what string) string { return "; golem undo undoes " + what }
	for _, test := range []struct {
		done changes.Recovered
		want []string
	}{
		{changes.Recovered{}, nil},
		{changes.Recovered{Applied: 1}, []string{"golem was killed while it applied changes, and has now applied the rest; golem undo undoes them"}},
		{changes.Recovered{Applied: 1, Kept: []string{"/a", "/b\n"}}, []string{`golem was killed while it applied changes, and has now applied the rest, except for 2 files that changed since: /a, "/b\n"; golem undo undoes the others`}},
		{changes.Recovered{Kept: []string{"/a"}}, []string{"golem was killed while it applied changes, and has applied none of them, because the files changed since: /a"}},
		{changes.Recovered{Undone: 1, Left: []string{"/a", "/b", "/c", "/d"}}, []string{"golem was killed while it undid changes, and has now undone the rest, except for 4 files that changed since: /a, /b, /c, …; golem undo --list lists them"}},
	} {
		if got := recoveryNotes(test.done, hint); !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %q, want %q", test.done, got, test.want)
		}
	}
}
