package jail_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// says runs a line and returns its output without the final newline.
func (p testSession) says(line string) string {
	p.t.Helper()
	r := p.sh(line)
	return strings.TrimSpace(string(r.Stdout.Head) + string(r.Stderr.Head))
}

// refused fails unless a line has the exit code of a refused operation.
func (p testSession) refused(what, line string) {
	p.t.Helper()
	if r := p.sh(line); r.Code == 0 {
		p.t.Errorf("%s: exit code 0, %s%s", what, r.Stdout.Head, r.Stderr.Head)
	}
}

// allowed fails unless a line has the exit code 0.
func (p testSession) allowed(what, line string) {
	p.t.Helper()
	if r := p.sh(line); r.Code != 0 {
		p.t.Errorf("%s: exit code %d, %s%s", what, r.Code, r.Stdout.Head, r.Stderr.Head)
	}
}

// TestLandlockInNamespaces checks that Landlock also confines commands with their own tree,
// by two operations that nothing else refuses.
func TestLandlockInNamespaces(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		p.refused("ending its own cell", "kill -TERM 1")
		p.refused("writing where the plan has nothing to write", "echo x > /proc/self/comm")
		p.allowed("what the plan lets be written", `echo x > /work/x && mkdir /work/d && mv /work/x /work/d/y && ln /work/d/y /work/z && ln -s z /work/l && rm -r /work/d &&
			mkfifo /work/p && : > /work/z && echo > /tmp/x && echo > /dev/shm/x && echo > /dev/null && head -c 1 /dev/zero /dev/urandom > /dev/null && ls / > /dev/null && mv /tmp/x /work/x2`)
		p.allowed("signals among its own", "sleep 100 & kill $!")
		if lost := p.Loses(); len(lost) != 0 {
			t.Errorf("loses %q, want nothing", lost)
		}
	})
}

// TestBareFiles checks that commands without namespaces can open only what the policy
// shows and a part of the system.
func TestBareFiles(t *testing.T) {
	inModes(t, bareModes, func(t *testing.T, m mode) {
		outside, ro, rw := t.TempDir(), t.TempDir(), t.TempDir()
		for _, name := range []string{outside + "/secret", ro + "/file", rw + "/file"} {
			if err := os.WriteFile(name, []byte("canary\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		old := time.Unix(1e9, 0)
		os.Chtimes(outside+"/secret", old, old)
		s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(ro), Target: "/in"}, {Source: sandbox.Host(rw), Target: jail.Work, Write: true}}}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		p := testSession{s, t, rw, m}
		secret := outside + "/secret"
		if got := p.says("pwd"); got != rw {
			t.Errorf("working directory %q, want %q", got, rw)
		}
		p.allowed("its folders", "cat file "+ro+"/file && echo new > new && mkdir d && mv new d/ && ls -l . d "+ro)
		for what, line := range map[string]string{
			"reading outside":          "cat " + secret,
			"listing outside":          "ls " + outside,
			"listing /":                "ls /",
			"writing outside":          "echo bad >> " + secret,
			"making outside":           "echo bad > " + outside + "/new",
			"removing outside":         "rm -f " + secret,
			"emptying outside":         `python3 -c 'import os; os.truncate("` + secret + `", 0)'`,
			"a link to outside":        "ln " + secret + " here",
			"moving out":               "mv file " + outside + "/file",
			"a mode outside":           "chmod 777 " + secret,
			"times outside":            "touch -c " + secret,
			"times by name outside":    `python3 -c 'import os; os.utime("` + secret + `", (5, 5))'`,
			"an attribute outside":     `python3 -c 'import os; os.setxattr("` + secret + `", "user.x", b"y")'`,
			"writing what is shown":    "echo bad >> " + ro + "/file",
			"making in what is shown":  "echo bad > " + ro + "/new",
			"removing what is shown":   "rm -f " + ro + "/file",
			"a mode of what is shown":  "chmod 777 " + ro + "/file",
			"its mode by descriptor":   `python3 -c 'import os; os.chmod(os.open("` + ro + `/file", 0), 0o777)'`,
			"shadow":                   "cat /etc/shadow",
			"the system":               "touch /usr/bin/golem-was-here",
			"the host's /tmp":          "ls /tmp",
			"the host's shared memory": "echo > /dev/shm/golem-was-here",
			"what others run":          fmt.Sprintf("cat /proc/%d/environ", os.Getpid()),
			"the list of processes":    "ls /proc",
			"devices":                  "head -c 1 /dev/vda || head -c 1 /dev/mem || head -c 1 /dev/kmsg",
			"a device":                 "mknod dev c 1 3",
		} {
			p.refused(what, line)
		}
		info, err := os.Stat(secret)
		data, _ := os.ReadFile(secret)
		if err != nil || info.Mode() != 0o644 || !info.ModTime().Equal(old) || string(data) != "canary\n" {
			t.Errorf("the outside directory has changed: %v, %v, %q", info, err, data)
		}
		if names, _ := filepath.Glob(outside + "/*"); len(names) != 1 {
			t.Errorf("the outside directory is %q", names)
		}
		if info, err := os.Stat(ro + "/file"); err != nil || info.Mode() != 0o644 || info.Size() != 7 {
			t.Errorf("the read-only file has changed: %v, %v", info, err)
		}
	})
}

