package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/golem-forge/golem/internal/measure"
)

// BenchmarkTable prints what it costs to confine /bin/true as a whole: golem exec from
// its start to its end, with journal and session, beside other programs that confine
// one. `make bench` runs it, and says where golem and its peers are.
func BenchmarkTable(b *testing.B) {
	golem := os.Getenv("GOLEM_BENCH_BINARY")
	if golem == "" {
		b.Skip("make bench says which golem is meant")
	}
	dir, state := b.TempDir(), b.TempDir()
	run := func(name string, args ...string) func(int) {
		return measure.Repeat(func() {
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
	took := measure.Turns(measure.FewRounds, measure.Burst, sides...)
	t := measure.Peers(os.Stdout)
	for i := 1; i < len(took); i++ {
		t.Against(names[0], took[0], names[i], took[i], 0)
	}
	b.SkipNow() // the table is the result
}
