package jail_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/benchtable"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// The sides of the table: ways to run /bin/true.
const (
	plainExec = "plain exec"
	byBwrap   = "bwrap, same directories"
	later     = "later command" // in a session that has run a command
	first     = "first command" // with start and end of the session
	answered  = "first answer"  // the same without the end of the session
	byRuntime = "sandbox-runtime"
	byCodex   = "Codex"
)

// peersEvery is the number of rounds per turn of slow peers, which take a hundred times
// as long as the others.
const peersEvery = benchtable.ManyRounds / benchtable.FewRounds

// BenchmarkTable prints the time to run /bin/true: directly, by bwrap with the same
// directories, by other programs that confine commands, and in a warm and a cold session.
// It measures as root and as an ordinary user, and from a program with little and with
// much memory. All of them take turns. `make bench` runs it.
func BenchmarkTable(b *testing.B) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		b.Skip("bwrap is missing here; make bench installs it")
	}
	users := []string{"user"}
	if os.Geteuid() == 0 {
		users = []string{"root", "user"}
	}
	var all []*asker
	for _, who := range users {
		for _, heap := range []int{10, 600} {
			all = append(all, startAsker(b, who, heap))
		}
	}
	for round := range benchtable.ManyRounds {
		for k := range all {
			a := all[(k+round)%len(all)]
			for i := range a.sides {
				side := a.sides[(i+round)%len(a.sides)]
				if !isRare(side) || round%peersEvery == 0 {
					a.ask(b, side)
				}
			}
		}
	}
	t := benchtable.Peers(os.Stdout)
	for i := 0; i < len(all); i += 2 {
		small, large := all[i], all[i+1]
		for _, a := range []*asker{small, large} {
			who := fmt.Sprintf(", %s, %d MB", a.who, a.heap)
			t.Against(later+who, a.took[later], plainExec, a.took[plainExec], 1.5)
			t.Against(later+who, a.took[later], byBwrap, a.took[byBwrap], 0.25)
			t.Against(first+who, a.took[first], byBwrap, a.took[byBwrap], 2)
			t.Against(answered+who, a.took[answered], byBwrap, a.took[byBwrap], 0)
		}
		for _, side := range []string{later, first} {
			t.Against(fmt.Sprintf("%s, %s, %d MB", side, large.who, large.heap), large.took[side],
				fmt.Sprintf("the same at %d MB", small.heap), small.took[side], 1.15)
		}
		for _, side := range small.sides {
			for _, ours := range []string{later, first} {
				if isRare(side) {
					took := small.beside(ours)
					t.Row(fmt.Sprintf("%s, %s, %d MB", ours, small.who, small.heap), benchtable.Duration(took.Median()),
						benchtable.Duration(small.took[side].Median())+" "+side, fmt.Sprintf("%.3f×", took.Over(small.took[side])), "", "")
				}
			}
		}
	}
	fmt.Printf("\ntargets met: %d of %d\n", t.Met, t.Met+t.Missed)
	for _, a := range all {
		for _, line := range a.lacks {
			fmt.Printf("as %s without %s\n", a.who, line)
		}
	}
	b.SkipNow() // the table is the result
}

func isRare(side string) bool { return side == byRuntime || side == byCodex }

// An asker is a program with a given amount of memory that runs commands on request.
type asker struct {
	who   string
	heap  int      // in MB
	sides []string // the sides that it can measure
	lacks []string // the sides that it cannot measure, with the reason
	took  map[string]benchtable.Series
	in    io.Writer
	out   *bufio.Reader
}

// askerHeap is the environment variable with an asker's memory. It marks this program as
// one.
const askerHeap = "JAIL_BENCH_HEAP"

// peersFolder is the environment variable with the directory of the peers that npm
// installed.
const peersFolder = "JAIL_BENCH_PEERS"

// startAsker starts this program again as an asker. If who is user and this user is root,
// the asker runs as an ordinary user.
func startAsker(b *testing.B, who string, heap int) *asker {
	dir, err := os.MkdirTemp("", "jail")
	must(b, err)
	b.Cleanup(func() { os.RemoveAll(dir) })
	must(b, os.Chmod(dir, 0o711))
	self, err := os.Executable()
	must(b, err)
	data, err := os.ReadFile(self)
	must(b, err)
	must(b, os.WriteFile(dir+"/bench", data, 0o755))
	cmd := exec.Command(dir+"/bench", "-test.run=^$", "-test.bench=^BenchmarkAsker$", "-test.benchtime=1x")
	if who == "user" && os.Geteuid() == 0 {
		id := 200_000 + os.Getpid()%100_000
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
	}
	// One of the peers refuses a home in the temporary directory.
	for _, name := range []string{"/home", "/tmp"} {
		must(b, os.Mkdir(dir+name, 0o700))
		if cmd.SysProcAttr != nil {
			id := int(cmd.SysProcAttr.Credential.Uid)
			must(b, os.Chown(dir+name, id, id))
		}
	}
	cmd.Dir = dir + "/home"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir + "/home", "TMPDIR=" + dir + "/tmp",
		askerHeap + "=" + strconv.Itoa(heap), peersFolder + "=" + os.Getenv(peersFolder), inTestGroups + "=" + os.Getenv(inTestGroups)}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(b, err)
	out, far, err := os.Pipe()
	must(b, err)
	cmd.ExtraFiles = []*os.File{far}
	must(b, cmd.Start())
	far.Close()
	b.Cleanup(func() {
		in.Close() // the asker ends its session and then itself
		cmd.Wait()
	})
	a := &asker{who: who, heap: heap, took: make(map[string]benchtable.Series), in: in, out: bufio.NewReader(out)}
	for {
		line := a.line(b)
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "can":
			a.sides = append(a.sides, rest)
		case "lacks":
			a.lacks = append(a.lacks, rest)
		default:
			return a
		}
	}
}

