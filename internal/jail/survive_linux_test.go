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
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A ground is a folder with many files, a place for layers, and a command that
// changes the folder.
type ground struct {
	t            *testing.T
	work, layers string
	copy         string // of the folder, as it was
	line         string
	was, becomes string // the folder before and after, as look tells it
	exact        string // before, with the times of files
	took         time.Duration
}

// newGround makes a folder of so many files.
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
	sh(t, plain, g.line+"; chmod 2700 empty") // special bits are not the command's to change
	g.was, g.exact, g.becomes = look(t, g.work, false), look(t, g.work, true), look(t, plain, false)
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

// look tells all about what is in a folder, and when its files were written.
func look(t *testing.T, dir string, times bool) string {
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

// session starts one over the folder.
func (g *ground) session() *jail.Session {
	g.t.Helper()
	s, err := sessionOver(g.work, g.layers)
	check(g.t, err)
	return s
}

func sessionOver(work, layers string) (*jail.Session, error) {
	return jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(work), Target: jail.Work, Write: true}}, Layers: sandbox.Host(layers), Least: jail.Namespaces}, time.Now)
}

// ran runs the command.
func (g *ground) ran(s *jail.Session) *jail.Transaction {
	g.t.Helper()
	r, err := s.Run(context.Background(), jail.Shell(g.line))
	if err != nil || r.Changed == nil || r.Code != 0 || len(r.Changed.Clash) > 0 {
		g.t.Fatalf("%+v, %v", r, err)
	}
	return r.Changed
}

// recover is the next golem.
func (g *ground) recover() {
	g.t.Helper()
	if _, err := jail.Recover(sandbox.Host(g.layers), time.Now); err != nil {
		g.t.Fatal(err)
	}
}

// is checks that the folder is what it was or what it was to be, and says which.
func (g *ground) is(when string) (landed bool) {
	g.t.Helper()
	got := look(g.t, g.work, false)
	switch got {
	case g.becomes:
		return true
	case g.was:
		return false
	}
	g.t.Fatalf("%s: the folder is neither old nor new: %s", when, differing(got, g.was, g.becomes))
	return false
}

// differing shows some lines that are in one and in none of the others.
func differing(got, was, becomes string) string {
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

// undo takes back what has landed, and checks that all is as it was.
func (g *ground) undo(when string) {
	g.t.Helper()
	last, err := jail.Last(sandbox.Host(g.layers))
	if err != nil {
		g.t.Fatalf("%s: undo: %v", when, err)
	}
	if clash, err := last.Undo(time.Now); err != nil || clash != nil {
		g.t.Fatalf("%s: undo: %v, %v", when, clash, err)
	}
	g.old(when + ", undone")
}

// old checks that all is as it was, to the byte.
func (g *ground) old(when string) {
	g.t.Helper()
	if got := look(g.t, g.work, true); got != g.exact {
		g.t.Fatalf("%s: it is not as it was: %s", when, differing(got, g.exact, ""))
	}
}

// clean checks that nothing is left where layers are kept.
func (g *ground) clean(when string) {
	g.t.Helper()
	left, err := os.ReadDir(g.layers)
	check(g.t, err)
	if len(left) > 0 {
		g.t.Fatalf("%s: left are %v", when, left)
	}
}

// pidOf returns the newest process of this program with a word, 0 for none. It is
// of this test: the program is a copy that only it has, or the user is.
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

// landerEnv makes this program a golem that runs a command and lands it, or undoes
// what has landed: it waits for a word before.
const landerEnv = "GOLEM_TEST_LANDER"

// TestLander is that golem.
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
		r, err := s.Run(context.Background(), jail.Shell(line))
		if err != nil {
			fail(err)
		}
		wait()
		if clash, err := r.Changed.Land(nil); err != nil || clash != nil {
			fail(fmt.Sprint(clash, err))
		}
	case "undo":
		last, err := jail.Last(sandbox.Host(layers))
		if err != nil {
			fail(err)
		}
		wait()
		if clash, err := last.Undo(time.Now); err != nil || clash != nil {
			fail(fmt.Sprint(clash, err))
		}
	case "recover":
		wait()
		if _, err := jail.Recover(sandbox.Host(layers), time.Now); err != nil {
			fail(err)
		}
	}
	fmt.Println("done")
	os.Exit(0)
}

