package checks_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestInstall installs a small program in place of golem with install.sh, replaces it with another
// version, removes it, and reads the message of each failure. A failure leaves no file behind, and
// the version before it as it was.
func TestInstall(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	if err := os.Chmod(filepath.Dir(work), 0o755); err != nil { // for the other user
		t.Fatal(err)
	}
	script, err := filepath.Abs("packaging/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, script)
	makeRelease(t, filepath.Join(work, "one"), "echo golem 1")
	makeRelease(t, filepath.Join(work, "two"), "echo golem 2")
	makeRelease(t, filepath.Join(work, "broken"), "exit 3")
	makeRelease(t, filepath.Join(work, "changed"), "echo golem 4")
	if err := os.WriteFile(archiveIn(work, "changed"), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"empty", "protected/bin", "directory/bin/golem", "tmp"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(work, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(work, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "uname", "mktemp", "rm"} { // without curl and wget
		program, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(program, filepath.Join(work, "bin", name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	install := func(env []string, args ...string) (string, error) {
		cmd := exec.Command("sh", append([]string{"-s", "--"}, args...)...)
		cmd.Dir, cmd.Stdin = work, strings.NewReader(text)
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(work, "tmp")}, env...)
		if os.Geteuid() == 0 && len(env) > 0 && env[0] == "USER=nobody" {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			cmd.Env = append(cmd.Env, "TMPDIR=/tmp")
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	home := "HOME=" + work

	// A relative directory with a space and a slash at its end becomes the absolute one in PATH.
	to := filepath.Join(work, "my programs")
	for _, version := range []string{"one", "two"} {
		out, err := install([]string{home}, "--from", version+"/", "--to", "my programs/", "--hub")
		want := "installed: " + to + "/bin/golem (golem " + map[string]string{"one": "1", "two": "2"}[version] + ")\nnext: export PATH=\"" + to + "/bin:$PATH\"; "
		if err != nil || !strings.HasPrefix(out, want) || !strings.Contains(out, "\nnext: golem exec claude") {
			t.Fatalf("got %v, %q; want %q", err, out, want)
		}
	}
	if got := files(t, to); got != "bin/golem bin/golem-hub share/doc/golem/README.md share/man/man1/golem.1.gz" {
		t.Errorf("installed %s", got)
	}

	for _, test := range []struct {
		env  []string
		args string
		want string
	}{
		{[]string{home}, "", "say where the release is: --from https://… or --from DIR"},
		{[]string{home}, "--from", "--from needs a value; sh install.sh --help explains it"},
		{[]string{home}, "one", "unknown argument one; there are --from, "},
		{[]string{home}, "--from empty", "cannot read empty/SHA256SUMS; nothing was installed; --from names the directory"},
		{[]string{home}, "--from http://localhost", "is not encrypted; use https"},
		{[]string{home, "PATH=" + filepath.Join(work, "bin")}, "--from https://localhost", "curl or wget is needed; install one of them, or download"},
		{[]string{home}, "--from changed", "does not have the hash in SHA256SUMS; nothing was installed; download it again"},
		{[]string{home}, "--from broken --to my@programs", "golem does not run in " + to + "/bin; nothing was installed; use another directory: --to DIR"},
		{[]string{home}, "--from one --to file", "cannot install to " + work + "/file: cannot write in " + work + "/file; nothing was installed; use a directory of yours: --to DIR"},
		{[]string{home}, "--from one --to directory", "directory/bin/golem is a directory; nothing was installed"},
		{[]string{"USER=nobody", home}, "--from one --to protected", "cannot write in " + work + "/protected/bin; nothing was installed; use a directory of yours: --to DIR"},
		{nil, "--from one", "HOME is not set; name the directory to install to with --to DIR"},
		{[]string{home, "TMPDIR=" + work + "/none"}, "--from one", "set TMPDIR to a directory that you can write"},
		{[]string{home}, "--remove", "there is no " + work + "/.local/bin/golem; name the directory of the installation with --to DIR"},
	} {
		args := strings.Fields(test.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "@", " ")
		}
		out, err := install(test.env, args...)
		if err == nil || !strings.Contains(out, test.want) {
			t.Errorf("%s: got %v, %q; want %q", test.args, err, out, test.want)
		}
	}
	for dir, want := range map[string]string{".local": "", "protected": "", "directory": "", "tmp": "",
		"my programs": "bin/golem bin/golem-hub share/doc/golem/README.md share/man/man1/golem.1.gz"} {
		if got := files(t, filepath.Join(work, dir)); got != want {
			t.Errorf("after the failures %s has %q, want %q", dir, got, want)
		}
	}
	if out := run(t, work, nil, filepath.Join(to, "bin/golem")); out != "golem 2\n" {
		t.Errorf("after the failures: got %q", out)
	}

	if out, err := install([]string{home}, "--remove", "--to", "my programs"); err != nil || !strings.Contains(out, "your sessions are still in ~/.local/state/golem") {
		t.Errorf("--remove: got %v, %q", err, out)
	}
	if got := files(t, to); got != "" {
		t.Errorf("--remove left %s", got)
	}
	if out, err := install([]string{home}, "--help"); err != nil || !strings.Contains(out, "sh install.sh --remove [--to DIR]") {
		t.Errorf("--help: got %v, %q", err, out)
	}
}

// archiveIn returns the archive of the release in the directory name of work.
func archiveIn(work, name string) string {
	return filepath.Join(work, name, "golem_0.0.1_linux_"+runtime.GOARCH+".tar.gz")
}

// makeRelease writes an archive whose golem is a shell script, and its hash.
func makeRelease(t *testing.T, dir, golem string) {
	t.Helper()
	var data bytes.Buffer
	zip := gzip.NewWriter(&data)
	archive := tar.NewWriter(zip)
	top := "golem_0.0.1_linux_" + runtime.GOARCH + "/"
	for _, file := range []struct{ name, text string }{
		{"bin/golem", "#!/bin/sh\n" + golem + "\n"}, {"bin/golem-hub", "#!/bin/sh\n"},
		{"share/man/man1/golem.1.gz", "manual"}, {"share/doc/golem/README.md", "readme"},
	} {
		if err := archive.WriteHeader(&tar.Header{Name: top + file.name, Mode: 0o755, Size: int64(len(file.text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(file.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	name := archiveIn(filepath.Dir(dir), filepath.Base(dir))
	sums := fmt.Sprintf("%x  %s\n", sha256.Sum256(data.Bytes()), filepath.Base(name))
	for name, text := range map[string]string{name: data.String(), filepath.Join(dir, "SHA256SUMS"): sums} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// files lists the files below dir that are no directories.
func files(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}
