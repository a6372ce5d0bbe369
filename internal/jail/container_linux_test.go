package jail_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
	"golang.org/x/sys/unix"
)

// asContainerUser runs the calling test once more as an ordinary user.
func asContainerUser(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv(testutil.RunscEnv+"_USER") != "" {
		return
	}
	t.Run("user", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "jail")
		check(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		check(t, os.Chmod(dir, 0o755))
		id := 400_000 + os.Getpid()%100_000
		check(t, os.Mkdir(dir+"/tmp", 0o755))
		check(t, os.Chown(dir+"/tmp", id, id))
		cmd := exec.Command(copyOfSelf(t, dir), "-test.v", "-test.run=^"+strings.SplitN(t.Name(), "/", 2)[0]+"$")
		cmd.Dir = dir + "/tmp"
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir + "/tmp", "TMPDIR=" + dir + "/tmp",
			testutil.RunscEnv + "=" + copyOfRunsc(t, dir), testutil.RunscEnv + "_USER=1", inTestGroups + "=" + os.Getenv(inTestGroups)}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: "+strings.SplitN(t.Name(), "/", 2)[0]+" ") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// copyOfRunsc copies runsc to a directory that every user can read.
func copyOfRunsc(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(testutil.Runsc(t))
	check(t, err)
	check(t, os.WriteFile(dir+"/runsc", data, 0o755))
	return dir + "/runsc"
}

// newContainer starts a jail at the level container with a directory at /work.
func newContainer(t *testing.T, change func(*jail.Policy)) (s *jail.Jail, work string) {
	t.Helper()
	work = t.TempDir()
	check(t, os.WriteFile(work+"/file", []byte("old\n"), 0o644))
	p := jail.Policy{Least: jail.Container, Runsc: sandbox.Host(testutil.Runsc(t)), Mounts: []jail.Mount{{Source: sandbox.Host(work), Target: jail.Work, Write: true}}}
	if change != nil {
		change(&p)
	}
	s, err := jail.Start(p, time.Now)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return s, work
}

// TestContainer runs commands at the level container. Their kernel is gVisor's, their
// changes wait in an overlay, and their exit codes and output arrive.
func TestContainer(t *testing.T) {
	asContainerUser(t)
	store := t.TempDir()
	t.Cleanup(func() { // the kernel makes directories there that a user cannot enter
		for _, depth := range []string{"", "/*", "/*/*"} {
			closed, _ := filepath.Glob(store + "/*/*/work/work" + depth)
			for _, dir := range closed {
				os.Chmod(dir, 0o700)
			}
		}
	})
	s, work := newContainer(t, func(p *jail.Policy) { p.Recorder = changes.Recorder{Dir: sandbox.Host(store)} })
	for range 2 { // the second command gets a new kernel and a new overlay
		r, err := changes.Finish(s.Run(context.Background(), jail.Shell("dmesg; cat file; echo new > file; echo x > made; id -u; echo wrong >&2; exit 7")))
		check(t, err)
		out, _ := r.Stdout.Text()
		wrong, _ := r.Stderr.Text()
		if r.Code != 7 || r.Level != jail.Container || !strings.Contains(out, "Starting gVisor") || !strings.HasSuffix(out, "old\n"+strconv.Itoa(os.Geteuid())+"\n") || wrong != "wrong\n" {
			t.Errorf("code %d at %s, printed %q and %q", r.Code, r.Level, out, wrong)
		}
		if got, want := formatChanges(r), "change /file, create /made"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		check(t, r.Changed.Discard())
	}
	if data, err := os.ReadFile(work + "/file"); err != nil || string(data) != "old\n" {
		t.Errorf("the file is %q (%v): the command wrote to the host", data, err)
	}
	r, err := s.Run(context.Background(), jail.Telling("cd /tmp; export A=1; exit 3"))
	if check(t, err); r.Code != 3 || r.Left == nil || r.Left.Dir != "/tmp" || !slices.Contains(r.Left.Set, "A=1") {
		t.Errorf("the shell reports %+v, code %d", r.Left, r.Code)
	}
	r, err = s.Run(context.Background(), jail.Shell("kill -9 $$"))
	if check(t, err); r.Code != 137 {
		t.Errorf("a killed command has the code %d", r.Code)
	}
}

// TestContainerIsolates tries what a command at the level container must not do.
func TestContainerIsolates(t *testing.T) {
	asContainerUser(t)
	s, work := newContainer(t, func(p *jail.Policy) { p.Limits.FileSize = 1 << 20 })
	check(t, os.WriteFile(filepath.Dir(work)+"/outside", []byte("secret"), 0o644))
	for line, want := range map[string]string{
		"cat " + filepath.Dir(work) + "/outside": "No such file",
		"echo > /usr/x":                          "", // root gets another error than a user
		"python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 53), 5)'": "unreachable",
		"mount -t tmpfs none /mnt":        "",
		"head -c 2000000 /dev/zero > big": "File size limit|too large",
		"cat /proc/1/root/etc/shadow":     "No such file|denied",
	} {
		c := jail.Shell(line)
		r, err := s.Run(context.Background(), c)
		check(t, err)
		text, _ := r.Stderr.Text()
		if r.Code == 0 || !slices.ContainsFunc(strings.Split(want, "|"), func(w string) bool { return strings.Contains(text, w) }) && r.Code < 128 {
			t.Errorf("%s: code %d, %q", line, r.Code, text)
		}
	}
}

// TestContainerEnds ends a command by a signal, at the end of its time, and by killing a
// part of runsc. Nothing of it is left, and the next command runs.
func TestContainerEnds(t *testing.T) {
	asContainerUser(t)
	runsc := copyOfRunsc(t, t.TempDir())
	s, _ := newContainer(t, func(p *jail.Policy) {
		p.Runsc, p.Limits = sandbox.Host(runsc), jail.Limits{Memory: 200 << 20, Processes: 64}
	})
	signals := make(chan os.Signal, 1)
	out, err := os.CreateTemp(t.TempDir(), "")
	check(t, err)
	go func() {
		for read := ""; read != "ready\n"; time.Sleep(10 * time.Millisecond) {
			data, _ := os.ReadFile(out.Name())
			read = string(data)
		}
		signals <- unix.SIGTERM
	}()
	r, err := s.Attach(context.Background(), jail.Shell("trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done"), jail.Attached{Stdout: out, Signals: signals})
	if check(t, err); r.Code != 9 {
		t.Errorf("after SIGTERM the code is %d", r.Code)
	}
	late := jail.Shell("sleep 1000")
	late.Time = 2 * time.Second
	if r, err := s.Run(context.Background(), late); err != nil || !r.Late {
		t.Errorf("a command without end: %+v, %v", r, err)
	}
	r, err = s.Run(context.Background(), jail.Shell("python3 -c 'x = b\"a\" * (2 << 30)'; sleep 2"))
	if check(t, err); !slices.Contains(r.Hit, jail.MemoryLimit) {
		t.Errorf("a command with much memory: %+v", r)
	}
	if r, err := s.Run(context.Background(), jail.Shell(":(){ :|:& };:; sleep 2; exit 3")); err != nil || r.Code == 0 {
		t.Errorf("a fork bomb: %+v, %v", r, err)
	}
	for _, part := range []string{"runsc-sandbox", "runsc-gofer", "runsc"} {
		done := make(chan error, 1)
		go func() {
			r, err := s.Run(context.Background(), jail.Shell("sleep 1000"))
			if err == nil && r.Code != 0 {
				err = fmt.Errorf("code %d", r.Code)
			}
			done <- err
		}()
		pid := awaitPart(t, runsc, part)
		check(t, unix.Kill(pid, unix.SIGKILL))
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("after the end of %s the command succeeds", part)
			}
		case <-time.After(hang):
			t.Fatalf("after the end of %s the command runs on", part)
		}
		end := time.Now().Add(hang)
		for len(partsOf(runsc, "runsc-sandbox")) > 0 {
			if time.Now().After(end) {
				t.Fatalf("after the end of %s, the sandbox runs on", part)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if r, err := s.Run(context.Background(), jail.Shell("exit 4")); err != nil || r.Code != 4 {
		t.Errorf("the next command: %d, %v", r.Code, err)
	}
}

// partsOf returns the processes whose first argument is name. Root recognises its own by
// the file. An ordinary user ID belongs to this test only.
func partsOf(runsc, name string) (list []int) {
	own, _ := os.Stat(runsc)
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		line, _ := os.ReadFile(dir + "/cmdline")
		exe, _ := os.Stat(dir + "/exe")
		status, _ := os.ReadFile(dir + "/status")
		mine := os.SameFile(own, exe)
		if os.Geteuid() != 0 {
			mine = strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", os.Geteuid()))
		}
		if first, _, _ := strings.Cut(string(line), "\x00"); mine && first == name {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			list = append(list, pid)
		}
	}
	return list
}

// awaitPart waits until a part of runsc runs, with the sandbox.
func awaitPart(t *testing.T, runsc, name string) int {
	t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if list := partsOf(runsc, name); len(list) > 0 && len(partsOf(runsc, "runsc-sandbox")) > 0 {
			return list[0]
		}
	}
	t.Fatalf("%s does not run", name)
	return 0
}

