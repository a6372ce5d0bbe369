package overlay_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/overlay"
)

// A chain applies overlays to one directory one after the other, and undoes them.
type chain struct {
	*fixture
	applied []overlay.Overlay // the last one first
	states  []string          // the directory before each of them
	stores  int
	log     []string // what was done
}

func newChain(t *testing.T) *chain { return &chain{fixture: newFixture(t)} }

// step runs a script over the directory, and applies its changes.
func (c *chain) step(script string) {
	c.t.Helper()
	c.stores++
	c.log = append(c.log, script)
	next := *c.fixture
	next.Store = fmt.Sprintf("%s-%d", c.Store, c.stores)
	must(c.t, next.Init())
	before := describe(c.t, c.Dir)
	next.work(script)
	must(c.t, next.applyAll())
	c.applied = append([]overlay.Overlay{next.Overlay}, c.applied...)
	c.states = append([]string{before}, c.states...)
}

// undo undoes the last step, if nothing has changed since.
func (c *chain) undo() error {
	c.t.Helper()
	c.log = append(c.log, "undo")
	if err := c.applied[0].CheckUndo(); err != nil {
		return err
	}
	must(c.t, overlay.UndoApply(c.applied[0], c.applied[1:]))
	if got := describe(c.t, c.Dir); got != c.states[0] {
		c.t.Fatalf("undone\n%s\nwant\n%s", got, c.states[0])
	}
	c.applied, c.states = c.applied[1:], c.states[1:]
	return nil
}

// TestUndoSteps applies random changes several times, undoes some of them, applies others
// and undoes all. Each undo must restore the directory.
func TestUndoSteps(t *testing.T) {
	for _, scripts := range [][]string{
		{"echo 1 > a", "echo 2 > a", "echo 3 > a"},
		{"mkdir d; echo 1 > d/f", "echo 2 > d/f; echo 1 > d/g", "rm -r d", "mkdir d; echo 3 > d/f"},
		{"chmod 700 sub", "chmod 755 sub; echo x > sub/c", "chmod 700 sub", "rm -r sub"},
		{"rm a", "echo 2 > a", "rm a; mkdir a", "echo x > a/b"},
		{"mkdir -p n/m/o; echo x > n/m/o/p", "echo y > n/m/o/p", "rm n/m/o/p", "rm -r n/m", "echo z > n/q"},
	} {
		c := newChain(t)
		for _, s := range scripts {
			c.step(s)
		}
		for range scripts {
			if err := c.undo(); err != nil {
				t.Fatalf("%q: %v", scripts, err)
			}
		}
	}
	for range testutil.Rounds(15) {
		c := newChain(t)
		for range 12 {
			if len(c.applied) > 0 && rand.IntN(3) == 0 {
				if err := c.undo(); err != nil {
					t.Fatalf("%q: %v", c.log, err)
				}
				continue
			}
			c.step(randomScript())
		}
		for len(c.applied) > 0 {
			if err := c.undo(); err != nil {
				t.Fatalf("%q: %v", c.log, err)
			}
		}
	}
}

// TestUndoStepsKeepEdits checks that golem refuses to undo a step if the user has changed
// one of its files, also if a later step was undone in between.
func TestUndoStepsKeepEdits(t *testing.T) {
	for _, test := range []struct {
		name         string
		first, later string
		edit         string // by the user, between the two steps or after them
		between      bool
		kept         string // a file of the user that must stay
	}{
		{"the file after both", "echo 1 > a", "echo 2 > b", "echo mine > a", false, "a"},
		{"the file between them", "echo 1 > a", "echo 2 >> a", "echo mine > a", true, "a"},
		{"a file added to a new directory", "mkdir d; echo 1 > d/f", "echo 2 > d/g", "echo mine > d/mine", false, "d/mine"},
		{"a file added to it between them", "mkdir d; echo 1 > d/f", "echo 2 > d/f", "echo mine > d/mine", true, "d/mine"},
		{"a file in it", "mkdir d; echo 1 > d/f; echo 1 > d/h", "echo 2 > d/f", "echo mine > d/h", false, "d/h"},
		{"a file of the same size with the old time", "echo 1 > a", "echo 2 > b", "echo m > a; touch -r sub a", false, "a"},
	} {
		c := newChain(t)
		c.step(test.first)
		if test.between {
			run(t, c.Dir, test.edit)
		}
		c.step(test.later)
		if !test.between {
			run(t, c.Dir, test.edit)
			c.states[0] = "" // the edit is in it
			must(t, c.applied[0].CheckUndo())
			must(t, overlay.UndoApply(c.applied[0], c.applied[1:]))
			c.applied, c.states = c.applied[1:], c.states[1:]
		} else if err := c.undo(); err != nil {
			t.Fatalf("%s: the later step: %v", test.name, err)
		}
		want, err := os.ReadFile(c.Dir + "/" + test.kept)
		must(t, err)
		var conflict *overlay.ConflictError
		if err := c.undo(); !errors.As(err, &conflict) {
			t.Errorf("%s: the first step: got %v, want a conflict", test.name, err)
		}
		if got, err := os.ReadFile(c.Dir + "/" + test.kept); err != nil || string(got) != string(want) {
			t.Errorf("%s: got %q, %v, want %q", test.name, got, err, want)
		}
	}
}
