package audit_test

import (
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
)

// TestOverview checks what becomes of changed files, and that a decision about a request counts
// once.
func TestOverview(t *testing.T) {
	files := func(names ...string) *audit.Files {
		f := &audit.Files{}
		for _, name := range names {
			f.List = append(f.List, audit.File{Path: name, Op: "create"})
		}
		return f
	}
	var o audit.Overview
	for _, r := range []audit.Record{
		{Kind: audit.Intent, Call: "1", Session: "s", Tool: "exec", Args: map[string]any{"command": []any{"make", "all"}}},
		{Kind: audit.Outcome, Call: "1", Session: "s", Tool: "exec", Files: files("/a", "/b", "/c", "/d", "/e")},
		{Kind: audit.Answer, Session: "s", Tool: "apply_changes", Request: "r", Decision: "yes", By: "user"},
		{Kind: audit.Intent, Call: "2", Session: "s", Tool: "apply_changes", Request: "r", Decision: "yes", By: "user", Effects: []string{"write /a"}},
		{Kind: audit.Outcome, Call: "2", Session: "s", Tool: "apply_changes"},
		{Kind: audit.Intent, Call: "3", Session: "s", Tool: "apply_changes", Decision: "yes", By: "user", Effects: []string{"write /b"}},
		{Kind: audit.Outcome, Call: "3", Session: "s", Tool: "apply_changes", Code: "conflict"},
		{Kind: audit.Intent, Call: "4", Session: "s", Tool: "discard_changes", Files: files("/c")},
		{Kind: audit.Outcome, Call: "4", Session: "s", Tool: "discard_changes"},
		{Kind: audit.Refusal, Call: "5", Session: "s", Tool: "write_file", Effects: []string{"write /f"}, Code: "declined"},
		{Kind: audit.Answer, Session: "s", Decision: "revoked", Note: audit.RemovesSession + "s", Files: files("/d", "/b")},
		{Kind: audit.Intent, Call: "6", Session: "t", Tool: "exec", Args: map[string]any{"command": []any{"killed"}}},
	} {
		o.Add(r)
	}
	o.Finish()
	if len(o.Sessions) != 2 || len(o.Sessions[0].Commands) != 1 || o.Sessions[0].Commands[0].Outcome == nil || o.Sessions[1].Commands[0].Outcome != nil {
		t.Fatalf("got %+v", o.Sessions)
	}
	want := map[string]audit.FileState{"/a": audit.FileApplied, "/b": audit.FileDiscarded, "/c": audit.FileDiscarded, "/d": audit.FileDiscarded, "/e": audit.FileReverted}
	for _, f := range o.Sessions[0].Files {
		if f.State != want[f.Path] {
			t.Errorf("%s: got %s, want %s", f.Path, f.State, want[f.Path])
		}
		delete(want, f.Path)
	}
	if len(want) > 0 || len(o.Decisions) != 3 || len(o.Refused) != 1 {
		t.Errorf("missing %v; %d decisions, %d refused", want, len(o.Decisions), len(o.Refused))
	}
}

// TestStoryOfKilled checks that the story of a file names a command that was killed before golem
// recorded what it changed.
func TestStoryOfKilled(t *testing.T) {
	dir := t.TempDir()
	folder, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	j, err := audit.Open(folder, audit.Options{Now: time.Now, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []audit.Record{
		{Kind: audit.Intent, Call: "1", Tool: "exec", Args: map[string]any{"command": []any{"killed"}}},
		{Kind: audit.Intent, Call: "2", Tool: "exec", Args: map[string]any{"command": []any{"sh", "-c", "x > a"}}},
		{Kind: audit.Outcome, Call: "2", Tool: "exec", Files: &audit.Files{List: []audit.File{{Path: "/a", Op: "create"}}}},
		{Kind: audit.Intent, Call: "3", Tool: "exec", Args: map[string]any{"command": []any{"true"}}},
		{Kind: audit.Outcome, Call: "3", Tool: "exec"},
	} {
		if err := j.Write(r, audit.Written); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := audit.ReadStory(folder, []string{"/a"})
	if err != nil || len(s.Touches) != 1 || s.Touches[0].Line != "sh -c 'x > a'" || len(s.Unnamed) != 1 || s.Unnamed[0].Number != 1 {
		t.Errorf("got %+v, %v", s, err)
	}
}
