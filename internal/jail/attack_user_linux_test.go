package jail_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"crypto/rand"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/jail"
)

// TestAttacksAsUser runs the attacks as an ordinary user ID that no other process has.
func TestAttacksAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // TestAttacks has already run as this user
	}
	runAttacks(t, 200_000+os.Getpid()%100_000, jail.Namespaces)
}

// TestAttacksContainer runs the attacks at the level container, as root and as a user.
func TestAttacksContainer(t *testing.T) {
	testutil.Runsc(t)
	if os.Geteuid() != 0 {
		runAttacks(t, os.Geteuid(), jail.Container)
		return
	}
	for name, id := range map[string]int{"root": 0, "user": 500_000 + os.Getpid()%100_000} {
		t.Run(name, func(t *testing.T) { runAttacks(t, id, jail.Container) })
	}
}

// runAttacks runs the attacks in a process of a user, at a level.
func runAttacks(t *testing.T, id int, level jail.Level) {
	t.Helper()
	dir, err := os.MkdirTemp("", "jail")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o711))
	for _, name := range []string{"/bin", "/setuid", "/tmp"} {
		check(t, os.Mkdir(dir+name, 0o755))
	}
	self, setuid := copyOfSelf(t, dir+"/bin"), copyOfSelf(t, dir+"/setuid")
	if id == 0 {
		check(t, os.Chown(setuid, 12345, 12345))
	}
	check(t, os.Chmod(setuid, 0o755|os.ModeSetuid|os.ModeSetgid))
	check(t, os.Chown(dir+"/tmp", id, id))
	cmd := exec.Command(self, "-test.v", "-test.run=^TestAttacks$|^TestNothingIsLeft$|^TestGolemKilled$")
	cmd.Dir = dir + "/tmp"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir + "/tmp", "TMPDIR=" + dir + "/tmp", "JAIL_SETUID=" + dir + "/setuid"}
	if id != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
	}
	cmd.Env = append(cmd.Env, levelEnv+"="+level.String(), inTestGroups+"="+os.Getenv(inTestGroups))
	if level == jail.Container {
		cmd.Env = append(cmd.Env, testutil.RunscEnv+"="+copyOfRunsc(t, dir+"/bin"))
	}
	out, err := runAt(cmd, level)
	for _, name := range []string{"TestAttacks", "TestNothingIsLeft", "TestGolemKilled"} {
		if !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Errorf("%s has not passed", name)
		}
	}
	if err != nil || strings.Contains(string(out), "--- SKIP") || t.Failed() {
		t.Errorf("at the level %s as user %d: %v\n%s", level, id, err, out)
	}
}

// A golem is a program that has started a session.
type golem struct {
	*exec.Cmd
	lines *bufio.Reader
	end   io.Closer
	mark  string
	self  string
	first map[int]bool // processes that existed before
}

// startGolem starts this program as a golem that runs a line so many times.
func startGolem(t *testing.T, line string, times int) *golem {
	t.Helper()
	g := &golem{mark: "MARK=" + rand.Text(), self: copyOfSelf(t, t.TempDir()), first: make(map[int]bool)}
	before, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range before {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		g.first[pid] = true
	}
	work := t.TempDir()
	g.Cmd = exec.Command(g.self, work, line, strconv.Itoa(times))
	g.Env = []string{probeWord + "=golem", g.mark, "TMPDIR=" + t.TempDir(), levelEnv + "=" + levelHere().String(), testutil.RunscEnv + "=" + os.Getenv(testutil.RunscEnv)}
	if os.Geteuid() == 0 {
		g.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // without the mounts of other tests
	}
	g.Stderr = os.Stderr
	out, err := g.StdoutPipe()
	check(t, err)
	in, err := g.StdinPipe()
	check(t, err)
	g.lines, g.end = bufio.NewReader(out), in
	check(t, g.Start())
	t.Cleanup(func() {
		g.Process.Kill()
		g.Wait()
	})
	return g
}

// otherProcesses returns the processes of the session besides golem. Root recognises them by
// program and environment. An ordinary user ID belongs to this test only, so all its
// processes count.
func (g *golem) otherProcesses() []string {
	var list []string
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if g.first[pid] || pid == g.Process.Pid {
			continue
		}
		exe, _ := os.Readlink(dir + "/exe")
		env, _ := os.ReadFile(dir + "/environ")
		status, _ := os.ReadFile(dir + "/status")
		file, _ := os.Stat(dir + "/exe")
		runsc, _ := os.Stat(os.Getenv(testutil.RunscEnv))
		mine := levelHere() == jail.Container && os.SameFile(file, runsc) || strings.TrimSuffix(exe, " (deleted)") == g.self || slices.Contains(strings.Split(string(env), "\x00"), g.mark)
		if uid := os.Getuid(); uid != 0 {
			mine = strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", uid))
		}
		if mine && !strings.Contains(string(status), "\nState:\tZ") {
			cmdline, _ := os.ReadFile(dir + "/cmdline")
			list = append(list, fmt.Sprintf("%d %q", pid, cmdline))
		}
	}
	return list
}

// waitUntilGone waits until all of them have ended.
func (g *golem) waitUntilGone(t *testing.T) {
	t.Helper()
	var left []string
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = g.otherProcesses(); len(left) == 0 {
			break
		}
	}
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, depth := range []string{"*", "*/*", "*/*/*"} {
		groups, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/%s/golem-session-%d-*", depth, g.Process.Pid))
		if len(groups) > 0 {
			t.Errorf("left: %v", groups)
		}
	}
}

// TestNothingIsLeft runs a thousand commands that each leave two processes behind (S19).
func TestNothingIsLeft(t *testing.T) {
	times := 1000
	if levelHere() == jail.Container { // each command starts a kernel
		times = 20
	}
	g := startGolem(t, "setsid sleep 1000 & (sleep 1000 &) ; exit 0", times)
	var printed strings.Builder
	for {
		line, err := g.lines.ReadString('\n')
		if line == "ended\n" {
			break
		}
		printed.WriteString(line)
		if err != nil {
			t.Fatalf("%v, after\n%s", err, &printed)
		}
	}
	if printed.Len() > 0 {
		t.Fatal(&printed)
	}
	g.waitUntilGone(t)
}

// TestGolemKilled kills golem while a command runs, and checks that all processes that it
// started end.
func TestGolemKilled(t *testing.T) {
	g := startGolem(t, "trap '' HUP TERM INT; setsid sleep 1000 & (setsid sh -c 'trap \"\" HUP TERM; sleep 1000' &) ; sleep 1000", 2)
	for end := time.Now().Add(hang); len(g.otherProcesses()) < 9; { // the holder, and for two commands each the cell, the shell and its children
		if time.Now().After(end) {
			t.Fatalf("golem did not start: %v", g.otherProcesses())
		}
		time.Sleep(10 * time.Millisecond)
	}
	check(t, g.Process.Kill())
	g.Wait()
	g.waitUntilGone(t)
}
