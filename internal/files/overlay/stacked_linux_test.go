package overlay_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/layers"
	"github.com/golem-forge/golem/internal/files/overlay"
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
	// A layer that is gone is an error, not a session with other files.
	must(t, os.RemoveAll(layers.Dir(b.Store, tops[0])))
	if _, err := b.SessionChanges(); err == nil {
		t.Error("a session without one of its layers was listed")
	}
}

// TestServed discards and applies changes of a session with layers while a service has its overlay
// mounted. The service sees the result in the same mount. The first fold after the service leaves
// nothing else.
func TestServed(t *testing.T) {
	begin := func(t *testing.T) (b *fixture, end func()) {
		b = newSession(t)
		for _, script := range []string{
			"echo 1 > a; rm b; mkdir -p new/in; echo n > new/f; echo 1 > sub/own; chmod 700 empty; rm -r many; echo m > many",
			"rm -r sub; mkdir sub; echo 2 > sub/other; echo n > new/in/g",
		} {
			b.call(script)
			b.unmount()
			_, err := layers.Freeze(b.Store)
			must(t, err)
			b.mount()
		}
		b.call("echo 3 > a; echo 3 > only; rm new/f; echo 3 > new/h")
		f, err := os.Create(filepath.Join(b.Store, "served"))
		must(t, err)
		must(t, unix.Flock(int(f.Fd()), unix.LOCK_SH))
		return b, func() { f.Close() }
	}
	discards := map[string][]string{"all": {"."}, "some": {"a", "b", "new", "sub", "empty", "many", "only"}, "one by one": {"sub/other", "sub/c", "new/h", "new/in", "a", "many"}}
	for name, paths := range discards {
		t.Run("discard "+name, func(t *testing.T) {
			b, end := begin(t)
			if name != "one by one" {
				must(t, b.Discard(paths))
			} else {
				for _, p := range paths {
					must(t, b.Discard([]string{p}))
				}
			}
			b.flush()
			check := func(when string) {
				t.Helper()
				list, seen, real := b.listing(), scan(t, b.SessionDir()), scan(t, b.Dir)
				if name != "one by one" {
					if d := diff(real, seen); len(list) > 0 || len(d) > 0 {
						t.Errorf("%s the session has %q, and differs at %q", when, list, d)
					}
					return
				}
				for _, p := range paths {
					inside := func(all shape) shape {
						some := shape{}
						for name, state := range all {
							if within(name, p) {
								some[name] = state
							}
						}
						return some
					}
					if d := diff(inside(real), inside(seen)); len(d) > 0 {
						t.Errorf("%s the session differs in %s: %q", when, p, d)
					}
				}
			}
			check("while the service runs")
			end()
			must(t, b.RecordBases(true)) // still mounted
			check("after the service")
			b.unmount()
			must(t, b.RecordBases(true))
			b.mount()
			check("after the fold")
		})
	}
	t.Run("undo", func(t *testing.T) {
		b, end := begin(t)
		seen, real, want := scan(t, b.SessionDir()), scan(t, b.Dir), b.listing()
		all, err := b.SessionChanges()
		must(t, err)
		var picks []overlay.Pick
		for _, c := range all {
			picks = append(picks, overlay.Pick{Path: c.Path})
		}
		to, list, err := b.pick(picks...)
		must(t, err)
		must(t, to.PrepareApply(list, nil))
		must(t, to.FinishApply())
		must(t, b.MarkApplied(pathsOf(picks), nil))
		must(t, overlay.UndoApply(to, nil))
		must(t, b.Restore(to, list))
		b.flush()
		check := func(when string) {
			t.Helper()
			if d := diff(real, scan(t, b.Dir)); len(d) > 0 {
				t.Errorf("%s the directory differs at %q", when, d)
			}
			if d := diff(seen, scan(t, b.SessionDir())); len(d) > 0 {
				t.Errorf("%s the session differs at %q", when, d)
			}
			got := b.listing()
			for i := range got { // what a layer hides with its directory may be a conflict
				if strings.HasPrefix(got[i], "create sub/") || strings.HasPrefix(got[i], "delete sub/") {
					got[i] = strings.TrimSuffix(got[i], "!")
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s the session has\n%q\nwant\n%q", when, got, want)
			}
		}
		check("after the undo")
		end()
		b.unmount()
		must(t, b.RecordBases(true))
		b.mount()
		check("after the fold")
	})
	t.Run("apply", func(t *testing.T) {
		b, end := begin(t)
		seen := scan(t, b.SessionDir())
		all, err := b.SessionChanges()
		must(t, err)
		var picks []overlay.Pick
		for _, c := range all {
			picks = append(picks, overlay.Pick{Path: c.Path})
		}
		must(t, b.pickAndApply(picks...))
		b.flush()
		if d := diff(seen, scan(t, b.SessionDir())); len(d) > 0 {
			t.Errorf("the apply changed in the session: %q", d)
		}
		if list := b.listing(); len(list) > 0 {
			t.Errorf("after the apply the session has %q", list)
		}
		run(t, b.Dir, "echo user > a")
		if list := b.listing(); len(list) > 0 {
			t.Errorf("after an edit of the user the session has %q", list)
		}
		end()
		b.unmount()
		must(t, b.RecordBases(true))
		b.mount()
		if d := diff(scan(t, b.Dir), scan(t, b.SessionDir())); len(d) > 0 {
			t.Errorf("after the fold the session differs at %q", d)
		}
	})
}