// TestContainerRefused checks that golem runs no command without a runsc that works.
func TestContainerRefused(t *testing.T) {
	for name, script := range map[string]string{
		"is release-20220101.0":   "#!/bin/sh\necho runsc version release-20220101.0\n",
		"is not runsc":            "#!/bin/sh\necho crun version 1\n",
		"--version failed":        "#!/bin/sh\nexit 1\n",
		"is not an absolute path": "",
		"no such file":            "missing",
	} {
		file := sandbox.Host(t.TempDir() + "/runsc")
		switch script {
		case "":
			file = "runsc"
		case "missing":
		default:
			check(t, os.WriteFile(string(file), []byte(script), 0o755))
		}
		s, err := jail.Start(jail.Policy{Least: jail.Container, Runsc: file}, time.Now)
		if err == nil {
			s.Close()
		}
		var known *sandbox.Error
		if !errors.As(err, &known) || known.Code != jail.ErrNoSandbox || !strings.Contains(known.Hint, name) || !strings.Contains(known.Hint, "docs/jail.md") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// This one passes the first check, and cannot run a command.
	file := sandbox.Host(t.TempDir() + "/runsc")
	check(t, os.WriteFile(string(file), []byte("#!/bin/sh\necho runsc version release-20260101.0\n[ \"$1\" = --version ]\n"), 0o755))
	s, err := jail.Start(jail.Policy{Least: jail.Container, Runsc: file}, time.Now)
	check(t, err)
	defer s.Close()
	_, err = s.Run(context.Background(), jail.Shell("true"))
	var known *sandbox.Error
	if !errors.As(err, &known) || known.Code != jail.ErrNoSandbox || !strings.Contains(known.Hint, "runsc") {
		t.Errorf("a broken runsc: %v", err)
	}
}

// TestUnusableRunsc checks that commands with content from strangers run at the level namespaces
// if the runsc that the user named is missing, and that their results say so.
func TestUnusableRunsc(t *testing.T) {
	for _, strongest := range []bool{true, false} {
		s, err := jail.Start(jail.Policy{Runsc: sandbox.Host(t.TempDir() + "/missing"), Least: jail.Namespaces, Strongest: strongest}, time.Now)
		check(t, err)
		r, err := s.Run(context.Background(), jail.Shell("true"))
		check(t, errors.Join(err, s.Close()))
		if r.Level != jail.Namespaces || r.NoRunsc != strongest {
			t.Errorf("strongest %v: the level is %s, no runsc: %v", strongest, r.Level, r.NoRunsc)
		}
	}
}

// TestContainerForStrangers checks that commands with content from strangers run at the
// level container if there is a runsc. A directory at two paths needs the level namespaces.
func TestContainerForStrangers(t *testing.T) {
	for name, test := range map[string]struct {
		policy jail.Policy
		want   jail.Level
	}{
		"a runsc":   {jail.Policy{Runsc: sandbox.Host(testutil.Runsc(t))}, jail.Container},
		"two paths": {jail.Policy{Runsc: sandbox.Host(testutil.Runsc(t)), Second: "/home/somebody/project", SecondOf: jail.Work, Mounts: []jail.Mount{{Source: sandbox.Host(t.TempDir()), Target: jail.Work}}}, jail.Namespaces},
	} {
		test.policy.Least, test.policy.Strongest = jail.Namespaces, true
		s, err := jail.Start(test.policy, time.Now)
		check(t, err)
		r, err := s.Run(context.Background(), jail.Shell("true"))
		check(t, errors.Join(err, s.Close()))
		if r.Level != test.want || r.NoRunsc {
			t.Errorf("%s: the level is %s, want %s; no runsc: %v", name, r.Level, test.want, r.NoRunsc)
		}
	}
}