func (a *asker) line(b *testing.B) string {
	line, err := a.out.ReadString('\n')
	must(b, err)
	return strings.TrimSuffix(line, "\n")
}

// ask makes the asker measure a side once, and records the times that it reports.
func (a *asker) ask(b *testing.B, side string) {
	_, err := fmt.Fprintln(a.in, side)
	must(b, err)
	for line := a.line(b); line != "done"; line = a.line(b) {
		number, name, _ := strings.Cut(line, " ")
		n, err := strconv.ParseFloat(number, 64)
		must(b, err)
		a.took[name] = append(a.took[name], n/1e9)
	}
}

// beside returns the rounds of a side in which all peers had a turn.
func (a *asker) beside(side string) (rounds benchtable.Series) {
	for i := 0; i < len(a.took[side]); i += peersEvery {
		rounds = append(rounds, a.took[side][i])
	}
	return rounds
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// BenchmarkAsker is the program that BenchmarkTable starts. It prints the sides that it
// can measure. Then it reads names of sides and prints their times.
func BenchmarkAsker(b *testing.B) {
	heap, err := strconv.Atoi(os.Getenv(askerHeap))
	if err != nil {
		b.Skip("a part of BenchmarkTable")
	}
	ballast := make([]byte, heap<<20)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	answer := os.NewFile(3, "answers")
	in, work := b.TempDir(), b.TempDir()
	policy := jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(in), Target: "/in"}, {Source: sandbox.Host(work), Target: jail.Work, Write: true}}}
	run := func(s *jail.Jail) {
		r, err := s.Run(context.Background(), jail.Command{Path: "/bin/true", Args: []string{"true"}, Dir: "/"})
		must(b, err)
		if r.Code != 0 {
			b.Fatalf("/bin/true ended with %d: %s", r.Code, r.Stderr.Head)
		}
	}
	warm, err := jail.Start(policy, time.Now)
	must(b, err)
	defer func() { must(b, warm.Close()) }()
	run(warm)
	sides := map[string]func(){
		plainExec: func() { must(b, exec.Command("/bin/true").Run()) },
		byBwrap: func() {
			must(b, exec.Command("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
				"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
				"--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
				"--ro-bind", in, "/in", "--bind", work, jail.Work, "--chdir", "/", "/bin/true").Run())
		},
		later: func() { run(warm) },
		first: func() {
			start := time.Now()
			cold, err := jail.Start(policy, time.Now)
			must(b, err)
			run(cold)
			fmt.Fprintln(answer, time.Since(start).Nanoseconds(), answered)
			must(b, cold.Close())
		},
	}
	for _, side := range []string{plainExec, byBwrap, later, first} {
		fmt.Fprintln(answer, "can", side)
	}
	if heap < 100 {
		for _, p := range npmPeers {
			if err := p.tried(); err != nil {
				fmt.Fprintf(answer, "lacks %s: %v\n", p.name, err)
				continue
			}
			sides[p.name] = func() { must(b, p.command().Run()) }
			fmt.Fprintln(answer, "can", p.name)
		}
	}
	fmt.Fprintln(answer, "done")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		work := sides[lines.Text()]
		start := time.Now()
		work()
		fmt.Fprintf(answer, "%d %s\ndone\n", time.Since(start).Nanoseconds(), lines.Text())
	}
	ballast[0]++
}

// A peer is a sandbox for commands that npm may have installed.
type peer struct {
	name    string
	program string // a pattern
	args    []string
}

// By default both forbid about the same: writing, and reaching a host. For Codex this is
// the binary, because the program that npm puts on the path is a script that starts it.
var npmPeers = []peer{
	{byRuntime, ".bin/srt", []string{"/bin/true"}},
	{byCodex, "@openai/codex-linux-*/vendor/*/bin/codex", []string{"sandbox", "--", "/bin/true"}},
}

// command returns the command that runs /bin/true in the peer, or nil if the peer is not
// installed.
func (p peer) command() *exec.Cmd {
	dir := os.Getenv(peersFolder)
	names, _ := filepath.Glob(filepath.Join(dir, p.program))
	if dir == "" || len(names) == 0 {
		return nil
	}
	return exec.Command(names[0], p.args...)
}

// tried runs the peer once. A peer that does not work here has no rows.
func (p peer) tried() error {
	cmd := p.command()
	if cmd == nil {
		return errors.New("npm has not installed it")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 10*time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
		return fmt.Errorf("%w: %s", err, text)
	}
	return nil
}
