package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestForeignTerminal: at a terminal of another user, as after su, nobody can be
// asked; golem says why.
func TestForeignTerminal(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has terminals that others inherit")
	}
	const uid = 12345
	top, err := os.MkdirTemp("", "golem-terminal-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	self, err := exec.LookPath("golem")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	program, dir := filepath.Join(top, "golem"), filepath.Join(top, "dir")
	for _, do := range []func() error{
		func() error { return err },
		func() error { return os.Chmod(top, 0o755) },
		func() error { return os.WriteFile(program, data, 0o755) },
		func() error { return os.Mkdir(dir, 0o700) },
		func() error { return os.Chown(dir, uid, uid) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	golem := func(args ...string) (string, int) {
		var out bytes.Buffer
		cmd := &exec.Cmd{Path: program, Args: append([]string{"golem"}, args...), Dir: dir, Env: []string{"GOLEM_STATE=" + filepath.Join(dir, "state"), "HOME=" + dir},
			Stdin: terminal, Stdout: &out, Stderr: &out,
			SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}}
		cmd.Run()
		return out.String(), cmd.ProcessState.ExitCode()
	}
	if out, code := golem("init", "notes"); code != 0 {
		t.Fatalf("code %d\n%s", code, out)
	}
	out, code := golem("tool", "write_file", "-C", "notes", "--path", "/out/a", "--content", "x")
	if code != 3 || !strings.Contains(out, "it waits for the user's consent") || !strings.Contains(out, "\nnote: nobody was asked: the terminal belongs to another user") {
		t.Errorf("code %d\n%s", code, out)
	}
}