// A lander is a golem in a process of its own.
type lander struct {
	*exec.Cmd
	lines *bufio.Reader
	begin func()
}

// lander starts one, which is ready.
func (g *ground) lander(do string) *lander {
	g.t.Helper()
	l := &lander{Cmd: exec.Command("/proc/self/exe", "-test.run=^TestLander$")}
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

// end waits for its end, and returns what it said last.
func (l *lander) end() string {
	said, _ := l.lines.ReadString('\n')
	l.Wait()
	return strings.TrimSpace(said)
}

func kill(pid int) {
	if pid > 1 {
		unix.Kill(pid, unix.SIGKILL)
	}
}

// measure lands and undoes once, and remembers how long that takes.
func (g *ground) measure() {
	g.t.Helper()
	s := g.session()
	defer s.Close()
	t := g.ran(s)
	began := time.Now()
	if clash, err := t.Land(nil); err != nil || clash != nil {
		g.t.Fatal(clash, err)
	}
	g.took = time.Since(began)
	if !g.is("landed") {
		g.t.Fatal("it has not landed")
	}
	g.undo("landed")
}

// TestSurvivesKills kills golem, the holder, the cell, or all of them at any moment
// of a landing, of an undo and of what carries on with them. When the next golem has
// come the folder is what it was or what it was to be, to the byte; what has landed
// can be undone, and nothing is left.
func TestSurvivesKills(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		few := newGround(t, 300)
		few.measure()
		seen := make(map[string]int)
		for i := range 100 {
			few.killed(i, seen)
		}
		if !m.user {
			many := newGround(t, 10_000)
			many.measure()
			for i := range 4 {
				many.killed(i, seen)
			}
		}
		t.Logf("%v landing takes %v", seen, few.took)
	})
}

// killed is one round.
func (g *ground) killed(i int, seen map[string]int) {
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
	if victim == "holder" || victim == "cell" {
		// Golem lives, and knows what it says.
		if landed := g.is(when + ", golem says " + said); landed != (said == "done") {
			g.t.Fatalf("%s: golem says %s, and that it has landed is %v", when, said, landed)
		}
	}
	// The next golem may be killed as well.
	if victim != "cell" && rand.N(3) == 0 {
		again := g.lander("recover")
		again.begin()
		time.Sleep(rand.N(g.took))
		kill(pidOf("jail-hold"))
		if rand.N(2) == 0 {
			again.Process.Kill()
		}
		again.end()
	}
	g.recover()
	landed := g.is(when)
	seen[fmt.Sprint(victim, " ", landed)]++
	if landed {
		g.undone(when, seen)
	}
	g.old(when)
	g.clean(when)
}

// undone undoes, and is killed meanwhile.
func (g *ground) undone(when string, seen map[string]int) {
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
	g.recover()
	landed := g.is(fmt.Sprintf("%s, undoing with %s killed: %s", when, victim, said))
	seen[fmt.Sprint("undo ", victim, " ", landed)]++
	if landed {
		g.undo(when)
	}
}

