package jail_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
	"golang.org/x/sys/unix"
)

// powerAttacks try to use the kernel and the rights of root.
func powerAttacks() []attack {
	return []attack{
		{"S14 S17 S25 S28 system calls", func(t *testing.T, y *attackEnv) {
			_, out := y.probe("calls")
			var refused, missing strings.Builder
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "clone3 ") || strings.HasPrefix(line, "openat2 ") {
					missing.WriteString(line)
				} else {
					refused.WriteString(line)
				}
			}
			y.answers(refused.String(), 50, "EPERM")
			y.answers(missing.String(), 2, "ENOSYS")
		}},
		{"S14 calls of another architecture", func(t *testing.T, y *attackEnv) {
			r, out := y.probe("foreign")
			if r.Signal != "SIGSYS" && !y.gvisor {
				t.Errorf("got %q, code %d, want it ended by SIGSYS:\n%s", r.Signal, r.Code, out)
			}
		}},
		{"S17 other processes", otherProcesses},
		{"S17 the cell itself", func(t *testing.T, y *attackEnv) {
			if !y.bare() {
				y.is(y.sh(`ls -A /proc/1`), "")
			}
			y.is(y.sh(`cd /proc/$PPID || echo gone; for f in environ maps smaps mem auxv io stack syscall pagemap exe; do cat $f >/dev/null 2>&1 && echo $f; done; for f in exe cwd root ns/user ns/mnt fd/0 fd/3; do readlink $f; done; readlink fd/*; ls map_files 2>/dev/null; for t in task/*; do cat $t/environ $t/maps $t/mem 2>/dev/null; readlink $t/exe $t/root; done; true`), "")
		}},
		{"S17 the program of the cell", func(t *testing.T, y *attackEnv) {
			// Before exec, the process of a command is still golem.
			check(t, os.Symlink("/proc/self/exe", y.work+"/link"))
			check(t, os.WriteFile(y.work+"/script", []byte("#!/proc/self/exe\n"), 0o755))
			y.sh("true")
			for _, name := range []string{"/work/link", "/work/script", "/proc/self/exe", "/proc/1/exe", "/proc/thread-self/exe"} {
				r, err := y.run(jail.Command{Path: name, Args: []string{"x"}, Env: []string{probeWord + "=program"}, Dir: "/"})
				if err == nil {
					t.Errorf("%s ran golem: %s", name, y.outputOf(r))
				}
			}
		}},
		{"S17 limits of the cell", func(t *testing.T, y *attackEnv) {
			var here unix.Rlimit
			check(t, unix.Getrlimit(unix.RLIMIT_CORE, &here))
			core := fmt.Sprintf("core %[1]d %[1]d <nil>\n", min(here.Max, 1))
			_, out := y.probe("limits")
			y.is(out, "cell EPERM\nother EPERM\n"+core+core+"own done\n")
			y.is(y.sh("echo next"), "next\n")
		}},
		{"S25 shells and tools", func(t *testing.T, y *attackEnv) {
			check(t, os.Mkdir(y.work+"/at", 0o755))
			for _, line := range []string{"unshare -Ur true", "unshare -Urm true", "unshare -n true", "mount --bind /work /work/at", "mount -t tmpfs x /work/at", "umount /in", "umount -l /proc",
				"mount -o remount,rw /in", "mount -o remount,bind,rw /usr", "chroot /work /bin/true", "nsenter -t 1 -m true", "bwrap --ro-bind / / true"} {
				if r, out := y.try(jail.Shell(line)); r.Code == 0 && !y.gvisor {
					t.Errorf("%s: done\n%s", line, out)
				}
			}
		}},
		{"S26 devices", func(t *testing.T, y *attackEnv) {
			if y.bare() {
				y.is(y.sh(`for f in mem kmem port kmsg sda vda nvme0n1 kvm fuse loop-control loop0 net/tun vsock vhost-net ptmx console tty0 input/event0 dri/card0 snd/seq hpet rtc0; do head -c 1 /dev/$f; done 2>/dev/null; ls /dev/shm /dev/mqueue 2>/dev/null; echo x 2>/dev/null > /dev/shm/x && echo shared; true`), "")
			} else {
				y.is(y.sh(`ls -A /dev /dev/shm`), "/dev:\nfd\nfull\nnull\nrandom\nshm\nstderr\nstdin\nstdout\nurandom\nzero\n\n/dev/shm:\n")
			}
			y.is(y.sh(`echo x > /dev/null && head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo x 2>/dev/null >/dev/full || echo full`), "4\n4\nfull\n")
			if os.Geteuid() == 0 && !y.bare() { // at the level landlock, commands see them if they are in a directory that they see
				check(t, unix.Mknod(y.work+"/zero", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))))
				check(t, unix.Mknod(y.in+"/zero", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))))
				y.was = y.describe()
				y.is(y.sh(`head -c 4 /work/zero 2>/dev/null; head -c 4 /in/zero 2>/dev/null; true`), "")
			}
		}},
		{"S26 the host's devices stay as they are", func(t *testing.T, y *attackEnv) {
			var was, is [5]unix.Stat_t
			names := []string{"null", "zero", "full", "random", "urandom"}
			for i, name := range names {
				check(t, unix.Stat("/dev/"+name, &was[i]))
			}
			y.sh(`chmod 666 /dev/null /dev/zero /dev/full /dev/random /dev/urandom /proc/self/fd/0; true`)
			if !y.bare() { // Loses says that times can be changed
				y.sh(`touch -d 2001-01-01 /dev/null /dev/zero /proc/self/fd/0; true`)
			}
			for i, name := range names {
				check(t, unix.Stat("/dev/"+name, &is[i]))
				if is[i].Mode != was[i].Mode || is[i].Ctim != was[i].Ctim {
					t.Errorf("/dev/%s was changed", name)
				}
			}
		}},
		{"S28 S38 powers of root", func(t *testing.T, y *attackEnv) {
			_, out := y.probe("powers", "/work")
			answers := []string{"EPERM", "EROFS", "EACCES", "EINVAL"} // EINVAL for an ID that does not exist
			if y.bare() {
				answers = append(answers, "EAFNOSUPPORT")
			}
			y.answers(out, 23, answers...)
			_, out = y.probe("rights")
			if y.bare() && os.Geteuid() != 0 { // an ordinary user cannot shrink its bounding set
				before, after, _ := strings.Cut(out, "bounding ")
				_, after, _ = strings.Cut(after, "\n")
				out = before + "bounding 0\n" + after
			}
			y.is(out, "capabilities 0 0 0\nbounding 0\nambient 0\nno new privileges 1\nfilter 2\n")
			if y.bare() {
				return
			}
			y.is(y.sh(`grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status`), "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n")
		}},
		{"S29 programs that run as who owns them", func(t *testing.T, y *attackEnv) {
			dir := setuidFolder(t)
			names := []string{"/s/probe"}
			y.policy.Mounts = append([]jail.Mount{{Source: sandbox.Host(dir), Target: "/s"}}, y.policy.Mounts...)
			if !y.bare() { // the level landlock has no read-only directory inside a writable one
				names = append(names, "/sw/probe")
				y.policy.Mounts = append([]jail.Mount{{Source: sandbox.Host(dir), Target: "/sw", Write: true}}, y.policy.Mounts...)
			}
			want := fmt.Sprintln("ids", os.Getuid(), os.Getuid(), os.Getgid(), os.Getgid())
			for _, name := range names {
				_, got := y.try(jail.Command{Path: name, Args: []string{"probe"}, Env: []string{probeWord + "=ids"}, Dir: "/"})
				y.is(got, want)
			}
			if y.level == jail.Namespaces { // Either protection would be enough; the jail has both.
				y.is(y.sh(`grep -v nosuid /proc/self/mountinfo; true`), "")
			}
			if out := y.sh(`for p in su sudo pkexec passwd mount newgrp; do timeout 0.3 $p -c id </dev/null 2>&1; done; true`); os.Geteuid() != 0 && strings.Contains(out, "uid=0") {
				t.Errorf("got\n%s", out)
			}
		}},
		{"S29 files that would run as who owns them", func(t *testing.T, y *attackEnv) {
			_, out := y.probe("modes", "/work")
			plain := map[jail.Level]string{jail.Namespaces: "done", jail.Container: "done", jail.Landlock: "EPERM"}[y.level]
			out, ok := strings.CutSuffix(out, "plain "+plain+"\nother done\n")
			if !ok {
				t.Errorf("usual modes: got\n%s", out)
			}
			refused := []string{"EPERM", "ENOSYS"}
			if y.level == jail.Container { // gVisor loses the error of a chmod in a directory that others may write
				refused = append(refused, "ENOTSUP", "done")
			}
			y.answers(out, 16, refused...)
			y.sh(`touch kept; chmod 6755 kept; true`)
			check(t, filepath.Walk(y.work, func(name string, info os.FileInfo, err error) error {
				if err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
					t.Errorf("%s is %v", name, info.Mode())
				}
				return err
			}))
		}},
	}
}

