package tool

import (
	"fmt"
	"testing"
)

// TestDone checks the lines about applied and undone changes.
func TestDone(t *testing.T) {
	var many []Change
	for i := range 10 {
		many = append(many, Change{Path: fmt.Sprintf("/%d", i), Op: Create})
	}
	for _, test := range []struct {
		done          Done
		list          []Change
		want, wantAll string
	}{
		{Done{Count: 4}, []Change{{Path: "/a", Op: Create}, {Path: "/b", Op: Update, Part: "hunk 1 of 2"}, {Path: "/c", Op: Delete}, {Path: "/d", Op: Update, OnlyMode: true}},
			"applied: created /a, changed /b (hunk 1 of 2), deleted /c, permissions of /d", ""},
		{Done{Count: 10}, many, "applied: created /0, created /1, created /2, created /3, created /4, created /5, created /6, created /7 and 2 more", ""},
		{Done{Undone: true, Count: 1}, []Change{{Path: "/a", Op: Create}, {Path: "/b", Op: Update}, {Path: "/c", Op: Delete}, {Path: "/d", Op: Move}},
			"undone: 1 change", "undone: 1 change: restored /a, restored /b, deleted /c, moved back /d"},
	} {
		d := test.done.name(test.list)
		if test.wantAll == "" {
			test.wantAll = test.want
		}
		if d.String() != test.want || d.Named() != test.wantAll {
			t.Errorf("got %q and %q, want %q and %q", d, d.Named(), test.want, test.wantAll)
		}
	}
}

// TestWords checks the order of a result's parts, and what FirstLine and withhold leave.
func TestWords(t *testing.T) {
	r := Result{Text: "wrote /a: 3 B, version 7f", Output: "\nout\n", ForModel: ", version 7f", Stderr: "bad", Data: 1, Done: &Done{Undone: true, Count: 2}}
	if got, want := r.Words(), "wrote /a: 3 B, version 7f\nout\nundone: 2 changes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := r.FirstLine(), "wrote /a: 3 B …"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if r.Text, r.Done, r.Output = "made /a", nil, ""; r.FirstLine() != "made /a" {
		t.Errorf("got %q", r.FirstLine())
	}
	r.Done = &Done{Count: 1}
	if r.withhold(); r.Words() != "" || r.Stderr != "" || r.Data != nil {
		t.Errorf("withhold leaves %+v", r)
	}
}
