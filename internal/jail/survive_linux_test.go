package jail_test

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A ground is a directory with many files, a place for overlays, and a command that
// changes the directory.
type ground struct {
	t            *testing.T
	work, layers string
	copy         string // a copy of the directory before the command
	line         string
	was, becomes string // the directory before and after, as describeDir prints it
	exact        string // before, with the times of files
	took         time.Duration
}

// newGround makes a directory with a number of files.
func newGround(t *testing.T, files int) *ground {
	t.Helper()
	g := &ground{t: t, work: t.TempDir(), copy: t.TempDir(), layers: t.TempDir()}
	all := strconv.Itoa(files - 1)
	fill := "umask 022; mkdir -p t sub/deep empty; for i in $(seq 0 " + all + "); do echo old $i > t/$i; done; echo x > sub/deep/f; ln -s t/0 link; chmod 2775 empty"
	g.line = "umask 022; for i in $(seq 0 4 " + all + "); do echo new $i > t/$i; done; for i in $(seq 2 4 " + all + "); do echo more > t/n$i; done; " +
		"rm $(seq -f t/%.0f 1 4 " + all + "); chmod 600 $(seq -f t/%.0f 3 4 " + all + "); rm -r sub; mkdir -p new/deep; echo x > new/deep/f; rm link; ln -s t/3 link; chmod 00700 empty"
	plain := t.TempDir()
	sh(t, g.copy, fill)
	for _, dir := range []string{g.work, plain} {
		sh(t, g.copy, "cp -a . "+dir)
	}
	sh(t, plain, g.line+"; chmod 2700 empty") // a command cannot change special mode bits
	g.was, g.exact, g.becomes = describeDir(t, g.work, false), describeDir(t, g.work, true), describeDir(t, plain, false)
	return g
}

func sh(t *testing.T, dir, line string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%.100s: %v\n%s", line, err, out)
	}
}

// describeDir describes the content of a directory, with the times of its files if times is
// true.
func describeDir(t *testing.T, dir string, times bool) string {
	t.Helper()
	var b strings.Builder
	check(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		content := ""
		switch {
		case d.Type().IsRegular():
			data, err := os.ReadFile(name)
			check(t, err)
			content = string(data)
		case d.Type()&fs.ModeSymlink != 0:
			content, _ = os.Readlink(name)
		}
		var attrs [1024]byte
		n, _ := unix.Llistxattr(name, attrs[:])
		fmt.Fprintf(&b, "%s %o %q %q", strings.TrimPrefix(name, dir), st.Mode, content, attrs[:max(n, 0)])
		if times && !d.IsDir() {
			fmt.Fprint(&b, " ", st.Mtim.Nano())
		}
		b.WriteByte('\n')
		return nil
	}))
	return b.String()
}

// session starts a session for the directory.
func (g *ground) session() *jail.Jail {
	g.t.Helper()
	s, err := sessionOver(g.work, g.layers)
	check(g.t, err)
	return s
}

func sessionOver(work, layers string) (*jail.Jail, error) {
	return jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(work), Target: jail.Work, Write: true}}, Recorder: changes.Recorder{Dir: sandbox.Host(layers)}, Least: jail.Namespaces}, time.Now)
}

// runCommand runs the command.
func (g *ground) runCommand(s *jail.Jail) *changes.Transaction {
	g.t.Helper()
	r, err := changes.Finish(s.Run(context.Background(), jail.Shell(g.line)))
	if err != nil || r.Changed == nil || r.Code != 0 || len(r.Changed.Clash) > 0 {
		g.t.Fatalf("%+v, %v", r, err)
	}
	return r.Changed
}

// recover does the recovery of the next golem.
func (g *ground) recover() {
	g.t.Helper()
	if _, err := changes.Recover(sandbox.Host(g.layers)); err != nil {
		g.t.Fatal(err)
	}
}

// checkState checks that the directory is in its old or its new state, and returns which.
func (g *ground) checkState(when string) (landed bool) {
	g.t.Helper()
	got := describeDir(g.t, g.work, false)
	switch got {
	case g.becomes:
		return true
	case g.was:
		return false
	}
	g.t.Fatalf("%s: the directory is neither old nor new: %s", when, listDifferences(got, g.was, g.becomes))
	return false
}

// listDifferences returns some lines that are in one text and in none of the others.
func listDifferences(got, was, becomes string) string {
	known := make(map[string]string)
	for line := range strings.Lines(was) {
		known[line] += "old "
	}
	for line := range strings.Lines(becomes) {
		known[line] += "new "
	}
	count := make(map[string]int)
	var odd []string
	for line := range strings.Lines(got) {
		count[known[line]]++
		if known[line] == "" {
			odd = append(odd, line)
		}
	}
	return fmt.Sprintf("%v, and %.300q", count, odd)
}

