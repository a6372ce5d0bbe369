package jail_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/measure"
	"github.com/golem-forge/golem/sandbox"
)

// BenchmarkTable prints what it costs to run /bin/true: plainly, by bwrap with
// the same folders, in a session that is warm and in one that is cold; and how
// that grows with the memory of the program that asks. `make bench` runs it.
func BenchmarkTable(b *testing.B) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		b.Skip("bwrap is missing here; make bench installs it")
	}
	bench := &bench{b, b.TempDir(), b.TempDir(), bwrap}
	t := measure.Peers(os.Stdout)
	who := "root"
	if os.Geteuid() != 0 {
		who = "user"
	}
	small := bench.round(t, who+", 10 MB of heap")
	ballast := make([]byte, 600<<20)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	large := bench.round(t, who+", 600 MB of heap")
	for i, work := range []string{"a later command", "the first command"} {
		ratio := large[i].Median() / small[i].Median()
		t.Row(work+", growth with heap", fmt.Sprintf("%.2f×", ratio), "", "", "1.15×", t.Judge(ratio <= 1.15))
	}
	ballast[0]++
	fmt.Printf("\ntargets met: %d of %d\n", t.Met, t.Met+t.Missed)
	b.SkipNow() // the table is the result
}

type bench struct {
	*testing.B
	in, work, bwrap string
}

func (b *bench) check(err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

func (b *bench) policy() jail.Policy {
	return jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(b.in), Target: "/in"}, {Source: sandbox.Host(b.work), Target: jail.Work, Write: true}}}
}

func (b *bench) run(s *jail.Session) {
	r, err := s.Run(context.Background(), jail.Command{Path: "/bin/true", Args: []string{"true"}, Dir: "/"})
	b.check(err)
	if r.Code != 0 {
		b.Fatalf("/bin/true ended with %d: %s", r.Code, r.Stderr.Head)
	}
}

// round measures all sides in turns, and returns ours: warm and cold.
func (b *bench) round(t *measure.Table, who string) []measure.Series {
	s, err := jail.Start(b.policy(), time.Now)
	b.check(err)
	defer s.Close()
	b.run(s)
	got := measure.Turns(measure.ManyRounds, measure.Once,
		measure.Repeat(func() { b.run(s) }),
		measure.Repeat(func() {
			cold, err := jail.Start(b.policy(), time.Now)
			b.check(err)
			b.run(cold)
			b.check(cold.Close())
		}),
		measure.Repeat(func() { b.check(exec.Command("/bin/true").Run()) }),
		measure.Repeat(func() {
			b.check(exec.Command(b.bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
				"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
				"--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
				"--ro-bind", b.in, "/in", "--bind", b.work, "/work", "--chdir", "/", "/bin/true").Run())
		}),
	)
	t.Against("a later command, "+who, got[0], "plain exec", got[2], 1.5)
	t.Against("a later command, "+who, got[0], "bwrap, same folders", got[3], 0.25)
	t.Against("the first command, "+who, got[1], "bwrap, same folders", got[3], 2.5)
	return got[:2]
}
