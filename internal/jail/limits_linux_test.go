package jail_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// modeEnv is the environment variable with the mode for a test that was started again.
const modeEnv = "GOLEM_TEST_MODE"

// A mode says who runs sessions, and whether user namespaces are refused or control
// groups cannot be used, as in containers.
type mode struct{ user, refused, groupless bool }

func (m mode) String() string {
	name := map[bool]string{false: "root", true: "user"}[m.user] + " " + m.level().String()
	if m.groupless {
		name += " groupless"
	}
	return name
}

func (m mode) level() jail.Level {
	if m.refused {
		return jail.Landlock
	}
	return jail.Namespaces
}

// groups reports whether a session has control groups.
func (m mode) groups() bool { return !m.user && !m.groupless }

// inModes runs a test as root and as an ordinary user, with and without namespaces, each
// in its own process.
func inModes(t *testing.T, modes []mode, body func(t *testing.T, m mode)) {
	t.Helper()
	for _, m := range modes {
		if os.Getenv(modeEnv) == m.String() {
			if m.groupless {
				if err := unix.Mount("none", "/sys/fs/cgroup", "tmpfs", 0, ""); err != nil {
					t.Fatal(err)
				}
			}
			if m.refused {
				refuseUserNamespaces(t)
			}
			body(t, m)
			return
		}
	}
	if os.Getenv(modeEnv) != "" {
		t.Fatalf("no mode %q", os.Getenv(modeEnv))
	}
	for _, m := range modes {
		if os.Geteuid() != 0 && !m.user {
			continue // an ordinary user cannot run as root
		}
		t.Run(m.String(), func(t *testing.T) {
			cmd := inMode(t, m, t.Name()[:strings.IndexByte(t.Name(), '/')])
			// Without control groups, the watcher of golem needs the processor, so no
			// other test runs then. If all modes have one user, the kernel counts their
			// processes together.
			if !m.groupless && os.Geteuid() == 0 {
				t.Parallel() // only after the program is written, or other tests would hold it open
			}
			if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

var (
	everyMode      = []mode{{}, {user: true}, {refused: true}, {user: true, refused: true}}
	namespaceModes = everyMode[:2]
	bareModes      = everyMode[2:]
	limitModes     = append([]mode{{groupless: true}, {refused: true, groupless: true}}, everyMode...)
)

// bombModes returns the modes for a bomb. Modes in which only golem itself enforces the
// limit need the control groups of enterTestGroups.
func bombModes() []mode {
	if os.Getenv(inTestGroups) == "" {
		return everyMode
	}
	return limitModes
}

// inMode returns a command that runs one test of this program in a mode.
func inMode(t *testing.T, m mode, name string) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "jail-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	program := filepath.Join(dir, "jail.test")
	copied, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(copied, self); err != nil {
		t.Fatal(err)
	}
	copied.Close()
	temp := filepath.Join(dir, "tmp")
	os.Mkdir(temp, 0o700)
	cmd := exec.Command(program, "-test.run=^"+name+"$", "-test.v")
	cmd.Dir, cmd.Env = temp, append(os.Environ(), modeEnv+"="+m.String(), "TMPDIR="+temp)
	if m.groupless {
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	}
	if m.user && os.Geteuid() == 0 {
		id := 100_000 + 2*os.Getpid() // tests run at once, and the kernel counts the processes of a user together
		if m.refused {
			id++ // modes run at once too
		}
		os.Chmod(dir, 0o711)
		os.Chown(temp, id, id)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
	}
	return cmd
}

// refuseUserNamespaces installs a filter on this process such as containers have.
func refuseUserNamespaces(t *testing.T) {
	t.Helper()
	const allow, refuse, nosys = 0x7fff0000, 0x00050000 | uint32(unix.EPERM), 0x00050000 | uint32(unix.ENOSYS)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	is := func(call uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: call}
	}
	answer := func(a uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: a} }
	program := []unix.SockFilter{
		load(0),
		is(unix.SYS_CLONE3, 5, 0),
		is(unix.SYS_CLONE, 1, 0),
		is(unix.SYS_UNSHARE, 0, 2),
		load(16),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: 2, Jf: 0, K: unix.CLONE_NEWUSER},
		answer(allow),
		answer(nosys),
		answer(refuse),
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	const setFilter, allThreads = 1, 1
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, setFilter, allThreads, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		t.Fatal(errno)
	}
}

