package program_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/program"
)

// changingViewer is a viewer that does something between the question and the answer.
type changingViewer struct {
	viewer
	do func()
}

// Ask implements approval.Asker.
func (m *changingViewer) Ask(ctx context.Context, r tool.Request) approval.Reply {
	if m.do != nil {
		m.do()
	}
	return m.viewer.Ask(ctx, r)
}

// callByUser makes a call as the user.
func callByUser(gate *program.OpenWorker, name, args string) tool.Result {
	return gate.Do(context.Background(), policy.User, tool.Call{Tool: name, Args: []byte(args)})
}

// checkShows fails unless the last request has a text in the diff of a change.
func checkShows(t *testing.T, v *viewer, name, text string) {
	t.Helper()
	if len(v.asked) == 0 {
		t.Fatalf("golem did not ask about %s", name)
	}
	r := v.asked[len(v.asked)-1]
	for _, c := range r.Changes {
		if c.Path == name {
			if !strings.Contains(c.Diff+c.About, text) {
				t.Errorf("%s: %q is not in the diff %q or in %q", name, text, c.Diff, c.About)
			}
			return
		}
	}
	t.Errorf("%s is not among the changes %+v", name, r.Changes)
}

// TestUndoShowsContent checks that the request for an undo shows all content that it
// removes and restores.
func TestUndoShowsContent(t *testing.T) {
	v := &viewer{}
	gate, _, out := openReviewGate(t, v)
	must(t, os.MkdirAll(filepath.Join(out, "tree/deep"), 0o755))
	for name, text := range map[string]string{"edited": "old words\n", "gone": "gone words\n", "tree/deep/file": "deep words\n", "mode": "x\n", "was": "file before\n"} {
		must(t, os.WriteFile(filepath.Join(out, name), []byte(text), 0o644))
	}
	must(t, os.Symlink("edited", filepath.Join(out, "tree/link")))
	r := callWith(gate, "shell", map[string]any{"command": "cd /out; echo new words >edited; rm -r gone tree was; mkdir was made; echo made words >made/file; chmod 600 mode"})
	if !r.OK() {
		t.Fatal(r.Err)
	}
	if r := callByUser(gate, "undo", "{}"); !r.OK() {
		t.Fatal(r.Err)
	}
	checkShows(t, v, "/out/edited", "-new words\n+old words")
	checkShows(t, v, "/out/gone", "+gone words")
	checkShows(t, v, "/out/tree/deep/file", "+deep words")
	checkShows(t, v, "/out/tree/link", "edited")
	checkShows(t, v, "/out/made/file", "-made words")
	checkShows(t, v, "/out/was", "+file before")
	checkShows(t, v, "/out/mode", "0600 → 0644")
	if left := v.asked[len(v.asked)-1].Omitted(); len(left) > 0 {
		t.Errorf("omitted: %q", left)
	}
	if text, err := os.ReadFile(filepath.Join(out, "tree/deep/file")); err != nil || string(text) != "deep words\n" {
		t.Errorf("not undone: %q, %v", text, err)
	}
}

// TestUndoOfUnshownContent checks that a plain yes does not restore content that could
// not be shown.
func TestUndoOfUnshownContent(t *testing.T) {
	v := &viewer{}
	gate, _, out := openReviewGate(t, v)
	must(t, os.WriteFile(filepath.Join(out, "binary"), []byte("a\x00b"), 0o644))
	v.names = true
	if r := callWith(gate, "shell", map[string]any{"command": "echo text >/out/binary"}); !r.OK() {
		t.Fatal(r.Err)
	}
	v.names = false
	if r := callByUser(gate, "undo", "{}"); r.OK() || !strings.Contains(r.Err.Hint, "were not shown") {
		t.Errorf("a plain yes: %v", r.Err)
	}
	v.names = true
	if r := callByUser(gate, "undo", "{}"); !r.OK() {
		t.Error(r.Err)
	}
	if text, err := os.ReadFile(filepath.Join(out, "binary")); err != nil || string(text) != "a\x00b" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestDiscardShowsContent checks that the request to discard changes of a session shows
// them, and that content that changes after the question is not discarded.
func TestDiscardShowsContent(t *testing.T) {
	for _, copies := range []bool{false, true} {
		dir, state := recordedText(t)
		must(t, os.WriteFile(filepath.Join(dir, "golem-forge.config.yaml"), []byte("sandbox:\n  mounts:\n    - {source: src, target: /src, mode: overlay}\n"), 0o644))
		must(t, os.Mkdir(filepath.Join(dir, "src"), 0o755))
		p, err := loadProgram(dir, state)
		must(t, err)
		must(t, p.Trust())
		must(t, os.WriteFile(filepath.Join(dir, "src/mine"), []byte("mine\n"), 0o644))
		v := &changingViewer{}
		gate, err := p.OpenWorker(program.WorkerOptions{Asker: v, Copy: copies})
		must(t, err)
		defer gate.Close()
		write := func(name, text string) {
			t.Helper()
			if r := callWith(gate, "write_file", map[string]any{"path": name, "content": text}); !r.OK() {
				t.Fatal(r.Err)
			}
		}
		write("/src/made", "made\n")
		write("/src/mine", "theirs\n")
		big := strings.Repeat("many words ", 1<<21/10)
		write("/src/big", big)
		for _, change := range []func(){
			func() { write("/src/made", "more\n") },
			func() { write("/src/other", "new\n") },
			func() { write("/src/big", strings.Replace(big, "many", "Many", 1)) },
			func() { callWith(gate, "shell", map[string]any{"command": "chmod 600 /src/made"}) },
		} {
			asked := 0
			v.names = true
			v.do = func() {
				if asked++; asked == 1 {
					do := v.do
					v.do = nil
					change()
					v.do = do
				}
			}
			if r := callByUser(gate, "discard_changes", `{"paths":["/"]}`); r.OK() || r.Err.Code != "conflict" {
				t.Errorf("copies %v: content that changed meanwhile was discarded: %v", copies, r.Err)
			}
		}
		v.do, v.names = nil, false
		if r := callByUser(gate, "discard_changes", `{"paths":["/"]}`); r.OK() || !strings.Contains(r.Err.Hint, "were not shown") {
			t.Errorf("copies %v: a plain yes: %v", copies, r.Err)
		}
		v.names = true
		if r := callByUser(gate, "discard_changes", `{"paths":["/"]}`); !r.OK() {
			t.Fatal(r.Err)
		}
		checkShows(t, &v.viewer, "/src/made", "-more")
		checkShows(t, &v.viewer, "/src/mine", "-theirs\n+mine")
		if _, err := gate.Files.Stat("/src/made"); err == nil {
			t.Error("not discarded")
		}
	}
}
