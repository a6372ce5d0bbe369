package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	kills, within := 0, 250*time.Millisecond
	for round := 0; round < 2 || kills == 0 && round < 20; round++ { // on a fast machine a run may end before it is killed
		dir, state, golem := newTrustedProgram(t, map[string]string{
			"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./out, target: /out, approval: {write: preApproved, delete: preApproved}}\n",
			"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  shell: {default: {approval: preApproved}}\n  workers: {allowed_workers: [child]}\n---\nWork.\n",
			"child.worker":            "---\ndescription: Works.\nsandbox: inherit\ntoolsets:\n  shell: {default: {approval: preApproved}}\n---\nWork.\n",
			"demo.yaml":               script.String() + child.String(),
			"out/log":                 "",
		})
		begin := []string{"run", ".", "go", "--model", "scripted:demo.yaml"}
		args := begin
		said := ""
		for try := 0; ; try++ {
			cmd := golem(args...)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(20*time.Millisecond+rand.N(within), func() { cmd.Process.Kill() })
			if try >= 40 {
				timer.Stop() // from here on the run may end
			}
			err := cmd.Wait()
			if timer.Stop() {
				within = max(within*3/4, 20*time.Millisecond)
			} else {
				kills++
			}
			said += out.String()
			if err == nil {
				break
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
	if kills == 0 {
		t.Error("no run was killed")
	}
	t.Logf("%d kills", kills)
}
