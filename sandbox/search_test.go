package sandbox_test

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// TestSearchTime: a search ends with its budget, also inside a file and inside a line.
func TestSearchTime(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 4<<20)
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
		// Without the budget, the search takes minutes. A busy machine may take seconds.
		if took := time.Since(start); took > 40*time.Second {
			t.Errorf("%s: took %v with a budget of 100 ms", name, took)
		}
	}
}

// TestFindBelowSymlink: a pattern applies to the path from the walked directory, also if a
// symlink leads to that directory.
func TestFindBelowSymlink(t *testing.T) {
	m := sandbox.NewMemory(map[string]sandbox.Object{
		"r/a/x.md": {Content: "x"}, "r/y.md": {Content: "x"}, "a-name-longer-than-any-below": {Content: "r", Mode: fs.ModeSymlink},
	})
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: m, Access: sandbox.ReadOnly}}})
	if err != nil {
		t.Fatal(err)
	}
	const top = "/a-name-longer-than-any-below"
	found, err := s.Find(context.Background(), top, "a/*.md", sandbox.Budget{})
	if err != nil || len(found.Found) != 1 || found.Found[0].Path != "/r/a/x.md" {
		t.Errorf("find: %v, %v", found, err)
	}
	lines, err := s.Search(context.Background(), top, sandbox.Query{Pattern: "x", Glob: "a/*.md"}, sandbox.Budget{})
	if err != nil || len(lines.Found) != 1 {
		t.Errorf("search: %v, %v", lines, err)
	}
}

// A foreign is a context that is not from package context. Waiting for its end takes a
// goroutine.
type foreign struct {
	context.Context
	done chan struct{}
}

func (f foreign) Done() <-chan struct{} { return f.done }

// TestWalksReleaseTheirContext: a walk leaves nothing behind in a context that lives
// longer.
func TestWalksReleaseTheirContext(t *testing.T) {
	m := sandbox.NewMemory(map[string]sandbox.Object{"a": {}})
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: m, Access: sandbox.ReadOnly}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := foreign{context.Background(), make(chan struct{})}
	before := runtime.NumGoroutine()
	for range 200 {
		if found, err := s.Walk(ctx, "/", nil, sandbox.Budget{}); err != nil || found.Cut != "" {
			t.Fatalf("%v, %v", found, err)
		}
	}
	for wait := time.Millisecond; runtime.NumGoroutine() > before+20; wait *= 2 {
		if wait > time.Second {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(wait)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if found, err := s.Walk(ended, "/", nil, sandbox.Budget{}); err != nil || found.Cut != sandbox.CutCancelled {
		t.Errorf("after the end: %v, %v", found, err)
	}
}

// TestKindsOfLimits: suffixes and sizes of a limit apply in addition to those of the
// mount, below its path and in every later layer.
func TestKindsOfLimits(t *testing.T) {
	m := sandbox.NewMemory(map[string]sandbox.Object{"src/a.go": {Content: "package a"}, "src/k.pem": {Content: "secret"}, "l.go": {Content: "src/k.pem", Mode: fs.ModeSymlink}})
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: m, Access: sandbox.ReadWrite, MaxFileBytes: 20}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Restrict(sandbox.Limit{Path: "/", Access: sandbox.ReadWrite},
		sandbox.Limit{Path: "/src", Access: sandbox.ReadWrite, Suffixes: []string{".go"}, MaxFileBytes: 10})
	if err != nil {
		t.Fatal(err)
	}
	if r, err = r.Restrict(sandbox.Limit{Path: "/", Access: sandbox.ReadWrite, Suffixes: []string{".go", ".pem"}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]sandbox.Code{"/src/a.go": "", "/src/k.pem": sandbox.ErrSuffix, "/l.go": sandbox.ErrSuffix} {
		if _, err := r.Read(name); sandbox.CodeOf(err) != want {
			t.Errorf("read %s: %v, want %q", name, err, want)
		}
	}
	for _, test := range []struct {
		name string
		size int
		want sandbox.Code
	}{{"/src/b.go", 10, ""}, {"/src/b.go", 11, sandbox.ErrTooLarge}, {"/x.pem", 20, ""}, {"/x.pem", 21, sandbox.ErrTooLarge}, {"/x.txt", 1, sandbox.ErrSuffix}} {
		if _, err := r.Write(test.name, make([]byte, test.size)); sandbox.CodeOf(err) != test.want {
			t.Errorf("write %s with %d bytes: %v, want %q", test.name, test.size, err, test.want)
		}
	}
	if err := r.Move("/src/a.go", "/src/a.pem"); !errors.Is(err, sandbox.ErrSuffix) {
		t.Errorf("move: %v", err)
	}
	if _, err := s.Restrict(sandbox.Limit{Path: "/", Suffixes: []string{"/"}}); !errors.Is(err, sandbox.ErrInvalid) {
		t.Errorf("invalid suffix: got %v, want an error", err)
	}
	if _, err := s.Restrict(sandbox.Limit{Path: "/", MaxFileBytes: -1}); !errors.Is(err, sandbox.ErrInvalid) {
		t.Errorf("a size below zero: %v", err)
	}
}
