package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestKilledRuns kills runs again and again, and resumes each until it is done. Every
// step is done at most once.
func TestKilledRuns(t *testing.T) {
	t.Parallel()
	const steps = 12
	var script, child strings.Builder
	script.WriteString("main:\n")
	child.WriteString("child:\n")
	for i := range steps {
		fmt.Fprintf(&script, "  - calls: [{tool: shell, args: {command: \"echo main%d >> /out/log\"}}]\n", i)
		fmt.Fprintf(&child, "  - calls: [{tool: shell, args: {command: \"echo child%d >> /out/log\"}}]\n", i)
		if i == steps/2 {
			script.WriteString("  - calls: [{tool: child, args: {input: work}}]\n")
		}
	}
	script.WriteString("  - text: all done\n")
	child.WriteString("  - text: child done\n")
	k := &killer{within: 250 * time.Millisecond}
	for round := 0; round < 2 || k.kills == 0 && round < 20; round++ { // on a fast machine a run may end before it is killed
		dir, state, golem := newTrustedProgram(t, map[string]string{
			"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./out, target: /out, approval: {write: preApproved, delete: preApproved}}\n",
			"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  shell: {default: {approval: preApproved}}\n  workers: {allowed_workers: [child]}\n---\nWork.\n",
			"child.worker":            "---\ndescription: Works.\nsandbox: inherit\ntoolsets:\n  shell: {default: {approval: preApproved}}\n---\nWork.\n",
			"demo.yaml":               script.String() + child.String(),
			"out/log":                 "",
		})
		said := k.run(t, state, golem)
		log, err := os.ReadFile(filepath.Join(dir, "out", "log"))
		if err != nil {
			t.Fatal(err)
		}
		count := make(map[string]int)
		for line := range strings.Lines(string(log)) {
			count[strings.TrimSpace(line)]++
		}
		for i := range steps {
			for _, who := range []string{"main", "child"} {
				step := fmt.Sprint(who, i)
				if count[step] > 1 {
					t.Errorf("%s was done %d times\n%s", step, count[step], said)
				}
			}
		}
		if out, err := golem("audit", "verify").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		t.Logf("%d of %d steps are done", len(count), 2*steps)
	}
	if k.kills == 0 {
		t.Error("no run was killed")
	}
	t.Logf("%d kills", k.kills)
}

// A killer kills runs.
type killer struct {
	within time.Duration // the most time before a kill
	kills  int
}

// run runs a program with demo.yaml, kills it and resumes it until it is done. It returns
// what the runs have printed.
func (k *killer) run(t *testing.T, state string, golem func(args ...string) *exec.Cmd) (said string) {
	t.Helper()
	begin := []string{"run", ".", "go", "--model", "scripted:demo.yaml"}
	args := begin
	for try := 0; ; try++ {
		cmd := golem(args...)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(20*time.Millisecond+rand.N(k.within), func() { cmd.Process.Kill() })
		if try >= 40 {
			timer.Stop() // from here on the run may end
		}
		err := cmd.Wait()
		if timer.Stop() {
			k.within = max(k.within*3/4, 20*time.Millisecond)
		} else {
			k.kills++
		}
		said += out.String()
		if err == nil {
			return said
		}
		// golem was killed before the run began.
		none := strings.Contains(out.String(), "nothing was run")
		if cmd.ProcessState.ExitCode() > 0 && !none && !strings.Contains(out.String(), "there is none yet") { // golem failed and was not killed
			t.Fatalf("%v\n%s", err, said)
		}
		if none {
			args = begin
		} else if sessions, _ := filepath.Glob(filepath.Join(state, "*", "sessions", "*", "run.jsonl")); len(sessions) > 0 {
			args = []string{"run", ".", "--resume", "last", "--model", "scripted:demo.yaml"}
		}
	}
}

// TestKilledWorkersAtOnce kills runs whose workers work at once, each in its own directory.
// Every step is done at most once, and every worker has a result in the order of the
// answer.
func TestKilledWorkersAtOnce(t *testing.T) {
	t.Parallel()
	const steps, workers = 6, 4
	script := "main:\n  - calls:\n"
	files := map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./out, target: /out, approval: {write: preApproved, delete: preApproved}}\n    - {source: ./in, target: /in, mode: ro}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  filesystem:\n  shell: {default: {approval: preApproved}}\n  workers: {allowed_workers: [child]}\n---\nWork.\n",
		"child.worker":            "---\ndescription: Works.\nsandbox: inherit\ntoolsets:\n  shell: {default: {approval: preApproved}}\n---\nWork.\n",
		"in/a":                    "a\n",
	}
	for i := range workers {
		script += fmt.Sprintf("      - {tool: child, args: {input: work, restrict: /out/%d}}\n      - {tool: read_file, args: {path: /in/a}}\n", i)
		files[fmt.Sprintf("out/%d/log", i)] = ""
	}
	script += "  - text: all done\nchild:\n  each:\n"
	for i := range steps {
		script += fmt.Sprintf("    - {wait: 20ms, calls: [{tool: shell, args: {command: \"cat log\"}}, {tool: shell, args: {command: \"echo step%d >> log\"}}]}\n", i)
	}
	files["demo.yaml"] = script + "    - text: child done\n"
	k := &killer{within: 400 * time.Millisecond}
	for round := 0; round < 2 || k.kills == 0 && round < 20; round++ {
		dir, state, golem := newTrustedProgram(t, files)
		said := k.run(t, state, golem)
		for i := range workers {
			log, err := os.ReadFile(filepath.Join(dir, "out", fmt.Sprint(i), "log"))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Fields(string(log))
			if !slices.IsSorted(lines) || len(slices.Compact(slices.Clone(lines))) != len(lines) {
				t.Errorf("worker %d: %v\n%s", i, lines, said)
			}
		}
		if out, err := golem("audit", "verify").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if k.kills == 0 {
		t.Error("no run was killed")
	}
	t.Logf("%d kills", k.kills)
}
