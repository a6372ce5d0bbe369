package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
)

// TestSessionKeepsShellPlace: the directory, the variables and the home of a session's
// commands stay for the next command, even in the next golem. golem does not store a
// secret.
func TestSessionKeepsShellPlace(t *testing.T) {
	dir, open := repository(t)
	p := open()
	gate, err := p.OpenWorker(program.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := runCommand(t, gate, `mkdir -p d/e; cd d/e; export A='1 2' API_TOKEN=canary PATH=/x:$PATH; echo kept >~/f; mkdir ~/no; touch ~/no/x; chmod 0 ~/no`)
	if first.Cwd != "/d/e" || first.ExitCode != 0 {
		t.Errorf("got %+v", first)
	}
	const asks = `pwd; echo "$A,$API_TOKEN,$HOME"; cat ~/f; case $PATH in /x*) echo bad;; esac`
	if got := runCommand(t, gate, asks).Stdout; got != "/work/d/e\n1 2,canary,/home/golem\nkept\n" {
		t.Errorf("got %q", got)
	}
	id := gate.Session.ID
	if err := gate.Close(); err != nil {
		t.Fatal(err)
	}
	places, err := filepath.Glob(filepath.Join(string(p.Storage.Dir()), "sessions", id, "owners", "*", "place.json"))
	if err != nil || len(places) != 1 {
		t.Fatalf("got %q, %v", places, err)
	}
	place := places[0]
	info, err := os.Stat(place)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got %v, %v", info, err)
	}
	if text, err := os.ReadFile(place); err != nil || strings.Contains(string(text), "canary") || !strings.Contains(string(text), `"1 2"`) {
		t.Errorf("got %s, %v", text, err)
	}
	if gate, err = open().OpenWorker(program.WorkerOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := runCommand(t, gate, asks).Stdout; got != "/work/d/e\n1 2,,/home/golem\nkept\n" {
		t.Errorf("the next golem: got %q", got)
	}
	if err := gate.Close(); err != nil {
		t.Fatal(err)
	}
	gate, err = open().OpenWorker(program.WorkerOptions{Session: session.New})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	if got := runCommand(t, gate, `pwd; echo "$A"; ls -A ~`).Stdout; got != "/work\n\n" {
		t.Errorf("another session: got %q", got)
	}
	s, err := p.Storage.Sessions.Find(id)
	if err == nil {
		err = p.Storage.RemoveSession(s, false, nil)
	}
	if err != nil {
		t.Errorf("remove: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "d")); err == nil {
		t.Error("the directory has the change of the session")
	}
}

// TestGateKeepsShellPlace: without a session the directory stays as long as the gate, and
// there is no home. No command starts in a directory that was not applied.
func TestGateKeepsShellPlace(t *testing.T) {
	gate, _ := gateWith(t, "")
	runCommand(t, gate, "mkdir -p /out/a/b; cd /out/a/b; export A=1")
	if got := runCommand(t, gate, "pwd; echo $A,$HOME").Stdout; got != "/out/a/b\n1,/tmp\n" {
		t.Errorf("got %q", got)
	}
	runCommand(t, gate, "rm -r /out/a")
	if got := runCommand(t, gate, "pwd").Stdout; got != "/out\n" {
		t.Errorf("got %q", got)
	}
}

// TestSeveralAtOnce: commands that run at once do not disturb each other. Each has its
// own directory and variables, and the changes of all remain.
func TestSeveralAtOnce(t *testing.T) {
	_, open := repository(t)
	gate, err := open().OpenWorker(program.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		wg.Go(func() {
			got := runCommand(t, gate, "cd /work; mkdir "+name+"; cd "+name+"; export MINE=x V_"+name+"="+name+"; echo $MINE >own; for i in 1 2 3 4 5; do pwd; cat own; done")
			if want := strings.Repeat("/work/"+name+"\nx\n", 5); !strings.HasPrefix(got.Stdout, want) || got.ExitCode != 0 {
				t.Errorf("%s: got %+v", name, got)
			}
		})
	}
	wg.Wait()
	got := runCommand(t, gate, "pwd; echo $V_a$V_b$V_c$V_d$V_e$V_f; ls -d ../?").Stdout
	if !strings.Contains(got, "\nabcdef\n../a\n../b\n../c\n../d\n../e\n../f\n") {
		t.Errorf("got %q", got)
	}
}