// TestSurvivesOthers: where a golem is killed while it undoes, one that lives and
// lands something afterwards first undoes the rest.
func TestSurvivesOthers(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		g := newGround(t, 200)
		g.measure()
		s := g.session()
		defer s.Close()
		own, undone := pidOf("jail-hold"), 0
		for i := range 10 {
			if clash, err := g.ran(s).Land(nil); err != nil || clash != nil {
				t.Fatal(clash, err)
			}
			l := g.lander("undo")
			l.begin()
			time.Sleep(g.took * time.Duration(i) / 8)
			if its := pidOf("jail-hold"); its != own {
				kill(its)
			}
			l.Process.Kill()
			l.end()
			r, err := s.Run(context.Background(), jail.Shell("echo other > other"))
			check(t, err)
			if clash, err := r.Changed.Land(nil); err != nil || clash != nil {
				t.Fatal(clash, err)
			}
			check(t, os.Remove(g.work+"/other"))
			if g.is(fmt.Sprint("round ", i)) {
				sh(t, g.work, "rm -rf ./*")
				sh(t, g.copy, "cp -a . "+g.work)
			} else {
				undone++
				g.old(fmt.Sprint("round ", i))
			}
		}
		if undone == 0 || undone == 10 {
			t.Logf("%d of 10 were undone", undone)
		}
		check(t, s.Close())
		left, err := os.ReadDir(g.layers)
		if err != nil || len(left) != 2 { // the last, and its name
			t.Errorf("left are %v, %v", left, err)
		}
	})
}

// TestSurvivesEditors: what a user saves while commands run and land is never lost,
// saved in place or by a rename: a command whose changes would replace it lands
// nothing.
func TestSurvivesEditors(t *testing.T) {
	g := &ground{t: t, work: t.TempDir(), layers: t.TempDir()}
	const files = 6
	file := func(i int) string { return fmt.Sprintf("%s/f%d", g.work, i) }
	for i := range files {
		check(t, os.WriteFile(file(i), []byte("begin\n"), 0o644))
	}
	s := g.session()
	defer s.Close()
	run := func(line string) *jail.Transaction {
		t.Helper()
		r, err := s.Run(context.Background(), jail.Shell(line))
		if err != nil || r.Changed == nil {
			t.Fatalf("%v, %s", err, r.Stderr.Head)
		}
		return r.Changed
	}
	// One after the other: all that a user may do before it lands.
	for _, edit := range []string{
		"echo mine >> f0",
		"cp f0 .f0.swp; echo mine >> .f0.swp; mv .f0.swp f0",
		"mv f0 f0~; (cat f0~; echo mine) > f0; rm f0~",
		"mv f0 other; ln -s other f0",
		"rm f0",
		"rm f0; mkdir f0; echo mine > f0/mine",
		"chmod 600 f0",
		"rm f0; ln f1 f0",
	} {
		change := run("echo command >> f0; rm f1; echo new > n")
		sh(t, g.work, edit)
		mine := look(t, g.work, true)
		if clash, err := change.Land(nil); err != nil || len(clash) == 0 || clash[0] != "/work/f0" {
			t.Errorf("%s: %v, %v", edit, clash, err)
		}
		check(t, change.Drop())
		if got := look(t, g.work, true); got != mine {
			t.Errorf("%s: it became\n%s\nwas\n%s", edit, got, mine)
		}
		sh(t, g.work, "rm -rf f0 other; echo begin > f0")
	}
	// At once. A user who saves has looked at the file before.
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				done <- n
				return
			default:
			}
			name := file(n % files)
			data, err := os.ReadFile(name)
			if err == nil {
				err = os.WriteFile(name+".swp", fmt.Appendf(data, "user %d\n", n), 0o644)
			}
			if err == nil {
				err = os.Rename(name+".swp", name)
			}
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(rand.N(4000)) * time.Microsecond)
		}
	}()
	landed, clashed := 0, 0
	for i := range 60 {
		change := run(fmt.Sprintf("for f in f%d f%d; do echo command %d >> $f; done", i%files, rand.N(files), i))
		clash, err := change.Land(nil)
		check(t, err)
		if len(clash) > 0 {
			clashed++
			check(t, change.Drop())
		} else {
			landed++
		}
	}
	close(stop)
	edits := <-done
	text := look(t, g.work, false)
	for n := range edits {
		if !strings.Contains(text, fmt.Sprintf("\\nuser %d\\n", n)) {
			t.Errorf("edit %d is lost", n)
		}
	}
	if landed == 0 || clashed == 0 || edits < 20 {
		t.Errorf("%d landed, %d did not, %d edits: this test sees nothing", landed, clashed, edits)
	}
}