// setuidFolder returns a directory with a copy of this program that would run as another
// user. Only root can make it: tests that run as an ordinary user get it from root.
func setuidFolder(t *testing.T) string {
	if dir := os.Getenv("JAIL_SETUID"); dir != "" {
		return dir
	}
	dir := t.TempDir()
	name := copyOfSelf(t, dir)
	if os.Geteuid() == 0 {
		check(t, os.Chown(name, 12345, 12345))
	}
	check(t, os.Chmod(name, 0o755|os.ModeSetuid|os.ModeSetgid))
	return dir
}

// ownProcesses stops the test if commands have no processes of their own or can signal
// others: the next step would end everything that runs on this machine.
func (y *attackEnv) ownProcesses() {
	y.t.Helper()
	if y.bare() {
		y.is(y.sh("kill -0 %d 2>/dev/null || kill -0 %d 2>/dev/null || kill -0 $PPID 2>/dev/null || echo fenced", os.Getpid(), os.Getppid()), "fenced\n")
		if y.t.Failed() {
			y.t.FailNow()
		}
		return
	}
	here, err := os.Readlink("/proc/self/ns/pid")
	check(y.t, err)
	if got := strings.TrimSpace(y.sh("readlink /proc/self/ns/pid")); got == here || !strings.HasPrefix(got, "pid:") {
		y.t.Fatalf("the process namespace is %s, and here %s", got, here)
	}
}

