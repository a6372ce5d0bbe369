package sandbox_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// A search ends with its budget, inside a file and inside a line too.
func TestSearchTime(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = "abcdefghijklmnopz"[random.IntN(17)]
	}
	line := strings.ReplaceAll(string(text), "zz", "z ")
	for name, content := range map[string]string{
		"one line": line, "many lines": strings.ReplaceAll(line, "abc", "a\nc"),
	} {
		m := sandbox.NewMemory(map[string]sandbox.Object{"f": {Content: content}})
		s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: m, Access: sandbox.ReadOnly}}})
		if err != nil {
			t.Fatal(err)
		}
		// Thousands of places in the expression are possible at every character,
		// in a different set each time.
		q := sandbox.Query{Pattern: `[ab].{0,990}.{0,990}[yz]{2}`}
		start := time.Now()
		got, err := s.Search(context.Background(), "/", q, sandbox.Budget{Time: 100 * time.Millisecond})
		if err != nil || got.Cut != sandbox.CutTime || len(got.Found) != 0 {
			t.Errorf("%s: got %d found, cut %q, %v; want cut %q", name, len(got.Found), got.Cut, err, sandbox.CutTime)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: took %v with a budget of 100 ms", name, took)
		}
	}
}