// inMounts runs the calling test once more where it may mount, and reports whether
// this is that run.
func inMounts(t *testing.T) bool {
	t.Helper()
	const variable = "GOLEM_TEST_MOUNTS"
	if os.Getenv(variable) != "" {
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// A disk is a small one.
type disk struct {
	t   *testing.T
	dir string
}

func newDisk(t *testing.T) disk {
	t.Helper()
	d := disk{t, t.TempDir()}
	check(t, unix.Mount("golem", d.dir, "tmpfs", 0, "size=64m,nr_inodes=100k"))
	t.Cleanup(func() { unix.Unmount(d.dir, unix.MNT_DETACH) })
	return d
}

// leave leaves room for so many pages and files, and no more.
func (d disk) leave(pages, files uint64) {
	d.t.Helper()
	var st unix.Statfs_t
	check(d.t, unix.Statfs(d.dir, &st))
	check(d.t, unix.Mount("golem", d.dir, "", unix.MS_REMOUNT, fmt.Sprintf("size=%d,nr_inodes=%d", (st.Blocks-st.Bfree+pages)*uint64(st.Bsize), st.Files-st.Ffree+files)))
}

const plenty = 10_000

// TestSurvivesFullDisk: where the disk is full at any step of a command, of its
// landing and of its undo, that is an error; the folder is as it was, or as it was to
// be. When there is room again all goes on.
func TestSurvivesFullDisk(t *testing.T) {
	if !inMounts(t) {
		return
	}
	both := newDisk(t)
	g := newGround(t, 40)
	g.on(both.dir, both.dir)
	landed, failed := 0, 0
	for room := range uint64(5) {
		for _, left := range [][2]uint64{{plenty, room}, {room, plenty}} {
			when := fmt.Sprintf("room for %d pages and %d files", left[0], left[1])
			s := g.session()
			change := g.ran(s)
			both.leave(left[0], left[1])
			clash, err := change.Land(nil)
			if is := g.is(when); clash != nil || is != (err == nil) {
				t.Errorf("%s: %v, %v, and that it has landed is %v", when, clash, err, is)
			}
			if err != nil {
				failed++
				check(t, change.Drop())
				g.old(when)
			} else {
				landed++
				last, err := jail.Last(sandbox.Host(g.layers))
				check(t, err)
				both.leave(min(left[0], room%3), min(left[1], room%3))
				clash, err := last.Undo(time.Now)
				if is := g.is(when + ", undo"); clash != nil || is != (err != nil) {
					t.Errorf("%s: undo: %v, %v, and that it has landed is %v", when, clash, err, is)
				}
				both.leave(plenty, plenty)
				if err != nil {
					g.undo(when)
				}
			}
			both.leave(plenty, plenty)
			check(t, s.Close())
			g.recover()
			g.old(when)
			g.clean(when)
		}
	}
	if landed == 0 || failed == 0 {
		t.Errorf("%d have landed and %d failed: this test sees nothing", landed, failed)
	}
	// A command that fills the disk itself.
	both.leave(64, plenty)
	s := g.session()
	r, err := s.Run(context.Background(), jail.Shell("head -c 10m /dev/zero > t/0; echo more > t/1; echo $?"))
	if err == nil && !strings.Contains(string(r.Stderr.Head), "No space left") {
		t.Errorf("printed %s, %s", r.Stdout.Head, r.Stderr.Head)
	}
	if r.Changed != nil {
		check(t, r.Changed.Drop())
	}
	both.leave(plenty, plenty)
	g.old("a full disk")
	if clash, err := g.ran(s).Land(nil); err != nil || clash != nil {
		t.Error(clash, err)
	}
	check(t, s.Close())
	g.undo("a full disk")
	g.clean("a full disk")

	// The folder's own disk.
	own := newDisk(t)
	g.on(own.dir, both.dir)
	s = g.session()
	defer s.Close()
	for room := range uint64(60) {
		when := fmt.Sprintf("room for %d pages and files in the folder", room)
		change := g.ran(s)
		own.leave(room, room)
		clash, err := change.Land(nil)
		own.leave(plenty, plenty)
		is := g.is(when)
		if clash != nil || is != (err == nil) {
			t.Errorf("%s: %v, %v, and that it has landed is %v", when, clash, err, is)
		}
		if is {
			if room == 0 {
				t.Error("all lands without room: this test sees nothing")
			}
			return
		}
		check(t, change.Drop())
		g.old(when)
	}
	t.Error("it does not land with room for 60 files")
}

// on puts the folder and the place for layers on other disks.
func (g *ground) on(work, layers string) {
	g.t.Helper()
	var err error
	g.work, err = os.MkdirTemp(work, "work")
	check(g.t, err)
	g.layers, err = os.MkdirTemp(layers, "layers")
	check(g.t, err)
	sh(g.t, g.copy, "cp -a . "+g.work)
}

// TestSurvivesKillsElsewhere kills golem and the holder where what lands is copied
// into the folder first: it is whole or not there, and nothing lies beside it.
func TestSurvivesKillsElsewhere(t *testing.T) {
	if !inMounts(t) {
		return
	}
	work, layers := newDisk(t), newDisk(t)
	g := newGround(t, 300)
	g.on(work.dir, layers.dir)
	s := g.session()
	began, change := time.Now(), g.ran(s)
	began = time.Now()
	if clash, err := change.Land(nil); err != nil || clash != nil {
		t.Fatal(clash, err)
	}
	took, landed := time.Since(began), 0
	check(t, s.Close())
	for i := range 12 {
		g.on(work.dir, layers.dir)
		l := g.lander("land")
		holder := pidOf("jail-hold")
		l.begin()
		time.Sleep(rand.N(took))
		kill(holder)
		l.Process.Kill()
		l.end()
		g.recover()
		if g.is(fmt.Sprint("round ", i)) {
			landed++
		} else {
			g.clean(fmt.Sprint("round ", i))
		}
		check(t, os.RemoveAll(g.work))
	}
	t.Logf("%d of 12 have landed", landed)
}

// TestManyNames: as many names as there may be are left out, and told, where they do
// not fit into a message.
func TestManyNames(t *testing.T) {
	g := &ground{t: t, work: t.TempDir(), layers: t.TempDir()}
	s := g.session()
	defer s.Close()
	const names = 4500
	long := strings.Repeat("n", 240)
	r, err := s.Run(context.Background(), jail.Shell(fmt.Sprintf("for i in $(seq %d); do : > %s$i; done; mkdir d; : > d/left; : > d/f", names, long)))
	check(t, err)
	dropped, all := []string{"/work/d/left"}, fmt.Sprintf("seq -f %s%%.0f %d | xargs ", long, names)
	for i := range names {
		dropped = append(dropped, fmt.Sprintf("/work/%s%d", long, i+1))
	}
	sh(t, g.work, all+"touch")
	if clash, err := r.Changed.Land(nil); err != nil || len(clash) != names {
		t.Errorf("%d names, %v", len(clash), err)
	}
	sh(t, g.work, all+"rm")
	if clash, err := r.Changed.Land(dropped); err != nil || clash != nil {
		t.Fatal(len(clash), err)
	}
	if got := look(t, g.work, false); got != "/d 40755 \"\" \"\"\n/d/f 100644 \"\" \"\"\n" {
		t.Errorf("landed %d bytes: %.200s", len(got), got)
	}
	last, err := jail.Last(sandbox.Host(g.layers))
	if err != nil || len(last.Changes) != 2 {
		t.Errorf("%d changes can be undone, %v", len(last.Changes), err)
	}
}
