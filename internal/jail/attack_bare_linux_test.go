package jail_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/golem-forge/golem/internal/jail"
	"golang.org/x/sys/unix"
)

// levelEnv is the environment variable with the level of a process that attacks.
const levelEnv = "JAIL_LEVEL"

// levelHere returns the level at which this process attacks.
func levelHere() jail.Level {
	for _, l := range []jail.Level{jail.Landlock, jail.Container} {
		if os.Getenv(levelEnv) == l.String() {
			return l
		}
	}
	return jail.Namespaces
}

// TestAttacksBare runs the attacks at the level landlock, as root and as a user, in
// processes that cannot make namespaces.
func TestAttacksBare(t *testing.T) {
	if os.Geteuid() != 0 {
		runAttacks(t, os.Geteuid(), jail.Landlock)
		return
	}
	for name, id := range map[string]int{"root": 0, "user": 300_000 + os.Getpid()%100_000} {
		t.Run(name, func(t *testing.T) { runAttacks(t, id, jail.Landlock) })
	}
}

// runAt runs a command and returns its output. For the level landlock, the thread that
// starts the command cannot make user namespaces, and neither can its child processes.
// Root keeps its privileges, so that the jail itself must remove them.
func runAt(cmd *exec.Cmd, level jail.Level) (out []byte, err error) {
	if level != jail.Landlock {
		return cmd.CombinedOutput()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		if os.Geteuid() != 0 {
			if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				return
			}
		}
		if err = refuseOnThread(); err == nil {
			out, err = cmd.CombinedOutput()
		}
	}()
	<-done
	return out, err
}

// lostBare returns the attacks that are not tried at the level landlock, each with the
// sentence of Loses that covers it.
func lostBare() map[string]string {
	return map[string]string{
		"no host path is told":       "commands see the host's paths, the names, sizes, times and link targets of files that they cannot open, and the host's passwd and hostname",
		"mounts below what is shown": "nothing can be hidden inside a directory that commands see",
	}
}

func (y *attackEnv) bare() bool { return y.level == jail.Landlock }

// names replaces the names of directories in the jail with paths of the host, as commands
// without their own tree see them.
func (y *attackEnv) names(text string) string {
	targets := regexp.MustCompile(`(^|[^\w/.])/(?:in|work|probe|s)\b`)
	return targets.ReplaceAllStringFunc(text, func(found string) string {
		before, name, _ := strings.Cut(found, "/")
		for _, m := range y.policy.Mounts {
			if m.Target == "/"+name {
				return before + string(m.Source)
			}
		}
		return found
	})
}

// temp returns the directory that commands use as /tmp.
func (y *attackEnv) temp() string {
	y.t.Helper()
	name := strings.TrimSpace(y.sh("echo $TMPDIR"))
	var st unix.Stat_t
	check(y.t, unix.Lstat(name, &st))
	if st.Mode != unix.S_IFDIR|0o700 || int(st.Uid) != os.Geteuid() || strings.HasPrefix(name, y.host) {
		y.t.Errorf("the temporary directory %s is %o of %d", name, st.Mode, st.Uid)
	}
	return name
}

