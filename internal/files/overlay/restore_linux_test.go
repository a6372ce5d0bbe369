package overlay_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// TestEditedDuringUndo edits files while an undo is interrupted, before or after the undo has
// restored them. None of the edits is lost, none of the old files is, and applying the
// session again is a conflict.
func TestEditedDuringUndo(t *testing.T) {
	for _, test := range []struct {
		steps  string
		edited string // after the undo, and before the session has its changes again
		early  string // before the undo
		left   string // paths that the undo leaves applied
		want   string // changes of the session
	}{
		{">echo new > a", "!echo mine > a", "", "", "change a file!"},
		{">echo new > a", "!rm a; echo mine > a", "", "", "change a file!"},
		{">echo new > a", "!rm a", "", "", "create a file!"},
		{">rm a", "!echo mine > a", "", "", "delete a!"},
		{">echo new > n", "!echo mine > n", "", "", "change n file!"},
		{">rm -r many", "!echo mine > many/1", "", "", "delete many!"},
		{">rm -r many; echo new > many", "!echo mine > many/1", "", "", "change many file!"},
		{">mkdir n; echo new > n/f", "!mkdir n; echo mine > n/f", "", "", "change n/f file!"},
		{">echo new > a; echo new > n", "", "!echo mine > a", "a", "create n file"},
		{">echo new > a; echo new > n", "", "!rm a; echo mine > a", "a", "create n file"},
		{">echo new > a; echo new > n", "", "!echo mine > n", "n", "change a file"},
		{">rm a; echo new > n", "", "!echo mine > a", "a", "create n file"},
		{">rm -r many; echo new > n", "", "!mkdir many; echo mine > many/1", "many", "create n file"},
		{">mkdir m; echo new > m/f; echo new > n", "", "!echo mine > m/f", "m", "create n file"},
		{">mkdir m; echo new > m/f; echo new > n", "", "!echo mine > m/g", "m", "create n file"},
	} {
		b := newSession(t)
		b.steps(test.steps)
		list, err := b.Changes()
		must(t, err)
		var picks []overlay.Pick
		for _, c := range list {
			picks = append(picks, overlay.Pick{Path: c.Path})
		}
		to, list, err := b.pick(picks...)
		must(t, err)
		must(t, to.PrepareApply(list, nil))
		must(t, to.FinishApply())
		must(t, b.MarkApplied(pathsOf(picks), nil))
		must(t, to.CheckUndo())
		if test.early != "" {
			b.steps(test.early)
		}
		mine := describe(t, b.Dir)
		for i := range 2 {
			err := overlay.UndoApply(to, nil)
			var conflict *overlay.ConflictError
			if err != nil && !errors.As(err, &conflict) {
				t.Fatal(err)
			}
			if i == 0 && test.edited != "" {
				b.steps(test.edited)
				mine = describe(t, b.Dir)
			}
		}
		if left := strings.Join(overlay.LeftPaths(to), " "); left != test.left {
			t.Errorf("%s, %s: the undo has left %q, want %q", test.steps, test.early, left, test.left)
		}
		for range 2 { // the second time must do no harm
			must(t, b.Restore(to, list))
		}
		if got := b.changes(); got != test.want {
			t.Errorf("%s, %s, %s: %q, want %q", test.steps, test.edited, test.early, got, test.want)
		}
		if got := describe(t, b.Dir); test.edited != "" && got != mine || !strings.Contains(got, "mine") && strings.Contains(mine, "mine") {
			t.Errorf("%s, %s, %s: the directory has\n%s\nwant\n%s", test.steps, test.edited, test.early, got, mine)
		}
	}
}

