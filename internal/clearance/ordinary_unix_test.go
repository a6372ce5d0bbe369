//go:build unix

package clearance_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// nobody is a user without privileges, on every Unix.
const nobody = 65534

// Root may do what others may not, and is refused less. Where root runs the
// tests, these run once more as somebody else.
func TestOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this is an ordinary user: the other tests have done it")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "ordinary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	home, binary := filepath.Join(dir, "home"), filepath.Join(dir, "clearance.test")
	for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(home, 0o700), os.Chown(home, nobody, nobody), copyFile(os.Args[0], binary)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(binary, "-test.timeout=5m", "-test.run=^(TestThreats|TestPushToALocalTarget|TestPushOverSSH|TestALinkedWorktree)$/^(G.*|clean|in_the_way|changed_as_staged|inherit)$")
	cmd.Dir = home
	cmd.Env = []string{"TMPDIR=" + home, "HOME=" + home, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
}

// copyFile copies a program to where everybody may run it: the go command builds
// into a folder that only root enters.
func copyFile(from, to string) error {
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
