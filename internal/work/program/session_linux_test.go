package program_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/session"
)

// repository makes a program in a git repository with some files, mounted with mode
// overlay. open loads the program with an approval mode that approves everything.
func repository(t *testing.T) (dir string, open func() *program.Program) {
	t.Helper()
	top := t.TempDir()
	dir = filepath.Join(top, "repo")
	files := map[string]string{
		"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets: [filesystem, shell]\n---\nWork.\n",
		"Makefile":                "all: build/out\nbuild/out: src/*.c\n\tmkdir -p build && cat src/*.c > build/out\n",
	}
	for i := range 20 {
		files[fmt.Sprintf("src/f%d.c", i)] = strings.Repeat(fmt.Sprintf("line of %d\n", i), 20)
		files[fmt.Sprintf("doc/%d/page.md", i)] = fmt.Sprintf("# page %d\n", i)
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=n", "-c", "user.email=n@example.com", "commit", "-qm", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	approve, err := project.ParseSet("--approval", "approval.mode=approve_all")
	if err != nil {
		t.Fatal(err)
	}
	open = func() *program.Program {
		t.Helper()
		p, err := program.Load(program.Options{Dir: dir, State: filepath.Join(top, "state"), Now: time.Now, Settings: []project.Setting{approve}})
		if err == nil {
			err = p.Trust()
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return dir, open
}

// treeOf describes a directory without .git: mode and content of files, modes of
// directories and targets of symlinks.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.Name() == ".git":
			return fs.SkipDir
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			tree[rel] = "link " + to
			return err
		case e.IsDir():
			tree[rel] = "folder " + info.Mode().Perm().String()
			return nil
		}
		data, err := os.ReadFile(name)
		tree[rel] = info.Mode().Perm().String() + " " + string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// differences lists the differences between two trees.
func differences(a, b map[string]string) (list []string) {
	for name, is := range a {
		if other, there := b[name]; other != is {
			list = append(list, fmt.Sprintf("%s: %.60q, %v %.60q", name, is, there, other))
		}
	}
	for name, is := range b {
		if _, there := a[name]; !there {
			list = append(list, fmt.Sprintf("%s: only there: %.60q", name, is))
		}
	}
	return list
}

// call makes a call. The call must succeed unless may is true.
func call(t *testing.T, gate *program.OpenWorker, may bool, name string, args map[string]any) tool.Result {
	t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	r := gate.Do(context.Background(), policy.User, tool.Call{Tool: name, Args: data})
	if r.Err != nil && !may {
		t.Fatalf("%s %s: %v", name, data, r.Err)
	}
	return r
}

// TestSessionOverRepository makes two hundred calls as an agent would, in several gates
// one after the other. The directory does not change before the changes are applied, and
// then it is exactly what the session saw. On a copy the result is the same.
func TestSessionOverRepository(t *testing.T) {
	t.Run("layer", func(t *testing.T) { overRepository(t, program.WorkerOptions{}, 200) })
	t.Run("copy", func(t *testing.T) { overRepository(t, program.WorkerOptions{Copy: true}, 75) })
}

func overRepository(t *testing.T, visit program.WorkerOptions, calls int) {
	dir, open := repository(t)
	before := treeOf(t, dir)
	random := rand.New(rand.NewPCG(6, 2026))
	var gate *program.OpenWorker
	for i := range calls {
		if i%25 == 0 { // another gate continues the session
			if gate != nil {
				if err := gate.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if gate, err = open().OpenWorker(visit); err != nil {
				t.Fatal(err)
			}
			visit = program.WorkerOptions{} // the session keeps its options
		}
		agentCall(t, gate, random, i)
	}
	if diff := differences(treeOf(t, dir), before); len(diff) > 0 {
		t.Fatalf("the directory has changed: %q", diff)
	}
	// Copy the files as the session sees them.
	seen := filepath.Join(t.TempDir(), "seen")
	copyOut(t, gate, seen)
	if changed := differences(treeOf(t, seen), before); len(changed) < calls/4 {
		t.Errorf("only %d changes: %q", len(changed), changed)
	}
	r := call(t, gate, false, "apply_changes", map[string]any{})
	if err := gate.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := differences(treeOf(t, dir), treeOf(t, seen)); len(diff) > 0 {
		t.Errorf("after %.200s the directory differs from the session's view: %q", r.Words(), diff)
	}
	// Undo the changes.
	gate, err := open().OpenWorker(program.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	call(t, gate, false, "undo", map[string]any{})
	if diff := differences(treeOf(t, dir), before); len(diff) > 0 {
		t.Errorf("undo: %q", diff)
	}
}

// agentCall makes a random call of an agent. Some of them fail.
func agentCall(t *testing.T, gate *program.OpenWorker, random *rand.Rand, i int) {
	t.Helper()
	source := fmt.Sprintf("/src/f%d.c", random.IntN(25))
	page := fmt.Sprintf("/doc/%d", random.IntN(22))
	switch random.IntN(12) {
	case 0:
		call(t, gate, true, "write_file", map[string]any{"path": source, "content": fmt.Sprintf("written by %d\n", i)})
	case 1:
		call(t, gate, true, "edit_file", map[string]any{"path": source, "edits": []map[string]any{{"old": "written by", "new": "edited by"}}})
	case 2:
		call(t, gate, true, "delete_file", map[string]any{"path": page, "recursive": true})
	case 3:
		call(t, gate, true, "move_file", map[string]any{"from": page, "to": fmt.Sprintf("/moved/%d", i)})
	case 4:
		call(t, gate, true, "read_file", map[string]any{"path": source})
	case 5:
		call(t, gate, false, "search_files", map[string]any{"pattern": "line of 7"})
	case 6:
		call(t, gate, false, "list_files", map[string]any{"path": "/", "depth": 3})
	case 7:
		call(t, gate, false, "shell", map[string]any{"command": fmt.Sprintf("make -s && cp build/out build/%d && git status --short | head -3 && touch src/*", i)})
	case 8:
		call(t, gate, false, "shell", map[string]any{"command": fmt.Sprintf("sed -i 's/line of/row %d of/' .%s; ln -sf ../Makefile doc/link%d; chmod 600 .%s", i, source, i%3, source)})
	case 9:
		call(t, gate, false, "shell", map[string]any{"command": fmt.Sprintf("rm -rf doc/%d; mkdir -p doc/%d && echo again > doc/%d/page.md", i%20, i%20, i%20)})
	case 10:
		call(t, gate, false, "shell", map[string]any{"command": "git add -A && git -c user.name=a -c user.email=a@example.com commit -qm more || true"})
	case 11:
		call(t, gate, true, "copy_file", map[string]any{"from": source, "to": fmt.Sprintf("/copies/%d.c", i)})
	}
}

// copyOut copies the files that the session sees to a directory of the host.
func copyOut(t *testing.T, gate *program.OpenWorker, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	err := fs.WalkDir(gate.Files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, name)
		info, err := e.Info()
		switch {
		case err != nil:
			return err
		case e.Name() == ".git":
			return fs.SkipDir
		case e.IsDir():
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
			return os.Chmod(at, info.Mode().Perm())
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := gate.Files.ReadLink(name)
			if err != nil {
				return err
			}
			return os.Symlink(target, at)
		}
		data, err := gate.Files.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(at, data, 0o600); err != nil {
			return err
		}
		return os.Chmod(at, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSessionKilled kills golem in the middle of calls, and while a command runs.
// Acknowledged changes are in the session, none is in the directory, and the next golem
// can continue at once.
func TestSessionKilled(t *testing.T) {
	dir, open := repository(t)
	state := filepath.Join(filepath.Dir(dir), "state")
	open()
	for name, text := range map[string]string{"in/paper.txt": "a paper\n", "out/kept": "kept\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := treeOf(t, dir)
	var acknowledged []string
	for round := range 25 {
		cmd := startCalls(t, dir, state, fmt.Sprint(round), 1_000_000)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + rand.IntN(3) {
			if lines.Scan() {
				acknowledged = append(acknowledged, lines.Text())
			}
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) // at some moment of a call
		cmd.Process.Kill()
		for lines.Scan() {
			acknowledged = append(acknowledged, lines.Text())
		}
		cmd.Wait()
	}
	gate, err := open().OpenWorker(program.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	for _, name := range acknowledged {
		r := call(t, gate, false, "read_file", map[string]any{"path": name})
		if !strings.Contains(r.Words(), "x") {
			t.Errorf("%s: %s", name, r.Words())
		}
	}
	if diff := differences(treeOf(t, dir), before); len(diff) > 0 {
		t.Errorf("the directory has changed: %q", diff)
	}
	p := open()
	s, err := p.Storage.Sessions.Find("")
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := p.Storage.Sessions.Changes(s, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Conflict {
			t.Errorf("%s is a conflict, but nobody has changed the directory", c.Path)
		}
	}
	if len(list) < len(acknowledged) {
		t.Errorf("%d changes, and %d were acknowledged", len(list), len(acknowledged))
	}
}

// TestTwoGolems checks that a second golem gets an error while the first uses a session.
// It can start its own session, and list the changes of the first.
func TestTwoGolems(t *testing.T) {
	dir, open := repository(t)
	one, err := open().OpenWorker(program.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	call(t, one, false, "write_file", map[string]any{"path": "/a", "content": "one\n"})
	p := open()
	two, err := p.OpenWorker(program.WorkerOptions{Session: one.Session.ID})
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	if one.IsBusy() || !two.IsBusy() {
		t.Errorf("busy: %v in the owner of the session, %v in the other", one.IsBusy(), two.IsBusy())
	}
	if r := call(t, two, true, "read_file", map[string]any{"path": "/a"}); r.Err == nil || !strings.Contains(r.Err.Hint, fmt.Sprintf("another golem works on this session (process %d); wait", os.Getpid())) {
		t.Errorf("the same session: %v", r.Err)
	}
	own, err := p.OpenWorker(program.WorkerOptions{Session: session.New})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	call(t, own, false, "write_file", map[string]any{"path": "/b", "content": "two\n"})
	if r := call(t, own, true, "read_file", map[string]any{"path": "/a"}); r.Err == nil {
		t.Errorf("another session sees %s", r.Words())
	}
	list, _, err := p.Storage.Sessions.Changes(one.Session, nil, false)
	if err != nil || len(list) != 1 || list[0].Path != "/a" {
		t.Errorf("changes of a session in use: %v, %v", list, err)
	}
	// The second golem applies the changes of the first session, which then continues
	// with the current files.
	apply, err := p.OpenWorker(program.WorkerOptions{Session: one.Session.ID})
	if err != nil {
		t.Fatal(err)
	}
	defer apply.Close()
	call(t, apply, false, "apply_changes", map[string]any{})
	if data, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(data) != "one\n" {
		t.Errorf("applied: %q, %v", data, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("edited\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := call(t, one, false, "read_file", map[string]any{"path": "/a"}); !strings.Contains(r.Words(), "edited") {
		t.Errorf("after apply and edit the session sees %q", r.Words())
	}
	if list, _, err = p.Storage.Sessions.Changes(one.Session, nil, false); err != nil || len(list) != 0 {
		t.Errorf("still in the session: %v, %v", list, err)
	}
}