// TestBareOthers checks that commands without namespaces reach no network, and no
// sockets, processes or shared memory of others.
func TestBareOthers(t *testing.T) {
	inModes(t, bareModes, func(t *testing.T, m mode) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		abstract, err := net.Listen("unix", "@golem-test-"+t.Name()+m.String())
		if err != nil {
			t.Fatal(err)
		}
		defer abstract.Close()
		other := exec.Command("sleep", "1000")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { other.Process.Kill(); other.Wait() }()
		pid, port := other.Process.Pid, listener.Addr().(*net.TCPAddr).Port
		p := newTestSession(t, m, jail.Limits{})
		for what, line := range map[string]string{
			"tcp":        fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d`, port),
			"udp":        `python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)'`,
			"ipv6":       `python3 -c 'import socket; socket.socket(socket.AF_INET6)'`,
			"netlink":    `python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)'`,
			"unix":       `python3 -c 'import socket; socket.socket(socket.AF_UNIX)'`,
			"signals":    fmt.Sprintf("kill -9 %d", pid),
			"golem":      fmt.Sprintf("kill -9 %d", os.Getpid()),
			"its cell":   "kill -9 $PPID",
			"priority":   fmt.Sprintf("renice -n 19 %d", pid),
			"processors": fmt.Sprintf(`python3 -c 'import os; os.sched_setaffinity(%d, [0])'`, pid),
			"limits":     fmt.Sprintf(`python3 -c 'import resource; resource.prlimit(%d, resource.RLIMIT_NOFILE, (5, 5))'`, pid),
			"shared memory": `python3 -c '
import ctypes, sys
sys.exit(0 if ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0 else 1)'`,
			"namespaces": "unshare -r true",
		} {
			p.refused(what, line)
		}
		if got := p.says(`grep -c . /dev/null; cat /proc/self/status 2>&1 | head -1; python3 -c '
import ctypes
print([ctypes.CDLL(None).prctl(23, c, 0, 0, 0) for c in (7, 21)], ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))'`); !strings.HasSuffix(got, " 1") || !m.user && !strings.Contains(got, "[0, 0]") {
			t.Errorf("capabilities and no_new_privs: %q", got)
		}
		if unix.Kill(pid, 0) != nil {
			t.Error("a process of the host is gone")
		}
		// With the network on, commands use the host's network.
		on, err := jail.Start(jail.Policy{Network: true}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer on.Close()
		if r, err := on.Run(context.Background(), jail.Shell(fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d`, port))); err != nil || r.Code != 0 {
			t.Errorf("with the network: %v, %+v, %s", err, r.Code, r.Stderr.Head)
		}
	})
}

// TestBareNothingIsLeft checks that all processes that a command starts end with it, and
// that its directory is removed with the session.
func TestBareNothingIsLeft(t *testing.T) {
	inModes(t, bareModes, func(t *testing.T, m mode) {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		p := newTestSession(t, m, jail.Limits{Processes: 200})
		home := p.says(`echo $HOME; [ $HOME = $TMPDIR ] && echo x > $HOME/x && mkdir -m 0300 $HOME/d && echo y > $HOME/d/y || echo bad`)
		if info, err := os.Stat(home); err != nil || info.Mode().Perm() != 0o700 {
			t.Fatalf("home %q: %v, %v", home, info, err)
		}
		before := len(listDescendants())
		for range 8 {
			r, err := p.Run(context.Background(), jail.Shell(`setsid sh -c '(sleep 1000 &) ; sleep 1000' & (setsid sleep 1000 &)
				python3 -c '
import os
if os.fork() == 0:
    os.setsid()
    for _ in range(100000):  # always another one
        if os.fork() != 0: os._exit(0)
' ; exit 4`))
			if err != nil || r.Code != 4 {
				t.Fatalf("%v, %+v", err, r)
			}
			if after := len(listDescendants()); after != before {
				t.Fatalf("%d processes afterwards, %d before", after, before)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		waitFor(t, "its folder and processes are gone", func() bool {
			_, err := os.Stat(home)
			return errors.Is(err, os.ErrNotExist)
		})
	})
}

// TestBareCellKilled checks that killing a cell from outside ends its command, and that
// the next command gets a new cell.
func TestBareCellKilled(t *testing.T) {
	inModes(t, bareModes, func(t *testing.T, m mode) {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		p := newTestSession(t, m, jail.Limits{})
		done := make(chan error)
		go func() {
			_, err := p.Run(context.Background(), jail.Shell("setsid sleep 1000 & (setsid sh -c 'sleep 1000; :' &) ; wait"))
			done <- err
		}()
		waitFor(t, "the command runs", func() bool { return countSleeping() == 2 })
		for pid := range listDescendants() {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(line), "jail-bare-cell") {
				unix.Kill(pid, unix.SIGKILL)
			}
		}
		if err := <-done; err == nil {
			t.Error("no error")
		}
		waitFor(t, "nothing runs", func() bool { return countSleeping() == 0 })
		p.sh("true")
	})
}

// TestBareTemp checks that the next cell removes the directory of a killed cell, and
// nothing else with such a name.
func TestBareTemp(t *testing.T) {
	inModes(t, bareModes, func(t *testing.T, m mode) {
		outside := t.TempDir()
		if err := os.WriteFile(outside+"/file", []byte("kept"), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(outside, 0o750); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", "")        // a cell gets none of golem's variables
		named := func(i int) string { // named for a process that cannot exist
			return fmt.Sprintf("%s/golem-session-4194304-%d-%d", os.TempDir(), os.Getpid(), i)
		}
		left, link, file := named(0), named(1), named(2)
		t.Cleanup(func() { exec.Command("rm", "-rf", left, link, file).Run() })
		if err := os.MkdirAll(left+"/in/closed", 0o700); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{os.Symlink(outside, left+"/in/link"), os.WriteFile(left+"/in/closed/file", nil, 0), os.Chmod(left+"/in/closed", 0), os.Chmod(left+"/in", 0o500),
			os.Symlink(outside, link), os.WriteFile(file, nil, 0o600)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		theirs := named(3)
		if !m.user {
			t.Cleanup(func() { os.RemoveAll(theirs) })
			if err := errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, 54321, 54321)); err != nil {
				t.Fatal(err)
			}
		}
		p := newTestSession(t, m, jail.Limits{})
		if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the leftover directory still exists: %v", err)
		}
		for _, name := range []string{link, file, outside + "/file"} {
			if _, err := os.Lstat(name); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Lstat(theirs); !m.user && err != nil {
			t.Errorf("the directory of another user was removed: %v", err)
		}
		if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o750 {
			t.Errorf("the target of a symlink has changed: %v, %v", info, err)
		}
		// The current directory is readable only for its user, and the session removes
		// it.
		home := p.says("echo $HOME")
		if filepath.Dir(home) != os.TempDir() {
			t.Errorf("the home directory is %s", home)
		}
	})
}

// waitFor waits until so returns true.
func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if so() {
			return
		}
	}
	t.Errorf("timeout: %s", what)
}

