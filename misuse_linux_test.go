package golem_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golem-forge/golem"
	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
)

// TestNil calls everything with nothing: nil, zero values, and texts that are no names. Nothing
// panics, nothing succeeds that must not, and every error has a code.
func TestNil(t *testing.T) {
	var none context.Context
	check := func(what string, err error) {
		t.Helper()
		if known := (*sandbox.Error)(nil); !errors.As(err, &known) || known.Code == "" || known.Code == sandbox.ErrInternal || known.Hint == "" {
			t.Errorf("%s: got %T %v", what, err, err)
		}
	}
	for _, w := range []*golem.Workspace{nil, {}} {
		_, err1 := w.Exec(none, golem.Command{Args: []string{"true"}})
		_, err2 := w.Changes(none)
		for _, err := range []error{err1, err2, w.Apply(none, golem.Changes{}, gate.Decision{}), w.Undo(none, nil), w.Remove()} {
			check("no workspace", err)
		}
		if w.ID() != "" {
			t.Error("no workspace has an ID")
		}
	}
	for _, r := range []*golem.Runtime{nil, {}} {
		_, err1 := r.Requests()
		_, err2 := r.Git(nil).Staged(none)
		for _, err := range []error{err1, err2, r.Decide(gate.Request{}, gate.Decision{}), end(r.Run(none, golem.Input{}))} {
			check("no runtime", err)
		}
		if r.Hash() != "" || len(r.Workers()) > 0 {
			t.Error("no runtime has workers")
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, "/no/such/directory", "/"} {
		_, err1 := golem.Open(dir, golem.Options{})
		_, err2 := golem.Load(dir, golem.Options{})
		check("no state", errors.Join(err1, err2))
		if dir != "" {
			_, err1 = golem.Open(dir, golem.Options{State: t.TempDir()})
			_, err2 = golem.Load(dir, golem.Options{State: t.TempDir()})
			check("open "+dir, err1)
			check("load "+dir, err2)
		}
	}
	ws, err := golem.Open(t.TempDir(), golem.Options{State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []golem.Command{{}, {Args: []string{"a\x00b"}}, {Args: []string{"true"}, Env: []string{"A"}}, {Args: []string{"true"}, Env: []string{"=b"}}, {Args: []string{"true"}, Env: []string{"A=\x00"}},
		{Args: []string{"true"}, Net: "nonsense"}, {Args: []string{"true"}, Net: "true\nroot: /"}, {Args: []string{"true"}, Net: golem.Hosts()}, {Args: []string{"true"}, Net: golem.Hosts("", "a b")}} {
		_, err := ws.Exec(none, c)
		check("an impossible command", err)
	}
	if out, err := ws.Exec(none, golem.Command{Args: []string{"sh", "-c", "echo x >x"}}); err != nil || out.Code != 0 {
		t.Fatalf("got %+v, %v", out, err)
	}
	changes, err := ws.Changes(none)
	if err != nil || len(changes.Files()) != 1 {
		t.Fatalf("got %v, %v", changes.Files(), err)
	}
	check("no decision", ws.Apply(none, changes, gate.Decision{}))
	check("nothing to undo", ws.Undo(none, nil))
	check("no name", changes.Pick("").Err())
	check("no name", changes.PickHunks("\x00", 1).Err())
}

// end returns the error of a run.
func end(events func(func(golem.Event, error) bool)) (last error) {
	for _, err := range events {
		last = err
	}
	return last
}

// TestBrokenOptions checks that a run survives whatever is wrong with its options.
func TestBrokenOptions(t *testing.T) {
	dir, state := newProgram(t), t.TempDir()
	untrusted, err := golem.Load(dir, golem.Options{State: state, Model: writer{}})
	if sandbox.CodeOf(err) != golem.ErrUntrusted {
		t.Fatal(err)
	}
	if err := end(untrusted.Run(t.Context(), golem.Input{Text: "go"})); err == nil {
		t.Error("an untrusted program runs")
	}
	var none context.Context
	for name, change := range map[string]func(*golem.Options){
		"no model":          func(o *golem.Options) { o.Model = nil },
		"an unknown vendor": func(o *golem.Options) { o.Model, o.ModelName = nil, ":::" },
		"no key":            func(o *golem.Options) { o.Model, o.ModelName = nil, "anthropic:x" },
		"a broken store of keys": func(o *golem.Options) {
			o.Model, o.ModelName, o.Secret = nil, "anthropic:x", func(string) (string, error) { panic("broken") }
		},
		"a broken clock":    func(o *golem.Options) { o.Now = func() time.Time { panic("broken") } },
		"a negative budget": func(o *golem.Options) { o.Budget = golem.Budget{Turns: -1, Tokens: -1, Dollars: -1, Time: -1} },
		"a short key":       func(o *golem.Options) { o.Key = []byte("short") },
	} {
		o := golem.Options{State: state, Model: writer{}, Trust: untrusted.Hash(), Approver: approver(func(gate.Request) gate.Decision { panic("broken") })}
		change(&o)
		rt, err := golem.Load(dir, o)
		if err == nil {
			err = end(rt.Run(none, golem.Input{Text: "go"}))
		}
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
		if _, err := os.Stat(filepath.Join(dir, "out", "a.md")); err == nil {
			t.Errorf("%s: the file was written", name)
		}
	}
}
