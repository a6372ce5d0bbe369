package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/model/scripted"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// TestOneRunPerSession: only one run works in a session, and only the worker that began a run
// continues it.
func TestOneRunPerSession(t *testing.T) {
	options := writeProgram(t, map[string]string{"main.worker": "---\ndescription: x\n---\nWork.\n", "other.worker": "---\ndescription: x\n---\nWork.\n"})
	p := loadProgram(t, options)
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	m, err := scripted.New("demo.yaml", []byte("- {text: done}\n- {text: done again}\n"))
	if err != nil {
		t.Fatal(err)
	}
	open := func(p *Program, session string, resume bool) (*Run, error) {
		return p.OpenRun(RunOptions{WorkerOptions: WorkerOptions{Session: session}, Model: m, ModelName: "scripted:demo.yaml", Resume: resume})
	}
	refused := func(err error, code sandbox.Code, hint string) {
		t.Helper()
		if sandbox.CodeOf(err) != code || !strings.Contains(err.Error(), hint) {
			t.Errorf("got %v", err)
		}
	}
	r, err := open(p, session.New, false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = open(p, r.ID, true)
	refused(err, sandbox.ErrConflict, "another golem works on this session")
	r.Close()
	_, err = open(p, r.ID, true)
	refused(err, sandbox.ErrNotFound, "nothing was run in this session")

	if r, err = open(p, r.ID, false); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Do(t.Context(), run.Input{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	r.Close()
	options.Entry = "other"
	_, err = open(loadProgram(t, options), r.ID, true)
	refused(err, sandbox.ErrInvalid, "--entry main continues it")
	if r, err = open(p, r.ID, true); err != nil {
		t.Fatal(err)
	}
	r.Close()
}

// TestAttachLinks: a symlink that a worker may have made does not attach the user's own
// files.
func TestAttachLinks(t *testing.T) {
	options := writeProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox: {mounts: [{source: ../shared, target: /shared}]}\n",
		"main.worker":             "---\ndescription: x\n---\nWork.\n", "real.txt": "mine\n", "../shared/a.txt": "mine\n", "../key": "secret\n",
	})
	above := filepath.Dir(options.Dir)
	for link, to := range map[string]string{"program/notes.txt": "../key", "program/near.txt": "real.txt", "shared/notes.txt": above + "/key", "mine.txt": "key"} {
		if err := os.Symlink(to, filepath.Join(above, link)); err != nil {
			t.Fatal(err)
		}
	}
	p := loadProgram(t, options)
	for name, want := range map[string]string{
		"notes.txt": "", "near.txt": "mine\n", "real.txt": "mine\n",
		filepath.Join(above, "shared/notes.txt"): "", filepath.Join(above, "shared/a.txt"): "mine\n", filepath.Join(above, "program/notes.txt"): "",
		filepath.Join(above, "mine.txt"): "secret\n", // the user's own symlink
	} {
		files, err := p.Attach([]string{name})
		if got := err == nil && string(files[0].Data) == want; got != (want != "") {
			t.Errorf("%s: %v, %v", name, files, err)
		}
	}
}