// otherProcesses starts a process with a secret on the host.
func otherProcesses(t *testing.T, y *attackEnv) {
	self, err := os.Executable()
	check(t, err)
	other := exec.Command(self, y.canary)
	other.Env = []string{probeWord + "=hang", "SECRET=" + y.canary}
	out, err := other.StdoutPipe()
	check(t, err)
	check(t, other.Start())
	defer other.Wait()
	defer other.Process.Kill()
	_, err = bufio.NewReader(out).ReadString('\n')
	check(t, err)
	y.ownProcesses()
	y.sh(`cat /proc/*/cmdline /proc/*/environ`)
	if got := strings.Fields(y.sh(`ps -A -o comm= 2>/dev/null`)); len(got) > 3 { // the cell, the shell and ps
		t.Errorf("processes: %s", got)
	}
	for _, pid := range []int{other.Process.Pid, os.Getpid(), os.Getppid()} {
		out := y.sh(`kill -9 %[1]d; kill -0 %[1]d && echo SEEN; cat /proc/%[1]d/environ /proc/%[1]d/cmdline /proc/%[1]d/maps; readlink /proc/%[1]d/exe /proc/%[1]d/cwd && echo SEEN; true`, pid)
		if strings.Contains(out, "SEEN") {
			t.Errorf("process %d:\n%s", pid, out)
		}
	}
	y.sh(`kill -9 -1; kill -9 -%d; true`, unix.Getpgrp())
	y.is(y.sh(`echo still`), "still\n")
	check(t, other.Process.Signal(unix.Signal(0)))
	// Commands cannot reach the host's shared memory either.
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o666)
	check(t, err)
	defer unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	y.is(y.sh(`tail -n +2 /proc/sysvipc/shm 2>/dev/null; ipcs -m -i %d 2>/dev/null | grep bytes; true`, id), "")
}

