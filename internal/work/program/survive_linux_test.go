package program_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// sharingVariable turns this program into a golem that shares its files with another golem.
const sharingVariable = "GOLEM_TEST_CROWD"

const sharedFiles = 3

// TestSharingGolem is that golem. It runs commands and edits files at once. For each it
// reports the file, the text to write, and whether that worked.
func TestSharingGolem(t *testing.T) {
	dir, rest, ok := strings.Cut(os.Getenv(sharingVariable), "\x1f")
	if !ok {
		return
	}
	state, name, _ := strings.Cut(rest, "\x1f")
	p, err := loadProgram(dir, state)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := p.OpenWorker(program.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	call := func(files []int, id, name string, args any) {
		data, err := json.Marshal(args)
		if err != nil {
			t.Error(err)
		}
		r := gate.Do(context.Background(), policy.Model, tool.Call{Tool: name, Args: data})
		said := "done"
		if !r.OK() {
			said = string(sandbox.CodeOf(r.Err))
			if said != string(sandbox.ErrConflict) {
				said += fmt.Sprintf(" %v", r.Err)
			}
		}
		fmt.Printf("%s %v %s\n", id, files, said)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 25 {
			a, b := rand.N(sharedFiles), rand.N(sharedFiles)
			id := fmt.Sprintf("%s-command-%d-", name, i)
			call([]int{a, b}, id, "shell", map[string]string{"command": fmt.Sprintf(`for f in /out/%d /out/%d; do grep -q %[3]s $f || sed -i "s/^END$/%[3]s\nEND/" $f; done; echo x > /out/%[3]s`, a, b, id)})
		}
	})
	wg.Go(func() {
		for i := range 150 {
			a, id := rand.N(sharedFiles), fmt.Sprintf("%s-edit-%d-", name, i)
			call([]int{a, a}, id, "edit_file", map[string]any{"path": fmt.Sprintf("/out/%d", a), "edits": []map[string]string{{"old": "END", "new": id + "\nEND"}}})
		}
	})
	wg.Wait()
	if err := gate.Close(); err != nil {
		t.Error(err)
	}
}

// TestTwoGolemsShareFiles lets two golems work on one directory, each with commands and file tools at
// once. The files have all changes reported as done, and no others.
func TestTwoGolemsShareFiles(t *testing.T) {
	dir, state := recordedText(t)
	for i := range sharedFiles {
		if err := os.WriteFile(fmt.Sprintf("%s/out/%d", dir, i), []byte("END\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	said := make(chan string)
	var wg sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestSharingGolem$")
		cmd.Env = append(os.Environ(), sharingVariable+"="+dir+"\x1f"+state+"\x1f"+name)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				said <- lines.Text()
			}
			if err := cmd.Wait(); err != nil {
				t.Error(name, err)
			}
		})
	}
	go func() { wg.Wait(); close(said) }()
	var texts [sharedFiles]string
	count, results := map[string]int{}, map[string]string{}
	for line := range said {
		id, result, ok := strings.Cut(line, " [")
		if !ok {
			if line != "PASS" {
				t.Log(line)
			}
			continue
		}
		results[id] = result
	}
	for i := range texts {
		data, err := os.ReadFile(fmt.Sprintf("%s/out/%d", dir, i))
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(data)
	}
	for id, result := range results {
		where, how, _ := strings.Cut(result, "] ")
		var a, b int
		fmt.Sscan(where, &a, &b)
		kind := strings.Split(id, "-")[1]
		count[kind+" "+how]++
		if how != "done" && how != "conflict" {
			t.Errorf("%s: %s", id, how)
		}
		for i, text := range texts {
			want := 0
			if how == "done" && (i == a || i == b) {
				want = 1
			}
			if got := strings.Count(text, id+"\n"); got != want {
				t.Errorf("%s: %s, and is %d times in file %d", id, result, got, i)
			}
		}
		_, err := os.Stat(filepath.Join(dir, "out", id))
		if made := err == nil; kind == "command" && made != (how == "done") {
			t.Errorf("%s: %s, its own file exists: %v", id, how, made)
		}
	}
	t.Log(count)
	if len(results) != 2*(25+150) || count["command done"] == 0 || count["edit done"] == 0 {
		t.Errorf("%d calls: the test checks nothing", len(results))
	}
	checkJournal(t, dir, state)
}

