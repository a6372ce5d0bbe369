package desk

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/program"
)

// TestManySessions checks that the look for changes, which happens four times a second,
// takes memory in proportion to the number of sessions.
func TestManySessions(t *testing.T) {
	const sessions, most = 2000, 10 << 10 // bytes for each session
	state := t.TempDir()
	dir := filepath.Join(state, "shop-1")
	for i := range sessions {
		one := filepath.Join(dir, "sessions", fmt.Sprint(i))
		if err := os.MkdirAll(one, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(one, "run.jsonl"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte(`{"version": 2, "directory": "/shop"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLive(program.Options{State: state, Now: time.Now})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text := l.steps()
	runtime.ReadMemStats(&after)
	if len(text) < sessions*len(dir) {
		t.Fatalf("the text has %d bytes, and cannot name all runs", len(text))
	}
	if used := (after.TotalAlloc - before.TotalAlloc) / sessions; used > most {
		t.Errorf("got %d bytes for each of %d sessions, want at most %d", used, sessions, most)
	}
}

// TestControls checks which buttons stop or continue what runs.
func TestControls(t *testing.T) {
	for what, want := range map[string]string{"run": "stop end", "command": "end", "resume": "resume", "manual": ""} {
		var page strings.Builder
		if err := templates().ExecuteTemplate(&page, "controls", newControls("/x/", "n", "live", "p", "s", "fix-login", what)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, action := range []string{"stop", "end", "resume"} {
			if strings.Contains(page.String(), `value="`+action+`"`) {
				got = append(got, action)
			}
		}
		if strings.Join(got, " ") != want || strings.Contains(page.String(), "only on Linux") != (what == "manual") || strings.Contains(page.String(), "of session fix-login") != (what == "run" || what == "resume") {
			t.Errorf("%s: got %s", what, &page)
		}
	}
}