// cellAttacks try to reach the cell and other commands.
func cellAttacks() []attack {
	return []attack{
		{"S19 what is left behind ends with the call", func(t *testing.T, y *attackEnv) {
			y.sh(`setsid sh -c 'trap "" HUP TERM INT; while :; do echo x >> /work/tick; sleep 0.01; done' >/dev/null 2>&1 & (nohup sh -c 'while :; do echo x >> /work/tock; sleep 0.01; done' >/dev/null 2>&1 &) ; while [ ! -e /work/tick ] || [ ! -e /work/tock ]; do sleep 0.01; done`)
			// The call has ended: the file must not grow any more.
			tick, _ := os.ReadFile(y.work + "/tick")
			tock, _ := os.ReadFile(y.work + "/tock")
			if got := y.sh(`ps -A -o comm= 2>/dev/null; true`); strings.Contains(got, "sleep") {
				t.Errorf("left: %s", got)
			}
			time.Sleep(100 * time.Millisecond)
			tick2, _ := os.ReadFile(y.work + "/tick")
			tock2, _ := os.ReadFile(y.work + "/tock")
			if len(tick2) != len(tick) || len(tock2) != len(tock) {
				t.Error("the processes still run")
			}
		}},
		{"S19 a stopped child and one that holds the output", func(t *testing.T, y *attackEnv) {
			y.is(y.sh(`sleep 1000 & kill -STOP $!; setsid sleep 1000 & echo done`), "done\n")
		}},
		{"S17 a command that ends its own cell", func(t *testing.T, y *attackEnv) {
			y.ownProcesses()
			if y.bare() {
				endTheCell(t, y)
				return
			}
			priority := y.sh("nice")
			y.is(y.sh(`kill -9 1 2>/dev/null; echo still`), "still\n")
			for _, signal := range []string{"TERM", "SEGV", "QUIT", "ABRT", "INT", "HUP", "TRAP", "XCPU", "STOP", "TSTP", "KILL", "ALRM", "USR1", "PIPE", "SYS", "34"} {
				y.is(y.sh("i=1; while [ $i -lt 40 ]; do [ $i != $$ ] && kill -%s $i; i=$((i+1)); done 2>/dev/null; sleep 0.02; echo still", signal), "still\n")
				y.is(y.sh(`echo next; cat file; ls -A / | wc -l`), fmt.Sprintf("next\nto be written\n%d\n", 12+strings.Count(libs(), "\n")))
			}
			y.is(y.sh(probeWord+"=signals /probe/probe; nice"), "tried\n"+priority)
			y.is(y.sh("nice"), priority)
		}},
		{"two commands at once", twoAtOnce},
		{"mounts below what is shown", func(t *testing.T, y *attackEnv) {
			check(t, os.Mkdir(y.work+"/sub", 0o755))
			self, err := os.Executable()
			check(t, err)
			cmd := exec.Command(self, y.in, y.work)
			cmd.Env = []string{probeWord + "=below"}
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Unshareflags: unix.CLONE_NEWNS} // Unshareflags makes the mounts private
			if id := os.Getuid(); id != 0 {
				cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
				cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
				cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
			}
			out, err := cmd.CombinedOutput()
			check(t, err)
			y.is(string(out), "/in:\nsub\n\n/in/sub:\nbelow\n\n/work/sub:\nbelow\nseen\nx\n <nil>\n")
		}},
	}
}

