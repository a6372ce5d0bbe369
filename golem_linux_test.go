package golem_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem"
	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
)

// approve renders all of a request and approves it.
func approve(t testing.TB, r gate.Request) gate.Decision {
	t.Helper()
	v := r.Render(100, 40)
	v.WriteTo(io.Discard)
	seen, err := v.Seen()
	if err != nil {
		t.Fatal(err)
	}
	return seen.Approve("ann")
}

// TestWorkspace runs a command, looks at its changes, applies some of them and undoes that.
func TestWorkspace(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	ws, err := golem.Open(dir, golem.Options{State: state})
	if err != nil {
		t.Fatal(err)
	}
	out, err := ws.Exec(ctx, golem.Command{Args: []string{"sh", "-c", "cat; echo new >a.txt; echo b >b.txt; echo problem >&2; exit 3"}, In: []byte("input")})
	if err != nil || out.Code != 3 || out.Stdout != "input" || out.Stderr != "problem\n" {
		t.Fatalf("got %+v, %v", out, err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "a.txt")); string(text) != "old\n" {
		t.Fatalf("the directory has %q", text)
	}
	all, err := ws.Changes(ctx)
	if err != nil || len(all.Files()) != 2 || all.Digest() == "" {
		t.Fatalf("got %v, %v", all.Files(), err)
	}
	one := all.Pick("a.txt")
	if err := one.Err(); err != nil || len(one.Files()) != 1 || !strings.Contains(one.Files()[0].Diff(), "+new") {
		t.Fatalf("got %v, %v", one.Files(), err)
	}
	for _, none := range []golem.Changes{all.Pick("c.txt"), all.Pick(), {}, golem.Changes{}.Pick("a.txt")} {
		if err := ws.Apply(ctx, none, approve(t, all.Request())); err == nil || len(none.Files()) > 0 {
			t.Errorf("applied what does not exist: %v", none.Err())
		}
	}
	if err := ws.Apply(ctx, one, gate.Decision{}); err == nil {
		t.Error("applied without an approval")
	}
	if err := ws.Apply(ctx, one, approve(t, all.Request())); err == nil {
		t.Error("applied with the approval of other changes")
	}
	if err := ws.Apply(ctx, one, approve(t, one.Request())); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "a.txt")); string(text) != "new\n" {
		t.Fatalf("the directory has %q", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "b.txt")); err == nil {
		t.Error("b.txt was applied, too")
	}
	again, err := golem.Open(dir, golem.Options{State: state, Session: ws.ID()})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Undo(ctx, approver(func(r gate.Request) gate.Decision { return r.Later() })); sandbox.CodeOf(err) != gate.ErrDeclined || !strings.Contains(err.Error(), "decide at once") {
		t.Errorf("an undo that waits: got %v", err)
	}
	if err := again.Undo(ctx, approver(func(r gate.Request) gate.Decision { return approve(t, r) })); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "a.txt")); string(text) != "old\n" {
		t.Errorf("after the undo the directory has %q", text)
	}
	if err := again.Remove(); err != nil {
		t.Error(err)
	}
}

func approver(f func(gate.Request) gate.Decision) gate.ApproverFunc {
	return func(_ context.Context, r gate.Request) gate.Decision { return f(r) }
}

// writer is a model that asks to write a file, and then ends.
type writer struct{}

func (writer) Name() string { return "test:writer" }

func (writer) Answer(_ context.Context, p golem.Prompt, tell func(string)) (golem.Message, error) {
	last := p.Messages[len(p.Messages)-1]
	if len(last.Results) > 0 {
		tell("done: ")
		return golem.Message{Text: "done: " + last.Results[0].Text}, nil
	}
	return golem.Message{Calls: []golem.ToolCall{{ID: "1", Tool: "write_file", Args: []byte(`{"path": "/out/a.md", "content": "hello\n"}`)}}}, nil
}

// newProgram makes a program whose worker may write in out.
func newProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.worker":             "---\ndescription: Writes\nsandbox: inherit\ntoolsets: [filesystem]\n---\nWrite.\n",
		"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./out, target: /out, mode: rw}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRuntime runs a worker with a model of the program, decides about its call, and continues
