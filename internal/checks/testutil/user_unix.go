//go:build unix

package testutil

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// nobody is the usual id of a user without privileges.
const nobody = 65534

// OrdinaryUser runs tests again as a user without privileges, with flags of the test
// program, and returns their output. Root passes checks that stop others. If the tests
// already run as an ordinary user, it skips the test.
func OrdinaryUser(t *testing.T, flags ...string) (output string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("this is an ordinary user: the other tests have done it")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "ordinary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	home, binary := filepath.Join(dir, "home"), filepath.Join(dir, filepath.Base(os.Args[0]))
	for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(home, 0o700), os.Chown(home, nobody, nobody), copyFile(os.Args[0], binary)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(binary, append([]string{"-test.timeout=5m"}, flags...)...)
	cmd.Dir = home
	cmd.Env = []string{"TMPDIR=" + home, "HOME=" + home, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
	return string(out)
}

// copyFile copies a program to a place where every user can run it, because the go
// command builds into a directory that only root can enter. It prevents forks meanwhile:
// a new child would hold the copy open for writing, and then the kernel refuses to run
// it.
func copyFile(from, to string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, in)
	return err
}
