package program_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/program"
)

// describeDir describes everything below a directory: names, kinds, permission bits, contents
// and symlinks.
func describeDir(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		fmt.Fprintf(&b, "%s %v", rel, info.Mode())
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %.200q %d", data, len(data))
		case info.Mode()&os.ModeSymlink != 0:
			to, _ := os.Readlink(name)
			b.WriteString(" -> " + to)
		}
		b.WriteByte('\n')
		return nil
	}))
	return b.String()
}

// fillDir puts files of every kind into a directory.
func fillDir(t *testing.T, out string) {
	t.Helper()
	for _, dir := range []string{"tree/deep", "tree/closed", "other"} {
		must(t, os.MkdirAll(filepath.Join(out, dir), 0o755))
	}
	for name, mode := range map[string]os.FileMode{"text": 0o640, "tree/program": 0o755, "tree/deep/secret": 0o600, "tree/all": 0o666, "tree/read only": 0o444, "tree/closed/file": 0o644, "other/file": 0o644} {
		must(t, os.WriteFile(filepath.Join(out, name), []byte("content of "+name+"\n"), 0o600))
		must(t, os.Chmod(filepath.Join(out, name), mode))
	}
	must(t, os.WriteFile(filepath.Join(out, "tree/binary"), []byte("a\x00b\xff"), 0o644))
	must(t, os.WriteFile(filepath.Join(out, "tree/empty"), nil, 0o644))
	must(t, os.Symlink("deep/secret", filepath.Join(out, "tree/link")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(out, "tree/away")))
	must(t, os.Symlink("nowhere", filepath.Join(out, "tree/deep/dangling")))
	must(t, os.Chmod(filepath.Join(out, "tree/closed"), 0o700))
	must(t, os.Chmod(filepath.Join(out, "tree/deep"), 0o777))
}

// TestUndoRestoresEverything checks that an undo restores a directory exactly, whatever a
// file tool did to it.
func TestUndoRestoresEverything(t *testing.T) {
	v := &viewer{names: true}
	gate, _, out := openReviewGate(t, v)
	fillDir(t, out)
	before := describeDir(t, out)
	calls := []struct {
		name string
		args map[string]any
	}{
		{"delete_file", map[string]any{"path": "/out/tree", "recursive": true}},
		{"delete_file", map[string]any{"path": "/out/tree/link"}},
		{"delete_file", map[string]any{"path": "/out/tree/away"}},
		{"delete_file", map[string]any{"path": "/out/tree/read only"}},
		{"move_file", map[string]any{"from": "/out/tree", "to": "/out/new/name/tree"}},
		{"move_file", map[string]any{"from": "/out/text", "to": "/out/tree/text"}},
		{"move_file", map[string]any{"from": "/out/tree/away", "to": "/out/away"}},
		{"copy_file", map[string]any{"from": "/out/tree/program", "to": "/out/a/b/program"}},
		{"write_file", map[string]any{"path": "/out/text", "content": "other"}},
		{"write_file", map[string]any{"path": "/out/tree/link", "content": "through the link"}},
		{"write_file", map[string]any{"path": "/out/tree/empty", "content": "x"}},
		{"write_file", map[string]any{"path": "/out/text", "content": ""}},
		{"write_file", map[string]any{"path": "/out/n/e/w", "content": "x"}},
		{"write_file", map[string]any{"path": "/out/tree/binary", "content": "text"}},
		{"edit_file", map[string]any{"path": "/out/text", "edits": []map[string]string{{"old": "content", "new": "words"}}}},
		{"make_directory", map[string]any{"path": "/out/x/y/z"}},
		{"sandbox_write_text", map[string]any{"path": "/out/text", "content": "by its older name"}},
	}
	for _, c := range calls {
		if r := callWith(gate, c.name, c.args); !r.OK() {
			t.Fatalf("%s %v: %v", c.name, c.args, r.Err)
		}
		if describeDir(t, out) == before {
			t.Errorf("%s %v changed nothing", c.name, c.args)
		}
		if r := callByUser(gate, "undo", "{}"); !r.OK() {
			t.Fatalf("undo %s %v: %v", c.name, c.args, r.Err)
		}
		if after := describeDir(t, out); after != before {
			t.Fatalf("%s %v and undo: got\n%s\nwant:\n%s", c.name, c.args, after, before)
		}
	}
	for _, c := range calls[8:] { // and all of them one after the other
		if r := callWith(gate, c.name, c.args); !r.OK() && c.name != "edit_file" {
			t.Fatalf("%s %v: %v", c.name, c.args, r.Err)
		}
	}
	for range calls[8:] {
		callByUser(gate, "undo", "{}")
	}
	if after := describeDir(t, out); after != before {
		t.Errorf("after several: got\n%s\nwant\n%s", after, before)
	}
	if r := callByUser(gate, "undo", "{}"); r.OK() || r.Err.Code != "not_found" {
		t.Errorf("undo of nothing: got %v", r.Err)
	}
}

