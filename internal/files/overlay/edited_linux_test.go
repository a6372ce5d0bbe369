package overlay_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// conflicts returns the paths of a ConflictError, separated by spaces, or the error.
func conflicts(err error) string {
	var conflict *overlay.ConflictError
	if errors.As(err, &conflict) {
		return strings.Join(conflict.Paths, " ")
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// TestEditDuringApply checks that an edit between the last check of a file and its
// replacement is not lost. If golem still runs, nothing is applied. If it was killed and
// continues later, everything else is.
func TestEditDuringApply(t *testing.T) {
	const work = "echo x > a; rm b; rm -r sub; rm -r many; echo file > many; mkdir n; echo x > n/f; chmod 700 empty"
	for _, test := range []struct{ edit, want string }{
		{"echo mine >> a", "a"},
		{"echo mine > .a.swp; mv a a~; mv .a.swp a; rm a~", "a"},
		{"printf 'two\\n' > b", "b"},
		{"rm b; echo mine > b", "b"},
		{"echo mine > sub/deep/new", "sub"},
		{"echo mine >> sub/deep/d", "sub"},
		{"echo mine > many/1", "many"},
		{"mkdir n", "n"},
		{"mv sub other; ln -s other sub", "sub"},
		{"chmod 711 empty", "empty"},
	} {
		for _, killed := range []bool{false, true} {
			b := newFixture(t)
			b.work(work)
			changes, err := b.Changes()
			must(t, err)
			must(t, b.PrepareApply(changes, nil))
			run(t, b.Dir, test.edit)
			mine := describe(t, b.Dir)
			deep := strings.Contains(test.edit, "sub/deep") || strings.Contains(test.edit, "many/1")
			if killed {
				err = b.Recover()
			} else if deep {
				continue // only PrepareApply and Recover check files deep in a directory
			} else {
				err = b.FinishApply()
			}
			if got := conflicts(err); got != test.want {
				t.Errorf("%s, killed %v: conflicts %q, want %q", test.edit, killed, got, test.want)
			}
			got := describe(t, b.Dir)
			if !killed && got != mine {
				t.Errorf("%s: the directory has changed", test.edit)
			}
			if killed {
				for line := range strings.Lines(mine) {
					if strings.Contains(line, "mine") && !strings.Contains(got, line) {
						t.Errorf("%s: the user's line is lost: %s", test.edit, line)
					}
				}
				if test.want != "a" && !strings.Contains(got, `/a 100644 "x\n"`) || test.want != "n" && !strings.Contains(got, "/n/f") {
					t.Errorf("%s: the rest is not applied:\n%s", test.edit, got)
				}
			}
		}
	}
}

// TestEditAfterApply checks that Undo and AbortApply keep a file that was edited after
// Apply, also if golem was killed in between.
func TestEditAfterApply(t *testing.T) {
	for _, edit := range []string{"echo mine >> a", "echo mine > b", "rm n/f", "echo mine > n/g", "rm -r n; mkdir n", "rm a"} {
		for _, how := range []string{"undo", "killed", "abort"} {
			b := newFixture(t)
			b.work("echo x > a; rm b; mkdir n; echo x > n/f; echo x > c")
			changes, err := b.Changes()
			must(t, err)
			must(t, applyChanges(b.Overlay, changes, nil))
			if how == "killed" { // before the end of Apply was marked
				must(t, os.Remove(b.Store+"/applied"))
			}
			run(t, b.Dir, edit)
			mine := describe(t, b.Dir)
			want := strings.Trim(strings.Split(edit, " ")[len(strings.Split(edit, " "))-1], "/fg")
			if how == "abort" {
				if got := conflicts(b.AbortApply()); got != want {
					t.Errorf("%s: %q stays, want %q", edit, got, want)
				}
				got := describe(t, b.Dir)
				for line := range strings.Lines(mine) {
					if strings.Contains(line, "mine") && !strings.Contains(got, line) {
						t.Errorf("%s: the user's line is lost: %s", edit, line)
					}
				}
				if strings.Contains(got, "\n/c ") {
					t.Errorf("%s: the rest was not undone", edit)
				}
				continue
			}
			if how == "killed" {
				if err := b.Recover(); err != nil && conflicts(err) != want {
					t.Fatal(edit, err)
				}
				mine = describe(t, b.Dir)
			}
			if got := conflicts(undoChanges(b.Overlay)); got != want {
				t.Errorf("%s, %s: conflicts %q, want %q", edit, how, got, want)
			}
			if got := describe(t, b.Dir); got != mine {
				t.Errorf("%s, %s: the directory has changed", edit, how)
			}
		}
	}
}

// TestDirModes checks that Apply keeps the set-group-ID bit of a directory, and that Undo
// restores its mode.
func TestDirModes(t *testing.T) {
	b := newFixture(t)
	run(t, b.Dir, "chmod 2775 sub; chmod 1777 empty; chmod 2755 a")
	must(t, b.MarkStart())
	before := describe(t, b.Dir)
	b.work("chmod 0700 sub empty; chmod 700 a; echo x > sub/new")
	must(t, b.applyAll())
	if got := describe(t, b.Dir); !strings.Contains(got, "/sub 42700 ") || !strings.Contains(got, "/empty 41700 ") || !strings.Contains(got, "/a 100700 ") {
		t.Errorf("applied\n%s", got)
	}
	must(t, undoChanges(b.Overlay))
	if got := describe(t, b.Dir); got != before {
		t.Errorf("undone\n%s\nwant\n%s", got, before)
	}
}

// TestHardLinks checks that moving one name of a file is not a change of its other names.
func TestHardLinks(t *testing.T) {
	for _, killed := range []bool{false, true} {
		b := newFixture(t)
		run(t, b.Dir, "ln a many/a; ln a sub/a; ln b sub/deep/b")
		must(t, b.MarkStart())
		before := describe(t, b.Dir)
		b.work("echo x > a; rm many/a; rm b; rm -r sub; ln link l2")
		changes, err := b.Changes()
		must(t, err)
		must(t, b.PrepareApply(changes, nil))
		if killed {
			err = b.Recover()
		} else {
			err = b.FinishApply()
		}
		must(t, err)
		must(t, undoChanges(b.Overlay))
		if got := describe(t, b.Dir); got != before {
			t.Errorf("undone\n%s\nwant\n%s", got, before)
		}
	}
}