// testSession is a session with a directory that commands write.
type testSession struct {
	*jail.Jail
	t    *testing.T
	dir  string // the directory at /work
	mode mode
}

func newTestSession(t *testing.T, m mode, l jail.Limits) testSession {
	t.Helper()
	dir := t.TempDir()
	s, err := jail.Start(jail.Policy{Limits: l, Mounts: []jail.Mount{{Source: sandbox.Host(dir), Target: jail.Work, Write: true}}}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return testSession{s, t, dir, m}
}

// sh runs a line, and then checks that the next command works.
func (p testSession) sh(line string) jail.Result {
	p.t.Helper()
	r, err := p.Run(context.Background(), jail.Shell(line))
	if err != nil {
		p.t.Fatalf("%s: %v", line, err)
	}
	if r.Level != p.mode.level() {
		p.t.Errorf("level %s, want %s", r.Level, p.mode.level())
	}
	next, err := p.Run(context.Background(), jail.Shell("cat /dev/null && echo fine"))
	if err != nil || string(next.Stdout.Head) != "fine\n" {
		p.t.Fatalf("the next command: %v, %+v, %s", err, next, next.Stderr.Head)
	}
	return r
}

func (p testSession) wantHit(r jail.Result, want jail.Limit) {
	p.t.Helper()
	if !slices.Contains(r.Hit, want) {
		p.t.Errorf("hit %q, want %q in it; exit code %d, %s%s", r.Hit, want, r.Code, r.Stdout.Head, r.Stderr.Head)
	}
}

// listDescendants returns the processes below this one.
func listDescendants() map[int]bool {
	parents := make(map[int]int)
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	found := make(map[int]bool)
	for pid := range parents {
		for at := pid; at > 1; at = parents[at] {
			if at == os.Getpid() && pid != at {
				found[pid] = true
			}
		}
	}
	return found
}

// TestForkBomb checks the limit for processes with a command that forks without end.
func TestForkBomb(t *testing.T) {
	inModes(t, bombModes(), func(t *testing.T, m mode) {
		// A session's holder is a descendant of the process that started it only if that
		// process adopts orphans.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		const most = 100
		p := newTestSession(t, m, jail.Limits{Processes: most, Time: 1500 * time.Millisecond, CPU: time.Minute})
		p.sh("true")
		before := len(listDescendants())
		stop, peak := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					peak <- n
					return
				default:
					n = max(n, len(listDescendants())-before)
				}
			}
		}()
		r := p.sh(":(){ :|:& };:; while :; do :; done")
		close(stop)
		got := <-peak
		// The rlimit also counts threads of the cell, and leaves room for them. Without a
		// control group, golem counts only now and then. The peak may then exceed the
		// limit, or pass before this test sees it.
		if !m.groupless && (got < most/2 || got > most+8) {
			t.Errorf("%d processes at the most, want about %d", got, most)
		}
		// The kernel does not report that an rlimit was reached. A command that forks
		// without pause may escape the checks of golem. Then only the message of the
		// shell shows it.
		refused := bytes.Contains(r.Stderr.Head, []byte("fork: retry: Resource temporarily unavailable"))
		if !m.user && !m.groupless || !refused {
			p.wantHit(r, jail.ProcessesLimit)
		}
		if m.groupless && r.Late && !refused {
			t.Errorf("only the timeout ended the command, with %d processes", got)
		}
		if after := len(listDescendants()); after != before {
			t.Errorf("%d processes afterwards, %d before", after, before)
		}
	})
}

