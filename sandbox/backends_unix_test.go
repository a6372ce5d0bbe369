//go:build linux || darwin

package sandbox_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user without privileges, on every Unix.
const nobody = 65534

// Root may do what others may not, and is refused less. Where root runs the
// tests, what touches the disk runs once more as somebody else.
func TestOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this is an ordinary user: the other tests have done it")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "ordinary")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	home := filepath.Join(dir, "home")
	must(t, os.Mkdir(home, 0o700))
	must(t, os.Chown(home, nobody, nobody))
	// The go command builds into a folder that only root enters.
	binary := filepath.Join(dir, "sandbox.test")
	copyFile(t, os.Args[0], binary)

	cmd := exec.Command(binary, "-test.v", "-test.timeout=5m",
		"-test.run=^(TestBackends|TestAttacks)$/^(dir|root|base)$", "-test.skip=^TestAttacks$/^base$")
	cmd.Dir = home
	cmd.Env = []string{"TMPDIR=" + home, "HOME=" + home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	attempts := 0
	for line := range strings.SplitSeq(out.String(), "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasSuffix(trimmed, " attempts"):
			words := strings.Fields(trimmed)
			n, _ := strconv.Atoi(words[len(words)-2])
			attempts += n
		case strings.HasPrefix(trimmed, "==="), strings.HasPrefix(trimmed, "--- PASS:"), strings.HasPrefix(trimmed, "--- SKIP:"):
		case err != nil:
			t.Log(line)
		}
	}
	if err != nil {
		t.Errorf("as user %d: %v", nobody, err)
	}
	if attempts < 10_000 {
		t.Errorf("as user %d: %d attempts, want more", nobody, attempts)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	must(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, err)
	must(t, out.Close())
}
