package jail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/sandbox"
)

// A probeProcess is a process that runs Probe.
type probeProcess struct {
	state    string // the state directory
	uid      int    // the user of the process; 0 for the user of the tests
	filtered bool   // as in a container of Docker
	overlaid bool   // the state directory is on an overlay
}

// examined marks the process and holds the state directory.
const examined, overlaid = "GOLEM_TEST_EXAMINED", "GOLEM_TEST_OVERLAID"

// TestExamined runs in the probeProcess. The other tests start it.
func TestExamined(t *testing.T) {
	state := os.Getenv(examined)
	if state == "" {
		return
	}
	if os.Getenv(overlaid) != "" {
		options := fmt.Sprintf("lowerdir=%s/l,upperdir=%[1]s/u,workdir=%[1]s/w", filepath.Dir(state))
		if err := unix.Mount("overlay", state, "overlay", 0, options); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(Probe(sandbox.Host(state), time.Now))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nreport %s\n", data)
}

// copyForUser returns a copy of this program that every user may run, and a directory that
// the user may write.
func copyForUser(t *testing.T, uid int) (program, dir string) {
	t.Helper()
	top, err := os.MkdirTemp("", "golem-probe-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	program, dir = filepath.Join(top, "test"), filepath.Join(top, "dir")
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Chmod(top, 0o711), os.Chmod(program, 0o755), os.Mkdir(dir, 0o700), os.Chown(dir, max(uid, os.Getuid()), -1)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return program, dir
}

// runProbe returns the report of Probe in a probeProcess.
func runProbe(t *testing.T, p probeProcess, program string) Report {
	t.Helper()
	cmd := exec.Command(program, "-test.run=^TestExamined$")
	cmd.Env = []string{examined + "=" + p.state}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if p.uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid)}
	}
	if p.overlaid {
		cmd.Env = append(cmd.Env, overlaid+"=1")
		cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS // its mounts are made private, and end with it
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its filter
		if p.filtered {
			if err := refuseNamespaces(); err != nil {
				done <- err
				return
			}
		}
		done <- cmd.Run()
	}()
	if err := <-done; err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	_, text, _ := strings.Cut(out.String(), "\nreport ")
	text, _, _ = strings.Cut(text, "\n")
	var r Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return r
}

// refuseNamespaces lays on the calling thread a filter that refuses user
// namespaces as Docker's does.
func refuseNamespaces() error {
	if err := noPrivileges(); err != nil {
		return err
	}
	var b filterBuilder
	b.load(atCall)
	b.when(unix.SYS_CLONE3, deny|uint32(unix.ENOSYS))
	for _, call := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		b.call(call, func() {
			b.load(atArgs)
			b.any(unix.CLONE_NEWUSER, deny|uint32(unix.EPERM))
		})
	}
	b.always(allow)
	return filter(b.program)
}

// runAsEachUser runs a test as root and as an ordinary user.
func runAsEachUser(t *testing.T, test func(t *testing.T, uid int)) {
	if os.Geteuid() != 0 {
		t.Run("user", func(t *testing.T) { test(t, 0) })
		return
	}
	t.Run("root", func(t *testing.T) { test(t, 0) })
	t.Run("user", func(t *testing.T) { test(t, 12345) })
}

// checkEmpty fails if a directory is not empty.
func checkEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("leftover files: %v, %v", left, err)
	}
}

