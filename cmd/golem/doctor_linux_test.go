package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refuseNamespaces lays on the calling thread a filter that refuses new user
// namespaces, as Docker's does.
func refuseNamespaces() error {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		bits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
	)
	program := []unix.SockFilter{
		{Code: load, K: 0}, // the number of the call
		{Code: equal, Jt: 2, K: unix.SYS_CLONE},
		{Code: equal, Jt: 1, K: unix.SYS_UNSHARE},
		{Code: ret, K: 0x7fff0000}, // allow
		{Code: load, K: 16},        // its flags
		{Code: bits, Jt: 1, K: unix.CLONE_NEWUSER},
		{Code: ret, K: 0x7fff0000},
		{Code: ret, K: 0x00050000 | uint32(unix.EPERM)},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, 1 /* SECCOMP_SET_MODE_FILTER */, 0, uintptr(unsafe.Pointer(&p))); errno != 0 {
		return errno
	}
	return nil
}

// TestDoctorFiltered: where user namespaces are refused, golem doctor says which
// level is left, why, and what to do, and ends with the code for it.
func TestDoctorFiltered(t *testing.T) {
	run := func(args ...string) (stdout string, code int) {
		t.Helper()
		cmd := exec.Command("golem", args...)
		var out, errs bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &out, &errs
		cmd.Env = append(os.Environ(), "GOLEM_STATE="+t.TempDir())
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with its filter
			err := refuseNamespaces()
			if err == nil {
				err = cmd.Run()
			}
			done <- err
		}()
		err := <-done
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) || errs.Len() > 0 {
			t.Fatalf("%v\n%s", err, &errs)
		}
		return out.String(), cmd.ProcessState.ExitCode()
	}
	text, code := run("doctor")
	if code != 5 {
		t.Errorf("exit code: got %d, want 5\n%s", code, text)
	}
	for _, want := range []string{
		"\nnamespaces   no    no place where golem may arrange things without being root (a user namespace): fork/exec: operation not permitted; a seccomp filter around golem refuses it, as Docker's does by default\n",
		"\nlandlock     ",
		"\ncommands run at the level landlock, which is weaker than namespaces, the default. A command\n",
		"\n  part  opens the folders that it is given",
		"\nto mend namespaces:\n  start the container with: docker run --security-opt seccomp=unconfined ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	document, code := run("doctor", "--json")
	var d struct {
		Level   string
		Default bool
	}
	if err := json.Unmarshal([]byte(document), &d); err != nil || code != 5 || d.Level != "landlock" || d.Default {
		t.Errorf("--json: got %+v, code %d, %v; want landlock, code 5", d, code, err)
	}
}
