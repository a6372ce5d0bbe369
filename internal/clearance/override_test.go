package clearance_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance"
)

func TestParseOverrides(t *testing.T) {
	for _, test := range []struct{ held, given, want string }{
		{"/a", "/a=why", "/a"},
		{"/a", "a=why = so", "/a"},
		{"message", "message=why", "message"},
		{"/a=b.txt", "/a=b.txt=why", "/a=b.txt"},
		{"/a /a=b.txt", "/a=b.txt=why", "/a=b.txt"},
		{"/a /a=b.txt", "/a=why", "/a"},
		{"/a", "/a=", ""},
		{"/a", "/a", ""},
		{"/a", "=why", ""},
		{"/a", "/b=why", ""},
		{"/a=b.txt", "/a=b.txt=", ""},
	} {
		got, err := clearance.ParseOverrides("push", []string{test.given}, func(name string) bool { return slices.Contains(strings.Fields(test.held), name) })
		if names := strings.Join(slices.Sorted(maps.Keys(got)), " "); names != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s of %s: got %q, %v; want %q", test.given, test.held, names, err, test.want)
		}
	}
}

// TestAReasonIsNotTheWordReason checks that the placeholder from the hint is not a
// reason.
func TestAReasonIsNotTheWordReason(t *testing.T) {
	for reason, want := range map[string]bool{
		"REASON": false, "reason": false, " Reason ": false, "<REASON>": false, "REASON'": false, "the reason": false, "PATH=REASON": false, "REASON REASON": false,
		"...": false, "-": false, "1": false, "": false, "  ": false,
		"a key of nobody": true, "no reason to worry: a test key": true, "geprüft": true, "ok 1": true,
	} {
		if _, err := clearance.ParseOverrides("push", []string{"/a=" + reason}, func(name string) bool { return name == "/a" }); (err == nil) != want {
			t.Errorf("%q: got %v", reason, err)
		}
	}
}