// undo undoes the applied changes, and checks that everything is as before.
func (g *ground) undo(when string) {
	g.t.Helper()
	last, err := changes.Last(sandbox.Host(g.layers))
	if err != nil {
		g.t.Fatalf("%s: undo: %v", when, err)
	}
	if clash, err := last.Undo(nil); err != nil || clash != nil {
		g.t.Fatalf("%s: undo: %v, %v", when, clash, err)
	}
	g.checkRestored(when + ", undone")
}

// checkRestored checks that everything is as before, to the byte.
func (g *ground) checkRestored(when string) {
	g.t.Helper()
	if got := describeDir(g.t, g.work, true); got != g.exact {
		g.t.Fatalf("%s: the directory is not restored: %s", when, listDifferences(got, g.exact, ""))
	}
}

// checkClean checks that nothing is left in the directory for overlays.
func (g *ground) checkClean(when string) {
	g.t.Helper()
	for end := time.Now().Add(hang); ; {
		left, err := os.ReadDir(g.layers)
		check(g.t, err)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			g.t.Fatalf("%s: got leftovers %v", when, left)
		}
		time.Sleep(10 * time.Millisecond) // processes that are just ending still hold files there
		g.recover()
	}
}

// pidOf returns the newest process of this program with a word, or 0. It belongs to this
// test, because only this test has this copy of the program, or this user.
func pidOf(word string) int {
	self, _ := os.Readlink("/proc/self/exe")
	newest, found := "", 0
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		cmdline, _ := os.ReadFile(dir + "/cmdline")
		if string(cmdline) != "golem\x00"+word+"\x00" {
			continue
		}
		status, _ := os.ReadFile(dir + "/status")
		if !strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", os.Getuid())) || strings.Contains(string(status), "\nState:\tZ") {
			continue
		}
		if exe, err := os.Readlink(dir + "/exe"); err == nil && exe != self {
			continue
		}
		stat, _ := os.ReadFile(dir + "/stat")
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 20 || len(fields[19]) < len(newest) || len(fields[19]) == len(newest) && fields[19] < newest {
			continue
		}
		newest = fields[19]
		found, _ = strconv.Atoi(filepath.Base(dir))
	}
	return found
}

// landerEnv is the environment variable that makes this program a golem that applies the
// changes of a command, or undoes them. It waits for a word first.
const landerEnv = "GOLEM_TEST_LANDER"

// TestLander runs in the golem that the tests kill.
func TestLander(t *testing.T) {
	args := strings.Split(os.Getenv(landerEnv), "\x1f")
	if len(args) != 4 {
		return
	}
	do, work, layers, line := args[0], args[1], args[2], args[3]
	wait := func() {
		fmt.Println("ready")
		os.Stdin.Read(make([]byte, 1))
	}
	fail := func(err any) {
		fmt.Println("failed:", err)
		os.Exit(0)
	}
	switch do {
	case "land":
		s, err := sessionOver(work, layers)
		if err != nil {
			fail(err)
		}
		r, err := changes.Finish(s.Run(context.Background(), jail.Shell(line)))
		if err != nil {
			fail(err)
		}
		wait()
		if clash, err := r.Changed.Apply(nil); err != nil || clash != nil {
			fail(fmt.Sprint(clash, err))
		}
	case "undo":
		last, err := changes.Last(sandbox.Host(layers))
		if err != nil {
			fail(err)
		}
		wait()
		if clash, err := last.Undo(nil); err != nil || clash != nil {
			fail(fmt.Sprint(clash, err))
		}
	case "recover":
		wait()
		if _, err := changes.Recover(sandbox.Host(layers)); err != nil {
			fail(err)
		}
	}
	fmt.Println("done")
	os.Exit(0)
}

// An applier is a golem in its own process.
type applier struct {
	*exec.Cmd
	lines *bufio.Reader
	begin func()
}

// lander starts an applier and waits until it is ready.
func (g *ground) lander(do string) *applier {
	g.t.Helper()
	l := &applier{Cmd: exec.Command("/proc/self/exe", "-test.run=^TestLander$")}
	l.Env = append(os.Environ(), landerEnv+"="+strings.Join([]string{do, g.work, g.layers, g.line}, "\x1f"))
	out, err := l.StdoutPipe()
	check(g.t, err)
	in, err := l.StdinPipe()
	check(g.t, err)
	l.lines, l.begin = bufio.NewReader(out), func() { in.Write([]byte{'\n'}) }
	check(g.t, l.Start())
	g.t.Cleanup(func() { l.Process.Kill(); l.Wait() })
	if line, err := l.lines.ReadString('\n'); line != "ready\n" {
		rest, _ := l.lines.ReadString(0)
		g.t.Fatalf("%s: %q %v %s", do, line, err, rest)
	}
	return l
}

// end waits until it has ended, and returns its last line.
func (l *applier) end() string {
	said, _ := l.lines.ReadString('\n')
	l.Wait()
	return strings.TrimSpace(said)
}