// TestUndoKeepsHardLinks checks that an undo does not change a hard link to a
// file that was written, moved or deleted.
func TestUndoKeepsHardLinks(t *testing.T) {
	v := &viewer{}
	gate, _, out := openReviewGate(t, v)
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(filepath.Join(out, "file"), []byte("shared\n"), 0o644))
	must(t, os.Link(filepath.Join(out, "file"), outside))
	for _, args := range []map[string]any{{"path": "/out/file", "content": "mine\n"}, {"path": "/out/file"}} {
		name := "write_file"
		if args["content"] == nil {
			name = "delete_file"
		}
		if r := callWith(gate, name, args); !r.OK() {
			t.Fatal(r.Err)
		}
		must(t, os.WriteFile(outside, []byte("changed elsewhere\n"), 0o644))
		if r := callByUser(gate, "undo", "{}"); !r.OK() {
			t.Fatal(r.Err)
		}
		if text, err := os.ReadFile(filepath.Join(out, "file")); err != nil || string(text) != "shared\n" {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
		if text, err := os.ReadFile(outside); err != nil || string(text) != "changed elsewhere\n" {
			t.Errorf("%s: the other name has %q, %v", name, text, err)
		}
	}
}

// TestUndoKeepsTheOwner checks that files restored by root have their old owner. Those
// of an ordinary user belong to the user.
func TestUndoKeepsTheOwner(t *testing.T) {
	uid, gid := uint32(1234), uint32(1235)
	if os.Geteuid() != 0 {
		uid, gid = uint32(os.Getuid()), uint32(os.Getgid())
	}
	v := &viewer{}
	gate, _, out := openReviewGate(t, v)
	fillDir(t, out)
	for _, name := range []string{"tree/deep", "tree/deep/secret", "text"} {
		must(t, os.Chown(filepath.Join(out, name), int(uid), int(gid)))
	}
	for _, path := range []string{"/out/tree", "/out/text"} {
		v.names = true
		if r := callWith(gate, "delete_file", map[string]any{"path": path, "recursive": true}); !r.OK() {
			t.Fatal(r.Err)
		}
		if r := callByUser(gate, "undo", "{}"); !r.OK() {
			t.Fatal(r.Err)
		}
	}
	for _, name := range []string{"tree/deep", "tree/deep/secret", "text"} {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(out, name), &st); err != nil || st.Uid != uid || st.Gid != gid {
			t.Errorf("%s belongs to %d:%d, %v", name, st.Uid, st.Gid, err)
		}
	}
}