// TestProcessesAreExact checks that a command can have about as many processes as
// allowed, even if the kernel counts others with them. The result names the limit.
func TestProcessesAreExact(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		for _, most := range []int{5, 20} {
			p := newTestSession(t, m, jail.Limits{Processes: int64(most), Time: time.Minute})
			r := p.sh(`exec python3 -c '
import os, time
n = 1
try:
    while n < 200:
        if os.fork() == 0: time.sleep(60)
        n += 1
except BlockingIOError: pass
print(n, flush=True)
end = time.time() + 1 # if other processes of the user end, fill their room again
while time.time() < end:
    try:
        if os.fork() == 0: time.sleep(60)
    except BlockingIOError: time.sleep(0.01)'`)
			got, err := strconv.Atoi(strings.TrimSpace(string(r.Stdout.Head)))
			if err != nil || got < most-2 || got > most+2 {
				t.Errorf("%d processes, %v; want %d; %s", got, err, most, r.Stderr.Head)
			}
			p.wantHit(r, jail.ProcessesLimit)
			if r := p.sh("sleep 0.2"); len(r.Hit) > 0 {
				t.Errorf("a sleeping process reached the limit %q", r.Hit)
			}
			var all sync.WaitGroup
			for range 4 { // each has a cell with threads, which count too
				all.Go(func() {
					if r, err := p.Run(context.Background(), jail.Shell("exec sleep 0.2")); err != nil || r.Code != 0 {
						t.Errorf("while others run: %v, exit code %d, %s", err, r.Code, r.Stderr.Head)
					}
				})
			}
			all.Wait()
			p.sh("true")
			check(t, p.Close()) // its processes would count with those of the next session
		}
	})
}

// TestManyThreads checks that the stacks that threads reserve and never use do not count
// as memory.
func TestManyThreads(t *testing.T) {
	inModes(t, limitModes, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		r := p.sh(`exec python3 -c '
import threading
end = threading.Event()
for i in range(490): threading.Thread(target=end.wait, daemon=True).start()'`)
		if r.Code != 0 || len(r.Hit) > 0 {
			t.Errorf("exit code %d, hit %q, %.300s", r.Code, r.Hit, r.Stderr.Head)
		}
	})
}

// TestMemorySharedByForks checks that memory that processes share after a fork counts
// once until they write to it.
func TestMemorySharedByForks(t *testing.T) {
	inModes(t, limitModes, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{Memory: 300 << 20, Time: time.Minute})
		const line = `exec python3 -c '
import os, time
x = bytearray(100 << 20)
for _ in range(8):
    if os.fork() == 0:
        %s
        time.sleep(1)
        os._exit(0)
while True:
    try: os.wait()
    except ChildProcessError: break
print("done")'`
		if r := p.sh(fmt.Sprintf(line, "pass")); string(r.Stdout.Head) != "done\n" || len(r.Hit) > 0 {
			t.Errorf("exit code %d, hit %q, %s", r.Code, r.Hit, r.Stderr.Head)
		}
		r := p.sh(fmt.Sprintf(line, "x[::4096] = bytes(len(x) // 4096)"))
		p.wantHit(r, jail.MemoryLimit)
	})
}

// TestLeastMemory checks that the memory limit is at least 16 MiB.
func TestLeastMemory(t *testing.T) {
	inModes(t, limitModes, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{Memory: 1})
		r := p.sh("echo fine > /dev/stderr; ls / | wc -l > n; test -s n")
		if r.Code != 0 || len(r.Hit) > 0 || r.Limits.Memory != 16<<20 || r.Limits.Temp != 8<<20 || r.Limits.Processes != 512 {
			t.Errorf("exit code %d, hit %q, %s; %+v", r.Code, r.Hit, r.Stderr.Head, r.Limits)
		}
	})
}

// TestMemoryBomb checks the memory limit for one process and for several together.
func TestMemoryBomb(t *testing.T) {
	inModes(t, limitModes, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{Memory: 300 << 20, Time: time.Minute})
		if r := p.sh(`exec python3 -c 'x = bytearray(50 << 30)'`); r.Code == 0 {
			t.Error("one process was given 50 GiB")
		}
		p.wantHit(p.sh(`exec python3 -c 'import time; x = bytearray(2 << 30); time.sleep(20)'`), jail.MemoryLimit)
		// Several processes together, each below the limit.
		r := p.sh(`for i in 1 2 3 4 5 6 7 8; do python3 -c 'import time; x = b"x" * (100 << 20); time.sleep(1)' & done; wait; exit 9`)
		p.wantHit(r, jail.MemoryLimit)
		if r.Late {
			t.Error("only the timeout ended the command")
		}
	})
}

// TestMemoryOutsideProcessesIsLimited checks the memory limit for memory that belongs to no process.
func TestMemoryOutsideProcessesIsLimited(t *testing.T) {
	inModes(t, everyMode[:1], func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{Memory: 300 << 20, Temp: 100 << 20, Time: time.Minute})
		if held := p.Holds()[2]; held.Limit != jail.MemoryLimit || !held.Full {
			t.Fatalf("held by %+v, want a control group", held)
		}
		// Memory that belongs to no process: a file without a name.
		r := p.sh(`exec python3 -c '
import os
fds = [os.memfd_create("x") for _ in range(10)]
for fd in fds:
    for _ in range(100): os.write(fd, b"x" * (1 << 20))
'`)
		p.wantHit(r, jail.MemoryLimit)
	})
}