func kill(pid int) {
	if pid > 1 {
		unix.Kill(pid, unix.SIGKILL)
	}
}

// waitUntilGone waits until killed processes have ended. Until then they hold their locks. A process
// whose first thread has ended is a zombie, but holds them until its last thread has ended.
func waitUntilGone(pids ...int) {
	for _, pid := range pids {
		for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			dir := fmt.Sprintf("/proc/%d/", pid)
			status, err := os.ReadFile(dir + "status")
			threads, _ := os.ReadDir(dir + "task")
			if err != nil || len(threads) <= 1 && strings.Contains(string(status), "\nState:\tZ") {
				break
			}
		}
	}
}

// waitUntilSwept waits until the remains of the killed processes are gone. The next session
// removes their control groups.
func (g *ground) waitUntilSwept() {
	g.t.Helper()
	if os.Geteuid() != 0 {
		return // an ordinary user has no control groups
	}
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		check(g.t, g.session().Close())
		if left, _ := filepath.Glob(os.Getenv(inTestGroups) + "/golem-session-*"); len(left) == 0 {
			return
		}
	}
	g.t.Error("control groups still exist")
}

// measure applies and undoes once, and records how long that takes.
func (g *ground) measure() {
	g.t.Helper()
	s := g.session()
	defer s.Close()
	t := g.runCommand(s)
	began := time.Now()
	if clash, err := t.Apply(nil); err != nil || clash != nil {
		g.t.Fatal(clash, err)
	}
	g.took = time.Since(began)
	if !g.checkState("landed") {
		g.t.Fatal("the change was not applied")
	}
	g.undo("landed")
}

// TestSurvivesKills kills golem, the holder, the cell, or all of them at any moment while
// golem applies changes, undoes them, or recovers. After the next golem has started, the
// directory must be in its old or its new state, to the byte. Applied changes can be
// undone, and nothing is left.
func TestSurvivesKills(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		g, seen := newGround(t, 200), make(map[string]int)
		g.measure()
		for i := range testutil.Rounds(16) {
			g.killOnce(i, seen)
		}
		g.waitUntilSwept()
		t.Logf("kills: %v; an apply takes %v", seen, g.took)
	})
}

// killOnce runs one round.
func (g *ground) killOnce(i int, seen map[string]int) {
	g.t.Helper()
	victim := []string{"golem", "holder", "all", "cell"}[i%4]
	moment := rand.N(g.took * 5 / 4)
	when := fmt.Sprintf("round %d, %s after %v of %v", i, victim, moment, g.took)
	l := g.lander("land")
	holder, cell := pidOf("jail-hold"), pidOf("jail-cell")
	if holder == 0 || cell == 0 {
		g.t.Fatal("no holder, or no cell")
	}
	l.begin()
	time.Sleep(moment)
	pids := map[string][]int{"golem": {l.Process.Pid}, "holder": {holder}, "cell": {cell}, "all": {holder, cell, l.Process.Pid}}[victim]
	for _, pid := range pids {
		kill(pid)
	}
	said := l.end()
	waitUntilGone(pids...)
	if victim == "holder" || victim == "cell" {
		// golem still runs, and its report must be right.
		if landed := g.checkState(when + ", golem says " + said); landed != (said == "done") {
			g.t.Fatalf("%s: golem reports %s, applied: %v", when, said, landed)
		}
	}
	// The next golem may be killed as well.
	if victim != "cell" && rand.N(3) == 0 {
		again := g.lander("recover")
		again.begin()
		time.Sleep(rand.N(g.took))
		holder := pidOf("jail-hold")
		kill(holder)
		if rand.N(2) == 0 {
			again.Process.Kill()
		}
		again.end()
		waitUntilGone(holder)
	}
	g.recover()
	landed := g.checkState(when)
	seen[fmt.Sprint(victim, " ", landed)]++
	if landed {
		g.undoAndKill(when, seen)
	}
	g.checkRestored(when)
	g.checkClean(when)
}

// undoAndKill undoes the changes. In half of the cases a process is killed during the undo.
func (g *ground) undoAndKill(when string, seen map[string]int) {
	g.t.Helper()
	if rand.N(2) == 0 {
		g.undo(when)
		return
	}
	l := g.lander("undo")
	l.begin()
	time.Sleep(rand.N(g.took * 2))
	holder := pidOf("jail-hold")
	victim := []string{"golem", "holder", "both"}[rand.N(3)]
	if victim != "golem" {
		kill(holder)
	}
	if victim != "holder" {
		l.Process.Kill()
	}
	said := l.end()
	waitUntilGone(holder)
	g.recover()
	landed := g.checkState(fmt.Sprintf("%s, undoing with %s killed: %s", when, victim, said))
	seen[fmt.Sprint("undo ", victim, " ", landed)]++
	if landed {
		g.undo(when)
	}
}