// TestUndoMeanwhile checks that an undo keeps content that changes between question and
// answer.
func TestUndoMeanwhile(t *testing.T) {
	dir, state := recordedText(t)
	p, err := loadProgram(dir, state)
	must(t, err)
	v := &changingViewer{}
	gate, err := p.OpenWorker(program.WorkerOptions{Asker: v})
	must(t, err)
	defer gate.Close()
	file := filepath.Join(dir, "out/file")
	for _, change := range []func(){
		func() { must(t, os.WriteFile(file, []byte("mine\n"), 0o644)) },
		func() { must(t, os.Remove(file)) },
		func() { must(t, os.Remove(file)); must(t, os.Symlink("/etc/passwd", file)) },
		func() { must(t, os.Remove(file)); must(t, os.Mkdir(file, 0o755)) },
	} {
		must(t, os.RemoveAll(file))
		must(t, os.WriteFile(file, []byte("old\n"), 0o644))
		v.do = nil
		if r := callWith(gate, "write_file", map[string]any{"path": "/out/file", "content": "new\n"}); !r.OK() {
			t.Fatal(r.Err)
		}
		var mine string
		v.do = func() { change(); mine = describeDir(t, filepath.Dir(file)) }
		if r := callByUser(gate, "undo", "{}"); r.OK() || r.Err.Code != "conflict" {
			t.Errorf("got %v", r.Err)
		}
		if now := describeDir(t, filepath.Dir(file)); now != mine {
			t.Errorf("got\n%s\nwant\n%s", now, mine)
		}
		v.do = nil
		if r := callByUser(gate, "undo", `{"forget":true}`); !r.OK() {
			t.Fatal(r.Err)
		}
	}
}

// TestUndoLimits checks that golem does not save content over the limit, and that undo
// reports it. If there are very many calls or much content, golem keeps only the newest.
func TestUndoLimits(t *testing.T) {
	v := &viewer{names: true}
	gate, _, out := openReviewGate(t, v)
	must(t, os.WriteFile(filepath.Join(out, "large"), make([]byte, 16<<20+1), 0o644))
	must(t, os.WriteFile(filepath.Join(out, "small"), []byte("small\n"), 0o644))
	if r := callWith(gate, "write_file", map[string]any{"path": "/out/small", "content": "x"}); !r.OK() {
		t.Fatal(r.Err)
	}
	if r := callWith(gate, "delete_file", map[string]any{"path": "/out/large"}); !r.OK() {
		t.Fatal(r.Err)
	}
	if r := callByUser(gate, "undo", "{}"); r.OK() || !strings.Contains(r.Err.Hint, "cannot be undone: /out/large is larger than 16 MiB") {
		t.Errorf("got %v", r.Err)
	}
	if r := callByUser(gate, "undo", `{"forget":true}`); !r.OK() {
		t.Error(r.Err)
	}
	if r := callByUser(gate, "undo", "{}"); !r.OK() {
		t.Error(r.Err)
	}
	if text, err := os.ReadFile(filepath.Join(out, "small")); err != nil || string(text) != "small\n" {
		t.Errorf("got %q, %v", text, err)
	}

	must(t, os.Mkdir(filepath.Join(out, "much"), 0o755))
	for i := range 5 {
		must(t, os.WriteFile(filepath.Join(out, fmt.Sprint("much/", i)), make([]byte, 15<<20), 0o644))
	}
	if r := callWith(gate, "delete_file", map[string]any{"path": "/out/much", "recursive": true}); !r.OK() {
		t.Fatal(r.Err)
	}
	if r := callByUser(gate, "undo", "{}"); r.OK() || !strings.Contains(r.Err.Hint, "cannot be undone: it is more than 64 MiB") {
		t.Errorf("got %v", r.Err)
	}

	for i := range 60 {
		if r := callWith(gate, "write_file", map[string]any{"path": "/out/small", "content": fmt.Sprintf("%02d\n", i)}); !r.OK() {
			t.Fatal(r.Err)
		}
	}
	n := 0
	for ; callByUser(gate, "undo", "{}").OK(); n++ {
	}
	if text, err := os.ReadFile(filepath.Join(out, "small")); n != 50 || err != nil || string(text) != "09\n" {
		t.Errorf("%d calls were undone, and the file is %q, %v", n, text, err)
	}
}