// a run that has paused.
func TestRuntime(t *testing.T) {
	dir, state := newProgram(t), t.TempDir()
	o := golem.Options{State: state, Model: writer{}}
	untrusted, err := golem.Load(dir, o)
	if sandbox.CodeOf(err) != golem.ErrUntrusted {
		t.Fatalf("got %v", err)
	}
	o.Trust = untrusted.Hash()
	rt, err := golem.Load(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	do := func(in golem.Input) (last golem.Event) {
		t.Helper()
		for e, err := range rt.Run(context.Background(), in) {
			if err != nil {
				t.Fatal(err)
			}
			last = e
		}
		return last
	}
	paused := do(golem.Input{Text: "go"})
	waiting, err := rt.Requests()
	if paused.End != "paused" || err != nil || len(waiting) != 1 || waiting[0].ID() != paused.Request {
		t.Fatalf("got %+v, and %d requests, %v", paused, len(waiting), err)
	}
	if err := rt.Decide(waiting[0], gate.Seen{}.Approve("ann")); err == nil {
		waiting, _ = rt.Requests()
		t.Errorf("an approval of nothing was stored; %d requests wait", len(waiting))
	}
	if err := rt.Decide(waiting[0], approve(t, waiting[0])); err != nil {
		t.Fatal(err)
	}
	if end := do(golem.Input{Resume: paused.Session}); end.End != "finished" || !strings.Contains(end.Text, "created /out/a.md") {
		t.Fatalf("got %+v", end)
	}
	o.Approver = approver(func(r gate.Request) gate.Decision { return r.Decline("ann", "no more") })
	if rt, err = golem.Load(dir, o); err != nil {
		t.Fatal(err)
	}
	if end := do(golem.Input{Text: "go"}); end.End != "finished" || !strings.Contains(end.Text, "declined") {
		t.Errorf("got %+v", end)
	}
}

// TestHunks applies one hunk of a file.
func TestHunks(t *testing.T) {
	dir := t.TempDir()
	file, lines := filepath.Join(dir, "a:1.txt"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	ws, err := golem.Open(dir, golem.Options{State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ws.Exec(t.Context(), golem.Command{Args: []string{"sed", "-i", "s/1/one/; s/9/nine/", "a:1.txt"}}); err != nil {
		t.Fatal(err)
	}
	all, err := ws.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, none := range []golem.Changes{all.PickHunks("a:1.txt"), all.PickHunks("a:1.txt", 3), all.PickHunks("a:1.txt", 0), all.PickHunks("a:1.txt", -1), all.PickHunks("b.txt", 1), all.PickHunks("", 1)} {
		if none.Err() == nil || len(none.Files()) > 0 {
			t.Errorf("got %v", none.Files())
		}
	}
	second := all.PickHunks("a:1.txt", 2)
	if err := second.Err(); err != nil || !strings.Contains(second.Files()[0].Diff(), "+nine") || strings.Contains(second.Files()[0].Diff(), "+one") {
		t.Fatalf("got %v, %v", second.Files(), err)
	}
	if err := ws.Apply(t.Context(), second, approve(t, all.Request())); err == nil {
		t.Error("applied with the approval of the whole file")
	}
	if err := ws.Apply(t.Context(), second, approve(t, second.Request())); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(file); string(text) != strings.Replace(lines, "9", "nine", 1) {
		t.Errorf("the directory has %q", text)
	}
}

// TestRunHooks checks that functions of the program look at the calls of a run, and refuse one.
func TestRunHooks(t *testing.T) {
	dir, state := newProgram(t), t.TempDir()
	var seen []string
	o := golem.Options{State: state, Model: writer{}, Approver: approver(func(r gate.Request) gate.Decision { return approve(t, r) })}
	o.After = func(_ context.Context, c gate.Call, r gate.Result) error {
		seen = append(seen, c.Tool+": "+r.Text)
		return nil
	}
	do := func() (last golem.Event) {
		t.Helper()
		untrusted, _ := golem.Load(dir, o)
		o.Trust = untrusted.Hash()
		rt, err := golem.Load(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		for last, err = range rt.Run(t.Context(), golem.Input{Text: "go"}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		return last
	}
	if end := do(); len(seen) != 1 || !strings.HasPrefix(seen[0], "write_file: created") {
		t.Errorf("got %q, %+v", seen, end)
	}
	for _, before := range []func(context.Context, gate.Call) error{
		func(_ context.Context, c gate.Call) error { return errors.New("never " + c.Tool) },
		func(context.Context, gate.Call) error { panic("never write_file") },
	} {
		o.Before = before
		if end := do(); !strings.Contains(end.Text, "never write_file") {
			t.Errorf("got %+v", end)
		}
	}
	if len(seen) != 1 {
		t.Errorf("a refused call was made: %q", seen)
	}
}

// TestPath checks that commands find programs in the directories of Options.Path, and in no
// others.
func TestPath(t *testing.T) {
	own := t.TempDir()
	if err := os.WriteFile(filepath.Join(own, "hello-of-test"), []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": "", own + ":/usr/bin:/bin": "hello\n"} {
		ws, err := golem.Open(t.TempDir(), golem.Options{State: t.TempDir(), Path: path})
		if err != nil {
			t.Fatal(err)
		}
		out, err := ws.Exec(context.Background(), golem.Command{Args: []string{"hello-of-test"}})
		if out.Stdout != want || want == "" && out.Code == 0 && err == nil {
			t.Errorf("with the path %q: got %+v, %v", path, out, err)
		}
	}
}

// TestGit stages a file, pushes it to a repository after an approval, and pulls it again.
func TestGit(t *testing.T) {
	dir, ctx := newProgram(t), context.Background()
	bare := filepath.Join(t.TempDir(), "target.git")
	for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main", bare}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	config := "sandbox:\n  mounts:\n    - {source: ./out, target: /out, mode: rw}\nclearance:\n  targets:\n    there: {type: bare, at: /out, path: " + bare + "}\n"
	worker := "---\ndescription: Writes\nsandbox: inherit\ntoolsets: [filesystem, git]\n---\nWrite.\n"
	for name, text := range map[string]string{"golem-forge.config.yaml": config, "main.worker": worker, "out/a.md": "hello\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := golem.Options{State: t.TempDir()}
	untrusted, err := golem.Load(dir, o)
	if sandbox.CodeOf(err) != golem.ErrUntrusted {
		t.Fatal(err)
	}
	o.Trust = untrusted.Hash()
	rt, err := golem.Load(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	yes := approver(func(r gate.Request) gate.Decision { return approve(t, r) })
	git := rt.Git(yes)
	commit, err := git.Stage(ctx, "there", "a note", "/out/a.md")
	if err != nil || commit.ID == "" || len(commit.Files) != 1 || commit.Files[0].Path != "/out/a.md" {
		t.Fatalf("got %+v, %v", commit, err)
	}
	if list, err := git.Staged(ctx); err != nil || len(list) != 1 || list[0].ID != commit.ID || list[0].Message != "a note" {
		t.Errorf("got %+v, %v", list, err)
	}
	if _, err := rt.Git(nil).Push(ctx, commit.ID); sandbox.CodeOf(err) != gate.ErrDeclined {
		t.Errorf("pushed without an approval: %v", err)
	}
	hash, err := git.Push(ctx, commit.ID)
	if err != nil || len(hash) < 40 {
		t.Fatalf("got %q, %v", hash, err)
	}
	if out, err := exec.Command("git", "-C", bare, "show", hash+":a.md").Output(); err != nil || string(out) != "hello\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "out/a.md"), []byte("again\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := git.Stage(ctx, "there", "again", "/out/a.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := git.Discard(ctx, second.ID); err != nil {
		t.Error(err)
	}
	if list, err := git.Staged(ctx); err != nil || len(list) != 0 {
		t.Errorf("got %+v, %v", list, err)
	}
}

// TestApplyOnce checks that an approval counts once, in its workspace, and that Apply never
// reports success for nothing.
func TestApplyOnce(t *testing.T) {
	ctx := context.Background()
	open := func(dir, state string) *golem.Workspace {
		t.Helper()
		ws, err := golem.Open(dir, golem.Options{State: state})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ws.Exec(ctx, golem.Command{Args: []string{"sh", "-c", "echo x >x"}}); err != nil {
			t.Fatal(err)
		}
		return ws
	}
	dir, state := t.TempDir(), t.TempDir()
	ws, other := open(dir, state), open(t.TempDir(), state)
	changes, err := ws.Changes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	yes := approve(t, changes.Request())
	if err := other.Apply(ctx, changes, yes); err == nil {
		t.Error("applied in another workspace")
	}
	if err := ws.Apply(ctx, changes, yes); err != nil {
		t.Fatal(err)
	}
	if err := ws.Undo(ctx, approver(func(r gate.Request) gate.Decision { return approve(t, r) })); err != nil {
		t.Fatal(err)
	}
	if err := ws.Apply(ctx, changes, yes); sandbox.CodeOf(err) != gate.ErrUsed {
		t.Errorf("applied again after an undo: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("the file is there again")
	}
	if err := ws.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := ws.Apply(ctx, changes, yes); err == nil {
		t.Error("applied after Remove")
	}
	if _, err := ws.Changes(ctx, "/x"); err == nil {
		t.Error("a name without changes is no error")
	}
}

// TestBrokenProgram checks that a writer or a model that panics, and a model that tells something
// late, do not end the program.
func TestBrokenProgram(t *testing.T) {
	ctx := context.Background()
	ws, err := golem.Open(t.TempDir(), golem.Options{State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	out, err := ws.Exec(ctx, golem.Command{Args: []string{"echo", "hello"}, Out: writerFunc(func() { ws.ID(); panic("broken") })})
	if err != nil || out.Stdout != "hello\n" {
		t.Errorf("got %+v, %v", out, err)
	}
	dir := newProgram(t)
	for name, m := range map[string]golem.Model{"panics": brokenModel{panics: true}, "tells late": brokenModel{}, "is nil": (*brokenModel)(nil)} {
		o := golem.Options{State: t.TempDir(), Model: m}
		untrusted, err := golem.Load(dir, o)
		if sandbox.CodeOf(err) != golem.ErrUntrusted {
			t.Fatal(err)
		}
		o.Trust = untrusted.Hash()
		rt, err := golem.Load(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		ended := false
		for e, err := range rt.Run(ctx, golem.Input{Text: "go"}) {
			ended = ended || err != nil || e.End != ""
		}
		if !ended {
			t.Errorf("a model that %s: the run has no end", name)
		}
	}
}

type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) { f(); return len(p), nil }

type brokenModel struct{ panics bool }

func (m brokenModel) Name() string { return "test:broken" }

func (m brokenModel) Answer(_ context.Context, _ golem.Prompt, tell func(string)) (golem.Message, error) {
	if m.panics {
		panic("broken")
	}
	go tell("late")
	return golem.Message{Text: "done"}, nil
}
