package overlay_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/layers"
)

// list returns the changes of the session as text.
func (b *fixture) listing() []string {
	b.t.Helper()
	list, err := b.SessionChanges()
	must(b.t, err)
	return formatModel(list)
}

// TestFreezeKilled kills golem between the renames of a freeze: the session shows the same, and
// the next freeze completes it.
func TestFreezeKilled(t *testing.T) {
	states := map[string]func(b *fixture, top string){
		"before the upperdir moves": func(b *fixture, top string) {
			must(b.t, os.Remove(b.UpperDir()))
			must(b.t, os.Rename(layers.Upper(b.Store, top), b.UpperDir()))
		},
		"before the new upperdir": func(b *fixture, _ string) { must(b.t, os.Remove(b.UpperDir())) },
	}
	for name, kill := range states {
		t.Run(name, func(t *testing.T) {
			b := newSession(t)
			b.call("echo 1 > a; rm b; mkdir new; echo n > new/f")
			b.unmount()
			want := b.listing()
			for range 2 { // the second time there is a layer below
				s, err := layers.Freeze(b.Store)
				must(t, err)
				kill(b, s.Layers[0])
				if got := b.listing(); !slices.Equal(got, want) {
					t.Errorf("after the kill the session has\n%q\nwant\n%q", got, want)
				}
				_, err = layers.Freeze(b.Store)
				must(t, err)
				if got := b.listing(); !slices.Equal(got, want) {
					t.Errorf("after the next freeze the session has\n%q\nwant\n%q", got, want)
				}
				b.mount()
				b.call("mv new newer; echo 2 > a")
				b.unmount()
				want = b.listing()
			}
		})
	}
}

// TestFold folds the layers of a session, and compares what it shows. The old layers stay.
func TestFold(t *testing.T) {
	b := newSession(t)
	var tops []string
	for _, script := range []string{"echo 1 > a; mkdir -p new/in; echo n > new/f; rm -r sub; mkdir sub; ln -s x new/link", "rm new/f; echo m > new/in/g; rm -r many; chmod 700 empty", "mkdir many; echo 1 > many/own; ln new/in/g hard"} {
		b.call(script)
		b.unmount()
		s, err := layers.Freeze(b.Store)
		must(t, err)
		tops = append(tops, s.Layers[0])
		b.mount()
	}
	want, seen := b.listing(), scan(t, b.SessionDir())
	must(t, b.Discard([]string{"many"})) // it folds
	b.unmount()
	b.mount()
	for name := range seen {
		if within(name, "many") {
			delete(seen, name)
		}
	}
	now := scan(t, b.SessionDir())
	for name := range now {
		if within(name, "many") {
			delete(now, name)
		}
	}
	if d := diff(seen, now); len(d) > 0 {
		t.Errorf("after the fold these differ: %q", d)
	}
	// The step is as it was.
	s, err := layers.At(b.Store, tops[2])
	must(t, err)
	must(t, s.Write(b.Store))
	if got := b.listing(); !slices.Equal(got, want) {
		t.Errorf("the step has\n%q\nwant\n%q", got, want)
	}
	// Nobody folds while a service writes to the upperdir.
	f, err := os.Create(filepath.Join(b.Store, "served"))
	must(t, err)
	defer f.Close()
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_SH))
	if err := b.Discard([]string{"a"}); err == nil {
		t.Error("golem discarded changes of a stack that a service is mounted on")
	}
	if got := b.listing(); !slices.Equal(got, want) {
		t.Errorf("the refused discard left\n%q\nwant\n%q", got, want)
	}
	// A layer that is gone is an error, not a session with other files.
	must(t, os.RemoveAll(layers.Dir(b.Store, tops[0])))
	if _, err := b.SessionChanges(); err == nil {
		t.Error("a session without one of its layers was listed")
	}
}