// TestMemoryOfSocketsIsLimited fills the buffers of sockets without a control group: of
// pairs, of pairs whose sender is closed, of datagram sockets whose senders are closed, and
// of TCP and UDP sockets. A few full sockets are no reason to end a command.
func TestMemoryOfSocketsIsLimited(t *testing.T) { testMemoryOfSockets(t, false) }

// TestMemoryOfSocketsOnline does so in the network of the host. The sockets of other programs
// there do not count.
func TestMemoryOfSocketsOnline(t *testing.T) {
	for range 400 {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		check(t, err)
		defer unix.Close(pair[0])
		defer unix.Close(pair[1])
		for err == nil {
			_, err = unix.Write(pair[0], make([]byte, 16<<10))
		}
	}
	testMemoryOfSockets(t, true)
}

func testMemoryOfSockets(t *testing.T, ofHost bool) {
	inModes(t, []mode{{groupless: true}, {user: true}}, func(t *testing.T, m mode) {
		policy := jail.Policy{Least: jail.Namespaces, Network: ofHost, Limits: jail.Limits{Memory: 60 << 20, Time: time.Minute}}
		keptOverlay(t, &policy, t.TempDir(), t.TempDir()) // commands have Unix sockets of their own
		s, err := jail.Start(policy, time.Now)
		check(t, err)
		defer s.Close()
		if s.Holds()[2].Full {
			return // the user has a control group
		}
		const program = `exec python3 -c '
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
kind, count = sys.argv[1], int(sys.argv[2])
kept = []
def fill(s):
    s.setblocking(False)
    try:
        while True: s.send(b"x" * 16384)
    except BlockingIOError: pass
for i in range(count):
    if kind in ("pair", "closed"):
        a, b = socket.socketpair()
        fill(a)
        kept += [b] if kind == "closed" else [a, b]
    elif kind == "datagrams":
        name = "/tmp/s%%d" %% i
        b = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); b.bind(name); kept.append(b)
        for _ in range(8):
            a = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b"x" * 150000, name); a.close()
    elif kind == "tcp":
        l = socket.create_server(("127.0.0.1", 0)); a = socket.create_connection(l.getsockname()); b = l.accept()[0]
        fill(a); kept += [a, b]
    else:
        b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); b.bind(("127.0.0.1", 0))
        a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.connect(b.getsockname())
        for _ in range(30): a.send(b"x" * 16384)
        kept.append(b)
time.sleep(%d)
print("done")' %s %d`
		for kind, count := range map[string]int{"pair": 400, "closed": 800, "datagrams": 60, "tcp": 60, "udp": 900} {
			r, err := s.Run(t.Context(), jail.Shell(fmt.Sprintf(program, 30, kind, count)))
			check(t, err)
			if !slices.Contains(r.Hit, jail.MemoryLimit) {
				t.Errorf("%s: code %d, hit %q, %s %s", kind, r.Code, r.Hit, r.Stdout.Head, r.Stderr.Head)
			}
			if r, err = s.Run(t.Context(), jail.Shell(fmt.Sprintf("rm -f /tmp/s*; "+program, 0, kind, 2))); err != nil || string(r.Stdout.Head) != "done\n" || len(r.Hit) > 0 {
				t.Errorf("%s: a few sockets: %v, code %d, hit %q, %s", kind, err, r.Code, r.Hit, r.Stderr.Head)
			}
		}
	})
}

// TestMemoryFileSystemsFill checks the sizes of /tmp and /dev/shm.
func TestMemoryFileSystemsFill(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{Temp: 20 << 20})
		r := p.sh(`head -c 900M /dev/zero > /tmp/x; head -c 900M /dev/zero > /dev/shm/x; stat -c %s /tmp/x /dev/shm/x; rm /tmp/x /dev/shm/x`)
		if got, want := string(r.Stdout.Head), fmt.Sprintf("%d\n%d\n", 20<<20, 64<<20); got != want {
			t.Errorf("sizes %q, want %q; %s", got, want, r.Stderr.Head)
		}
	})
}

