package gate_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
)

// TestProcesses makes a call in one process, decides about it in a second, and resumes it in a
// third. The parts are files between them.
func TestProcesses(t *testing.T) {
	if part := os.Getenv("GATE_TEST_PART"); part != "" {
		partOfProcesses(t, part, os.Getenv("GATE_TEST_DIR"))
		return
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ part, want string }{{"ask", ""}, {"resume", ""}, {"look", ""}, {"resume", "new\n"}, {"forge", ""}, {"resume", ""}} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProcesses$", "-test.count=1")
		cmd.Env = append(os.Environ(), "GATE_TEST_PART="+step.part, "GATE_TEST_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step.part, err, out)
		}
		if got := content(filepath.Join(dir, "out"), "a"); got != step.want {
			t.Errorf("after %s: got %q", step.part, got)
		}
		os.Remove(filepath.Join(dir, "out", "a"))
	}
}

func partOfProcesses(t *testing.T, part, dir string) {
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/out", Source: sandbox.Host(filepath.Join(dir, "out")), Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	journal, err := gate.OpenJournal(filepath.Join(dir, "state"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	g := gate.Gate{Tools: gate.FileTools(), Files: files, Grant: gate.GrantAll(), Journal: journal, Key: []byte("0123456789abcdef"),
		Approver: approver(func(r gate.Request) gate.Decision { return r.Later() })}
	read := func(name string) []byte {
		data, _ := os.ReadFile(filepath.Join(dir, name))
		return data
	}
	keep := func(name string, data []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if part == "ask" {
		data, err := write(g, "/out/a", "new\n").Pending.MarshalBinary()
		keep("pending", data, err)
		return
	}
	p, err := g.OpenPending(read("pending"))
	if err != nil {
		t.Fatal(err)
	}
	switch part {
	case "look":
		v := p.Request().Render(80, 24)
		v.Page(0)
		seen, err := v.Seen()
		if err != nil {
			t.Fatal(err)
		}
		data, err := seen.MarshalBinary()
		keep("seen", data, err)
	case "forge": // another call with the old name
		keep("pending", []byte(strings.Replace(string(read("pending")), "new", "NEW", 1)), nil)
		if _, err := g.OpenPending(read("pending")); sandbox.CodeOf(err) != gate.ErrSeal {
			t.Errorf("got %v", err)
		}
		data, err := p.MarshalBinary() // the right one again: it was used
		keep("pending", data, err)
	case "resume":
		seen, err := g.OpenSeen(read("seen"))
		r := g.Resume(context.Background(), p, seen.Approve("ann"))
		if used := len(read("used")) > 0; err != nil && r.Err == nil || used && code(r) != gate.ErrUsed {
			t.Errorf("got %v, %+v", err, r)
		}
		if r.Err == nil {
			keep("used", []byte("yes"), nil)
		}
	}
}

// TestLateAndTwice checks that an approval counts only in time and for its own request.
func TestLateAndTwice(t *testing.T) {
	var first gate.Decision
	asked := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g, dir := newGate(t, approver(func(r gate.Request) gate.Decision {
		if asked++; asked == 1 {
			first = look(r)
			return first
		}
		return first
	}))
	for i, want := range []sandbox.Code{"", gate.ErrDeclined, gate.ErrDeclined} {
		if r := write(g, "/out/a", "x"); code(r) != want {
			t.Errorf("call %d: got %+v", i, r)
		}
		os.Remove(filepath.Join(dir, "a"))
	}
	g.Approver = approver(func(r gate.Request) gate.Decision {
		cancel() // the caller leaves while the person looks
		return look(r)
	})
	r := g.Do(ctx, gate.Model, gate.Call{Tool: "write_file", Args: []byte(`{"path": "/out/a", "content": "x"}`)})
	if r.Err == nil || content(dir, "a") != "" {
		t.Errorf("a late approval: got %+v", r)
	}
	g.Approver = approver(func(r gate.Request) gate.Decision {
		seen, err := r.Acknowledge("", "1", strings.Repeat("0", 64), r.ID(), r.Digest())
		if err == nil {
			t.Error("invented items count as seen")
		}
		return seen.Approve("ann")
	})
	if r := write(g, "/out/a", "x"); code(r) != gate.ErrDeclined || content(dir, "a") != "" {
		t.Errorf("invented items: got %+v", r)
	}
}

// TestCloseMeanwhile closes the journal while calls run. Each call has its record, or was not made.
func TestCloseMeanwhile(t *testing.T) {
	g, dir := newGate(t, nil)
	state := filepath.Join(t.TempDir(), "state")
	journal, err := gate.OpenJournal(state, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	g.Journal, g.Rules = journal, []gate.Rule{{Verb: gate.Write, Target: "/out", Level: gate.PreApproved}}
	var wg sync.WaitGroup
	made := make(chan bool, 64)
	begun := make(chan bool, 64)
	for i := range 64 {
		wg.Go(func() {
			begun <- true
			made <- write(g, "/out/"+string(rune('A'+i)), "x").Err == nil
		})
	}
	for range 8 {
		<-begun
	}
	if err := journal.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	files, _ := os.ReadDir(dir)
	again, err := gate.OpenJournal(state, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	records, err := again.Verify(t.Context())
	if err != nil || records < len(files) {
		t.Errorf("%d files and %d records: %v", len(files), records, err)
	}
}