// killVariable turns this program into a golem that is killed during a call of a file tool.
const killVariable = "GOLEM_TEST_CUT"

// A killingGate is a journal, or an undo, that kills the process at some point.
type killingGate struct {
	tool.Journal
	tool.Undo
	at string
}

func (c killingGate) kill(at string) {
	if c.at == at {
		unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	}
}

// Save implements tool.Undo.
func (c killingGate) Save(call, name string, changes []tool.Change) (func() error, error) {
	c.kill("before keeping")
	wait, err := c.Undo.Save(call, name, changes)
	c.kill("after keeping")
	return wait, err
}

// Write implements tool.Journal.
func (c killingGate) Write(r audit.Record, wait audit.Wait) error {
	if r.Kind == audit.Outcome {
		c.kill("after the change")
	}
	err := c.Journal.Write(r, wait)
	if r.Kind == audit.Intent {
		c.kill("after the intent")
	}
	return err
}

// TestKilledGolem is the golem that is killed.
func TestKilledGolem(t *testing.T) {
	args := strings.Split(os.Getenv(killVariable), "\x1f")
	if len(args) != 5 {
		return
	}
	p, err := loadProgram(args[0], args[1])
	must(t, err)
	gate, err := p.OpenWorker(program.WorkerOptions{Asker: &viewer{names: true}})
	must(t, err)
	c := killingGate{gate.Journal, gate.Undo, args[2]}
	gate.Journal, gate.Undo = c, c
	r := gate.Do(context.Background(), policy.User, tool.Call{Tool: args[3], Args: []byte(args[4])})
	t.Fatalf("golem was not killed: %v", r.Err)
}

// TestKilledCallIsUndone kills golem between saving, the intent and the change. A
// change that was made is undone, and one that was not made does not hide the one before
// it.
func TestKilledCallIsUndone(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"before keeping", "after keeping", "after the intent", "after the change"} {
		for name, args := range map[string]string{
			"write_file":  `{"path":"/out/text","content":"cut off"}`,
			"delete_file": `{"path":"/out/tree","recursive":true}`,
			"move_file":   `{"from":"/out/tree","to":"/out/moved/tree"}`,
		} {
			dir, state := recordedText(t)
			out := filepath.Join(dir, "out")
			fillDir(t, out)
			first := describeDir(t, out)
			p, err := loadProgram(dir, state)
			must(t, err)
			gate, err := p.OpenWorker(program.WorkerOptions{Asker: &viewer{names: true}})
			must(t, err)
			if r := callWith(gate, "write_file", map[string]any{"path": "/out/other/file", "content": "earlier"}); !r.OK() {
				t.Fatal(r.Err)
			}
			must(t, gate.Close())
			second := describeDir(t, out)
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestKilledGolem$")
			cmd.Env = append(os.Environ(), killVariable+"="+strings.Join([]string{dir, state, at, name, args}, "\x1f"))
			if said, err := cmd.CombinedOutput(); cmd.ProcessState.Sys().(interface{ Signaled() bool }) == nil || !cmd.ProcessState.Sys().(interface{ Signaled() bool }).Signaled() {
				t.Fatalf("%s, %s: not killed: %v\n%s", name, at, err, said)
			}
			if made := describeDir(t, out) != second; made != (at == "after the change") {
				t.Errorf("%s, %s: made: %v", name, at, made)
			}
			gate, err = p.OpenWorker(program.WorkerOptions{Asker: &viewer{names: true}})
			must(t, err)
			want := []string{first}
			if at == "after the change" {
				want = []string{second, first}
			}
			for _, tree := range want {
				if r := callByUser(gate, "undo", "{}"); !r.OK() {
					t.Errorf("%s, %s: %v", name, at, r.Err)
				}
				if now := describeDir(t, out); now != tree {
					t.Errorf("%s, %s: got\n%s\nwant\n%s", name, at, now, tree)
				}
			}
			must(t, gate.Close())
		}
	}
}
