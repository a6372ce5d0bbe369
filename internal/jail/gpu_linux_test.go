package jail_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// fakeDevices mounts a /dev with devices that have the names of NVIDIA's and do what others
// do: the GPU is /dev/zero.
func fakeDevices(t *testing.T, names ...string) {
	t.Helper()
	check(t, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
	check(t, unix.Mount("none", "/dev", "tmpfs", 0, "mode=0755"))
	node := func(name string, minor uint32) {
		check(t, unix.Mknod("/dev/"+name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))))
		check(t, os.Chmod("/dev/"+name, 0o666))
	}
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		node(name, minor)
	}
	check(t, os.MkdirAll("/dev/nvidia-caps", 0o755))
	check(t, os.MkdirAll("/dev/dri", 0o755))
	for _, name := range names {
		node(name, 5)
	}
}

// TestGPU checks which devices commands see with a GPU, that they can use them, and that
// nothing else opens. NVIDIA's library sets the names of its threads.
func TestGPU(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make devices")
	}
	if !testutil.Mounts(t) {
		return
	}
	fakeDevices(t, "nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps/nvidia-cap1", "nvidia", "dri/renderD128", "kfd", "mem")
	check(t, os.Symlink("mem", "/dev/nvidia1"))
	check(t, os.WriteFile("/dev/nvidia2", nil, 0o666))
	start := func(p jail.Policy) func(line string) string {
		s, err := jail.Start(p, time.Now)
		check(t, err)
		t.Cleanup(func() { s.Close() })
		return func(line string) string {
			r, err := s.Run(context.Background(), jail.Shell(line))
			check(t, err)
			return strings.TrimSpace(string(r.Stdout.Head) + string(r.Stderr.Head))
		}
	}
	usual := strings.Fields(start(jail.Policy{})("ls /dev"))
	dir := t.TempDir()
	sh := start(jail.Policy{GPU: true, Mounts: []jail.Mount{{Source: sandbox.Host(dir), Target: jail.Work, Write: true}}})
	want := append(usual, "nvidia-uvm", "nvidia0", "nvidia12", "nvidiactl")
	slices.Sort(want)
	if got := strings.Fields(sh("LC_ALL=C ls /dev")); !slices.Equal(got, want) {
		t.Errorf("in /dev: %q, want %q", got, want)
	}
	for line, want := range map[string]string{
		"head -c 4 /dev/nvidia0 | wc -c; echo x > /dev/nvidiactl && echo ok": "4\nok",
		"stty -F /dev/nvidia0": "Inappropriate ioctl", // Landlock would refuse it
		"chmod 600 /dev/nvidia0 || rm /dev/nvidia0 || mv /dev/zero /dev/nvidia0": "Read-only file system",
		"echo name > /proc/self/task/$$/comm; read n < /proc/$$/comm; echo $n":   "name",
		"echo 1 > /proc/sys/vm/drop_caches":                                      "Read-only file system",
		"echo 1 > /proc/sys/kernel/core_pattern":                                 "Read-only file system",
		"echo b > /proc/sysrq-trigger":                                           "No such file",
		"ls -A /proc/driver /proc/1; cat /proc/kmsg":                             "/proc/1:\n\n/proc/driver:",
		"echo 1000 > /proc/1/oom_score_adj":                                      "Read-only file system",
		"echo -1000 > /proc/self/oom_score_adj":                                  "denied",
	} {
		if got := sh(line); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	// Of all files in /proc, only those of its own processes open for writing.
	probes, tried := t.TempDir(), false
	copyOfSelf(t, probes)
	for line := range strings.Lines(start(jail.Policy{GPU: true, Mounts: []jail.Mount{{Source: sandbox.Host(probes), Target: "/probe"}}})(probeWord + "=writeproc /probe/probe; true")) {
		word, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		part := strings.Split(name, "/")
		switch {
		case line == "tried true" || line == "tried true\n":
			tried = true
		case word != "writable" || len(part) < 4 || strings.Trim(part[2], "0123456789") != "" || part[2] == "1" || part[3] == "net":
			t.Errorf("in /proc: %q", line)
		}
	}
	if !tried {
		t.Error("nothing was tried in /proc")
	}
	readOnly := start(jail.Policy{GPU: true})
	if got := readOnly("echo name > /proc/self/comm && head -c 4 /dev/nvidia0 | wc -c; echo x > /dev/nvidia12 && echo x > /proc/sys/vm/drop_caches"); got != "4\nbash: line 1: /proc/sys/vm/drop_caches: Read-only file system" {
		t.Errorf("without a directory to write: %q", got)
	}

	refused := func(what string, p jail.Policy, want string) {
		t.Helper()
		s, err := jail.Start(p, time.Now)
		var known *sandbox.Error
		if err == nil {
			s.Close()
		}
		if !errors.As(err, &known) || known.Code != jail.ErrNoSandbox || !strings.HasPrefix(known.Hint, "golem ran no command: "+want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	if runsc := testutil.FindRunsc(); runsc != "" {
		refused("container", jail.Policy{GPU: true, Least: jail.Container, Runsc: sandbox.Host(runsc)}, "the level container shows no GPU;")
		refused("for strangers", jail.Policy{GPU: true, Strongest: true, Runsc: sandbox.Host(runsc)}, "the level container shows no GPU")
	}
	check(t, unix.Mount("none", "/sys/fs/cgroup", "tmpfs", 0, ""))
	refused("groupless", jail.Policy{GPU: true}, "a command with the GPU needs a control group")
	check(t, unix.Unmount("/sys/fs/cgroup", 0))
	check(t, os.Chmod("/dev/nvidia12", 0o600))
	whyNot := make(chan string)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		unix.RawSyscall(unix.SYS_SETRESUID, 99, 99, 99)
		_, why, _ := jail.GPU()
		whyNot <- why
	}()
	if why := <-whyNot; why != "your user may not use /dev/nvidia12 (permission denied)" {
		t.Errorf("as another user: %q", why)
	}
	check(t, os.Remove("/dev/nvidia-uvm"))
	refused("half a driver", jail.Policy{GPU: true}, "the driver has not made /dev/nvidiactl and /dev/nvidia-uvm yet; run nvidia-modprobe")
	check(t, errors.Join(os.Remove("/dev/nvidia0"), os.Remove("/dev/nvidia12")))
	refused("no GPU", jail.Policy{GPU: true}, "this machine has no NVIDIA GPU")
	fakeDevices(t, "nvidia0", "nvidiactl", "nvidia-uvm")
	refuseUserNamespaces(t)
	refused("landlock", jail.Policy{GPU: true}, "a command with the GPU needs the level namespaces")
	start(jail.Policy{})("true")
}
