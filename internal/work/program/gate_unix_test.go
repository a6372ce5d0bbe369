//go:build unix

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
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/starter"
)

// The environment variables that turn this test binary into a process that makes calls.
const (
	callsDir   = "GOLEM_TEST_CALLS_DIR"
	callsState = "GOLEM_TEST_CALLS_STATE"
	callsName  = "GOLEM_TEST_CALLS_NAME"
	callsCount = "GOLEM_TEST_CALLS_COUNT"
)

func TestMain(m *testing.M) {
	if code, is := changes.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
	if os.Getenv(callsDir) != "" {
		if err := makeCalls(); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// loadProgram returns a program with a state directory, in which every request is approved.
func loadProgram(dir, state string) (*program.Program, error) {
	approve, err := project.ParseSet("test", "approval.mode=approve_all")
	if err != nil {
		return nil, err
	}
	return program.Load(program.Options{Dir: dir, State: state, Now: time.Now, Settings: []project.Setting{approve}})
}

// makeCalls makes calls through its own gate. Of every ten calls one writes a file and
// the others read. It prints the acknowledged writes.
func makeCalls() error {
	p, err := loadProgram(os.Getenv(callsDir), os.Getenv(callsState))
	if err != nil {
		return err
	}
	gate, err := p.OpenWorker(program.WorkerOptions{})
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(os.Getenv(callsCount))
	if err != nil {
		return err
	}
	for i := range count {
		call := tool.Call{Tool: "read_file", Args: []byte(`{"path":"/in/paper.txt"}`)}
		file := fmt.Sprintf("/out/%s-%d", os.Getenv(callsName), i)
		if i%10 == 0 {
			call = tool.Call{Tool: "write_file", Args: fmt.Appendf(nil, `{"path":%q,"content":"x"}`, file)}
		}
		if r := gate.Do(context.Background(), policy.Model, call); !r.OK() {
			return r.Err
		}
		if i%10 == 0 {
			fmt.Println(file)
		}
	}
	return gate.Close()
}

func startCalls(t *testing.T, dir, state, name string, count int) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), callsDir+"="+dir, callsState+"="+state, callsName+"="+name, callsCount+"="+strconv.Itoa(count))
	cmd.Stderr = os.Stderr
	return cmd
}

// journaled counts the records of a journal for the written files.
type journaled struct {
	intents, outcomes map[string]int // by path
	reads             int
	report            audit.Report
}

func journalOf(t *testing.T, dir, state string) journaled {
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
	j := journaled{intents: map[string]int{}, outcomes: map[string]int{}}
	paths := map[string]string{} // by call
	err = audit.Read(folder, audit.Filter{}, func(r audit.Record, _ []byte) error {
		switch {
		case r.Kind == audit.Intent && r.Tool == "write_file":
			paths[r.Call] = strings.TrimPrefix(r.Effects[0], "write ")
			j.intents[paths[r.Call]]++
		case r.Kind == audit.Outcome && r.Tool == "write_file":
			j.outcomes[paths[r.Call]]++
		case r.Kind == audit.Outcome:
			j.reads++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if j.report, err = audit.Verify(context.Background(), folder, nil); err != nil {
		t.Fatal(err)
	}
	return j
}

// unfinished is the prefix of the names of unfinished files.
const unfinished = "/out/.golem-tmp-"

func newNotes(t *testing.T) (dir, state string) {
	t.Helper()
	dir, state = filepath.Join(t.TempDir(), "notes"), t.TempDir()
	if _, _, err := starter.Make(dir, starter.Options{}); err != nil {
		t.Fatal(err)
	}
	p, err := loadProgram(dir, state)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	return dir, state
}

// TestTwoProcesses: two processes with 2,000 calls each write one journal. Its chain
// verifies and no record is lost.
func TestTwoProcesses(t *testing.T) {
	each := testutil.Rounds(2000)
	dir, state := newNotes(t)
	a, b := startCalls(t, dir, state, "a", each), startCalls(t, dir, state, "b", each)
	for _, cmd := range []*exec.Cmd{a, b} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, cmd := range []*exec.Cmd{a, b} {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	j := journalOf(t, dir, state)
	if j.report.Bad != nil || len(j.report.Open) > 0 || j.report.Records != uint64(4*each) {
		t.Errorf("verify: %d records, bad: %v, open: %d; want %d", j.report.Records, j.report.Bad, len(j.report.Open), 4*each)
	}
	if len(j.intents) != each/5 || len(j.outcomes) != each/5 || j.reads != 2*each-each/5 {
		t.Errorf("got %d intents and %d outcomes of writes, %d reads", len(j.intents), len(j.outcomes), j.reads)
	}
}

// TestKilledGates kills processes at random moments. Every effect has its record, every
// acknowledged one also its outcome, and the journal verifies after the repair.
func TestKilledGates(t *testing.T) {
	kills := testutil.Rounds(60)
	dir, state := newNotes(t)
	acknowledged := map[string]bool{}
	cut := 0
	for round := range kills {
		cmd := startCalls(t, dir, state, strconv.Itoa(round), 1_000_000)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range rand.IntN(4) {
			if lines.Scan() {
				acknowledged[lines.Text()] = true
			}
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) // at some moment of a call
		cmd.Process.Kill()
		for lines.Scan() { // its output until the kill
			acknowledged[lines.Text()] = true
		}
		cmd.Wait()
	}
	j := journalOf(t, dir, state) // before another golem repairs it
	written, err := filepath.Glob(filepath.Join(dir, "out", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range written {
		if path := "/out/" + filepath.Base(name); j.intents[path] == 0 && !strings.HasPrefix(path, unfinished) {
			t.Errorf("%s was written, and no record says so", path)
		}
	}
	for path := range acknowledged {
		if j.intents[path] != 1 || j.outcomes[path] != 1 {
			t.Errorf("%s was acknowledged: got %d intents and %d outcomes", path, j.intents[path], j.outcomes[path])
		}
	}
	if err := startCalls(t, dir, state, "last", 1).Run(); err != nil {
		t.Fatal(err)
	}
	j = journalOf(t, dir, state)
	if j.report.Bad != nil {
		t.Errorf("verify: %v", j.report.Bad)
	}
	if left, err := filepath.Glob(filepath.Join(dir, unfinished+"*")); err != nil || len(left) > 0 {
		t.Errorf("leftover files: %v, %v", left, err)
	}
	for path := range j.intents {
		if j.outcomes[path] == 0 {
			cut++
		}
	}
	if len(acknowledged) < kills/2 {
		t.Errorf("only %d calls were acknowledged: the test checks nothing", len(acknowledged))
	}
	text, _ := json.Marshal(map[string]int{"acknowledged": len(acknowledged), "written": len(written), "cut off": cut, "mended": len(j.report.Repairs)})
	t.Logf("%s", text)
}
