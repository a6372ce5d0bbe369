package jail_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// TestSurvivesOthers checks that if a golem is killed during an undo, another one that
// runs completes the undo before it applies changes.
func TestSurvivesOthers(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		g := newGround(t, 200)
		g.measure()
		s := g.session()
		defer s.Close()
		own, undone := pidOf("jail-hold"), 0
		for i := range 6 {
			if clash, err := g.runCommand(s).Apply(nil); err != nil || clash != nil {
				t.Fatal(clash, err)
			}
			l := g.lander("undo")
			l.begin()
			time.Sleep(g.took * time.Duration(i) / 4)
			if its := pidOf("jail-hold"); its != own {
				kill(its)
			}
			l.Process.Kill()
			l.end()
			r, err := changes.Finish(s.Run(context.Background(), jail.Shell("echo other > other")))
			check(t, err)
			if clash, err := r.Changed.Apply(nil); err != nil || clash != nil {
				t.Fatal(clash, err)
			}
			check(t, os.Remove(g.work+"/other"))
			if g.checkState(fmt.Sprint("round ", i)) {
				sh(t, g.work, "rm -rf ./*")
				sh(t, g.copy, "cp -a . "+g.work)
			} else {
				undone++
				g.checkRestored(fmt.Sprint("round ", i))
			}
		}
		t.Logf("%d of 6 steps were undone", undone)
		check(t, s.Close())
		left, err := os.ReadDir(g.layers)
		// Two applies in each round leave a record, unless it was undone. The last file has the names.
		if want := 2*6 - undone + 1; err != nil || len(left) != want {
			t.Errorf("got files %v, %v, want %d", left, err, want)
		}
	})
}

// TestSurvivesEditors checks that golem never overwrites a file that a user saves while
// commands run and are applied, in place or by a rename. It applies nothing of a command
// whose changes would replace the file.
func TestSurvivesEditors(t *testing.T) {
	g := &ground{t: t, work: t.TempDir(), layers: t.TempDir()}
	const files = 6
	file := func(i int) string { return fmt.Sprintf("%s/f%d", g.work, i) }
	for i := range files {
		check(t, os.WriteFile(file(i), []byte("begin\n"), 0o644))
	}
	s := g.session()
	defer s.Close()
	run := func(line string) *changes.Transaction {
		t.Helper()
		r, err := changes.Finish(s.Run(context.Background(), jail.Shell(line)))
		if err != nil || r.Changed == nil {
			t.Fatalf("%v, %s", err, r.Stderr.Head)
		}
		return r.Changed
	}
	// One after the other: edits of the user before golem applies the changes.
	for _, edit := range []string{
		"echo mine >> f0",
		"cp f0 .f0.swp; echo mine >> .f0.swp; mv .f0.swp f0",
		"mv f0 f0~; (cat f0~; echo mine) > f0; rm f0~",
		"mv f0 other; ln -s other f0",
		"rm f0",
		"rm f0; mkdir f0; echo mine > f0/mine",
		"chmod 600 f0",
		"rm f0; ln f1 f0",
	} {
		change := run("echo command >> f0; rm f1; echo new > n")
		sh(t, g.work, edit)
		mine := describeDir(t, g.work, true)
		if clash, err := change.Apply(nil); err != nil || len(clash) == 0 || clash[0] != "/f0" {
			t.Errorf("%s: %v, %v", edit, clash, err)
		}
		check(t, change.Discard())
		if got := describeDir(t, g.work, true); got != mine {
			t.Errorf("%s: it became\n%s\nwas\n%s", edit, got, mine)
		}
		sh(t, g.work, "rm -rf f0 other; echo begin > f0")
	}
	// At once. The user reads the file before each save.
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				done <- n
				return
			default:
			}
			name := file(n % files)
			data, err := os.ReadFile(name)
			if err == nil {
				err = os.WriteFile(name+".swp", fmt.Appendf(data, "user %d\n", n), 0o644)
			}
			if err == nil {
				err = os.Rename(name+".swp", name)
			}
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(rand.N(4000)) * time.Microsecond)
		}
	}()
	landed, clashed := 0, 0
	for i := range 60 {
		change := run(fmt.Sprintf("for f in f%d f%d; do echo command %d >> $f; done", i%files, rand.N(files), i))
		clash := change.Clash // the user saved the file while the command ran
		if len(clash) == 0 {
			var err error
			clash, err = change.Apply(nil)
			check(t, err)
		}
		if len(clash) > 0 {
			clashed++
			check(t, change.Discard())
		} else {
			landed++
		}
	}
	close(stop)
	edits := <-done
	text := describeDir(t, g.work, false)
	for n := range edits {
		if !strings.Contains(text, fmt.Sprintf("\\nuser %d\\n", n)) {
			t.Errorf("edit %d is lost", n)
		}
	}
	if landed == 0 || clashed == 0 || edits < 20 {
		t.Errorf("%d applied, %d not applied, %d edits: the test checks nothing", landed, clashed, edits)
	}
}

// TestManyNames checks that Apply can report and skip more names than fit into one
// message.
func TestManyNames(t *testing.T) {
	g := &ground{t: t, work: t.TempDir(), layers: t.TempDir()}
	s := g.session()
	defer s.Close()
	const names = 4500
	long := strings.Repeat("n", 240)
	r, err := changes.Finish(s.Run(context.Background(), jail.Shell(fmt.Sprintf("for i in $(seq %d); do : > %s$i; done; mkdir d; : > d/left; : > d/f", names, long))))
	check(t, err)
	dropped, all := []string{"/d/left"}, fmt.Sprintf("seq -f %s%%.0f %d | xargs ", long, names)
	for i := range names {
		dropped = append(dropped, fmt.Sprintf("/%s%d", long, i+1))
	}
	sh(t, g.work, all+"touch")
	if clash, err := r.Changed.Apply(nil); err != nil || len(clash) != names {
		t.Errorf("%d names, %v", len(clash), err)
	}
	sh(t, g.work, all+"rm")
	if clash, err := r.Changed.Apply(dropped); err != nil || clash != nil {
		t.Fatal(len(clash), err)
	}
	if got := describeDir(t, g.work, false); got != "/d 40755 \"\" \"\"\n/d/f 100644 \"\" \"\"\n" {
		t.Errorf("landed %d bytes: %.200s", len(got), got)
	}
	last, err := changes.Last(sandbox.Host(g.layers))
	if err != nil || len(last.Changes) != 2 {
		t.Errorf("%d changes can be undone, %v", len(last.Changes), err)
	}
}
