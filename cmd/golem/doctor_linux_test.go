package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refuseNamespaces installs a filter on the calling thread that refuses new user
// namespaces, as Docker's filter does.
func refuseNamespaces() error {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		bits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
	)
	program := []unix.SockFilter{
		{Code: load, K: 0}, // the system call number
		{Code: equal, Jt: 2, K: unix.SYS_CLONE},
		{Code: equal, Jt: 1, K: unix.SYS_UNSHARE},
		{Code: ret, K: 0x7fff0000}, // allow
		{Code: load, K: 16},        // the flags of the call
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

// runFiltered runs golem in a directory, with a filter that refuses user namespaces.
func runFiltered(t *testing.T, dir, state string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command("golem", args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(os.Environ(), "GOLEM_STATE="+state, "GOLEM_APPROVAL=approve_all")
	err := withoutNamespaces(cmd.Run)
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestShellFiltered: without user namespaces, a command runs at the level landlock, and a
// note says that it isolates less. If the program requires namespaces, golem runs no
// command. A golem inside a command still detects that.
func TestShellFiltered(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	program := func(config string) {
		t.Helper()
		for name, text := range map[string]string{"golem-forge.config.yaml": "sandbox:\n  root: .\n" + config, "main.worker": "---\ndescription: Works\nsandbox: inherit\ntoolsets:\n  shell:\n---\nWork.\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if out, errs, code := runFiltered(t, dir, state, "trust", "--yes"); code != 0 {
			t.Fatalf("trust: code %d\n%s%s", code, out, errs)
		}
	}
	program("")
	self, err := exec.LookPath("golem")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "again"), data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code := runFiltered(t, dir, state, "tool", "shell", "--command", "echo made > file; unset GOLEM_JAIL; ./again tools; echo code $?")
	for _, want := range []string{"exit 0 in ", " (landlock, network off", "note: commands run at the level landlock here: it isolates less than namespaces", "golem runs inside one of its own commands", "code 3\n"} {
		if !strings.Contains(out, want) || code != 0 {
			t.Errorf("code %d, lacks %q:\n%s%s", code, want, out, errs)
		}
	}
	if made, err := os.ReadFile(filepath.Join(dir, "file")); string(made) != "made\n" {
		t.Errorf("the command has written %q, %v", made, err)
	}
	program("  require_os_sandbox: namespaces\n")
	out, errs, code = runFiltered(t, dir, state, "tool", "shell", "--command", "echo more > file2")
	if code != 5 || !strings.Contains(errs, "no_os_sandbox; golem ran no command: require_os_sandbox or --jail requires the level namespaces, and this machine cannot provide it (") {
		t.Errorf("pinned: code %d, want 5\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "file2")); err == nil {
		t.Error("namespaces are required: the command ran")
	}
	out, errs, code = runFiltered(t, dir, state, "tool", "shell", "--command", "true", "--approval", "interactive")
	if code != 5 || strings.Contains(errs, "consent") {
		t.Errorf("namespaces are required: code %d, want 5\n%s%s", code, out, errs)
	}
	out, errs, code = runFiltered(t, dir, state, "doctor")
	for _, want := range []string{"\nrequired     no    golem-forge.config.yaml:3 requires namespaces (require_os_sandbox), and the best here is landlock: its commands are refused\n", "\ncommands of this program are refused: "} {
		if code != 5 || !strings.Contains(out, want) {
			t.Errorf("doctor: code %d, lacks %q\n%s%s", code, want, out, errs)
		}
	}
	program("  mounts:\n    - {source: ./sub, target: /sub, mode: ro}\n")
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, errs, code = runFiltered(t, dir, state, "tool", "shell", "--command", "true")
	const want = "/sub is read-only inside /work, which may be written, and landlock opens everything below a directory; give both directories the same rules, or run golem doctor to see what the level namespaces lacks\n"
	if code != 5 || !strings.HasPrefix(errs, "golem: jail: no_os_sandbox; golem ran no command: this machine cannot provide the level namespaces (") || !strings.HasSuffix(errs, want) || strings.Count(errs, "\n") != 1 {
		t.Errorf("a part that is read-only: code %d, want 5 and one line\n%s%s", code, out, errs)
	}
}

// TestDoctorFiltered: without user namespaces, golem doctor reports the remaining level,
// the reason and the fix. Its exit code is 5.
func TestDoctorFiltered(t *testing.T) {
	run := func(args ...string) (string, int) {
		t.Helper()
		out, errs, code := runFiltered(t, t.TempDir(), t.TempDir(), args...)
		if errs != "" {
			t.Fatal(errs)
		}
		return out, code
	}
	text, code := run("doctor")
	if code != 5 {
		t.Errorf("exit code: got %d, want 5\n%s", code, text)
	}
	for _, want := range []string{
		"\nnamespaces   no    no users of its own (a user namespace): fork/exec: operation not permitted; a seccomp filter around golem refuses it, as Docker's does by default\n",
		"\nlandlock     ",
		"\ncommands run at the level landlock, which is weaker than namespaces, the default. A command\n",
		"\n  part  opens only the directories it is given",
		"\nto fix namespaces:\n  start the container with: docker run --security-opt seccomp=unconfined ",
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