// TestBareReport checks that a session reports its level and the isolation that it lacks.
// Start refuses a policy that needs more.
func TestBareReport(t *testing.T) {
	inModes(t, bareModes, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		if got := len(p.Loses()); got == 0 || got != len(jail.Losses(jail.Landlock)) {
			t.Errorf("%d losses, want those of the level", got)
		}
		dir := sandbox.Host(t.TempDir())
		for what, policy := range map[string]jail.Policy{
			"a better level":         {Least: jail.Namespaces},
			"read-only inside":       {Mounts: []jail.Mount{{Source: dir, Target: jail.Work, Write: true}, {Source: dir + "/in", Target: "/in"}}},
			"hidden inside":          {Mounts: []jail.Mount{{Source: dir, Target: jail.Work}, {Target: jail.Work + "/in"}}},
			"the same, read-only":    {Mounts: []jail.Mount{{Source: dir, Target: jail.Work, Write: true}, {Source: dir, Target: "/in"}}},
			"in a folder of another": {Mounts: []jail.Mount{{Source: "/", Target: jail.Work, Write: true}, {Source: dir, Target: "/in"}}},
		} {
			s, err := jail.Start(policy, time.Now)
			if !errors.Is(err, jail.ErrNoSandbox) {
				t.Errorf("%s: %v, want %v", what, err, jail.ErrNoSandbox)
			} else if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "golem doctor") {
				t.Errorf("%s: %q, want one line with a hint", what, text)
			}
			if err == nil {
				s.Close()
			}
		}
	})
}

