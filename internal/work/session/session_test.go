package session

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/undo"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/sandbox"
)

// newStore returns a store with a clock that runs on by a minute for each session.
func newStore(t *testing.T) *Sessions {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &Sessions{State: t.TempDir(), Now: func() time.Time { now = now.Add(time.Minute); return now }}
}

// start starts a session.
func (s *Sessions) start(t *testing.T, o Options) *Session {
	t.Helper()
	o.ID = New
	one, begun, err := s.begin(o, true)
	if err != nil || !begun {
		t.Fatalf("got %v, %v", begun, err)
	}
	return one
}

// TestFind checks which session a name means.
func TestFind(t *testing.T) {
	s := newStore(t)
	if _, err := s.Find(""); sandbox.CodeOf(err) != sandbox.ErrNotFound {
		t.Errorf("no sessions: got %v", err)
	}
	first, second := s.start(t, Options{}), s.start(t, Options{})
	for name, want := range map[string]*Session{"": second, naming.Last: second, first.ID: first, first.ID[:5]: first, second.ID: second, first.Name: first} {
		if got, err := s.Find(name); err != nil || got.ID != want.ID {
			t.Errorf("%q: got %v, %v, want %s", name, got, err, want.ID)
		}
	}
	if _, err := s.Find("0"); sandbox.CodeOf(err) != sandbox.ErrNotFound || !strings.Contains(err.Error(), first.Name) || !strings.Contains(err.Error(), second.Name) {
		t.Errorf("an unknown id: got %v, want both names", err)
	}
	list, err := s.List()
	if err != nil || len(list) != 2 || list[0].ID != second.ID {
		t.Errorf("list: got %v, %v", list, err)
	}
	if err := os.WriteFile(filepath.Join(s.dir(), first.ID, sessionName), []byte(`{"id":"another"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); err != nil || len(list) != 1 {
		t.Errorf("with a damaged session: got %v, %v", list, err)
	}
}

// TestNames checks that a session has a name that no other has, also if many begin at the same
// time, that the name is free after the session, and that golem takes no other name from a file.
func TestNames(t *testing.T) {
	s := newStore(t)
	start := time.Now()
	s.Now = func() time.Time { return start }
	const most = 24
	given, refused := make(chan string, most), make(chan error, most)
	var all sync.WaitGroup
	for i := range most {
		all.Go(func() {
			o := Options{ID: New, Exec: &Exec{Command: "claude"}}
			if i%2 == 0 {
				o.Name = "fix-login"
			}
			if one, _, err := s.begin(o, true); err != nil {
				refused <- err
			} else {
				given <- one.Name
			}
		})
	}
	all.Wait()
	close(given)
	close(refused)
	seen := make(map[string]bool)
	for name := range given {
		if seen[name] || name != "fix-login" && !strings.HasPrefix(name, "claude-") {
			t.Errorf("%s is twice, or not made from the program", name)
		}
		seen[name] = true
	}
	if !seen["fix-login"] || len(seen) != most/2+1 {
		t.Errorf("got %d names: %v", len(seen), seen)
	}
	for err := range refused {
		if sandbox.CodeOf(err) != sandbox.ErrExists {
			t.Errorf("got %v", err)
		}
	}
	one, err := s.Find("fix-login")
	if err != nil {
		t.Fatal(err)
	}
	if err := ForgetName(*s, &Session{ID: "abcdef", Name: one.Name}); err != nil || !(names{s.State}).has(one.Name) {
		t.Errorf("another session of the name: got %v", err)
	}
	gone, _, err := s.begin(Options{ID: New, Name: "gone"}, true)
	if err == nil {
		err = ForgetName(*s, gone)
	}
	if _, found := os.Lstat(filepath.Join(s.State, "names", "gone")); err != nil || !errors.Is(found, fs.ErrNotExist) {
		t.Errorf("the name of a session that is gone: got %v, %v", err, found)
	}
	if _, _, err := s.begin(Options{ID: New, Name: one.ID}, true); sandbox.CodeOf(err) != sandbox.ErrExists {
		t.Errorf("the id of another session as a name: got %v", err)
	}
	if _, _, err := s.begin(Options{ID: one.ID, Name: "other"}, true); sandbox.CodeOf(err) != sandbox.ErrInvalid {
		t.Errorf("a name for a session that continues: got %v", err)
	}
	if err := os.RemoveAll(one.dir); err != nil {
		t.Fatal(err)
	}
	if again, _, err := s.begin(Options{ID: New, Name: "fix-login"}, true); err != nil || again.Name != "fix-login" || again.ID == one.ID {
		t.Errorf("after its removal: got %v, %v", again, err)
	}
	made := s.start(t, Options{Worker: "main"})
	if !strings.HasPrefix(made.Name, "main-") {
		t.Errorf("from a worker: got %s", made.Name)
	}
	for _, name := range []string{"", "last", "\u202egnp", "--yes", "../x"} {
		made.Name = name
		if err := made.writeFile(sessionName, made); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Find(made.ID); err != nil || got.Name != "" || naming.Label(got) != made.ID {
			t.Errorf("%q in the file: got %q, %v", name, got.Name, err)
		}
	}
}

// TestBegin checks which session options choose.
func TestBegin(t *testing.T) {
	s := newStore(t)
	over := s.start(t, Options{Exec: &Exec{Command: "vim"}})
	onCopy := s.start(t, Options{Copy: true})
	for name, test := range map[string]struct {
		options  Options
		overlays bool
		want     string // the id, "new", or a part of the error after "error: "
	}{
		"the last":                {Options{}, true, onCopy.ID},
		"by its id":               {Options{ID: over.ID}, true, over.ID},
		"a new one":               {Options{ID: New}, true, "new"},
		"no overlays here":        {Options{}, false, onCopy.ID},
		"an overlay, not here":    {Options{ID: over.ID}, false, "error: golem doctor"},
		"a copy of an overlay":    {Options{ID: over.ID, Copy: true}, true, "error: --session new --copy"},
		"a session that is a lie": {Options{ID: "0"}, true, "error: sessions here: "},
	} {
		got, begun, err := s.begin(test.options, test.overlays)
		switch want, isError := strings.CutPrefix(test.want, "error: "); {
		case isError:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
		case err != nil || begun != (want == "new") || !begun && got.ID != want:
			t.Errorf("%s: got %v, %v, %v, want %s", name, got, begun, err, want)
		}
		if begun {
			os.RemoveAll(got.dir)
		}
		for _, one := range []*Session{over, onCopy} { // their order stays as it was
			os.Chtimes(filepath.Join(one.dir, sessionName), one.LastUsed, one.LastUsed)
		}
	}
	if read, err := s.Find(over.ID); err != nil || read.Command != "vim" || read.Copy || !read.Started.Equal(over.Started) {
		t.Errorf("read again: got %+v, %v", read, err)
	}
}

// TestProposals checks workers that another worker proposes: they have valid names, and no
// proposal replaces another one or a file.
func TestProposals(t *testing.T) {
	for name, test := range map[string]struct{ name, prompt, want string }{
		"fine":         {"helper", "Help.", ""},
		"taken":        {"main", "Help.", "exists"},
		"no prompt":    {"helper", "  ", "empty"},
		"a directory":  {"../helper", "Help.", ""},
		"with a blank": {"a b", "Help.", ""},
	} {
		p, err := NewProposal(test.name, "It's a\nhelper", test.prompt, []string{"main"})
		switch {
		case name == "fine":
			if err != nil || !strings.Contains(p.Content, "description: 'It''s a helper'\n") {
				t.Errorf("%s: got %+v, %v", name, p, err)
			}
		case err == nil || !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	s := newStore(t).start(t, Options{})
	p, _ := NewProposal("helper", "", "Help.", nil)
	if err := s.Propose(p); err != nil {
		t.Fatal(err)
	}
	if err := s.Propose(Proposal{Name: "helper", Content: "other"}); err == nil {
		t.Error("a proposal was replaced")
	}
	if got, err := s.Proposal("helper"); err != nil || got != p {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := s.Proposal("other"); err == nil || !strings.Contains(err.Error(), "helper") {
		t.Errorf("an unknown name: got %v", err)
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if file, err := p.Write(root); err != nil || file != "workers/helper.worker" {
		t.Errorf("write: got %s, %v", file, err)
	}
	if _, err := p.Write(root); err == nil {
		t.Error("a worker file was replaced")
	}
	for i := range maxProposed {
		if err := s.Propose(Proposal{Name: "p" + string(rune('a'+i/26)) + string(rune('a'+i%26))}); (err != nil) != (i == maxProposed-1) {
			t.Errorf("proposal %d: %v", i+2, err)
		}
	}
	if err := s.RemoveProposal(p); err != nil {
		t.Error(err)
	}
}

// TestSettingsFor checks mounts as settings of a project file, with places that name the
// mount.
func TestSettingsFor(t *testing.T) {
	settings := SettingsFor([]Mount{{"/home/me/a", "/", "overlay"}, {"/home/me/b", "/b", "ro"}, {"/home/me/c", "/c", "rw"}})
	var got []string
	for _, s := range settings {
		text := strings.Join(s.Keys, ".") + "=" + s.Value.Text
		for _, item := range s.Value.Items {
			for _, f := range item.Fields {
				text += " " + f.Value.Text
			}
		}
		got = append(got, text+" from "+s.Value.Place.String())
	}
	want := []string{"sandbox.root=/home/me/a from the directory at /", "sandbox.mode=overlay from the directory at /", "sandbox.mounts= /home/me/b /b ro /home/me/c /c rw from the directory at /c"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := SettingsFor(nil); got != nil {
		t.Errorf("no mounts: got %v", got)
	}
}

// TestNoUndo checks a state in which nothing was applied yet.
func TestNoUndo(t *testing.T) {
	s := newStore(t)
	if at := s.LastChange(); !at.IsZero() {
		t.Errorf("last change: got %v", at)
	}
	if mounts, err := s.UndoMounts(); len(mounts) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("mounts: got %v, %v", mounts, err)
	}
	if steps, err := s.UndoSteps(); err != nil || len(steps) > 0 {
		t.Errorf("steps: got %v, %v", steps, err)
	}
}

// TestUndoFindsTheLastChange checks which directories golem undo mounts, if the last calls of
// file tools were made in others: one that did nothing there, one that is damaged, and one
// whose directory is gone.
func TestUndoFindsTheLastChange(t *testing.T) {
	for _, test := range []struct {
		name    string
		spoil   func(step, file string) error
		want    string // why the last call cannot be undone, "" if golem passes it
		listing int
	}{
		{"not made", func(_, file string) error { return os.Remove(file) }, "", 1},
		{"damaged", func(step, _ string) error { return os.Truncate(step, 80) }, "damaged", 2},
		{"gone", func(_, file string) error { return os.RemoveAll(filepath.Dir(file)) }, "elsewhere", 2},
	} {
		s := newStore(t)
		calls := undo.Open(s.State)
		var dirs []string
		var first *sandbox.Sandbox
		for range 2 {
			dir := t.TempDir()
			files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Source: sandbox.Host(dir), Access: sandbox.ReadWrite}}})
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = files
			}
			wait, err := calls.Save(files, "call", "write_file", []undo.Op{{Verb: undo.Write, Path: "/file", Becomes: (sandbox.Version{}).With([]byte("new")).String()}}, time.Unix(0, 0))
			if err == nil {
				err = errors.Join(wait(), os.WriteFile(filepath.Join(dir, "file"), []byte("new"), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
			dirs = append(dirs, dir)
		}
		if err := test.spoil(filepath.Join(s.State, "undo", "02.step"), filepath.Join(dirs[1], "file")); err != nil {
			t.Fatal(err)
		}
		if mounts, err := s.UndoMounts(); err != nil || len(mounts) != 1 || mounts[0].Source != dirs[0] {
			t.Errorf("%s: got %v, %v, want %s", test.name, mounts, err, dirs[0])
		}
		if list, err := s.UndoSteps(); err != nil || len(list) != test.listing {
			t.Errorf("%s: list: got %v, %v", test.name, list, err)
		}
		u := (&Workspace{store: *s, pending: s.pending()}).Undoer(first)
		plan, passed, ok, err := u.LastStep()
		got := plan.Step.Impossible
		if plan.Elsewhere != "" {
			got = "elsewhere"
		}
		if err != nil || !ok || !strings.Contains(got, test.want) || test.want == "" && (got != "" || len(passed) != 1 || len(plan.Remove) != 1) {
			t.Errorf("%s: got %+v, passed %v, %v, %v", test.name, plan, passed, ok, err)
		}
		if at := s.LastChange(); !at.Equal(plan.Step.SavedAt()) {
			t.Errorf("%s: last change: got %v, want %v", test.name, at, plan.Step.SavedAt())
		}
	}
}