// newTerminal makes a terminal, and returns its name.
func newTerminal(t *testing.T) string {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	check(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	check(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	check(t, err)
	return fmt.Sprintf("/dev/pts/%d", n)
}

// bareAttacks returns attacks on things that a namespace would isolate. They are tried at
// both levels.
func bareAttacks() []attack {
	return []attack{
		{"S17 what processes of a user share", func(t *testing.T, y *attackEnv) {
			other := exec.Command("sleep", "1000")
			check(t, other.Start())
			defer other.Wait()
			defer other.Process.Kill()
			pid := strconv.Itoa(other.Process.Pid)
			before := scheduling(t, other.Process.Pid)
			_, out := y.probe("others", pid)
			if y.bare() {
				y.answers(out, 30, "EPERM")
			}
			if after := scheduling(t, other.Process.Pid); after != before {
				t.Errorf("the other process was %s, is %s", before, after)
			}
		}},
		{"what a file is besides its content", func(t *testing.T, y *attackEnv) {
			_, out := y.probe("attributes", "/in/sub/file", y.outside+"/.netrc")
			places := strings.Count(out, "place done\n")
			out = strings.ReplaceAll(out, "place done\n", "place ENOENT\n")
			y.answers(out, 2*39, "EPERM", "EACCES", "EROFS", "EXDEV", "ENOENT", "EBADF", "EINVAL", "EFAULT", "ENOTTY")
			if y.bare() && places != 2 {
				t.Errorf("%d files were found, want 2", places)
			}
		}},
	}
}

// scheduling describes the CPU set, the priority and a limit of a process.
func scheduling(t *testing.T, pid int) string {
	t.Helper()
	var set unix.CPUSet
	check(t, unix.SchedGetaffinity(pid, &set))
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	check(t, err)
	var files unix.Rlimit
	check(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &files))
	return fmt.Sprint(set.Count(), nice, files)
}

// endTheCell sends signals to all threads of the cell, to the holder and to golem, in
// every possible way.
func endTheCell(t *testing.T, y *attackEnv) {
	cell, err := strconv.Atoi(strings.TrimSpace(y.sh("echo $PPID")))
	check(t, err)
	holder, err := strconv.Atoi(statusOf(t, cell, "PPid"))
	check(t, err)
	threads := func(pid int) (list []string) {
		names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, name := range names {
			list = append(list, filepath.Base(name))
		}
		slices.Sort(list)
		return slices.Compact(append([]string{strconv.Itoa(pid)}, list...))
	}
	if len(threads(cell)) < 3 {
		t.Fatalf("the cell %d has the threads %v", cell, threads(cell))
	}
	for _, pid := range []int{cell, holder} {
		_, out := y.probe("signals", threads(pid)...)
		y.is(out, "tried\n")
	}
	for _, signal := range []string{"TERM", "SEGV", "QUIT", "INT", "STOP", "KILL", "34"} {
		y.is(y.sh("for p in %d %d %d -%d -%d -1; do kill -%s -- $p; done 2>/dev/null; echo still", cell, holder, os.Getpid(), cell, holder, signal), "still\n")
	}
	if got := strings.TrimSpace(y.sh("echo $PPID")); got != strconv.Itoa(cell) {
		t.Errorf("the cell was %d, is %s", cell, got)
	}
	if got := statusOf(t, cell, "State"); !strings.HasPrefix(got, "S") && !strings.HasPrefix(got, "R") {
		t.Errorf("the cell is in the state %s", got)
	}
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	check(t, err)
	for _, pid := range []int{cell, holder} {
		if nice, err := unix.Getpriority(unix.PRIO_PROCESS, pid); err != nil || nice != own {
			t.Errorf("the priority of %d is %d, %v, want %d", pid, nice, err, own)
		}
	}
}

// statusOf returns a field of /proc/PID/status.
func statusOf(t *testing.T, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(t, err)
	_, rest, _ := strings.Cut(string(text), "\n"+name+":\t")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// twoAtOnceBare runs two commands that see the host's processes. One cannot signal the
// other, nor read its temporary directory.
func twoAtOnceBare(t *testing.T, y *attackEnv) {
	done := make(chan jail.Result)
	go func() {
		r, _ := y.session.Run(context.Background(), jail.Shell(`echo `+y.canary+` > $TMPDIR/secret; echo $$ $TMPDIR > told.new; mv told.new told; while [ ! -e end ]; do sleep 0.01; done; echo lived`))
		done <- r
	}()
	var told []string
	waitFor(t, "the other has started", func() bool {
		text, _ := os.ReadFile(y.work + "/told")
		told = strings.Fields(string(text))
		return len(told) == 2
	})
	if t.Failed() {
		t.FailNow()
	}
	y.is(y.sh(`(kill -9 %[1]s || kill -9 -- -%[1]s || kill -0 %[1]s || cat %[2]s/secret || ls %[2]s || echo x > %[2]s/new || rm -rf %[2]s) 2>/dev/null || kill -9 -1 2>/dev/null; true`, told[0], told[1]), "")
	y.sh("echo > end")
	select {
	case r := <-done:
		y.is(string(r.Stdout.Head), "lived\n")
	case <-time.After(time.Minute):
		t.Fatal("the other has not ended")
	}
}

// refuseOnThread installs a filter on the calling thread that refuses user namespaces, as
// in containers.
func refuseOnThread() error {
	const allow, refuse, missing = 0x7fff0000, 0x00050000 | uint32(unix.EPERM), 0x00050000 | uint32(unix.ENOSYS)
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the system call number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 5, K: unix.SYS_CLONE3},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_CLONE},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 2, K: unix.SYS_UNSHARE},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}, // the flags of the call
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: 2, K: unix.CLONE_NEWUSER},
		{Code: unix.BPF_RET | unix.BPF_K, K: allow},
		{Code: unix.BPF_RET | unix.BPF_K, K: missing},
		{Code: unix.BPF_RET | unix.BPF_K, K: refuse},
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, 1 /* SECCOMP_SET_MODE_FILTER */, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return errno
	}
	return nil
}
