package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/benchtable"
)

// BenchmarkTable prints the whole cost of confining /bin/true. It runs golem exec from
// start to end, with journal and session, and compares it with other sandboxes. `make
// bench` runs it and sets the paths of golem and of the other programs.
func BenchmarkTable(b *testing.B) {
	golem := os.Getenv("GOLEM_BENCH_BINARY")
	if golem == "" {
		b.Skip("only make bench sets the path of golem")
	}
	dir, state := b.TempDir(), b.TempDir()
	run := func(name string, args ...string) func(int) {
		return benchtable.Repeat(func() {
			cmd := exec.Command(name, args...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%s: %v\n%s", name, err, out)
			}
		})
	}
	names := []string{"golem exec -- /bin/true", "bwrap"}
	sides := []func(int){run(golem, "exec", "--", "/bin/true"),
		run("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
			"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", dir, "/work", "--chdir", "/work", "/bin/true")}
	for _, peer := range []struct {
		name, program string
		args          []string
	}{
		{"sandbox-runtime", ".bin/srt", []string{"/bin/true"}},
		{"Codex", "@openai/codex-linux-*/vendor/*/bin/codex", []string{"sandbox", "--", "/bin/true"}},
	} {
		found, _ := filepath.Glob(filepath.Join(os.Getenv("JAIL_BENCH_PEERS"), peer.program))
		if len(found) == 0 || exec.Command(found[0], peer.args...).Run() != nil {
			fmt.Printf("without %s, which is not there or does not work here\n", peer.name)
			continue
		}
		names, sides = append(names, peer.name), append(sides, run(found[0], peer.args...))
	}
	took := benchtable.Turns(benchtable.FewRounds, benchtable.Burst, sides...)
	t := benchtable.Peers(os.Stdout)
	for i := 1; i < len(took); i++ {
		target := 0.0
		if names[i] == "bwrap" {
			target = 2.5
		}
		t.Against(names[0], took[0], names[i], took[i], target)
	}
	benchRuns(b, t, golem)
	benchMany(b, t, golem)
	fmt.Printf("\ntargets met: %d of %d\n", t.Met, t.Met+t.Missed)
	b.SkipNow() // the table is the result
}

// benchRuns measures the share of golem in a run: the processor time of a cold start, the
// time of a turn with one call, and the memory of a hundred workers that one answer
// calls. The model is a script, which costs next to nothing.
func benchRuns(b *testing.B, t *benchtable.Table, golem string) {
	dir, state := b.TempDir(), b.TempDir()
	const turns, workers = 400, 100
	var long, many strings.Builder
	for i := range turns {
		fmt.Fprintf(&long, "- calls: [{tool: write_file, args: {path: /out/%d, content: x}}]\n", i)
	}
	many.WriteString("main:\n  - calls:\n")
	for range workers {
		many.WriteString("      - {tool: child, args: {input: x}}\n")
	}
	many.WriteString("  - text: done\nchild:\n  each:\n    - calls: [{tool: list_files, args: {path: /out}}]\n    - text: done\n")
	for name, text := range map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./out, target: /out, approval: {write: preApproved}}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  filesystem:\n  workers: {allowed_workers: [child]}\n---\nWork.\n",
		"child.worker":            "---\ndescription: Works.\nsandbox: inherit\ntoolsets: [filesystem]\n---\nWork.\n",
		"one.yaml":                "- text: done\n", "long.yaml": long.String() + "- text: done\n", "many.yaml": many.String(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			b.Fatal(err)
		}
	}
	run := func(args ...string) (took time.Duration, used time.Duration, memory int64) {
		cmd := exec.Command(golem, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
		start := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("golem %v: %v\n%s", args, err, out)
		}
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		return time.Since(start), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), usage.Maxrss << 10
	}
	run("trust", "--yes")
	least := func(of func() time.Duration) float64 {
		best := of()
		for range benchtable.FewRounds {
			best = min(best, of())
		}
		return best.Seconds()
	}
	row := func(what string, is, most float64, show func(float64) string) {
		t.Row(what, show(is), "", "", show(most), t.Judge(is <= most))
	}
	row("golem version, processor time", least(func() time.Duration { _, used, _ := run("version"); return used }), 3e-3, benchtable.Duration)
	row("golem run, one answer, processor time", least(func() time.Duration { _, used, _ := run("run", ".", "x", "--model", "scripted:one.yaml"); return used }), 30e-3, benchtable.Duration)
	row("a turn with one write, journal on", least(func() time.Duration {
		one, _, _ := run("run", ".", "x", "--model", "scripted:one.yaml")
		os.RemoveAll(filepath.Join(dir, "out"))
		all, _, _ := run("run", ".", "x", "--model", "scripted:long.yaml")
		return (all - one) / turns
	}), 1e-3, benchtable.Duration)
	_, used, memory := run("run", ".", "x", "--model", "scripted:many.yaml")
	t.Row(fmt.Sprintf("%d workers of one answer, memory", workers), fmt.Sprintf("%d MB", memory>>20), "139 MB, the TypeScript original, two turns", fmt.Sprintf("%.2f×", float64(memory>>20)/139), "", "")
	t.Row(fmt.Sprintf("%d workers of one answer, processor time", workers), benchtable.Duration(used.Seconds()), "1.08 s, the TypeScript original, two turns", fmt.Sprintf("%.2f×", used.Seconds()/1.08), "", "")
}

// benchMany measures how long golem takes to list and to apply a session of 100,000 new
// files. It compares this with programs that list and copy as many files.
func benchMany(b *testing.B, t *benchtable.Table, golem string) {
	const folders, files = 100, 1000
	source := b.TempDir()
	for i := range folders {
		dir := filepath.Join(source, fmt.Sprint("d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for k := range files {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", k)), fmt.Appendln(nil, "file", i, k), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	var list, find, apply, copied benchtable.Series
	for range 3 {
		dir, state, other := b.TempDir(), b.TempDir(), b.TempDir()
		run := func(name string, args ...string) float64 {
			cmd := exec.Command(name, args...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
			start := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%s %v: %v\n%s", name, args, err, out)
			}
			return time.Since(start).Seconds()
		}
		run(golem, "exec", "--root", ".:overlay", "--mount", source+":/source:ro", "--", "cp", "-r", "/source/.", "/work")
		list = append(list, run(golem, "changes"))
		find = append(find, run("find", source, "-printf", "%s %m %p\n"))
		apply = append(apply, run(golem, "tool", "apply_changes", "--approval", "approve_all"))
		copied = append(copied, run("cp", "-r", source+"/.", other))
	}
	n := benchtable.Thousands(folders * files)
	row := func(what string, ours benchtable.Series, peer string, theirs benchtable.Series, most float64) {
		t.Row(what, benchtable.Duration(ours.Median()), benchtable.Duration(theirs.Median())+" "+peer, fmt.Sprintf("%.2f×", ours.Over(theirs)), benchtable.Duration(most), t.Judge(ours.Median() <= most))
	}
	row("list "+n+" changes", list, "find -printf", find, 0.5)
	row("apply "+n+" files", apply, "cp -r", copied, 3)
}