// recordedText makes a program whose commands may write to a directory out, and a state
// directory.
func recordedText(t *testing.T) (dir, state string) {
	t.Helper()
	dir, state = t.TempDir(), t.TempDir()
	err := os.Mkdir(filepath.Join(dir, "out"), 0o755)
	for name, text := range map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  mode: direct\n  zones:\n    out: {path: ./out, mode: rw}\n",
		"main.worker":             "---\ndescription: x\nsandbox: inherit\ntoolsets: [filesystem, shell]\n---\nWork.\n",
	} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
		}
	}
	var p *program.Program
	if err == nil {
		p, err = loadProgram(dir, state)
	}
	if err == nil {
		err = p.Trust()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, state
}

// checkJournal checks the journal, and that only the record of the last command is left.
func checkJournal(t *testing.T, dir, state string) {
	t.Helper()
	p, err := loadProgram(dir, state)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := p.Storage.OpenJournal()
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if report, err := audit.Verify(context.Background(), folder, nil); err != nil || report.Bad != nil {
		t.Errorf("%+v, %v", report, err)
	}
	left, err := filepath.Glob(string(p.Storage.Dir()) + "/layers/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if base := filepath.Base(name); base != "last" && !strings.HasPrefix(base, "work-") && !strings.HasPrefix(base, "applied-") {
			t.Errorf("unexpected file %s", base)
		}
	}
}