// TestFileFillsDisk checks the limit for the size of a file.
func TestFileFillsDisk(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{FileSize: 1 << 20})
		r := p.sh("head -c 100M /dev/zero > big")
		p.wantHit(r, jail.FileSizeLimit)
		if info, err := os.Stat(p.dir + "/big"); err != nil || info.Size() != 1<<20 {
			t.Errorf("%v, %v: want a file of 1 MiB", info, err)
		}
		if r := p.sh("ulimit -f unlimited"); r.Code == 0 {
			t.Error("a command raised its limit")
		}
	})
}

// TestOutputFlood checks that golem keeps only the head and tail of endless output.
func TestOutputFlood(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		const most = 10_000
		p := newTestSession(t, m, jail.Limits{Output: most})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := p.sh(`yes | head -c 1G; head -c 100M /dev/zero | tr '\0' a >&2`)
		runtime.ReadMemStats(&after)
		for _, o := range []struct {
			jail.Output
			size int64
		}{{r.Stdout, 1 << 30}, {r.Stderr, 100 << 20}} {
			if kept := int64(len(o.Head) + len(o.Tail)); kept != most || kept+o.Hidden != o.size {
				t.Errorf("kept %d and hid %d of %d, want to keep %d", kept, o.Hidden, o.size, most)
			}
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
			t.Errorf("reading it took %d bytes", grown)
		}
		p.wantHit(r, jail.OutputLimit)
	})
}

// TestBusyLoop checks the limits for time and processor time.
func TestBusyLoop(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{CPU: 300 * time.Millisecond, Time: time.Minute})
		r := p.sh("while :; do :; done")
		p.wantHit(r, jail.CPULimit)
		// Four processes, each below the limit.
		r = p.sh("for i in 1 2 3 4; do (while :; do :; done) & done; wait")
		p.wantHit(r, jail.CPULimit)
		if r.CPU > time.Second {
			t.Errorf("%v of processor time, want a third of a second", r.CPU)
		}
		short := jail.Shell("while :; do :; done")
		short.Time = 100 * time.Millisecond
		r, err := p.Run(context.Background(), short)
		if err != nil || !r.Late || r.Signal != "SIGKILL" {
			t.Errorf("%v, %+v: want it ended by time", err, r)
		}
		p.wantHit(r, jail.TimeLimit)
	})
}

// TestOpenFiles checks the limit for open files.
func TestOpenFiles(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		for _, most := range []int64{32, 150} {
			p := newTestSession(t, m, jail.Limits{Files: most})
			r := p.sh(`ulimit -n; ulimit -n 4000 || echo kept; ulimit -c; python3 -c 'x = [open("/dev/null") for _ in range(199)]' 2>&1 | tail -n 1 | cut -c 1-7`)
			if got, want := string(r.Stdout.Head), fmt.Sprintf("%d\nkept\n0\nOSError\n", most); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

// TestEveryProcessHasTheLimits checks that child processes of a command have its rlimits.
func TestEveryProcessHasTheLimits(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{Memory: 1 << 30, FileSize: 5 << 20, Files: 100})
		r := p.sh(`sh -c 'ulimit -d; ulimit -f; ulimit -n; ulimit -c' & wait`)
		data := "unlimited" // a control group limits the memory in use
		if !m.groups() {
			data = strconv.Itoa((1<<30 + 512*(8<<20) + 256<<20) >> 10)
		}
		if got, want := string(r.Stdout.Head), fmt.Sprintf("%s\n%d\n100\n0\n", data, (5<<20)/512); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestHoldsReport checks which limits Holds reports as full in each mode.
func TestHoldsReport(t *testing.T) {
	inModes(t, limitModes, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		full := make(map[jail.Limit]bool)
		for _, h := range p.Holds() {
			full[h.Limit] = h.Full
			if h.How == "" {
				t.Errorf("%s: the way it is enforced is missing", h.Limit)
			}
		}
		want := map[jail.Limit]bool{jail.TimeLimit: true, jail.CPULimit: true, jail.MemoryLimit: m.groups(), jail.ProcessesLimit: m.groups(), jail.FilesLimit: true,
			jail.FileSizeLimit: false, jail.OutputLimit: true, jail.TempLimit: !m.refused}
		if fmt.Sprint(full) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", full, want)
		}
	})
}