// TestRestoreBase checks a change of which something stayed in the session after it was
// applied. After the undo it is a change of the restored file, and not a conflict.
func TestRestoreBase(t *testing.T) {
	given := t.TempDir() + "/given"
	must(t, os.WriteFile(given, []byte("given\n"), 0o600))
	for _, test := range []struct {
		steps  string
		picks  string // one list for each step to undo; "!" forces a conflict, "=" applies other content
		later  string // before the undo
		edited string // after it
		want   string
	}{
		{">echo x > a", "a=", "", "", "change a file"},
		{">echo x > a; echo y > n", "a= n", "", "", "change a file, create n file"},
		{">echo x > a; chmod 700 a", "a=", "", "", "change a file"},
		{">rm a", "a=", "", "", "delete a"},
		{">rm a; ln -s b a", "a", ">rm a; ln -s c a", "", "change a link"},
		{">echo x > a", "a=|a", "", "", "change a file"},
		{">echo x > a", "a=|a=", "", "", "change a file"},
		{">echo x > a", "a", ">echo z >> a", "", "change a file"},
		{">echo x > n", "n", ">echo z >> n", "", "create n file"},
		{">echo x > n; chmod 700 n", "n=", "", "", "create n file"},
		{">mkdir -p d/s; echo 1 > d/a; echo 2 > d/b; echo 3 > d/s/c; echo 4 > d/s/e", "d/a d/s/c", "", "", "create d folder, create d/a file, create d/b file, create d/s folder, create d/s/c file, create d/s/e file"},
		{">mkdir -p d/s/.golem-tmp-move-A; echo 1 > d/s/a", "d", "", "", "create d folder, create d/s folder, create d/s/a file"},
		{">mkdir d; echo 1 > d/a", "d", ">echo 2 > d/b", "", "create d folder, create d/a file, create d/b file"},
		{">mkdir d; echo 1 > d/a; echo 2 > d/b", "d/a", "", "!mkdir d; echo mine > d/b", "create d/a file, change d/b file!"},
		{">echo x > a", "a=", "", "!echo mine > a", "change a file!"},
		{">echo x > a|!echo y > a", "a!=", "", "", "change a file!"},
		{">echo x > a|!echo y > a", "a!", ">echo z >> a", "", "change a file!"},
	} {
		b := newSession(t)
		for step := range strings.SplitSeq(test.steps, "|") {
			b.steps(step)
		}
		before := describe(t, b.Dir)
		type applied struct {
			to   overlay.Overlay
			list []overlay.PathChange
		}
		var done []applied
		var older []overlay.Overlay // the last one first
		for step := range strings.SplitSeq(test.picks, "|") {
			var picks []overlay.Pick
			for p := range strings.FieldsSeq(step) {
				pick := overlay.Pick{Path: strings.TrimRight(p, "!="), Force: strings.Contains(p, "!")}
				if strings.HasSuffix(p, "=") {
					pick.ContentFile = given
				}
				picks = append(picks, pick)
			}
			to, list, err := b.pick(picks...)
			must(t, err)
			must(t, to.PrepareApply(list, nil))
			must(t, to.FinishApply())
			must(t, b.MarkApplied(pathsOf(picks), nil))
			done, older = append(done, applied{to, list}), append([]overlay.Overlay{to}, older...)
		}
		if test.later != "" {
			b.steps(test.later)
		}
		seen := b.view()
		for i := len(done) - 1; i >= 0; i-- {
			older = older[1:]
			must(t, done[i].to.CheckUndo())
			must(t, overlay.UndoApply(done[i].to, older))
			for range 2 { // the second time must do no harm
				must(t, b.Restore(done[i].to, done[i].list))
			}
		}
		if got := describe(t, b.Dir); got != before {
			t.Errorf("%s, %s: undone\n%s\nwant\n%s", test.steps, test.picks, got, before)
		}
		if got := b.view(); got != seen {
			t.Errorf("%s, %s: the session has\n%s\nwant\n%s", test.steps, test.picks, got, seen)
		}
		if test.edited != "" {
			b.steps(test.edited)
		}
		if got := b.changes(); got != test.want {
			t.Errorf("%s, %s, %s: %q, want %q", test.steps, test.picks, test.later, got, test.want)
		}
	}
}
