package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A weakness is a feature that a machine lacks.
type weakness struct {
	name  string
	mount string // a shell line that removes the feature, run as root in a mount namespace
	calls []int  // system calls that the kernel lacks
	users bool   // whether user namespaces are refused
}

// weaknesses returns those of containers, CI runners and old kernels.
func weaknesses() []weakness {
	return []weakness{
		{name: "state on overlayfs", mount: `mkdir -p $TOP/up $TOP/wk $TOP/state && mount -t overlay -o lowerdir=$TOP/state,upperdir=$TOP/up,workdir=$TOP/wk none $TOP/state`},
		{name: "no user namespaces", users: true},
		{name: "no control groups", mount: `mount -t tmpfs -o ro none /sys/fs/cgroup`},
		{name: "read-only home", mount: `mount -t tmpfs -o ro none $HOME`},
		{name: "no /dev/shm", mount: `umount -l /dev/shm; mount -t tmpfs -o ro none /dev/shm`},
		{name: "no landlock", calls: []int{unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF}},
		{name: "no openat2", calls: []int{unix.SYS_OPENAT2}},
		{name: "no new mount calls", calls: []int{unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR}},
		{name: "no pidfd", calls: []int{unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_PIDFD_GETFD}},
		{name: "no close_range", calls: []int{unix.SYS_CLOSE_RANGE}},
	}
}

// TestWeakerMachines runs everyday work on machines that lack one or two features. golem
// either does the work or refuses in one line, with what is missing and what to type. In
// both cases golem changes no file of the user before apply_changes.
func TestWeakerMachines(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can remove features of the machine")
	}
	list := weaknesses()
	for i, a := range list {
		t.Run(a.name, func(t *testing.T) { t.Parallel(); tryWeaker(t, a) })
		for j, b := range list[:i] {
			// All pairs take minutes, so by default it tries only the pairs of state,
			// level and home.
			if os.Getenv("GOLEM_TEST_ROUNDS") != "" || j < 2 && i < 5 || a.name == "no landlock" && b.users {
				t.Run(a.name+", "+b.name, func(t *testing.T) { t.Parallel(); tryWeaker(t, a, b) })
			}
		}
	}
}

func tryWeaker(t *testing.T, lacks ...weakness) {
	top, err := os.MkdirTemp("", "weaker") // no commas in the path, because they separate mount options
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	for _, dir := range []string{"home", "project", "state"} {
		if err := os.Mkdir(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "project", "old"), []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var calls []int
	users, lines := false, "set -e\n"
	for _, l := range lacks {
		calls, users, lines = append(calls, l.calls...), users || l.users, lines+l.mount+"\n"
	}
	run := func(line string) error {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked, so the thread ends with its filter
			err := refuseCalls(calls, users)
			if err == nil {
				cmd := exec.Command("unshare", "-m", "sh", "-c", line)
				cmd.Env = append(os.Environ(), "HOME="+top+"/home", "GOLEM_STATE="+top+"/state", "TOP="+top, "XDG_RUNTIME_DIR=")
				cmd.Stderr = os.Stderr
				err = cmd.Run()
			}
			done <- err
		}()
		return <-done
	}
	lines += `set +e
cd $TOP/project
golem exec -- sh -c 'cat old; echo new > new; rm old' >$TOP/out 2>$TOP/err; echo $? >$TOP/code
ls >$TOP/before
golem tool apply_changes --approval approve_all >$TOP/applied 2>&1
ls >$TOP/after
`
	if err := run(lines); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(top, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(data)
	}
	got := fmt.Sprintf("code %s%s\n%s\n%s", read("code"), read("out"), read("err"), read("applied"))
	if read("before") != "old\n" {
		t.Errorf("the files were changed before they were applied: %q\n%s", read("before"), got)
	}
	if read("code") == "0\n" {
		if read("out") != "old\n" || read("after") != "new\n" {
			t.Errorf("got %s\nafter %q", got, read("after"))
		}
		return
	}
	lines = strings.TrimSpace(read("err"))
	refusal := lines[strings.LastIndex(lines, "\n")+1:]
	if read("after") != "old\n" || !strings.Contains(refusal, "golem doctor") || strings.Contains(refusal, "EOF") || strings.Contains(refusal, "broken pipe") {
		t.Errorf("the refusal is not one line that says what is missing and what to type:\n%s", got)
	}
	t.Logf("%s", refusal)
}

// refuseCalls installs a filter on the calling thread. The filter fails calls with ENOSYS, like
// a kernel that lacks them. With users it also refuses user namespaces, as Docker's
// filter does.
func refuseCalls(calls []int, users bool) error {
	if users {
		if err := refuseNamespaces(); err != nil {
			return err
		}
	}
	if len(calls) == 0 {
		return nil
	}
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
	)
	program := []unix.SockFilter{{Code: load, K: 0}}
	for i, call := range calls {
		program = append(program, unix.SockFilter{Code: equal, Jt: uint8(len(calls) - i), K: uint32(call)})
	}
	program = append(program, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW}, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, 1 /* SECCOMP_SET_MODE_FILTER */, 0, uintptr(unsafe.Pointer(&p))); errno != 0 {
		return errno
	}
	return nil
}