// TestProbe checks that the report says so if the machine can do everything, and that the
// state directory is unchanged.
func TestProbe(t *testing.T) {
	runAsEachUser(t, func(t *testing.T, uid int) {
		program, dir := copyForUser(t, uid)
		r := runProbe(t, probeProcess{state: filepath.Join(dir, "not", "made", "yet"), uid: uid}, program)
		if r.Best != Namespaces {
			t.Errorf("level: got %s, want namespaces; %+v", r.Best, r.Found)
		}
		for _, name := range []string{"namespaces", "overlay", "seccomp", "network", "sockets"} {
			if f := find(t, r.Found, name); f.Holds != Yes || f.Fix != "" {
				t.Errorf("%+v, want yes", f)
			}
		}
		if f := find(t, r.Found, "limits"); f.Holds == No {
			t.Errorf("%+v, want yes or part", f)
		}
		abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
		if f := find(t, r.Found, "landlock"); !strings.HasPrefix(f.Why, fmt.Sprintf("ABI %d", abi)) {
			t.Errorf("%+v, want ABI %d", f, abi)
		}
		checkEmpty(t, dir)
	})
}

// TestProbeFiltered checks that the report names the lower level, the cause and a fix if
// user namespaces are refused.
func TestProbeFiltered(t *testing.T) {
	runAsEachUser(t, func(t *testing.T, uid int) {
		program, dir := copyForUser(t, uid)
		r := runProbe(t, probeProcess{state: dir, uid: uid, filtered: true}, program)
		if r.Best != Landlock {
			t.Errorf("level: got %s, want landlock; %+v", r.Best, r.Found)
		}
		f := find(t, r.Found, "namespaces")
		if f.Holds != No || !strings.Contains(f.Why, "(a user namespace): fork/exec: operation not permitted; a seccomp filter around golem refuses it") {
			t.Errorf("namespaces: got %+v", f)
		}
		if !strings.Contains(f.Fix, "--security-opt seccomp=unconfined") {
			t.Errorf("fix: got %q", f.Fix)
		}
		if f := find(t, r.Found, "landlock"); f.Holds == No {
			t.Errorf("landlock: got %+v", f)
		}
		checkEmpty(t, dir)
	})
}

// TestProbeState checks that the report names a state directory that cannot hold overlays
// as the cause, and that the other trials still run.
func TestProbeState(t *testing.T) {
	check := func(t *testing.T, r Report, why string) {
		t.Helper()
		f := find(t, r.Found, "overlay")
		if f.Holds != Part || !strings.Contains(f.Why, why) || !strings.Contains(f.Fix, "--state DIR") {
			t.Errorf("layers: got %+v, want part, …%s…", f, why)
		}
		if r.Best != Namespaces {
			t.Errorf("level: got %s, want namespaces; %+v", r.Best, r.Found)
		}
	}
	t.Run("not writable", func(t *testing.T) {
		uid := 0
		if os.Geteuid() == 0 {
			uid = 12345
		}
		program, dir := copyForUser(t, uid)
		closed := filepath.Join(dir, "..", "closed")
		if err := os.Mkdir(closed, 0o555); err != nil {
			t.Fatal(err)
		}
		check(t, runProbe(t, probeProcess{state: filepath.Join(closed, "x"), uid: uid}, program), "permission denied")
	})
	t.Run("overlayfs", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can mount a directory for others")
		}
		program, dir := copyForUser(t, 0)
		for _, name := range []string{"l", "u", "w", "state"} {
			if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		check(t, runProbe(t, probeProcess{state: filepath.Join(dir, "state"), overlaid: true}, program), "which is on overlayfs: overlay: invalid argument; that file system cannot hold one")
	})
	t.Run("none", func(t *testing.T) {
		check(t, Probe("", time.Now), "there is no state directory")
	})
}

// TestProbeUnreadable checks that the report names the cause if golem's file may be run
// but not read.
func TestProbeUnreadable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run programs that it cannot read")
	}
	program, dir := copyForUser(t, 12345)
	if err := os.Chmod(program, 0o711); err != nil {
		t.Fatal(err)
	}
	r := runProbe(t, probeProcess{state: dir, uid: 12345}, program)
	f := find(t, r.Found, "namespaces")
	if f.Holds != No || !strings.Contains(f.Why, "golem may run its own program file but not read it") || f.Fix != "sudo chmod a+r '"+program+"'" {
		t.Errorf("got %+v", f)
	}
}