// twoAtOnce runs two commands that try to find each other.
func twoAtOnce(t *testing.T, y *attackEnv) {
	y.ownProcesses()
	if y.level != jail.Namespaces { // no network is shared
		twoAtOnceBare(t, y)
		return
	}
	var wait sync.WaitGroup
	var heard, namespaces string
	wait.Go(func() {
		r, err := y.session.Run(context.Background(), jail.Shell(`readlink /proc/self/ns/net /proc/self/ns/user /proc/self/ns/pid /proc/self/ns/mnt /proc/self/ns/ipc; echo secret > /tmp/secret; `+probeWord+`=listen exec /probe/probe /work/port`))
		if err == nil {
			namespaces, heard, _ = strings.Cut(string(r.Stdout.Head), "heard")
		}
	})
	for i := 0; ; i++ {
		if _, err := os.Stat(y.work + "/port"); err == nil {
			break
		}
		if i > 1000 {
			t.Fatal("the other command did not start")
		}
		time.Sleep(10 * time.Millisecond)
	}
	got := strings.Fields(y.sh(`readlink /proc/self/ns/net /proc/self/ns/user /proc/self/ns/pid /proc/self/ns/mnt /proc/self/ns/ipc`))
	y.is(y.sh(`cat /tmp/secret 2>/dev/null; ps -A -o comm= | grep -c probe; kill -9 -1 2>/dev/null; true`), "0\n")
	port, err := os.ReadFile(y.work + "/port")
	check(t, err)
	_, out := y.probe("dial", "tcp", string(port))
	y.is(out, "tcp done\n")
	wait.Wait()
	y.is(heard, " out\n")
	other := strings.Fields(namespaces)
	if len(got) != 5 || len(other) != 5 {
		t.Fatalf("got %q and %q", got, other)
	}
	for i := range got {
		if same := got[i] == other[i]; same != (i < 2) {
			t.Errorf("%s and %s", got[i], other[i])
		}
	}
}

// listeners listen on the host for messages of commands.
type listeners struct {
	addresses [][2]string
	port      string
	mu        sync.Mutex
	words     strings.Builder
}

// newListeners listens at every kind of network address of this machine.
func newListeners(t *testing.T) *listeners {
	e := &listeners{}
	address := e.listen(t, "tcp", "127.0.0.1:0")
	_, port, err := net.SplitHostPort(address)
	check(t, err)
	e.port = port
	e.addresses = append(e.addresses, [2]string{"tcp", address}, [2]string{"tcp", "0.0.0.0:" + port}, [2]string{"tcp", "[::ffff:127.0.0.1]:" + port})
	e.addresses = append(e.addresses, [2]string{"udp", e.listen(t, "udp", "127.0.0.1:0")})
	hosts, err := net.InterfaceAddrs()
	check(t, err)
	for _, h := range hosts {
		if ip, _, err := net.ParseCIDR(h.String()); err == nil && !ip.IsLinkLocalUnicast() && ip.String() != "127.0.0.1" {
			e.addresses = append(e.addresses, [2]string{"tcp", e.listen(t, "tcp", net.JoinHostPort(ip.String(), "0"))}, [2]string{"udp", e.listen(t, "udp", net.JoinHostPort(ip.String(), "0"))})
		}
	}
	return e
}

// listen listens at an address, and returns it.
func (e *listeners) listen(t *testing.T, network, address string) string {
	t.Helper()
	hear := func(c net.Conn) {
		word := make([]byte, 64)
		n, _ := c.Read(word)
		e.mu.Lock()
		defer e.mu.Unlock()
		fmt.Fprintf(&e.words, "%s %s ", network, word[:n])
	}
	if network == "udp" || network == "unixgram" {
		c, err := net.ListenPacket(network, address)
		check(t, err)
		t.Cleanup(func() { c.Close() })
		go hear(c.(net.Conn))
		return c.LocalAddr().String()
	}
	l, err := net.Listen(network, address)
	check(t, err)
	if u, is := l.(*net.UnixListener); is {
		u.SetUnlinkOnClose(false)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hear(c)
			c.Close()
		}
	}()
	return l.Addr().String()
}

// checkHeard checks which messages have arrived. Messages within this machine arrive in the
// order in which they were sent.
func (e *listeners) checkHeard(t *testing.T, want string) {
	t.Helper()
	heard := func() string {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.words.String()
	}
	if want == "" {
		time.Sleep(100 * time.Millisecond)
	} else {
		waitFor(t, "what was sent is heard", func() bool { return heard() == want })
	}
	if got := heard(); got != want {
		t.Errorf("heard %q, want %q", got, want)
	}
}