// TestKilled checks that no process, directory or control group stays when golem is
// killed.
func TestKilled(t *testing.T) {
	if os.Getenv("GOLEM_TEST_HELD") != "" {
		inModes(t, everyMode, func(t *testing.T, m mode) {
			p := newTestSession(t, m, jail.Limits{})
			fmt.Println("held", p.says("echo $HOME"))
			if _, err := p.Serve(jail.Shell("trap '' TERM HUP; setsid sleep 1000 & sleep 1000 & wait")); err != nil {
				t.Fatal(err)
			}
			p.Run(context.Background(), jail.Shell("setsid sleep 1000 & sleep 1000 & wait"))
		})
		return
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for _, m := range everyMode {
		if os.Geteuid() != 0 && !m.user {
			continue
		}
		t.Run(m.String(), func(t *testing.T) {
			cmd := inMode(t, m, "TestKilled")
			cmd.Env = append(cmd.Env, "GOLEM_TEST_HELD=1")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			home := ""
			for lines := bufio.NewScanner(out); home == "" && lines.Scan(); {
				_, home, _ = strings.Cut(lines.Text(), "held ")
			}
			waitFor(t, "the command and the service run", func() bool { return countSleeping() == 4 })
			cmd.Process.Kill()
			cmd.Wait()
			waitFor(t, "no process is left", func() bool { reap(); return len(listDescendants()) == 0 })
			waitFor(t, "no control group is left", func() bool { return len(groupsOf(cmd.Process.Pid)) == 0 })
			if m.refused {
				waitFor(t, "no folder is left", func() bool { _, err := os.Stat(home); return errors.Is(err, os.ErrNotExist) })
			}
		})
	}
}

// countSleeping counts the processes below this one that a command has started.
func countSleeping() int {
	n := 0
	for pid := range listDescendants() {
		if data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(data) == "sleep\n" {
			n++
		}
	}
	return n
}

func reap() {
	for pid := range listDescendants() {
		unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// groupsOf returns the control groups that a process has made.
func groupsOf(pid int) []string {
	var list []string
	data, _ := os.ReadFile("/proc/self/cgroup")
	for _, line := range strings.Split(string(data), "\n") {
		part := strings.SplitN(line, ":", 3)
		if len(part) == 3 && part[1] != "" {
			names, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", part[1], part[2], fmt.Sprintf("golem-session-%d-*", pid)))
			list = append(list, names...)
		}
	}
	return list
}

// TestGroups checks that a session has its control groups below golem's own while it
// lasts, and that it removes the groups of a killed session.
func TestGroups(t *testing.T) {
	inModes(t, []mode{{}, {refused: true}}, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		p.sh("true")
		made := groupsOf(os.Getpid())
		if len(made) != 2 {
			t.Fatalf("groups %q, want one for memory and one for processes", made)
		}
		stale := filepath.Join(filepath.Dir(made[0]), fmt.Sprintf("golem-session-4194304-%d-0", m.level()))
		if err := os.Mkdir(stale, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(stale)
		second := newTestSession(t, m, jail.Limits{})
		if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the group of a killed session still exists: %v", err)
		}
		// Keep a group of a golem that cannot be seen from here.
		if err := os.Mkdir(stale, 0o755); err != nil {
			t.Fatal(err)
		}
		held, err := os.Open(stale)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		if err := unix.Flock(int(held.Fd()), unix.LOCK_SH); err != nil {
			t.Fatal(err)
		}
		newTestSession(t, m, jail.Limits{}).Close()
		if _, err := os.Stat(stale); err != nil {
			t.Errorf("the group of another golem was removed: %v", err)
		}
		second.Close()
		p.Close()
		if left := groupsOf(os.Getpid()); len(left) != 0 {
			t.Errorf("leftover control groups: %q", left)
		}
	})
}
