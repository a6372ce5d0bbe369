package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// traceInit runs golem and returns the trace of each package that Go initialises before
// main.
func traceInit(t *testing.T, args ...string) map[string][]string {
	t.Helper()
	cmd := exec.Command("golem", args...)
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, _ := cmd.CombinedOutput()
	packages := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == "init" {
			packages[words[1]] = words
		}
	}
	if packages["os"] == nil {
		t.Fatalf("no trace of package os:\n%s", out)
	}
	return packages
}

// TestJailProcessesStartEarly checks that a process of a jail does not initialise
// packages that it does not use. Every command of a session pays for this start.
func TestJailProcessesStartEarly(t *testing.T) {
	t.Parallel()
	all, early := traceInit(t, "version"), traceInit(t, "jail-hold")
	for _, name := range []string{"net/http", "github.com/google/jsonschema-go/jsonschema", "github.com/modelcontextprotocol/go-sdk/mcp"} {
		if all[name] == nil {
			t.Errorf("golem version does not initialise %s: the test checks nothing", name)
		}
		if early[name] != nil {
			t.Errorf("a process of a jail initialises %s", name)
		}
	}
}

// TestPackagesInitialiseLittle checks that golem's own packages allocate little before
// main, because every start pays for it. sync.OnceValue postpones the rest.
func TestPackagesInitialiseLittle(t *testing.T) {
	t.Parallel()
	const most = 100 // allocations
	seen := 0
	for name, words := range traceInit(t, "version") {
		if !strings.HasPrefix(name, "github.com/golem-forge/golem/") {
			continue
		}
		seen++
		count, err := strconv.Atoi(words[len(words)-2]) // init NAME @0.1 ms, 0.2 ms clock, 3 bytes, 4 allocs
		if err != nil || count > most {
			t.Errorf("%s: %q, want at most %d allocations", name, words, most)
		}
	}
	if seen < 5 {
		t.Errorf("found %d packages: the test checks nothing", seen)
	}
}

// TestExecStartsFewProcesses counts how often golem exec starts its own binary. Each
// start takes longer than most commands.
func TestExecStartsFewProcesses(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	run := func() *exec.Cmd {
		cmd := exec.Command("golem", "exec", "--", "/bin/true")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
		return cmd
	}
	if out, err := run().CombinedOutput(); err != nil { // the first run detects what the machine supports
		t.Fatalf("%v\n%s", err, out)
	}
	var started, others []string
	for _, c := range testutil.Trace(t, run()) {
		switch {
		case c.Op == testutil.Exec && c.Path == "/proc/self/exe":
			started = append(started, c.Path)
		case c.Op == testutil.Exec:
			others = append(others, c.Path)
		}
	}
	const want = 2 // the holder and the cell
	if len(started) != want {
		t.Errorf("golem exec started itself %d times, want %d", len(started), want)
	}
	if got := strings.Join(others, " "); got != "/bin/true" {
		t.Errorf("golem exec started %s, want only /bin/true", got)
	}
}