// TestHostFilesAreNotApplied checks that golem applies no file that git or golem on the host would use as
// its own, however a command made it: S03, S04, S06, G17. The repository stays as it is,
// and the other changes are applied.
func TestHostFilesAreNotApplied(t *testing.T) {
	dir, state := recordedText(t)
	p, err := loadProgram(dir, state)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := p.OpenWorker(program.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	sh := func(line string) string {
		t.Helper()
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = filepath.Join(dir, "out")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	const own = `find . -iname .git -o -iname '*.worker' -o -iname golem-forge.config.yaml | sort; cd repo/.git; find . -type f | sort | xargs cat`
	sh("mkdir -p repo/.git/hooks repo/src; echo ref > repo/.git/HEAD; echo config > repo/.git/config; echo hook > repo/.git/hooks/post-merge; echo code > repo/src/main.c")
	was := sh(own)
	for _, line := range []string{
		"mkdir -p a/b/c/.git/hooks; echo evil > a/b/c/.git/hooks/pre-commit",
		"git init -q nested; echo evil > nested/.git/hooks/pre-commit",
		"mkdir d e; echo 'gitdir: ../repo/.git' > d/.git; ln -s ../repo/.git e/.git",
		"mkdir -p .GIT/hooks f/.Git; echo evil > .GIT/hooks/pre-commit; echo evil > f/.Git/config",
		"mv repo moved; mkdir -p repo/.git/hooks; echo evil > repo/.git/hooks/pre-commit; echo evil > repo/.git/config",
		"rm -rf repo; mkdir -p x/.git/hooks; echo evil > x/.git/hooks/pre-commit; mv x repo",
		"rm -rf repo; mkdir repo; ln -s /tmp repo/.git",
		"rm -rf repo/.git; mkdir evil; echo evil > evil/HEAD; mv evil repo/.git",
		"chmod 777 repo/.git; echo evil >> repo/.git/config; rm repo/.git/HEAD; mv repo/.git/hooks repo/.git/other",
		"mkdir h; echo evil > h/main.worker; echo evil > h/Golem-Forge.config.yaml",
		"mv repo/src src; mv repo src/repo; mv src repo; mkdir -p repo/repo/.git",
		"cp -r repo copied; mv copied/.git copied/git; mv copied/git copied/.git",
	} {
		runCommand(t, gate, "cd /out; "+line+"; echo landed > mark")
		if sh("cat mark; rm mark") != "landed\n" {
			t.Errorf("%s: the rest was not applied", line)
		}
		if got := sh(own); got != was {
			t.Errorf("%s: got\n%s\nwant\n%s", line, got, was)
		}
	}
}

// An asker approves everything, and keeps the last request.
type asker struct{ tool.Request }

// Ask implements approval.Asker.
func (a *asker) Ask(_ context.Context, r tool.Request) approval.Reply {
	a.Request = r
	return approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Rendered: r.Items()}
}

// TestUndoMany checks that a long undo is shown in full.
func TestUndoMany(t *testing.T) {
	dir, state := recordedText(t)
	p, err := program.Load(program.Options{Dir: dir, State: state, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	var asked asker
	gate, err := p.OpenWorker(program.WorkerOptions{Asker: &asked})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	runCommand(t, gate, "cd /out; touch $(seq 250); mkdir .git; touch .git/HEAD; mkfifo pipe")
	r := gate.Do(context.Background(), policy.User, tool.Call{Tool: "undo", Args: []byte("{}")})
	if !r.OK() || r.Words() != "undone: 250 changes" {
		t.Fatalf("%v, %s", r.Err, r.Words())
	}
	if n := len(asked.Changes); n != 250 || len(asked.Omitted()) > 0 {
		t.Errorf("%d changes are shown: %+v", n, asked.Changes)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "out")); err != nil || len(left) > 0 {
		t.Errorf("got files %v, %v, want none", left, err)
	}
}

// pidOf returns a process of this program with a word, or 0 if there is none.
func pidOf(word string) int {
	self, _ := os.Readlink("/proc/self/exe")
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		cmdline, _ := os.ReadFile(dir + "/cmdline")
		status, _ := os.ReadFile(dir + "/status")
		exe, err := os.Readlink(dir + "/exe")
		if string(cmdline) != "golem\x00"+word+"\x00" || err == nil && exe != self || !strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", os.Getuid())) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		return pid
	}
	return 0
}

// kill waits for a process of this program with a word, and kills it. It must not kill 0,
// which stands for the whole process group of the test.
func kill(word string) (pid int) {
	since := time.Now()
	for pid = pidOf(word); pid == 0; pid = pidOf(word) {
		if time.Since(since) > time.Minute {
			panic("no process has the word " + word)
		}
		time.Sleep(time.Millisecond)
	}
	unix.Kill(pid, unix.SIGKILL)
	return pid
}

// TestKilledHolderAndJail kills the holder or the jail while a command runs. None of its changes
// is applied, and the next command runs normally.
func TestKilledHolderAndJail(t *testing.T) {
	dir, state := recordedText(t)
	p, err := loadProgram(dir, state)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := p.OpenWorker(program.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range []string{"jail-cell", "jail-hold", "jail-hold", "jail-cell"} {
		runCommand(t, gate, fmt.Sprintf("echo %d > /out/n", i))
		if i%2 == 0 { // while a command runs
			go func() {
				for !hasBegun(string(p.Storage.Dir())) {
					time.Sleep(time.Millisecond)
				}
				kill(part)
			}()
			r := gate.Do(context.Background(), policy.Model, tool.Call{Tool: "shell", Args: []byte(`{"command":"echo begun > /out/begun; sleep 100"}`)})
			if r.OK() || !strings.Contains(r.Err.Error(), "ended") {
				t.Errorf("%s was killed: %v, %s", part, r.Err, r.Words())
			}
		} else {
			for pid := kill(part); !isGone(pid); {
				time.Sleep(time.Millisecond)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "out", "begun")); err == nil {
			t.Errorf("%s was killed, but changes were applied", part)
		}
	}
	// A holder that was just killed still has its socket for a moment. A command that has
	// not begun runs in a new session.
	for range 5 {
		runCommand(t, gate, "true") // the command before may have ended with its holder
		pid := kill("jail-hold")
		r := gate.Do(context.Background(), policy.Model, tool.Call{Tool: "shell", Args: []byte(`{"command":"true"}`)})
		if !r.OK() && !strings.Contains(r.Err.Error(), "ended") {
			t.Error(r.Err)
		}
		for !isGone(pid) {
			time.Sleep(time.Millisecond)
		}
	}
	// So does a service, which always needs a new cell of the holder.
	for range 3 {
		runCommand(t, gate, "true")
		pid := kill("jail-hold")
		use(t, gate, "service_start", map[string]any{"command": "true"})
		for !isGone(pid) {
			time.Sleep(time.Millisecond)
		}
	}
	runCommand(t, gate, "echo last > /out/n")
	if data, err := os.ReadFile(filepath.Join(dir, "out", "n")); err != nil || string(data) != "last\n" {
		t.Errorf("got %q, %v", data, err)
	}
	if err := gate.Close(); err != nil {
		t.Error(err)
	}
	checkJournal(t, dir, state)
}

// isGone reports whether a process has ended, with all its threads.
func isGone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err != nil || strings.Contains(string(stat), ") Z ") && len(threads) <= 1
}

// hasBegun reports whether a command has written to its overlay.
func hasBegun(state string) bool {
	found, _ := filepath.Glob(state + "/layers/golem-session-*/*/upper/begun")
	return len(found) > 0
}
