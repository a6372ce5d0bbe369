package project_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/golem-forge/golem/internal/work/project"
)

// TestBindMounts finds a home, state and configuration that a bind mount shows under
// another name. It runs itself again in a process that may mount.
func TestBindMounts(t *testing.T) {
	const again = "GOLEM_TEST_MOUNTS"
	if os.Getenv(again) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestBindMounts$", "-test.v")
		cmd.Env = append(os.Environ(), again+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "the mounts exist, and golem refuses them") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := func(name string) string { return filepath.Join(top, name) }
	for _, dir := range []string{"users/me/shop", "state/x", "config", "program/a", "program/b", "program/c", "program/d/in", "program/e", "program/f"} {
		must(t, os.MkdirAll(at(dir), 0o777))
	}
	env := project.Env{State: at("state"), Configs: []string{at("config")}, Homes: []string{at("users/me")}}
	for from, to := range map[string]string{"users/me": "program/a", "users": "program/b", "users/me/shop": "program/c", "config": "program/e", "state/x": "program/f"} {
		must(t, syscall.Mount(at(from), at(to), "", syscall.MS_BIND, ""))
	}
	must(t, syscall.Mount(at("users/me"), at("program/d/in"), "", syscall.MS_BIND, ""))
	for _, test := range []struct{ root, want string }{
		{"a", "is your home directory"},
		{"b", "contains your home directory"},
		{"c", ""}, // below the home
		{"d", "contains your home directory, which is mounted in it"},
		{"e", "shows golem's own configuration"},
		{"f", "shows golem's own state"},
		{".", "contains your home directory, which is mounted in it"},
	} {
		_, err := project.Parse(at("program"), "p.yaml", []byte("sandbox: {root: "+test.root+"}"), env, nil)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want+"; ")) {
			t.Errorf("root %s: got %v, want %q", test.root, err, test.want)
		}
	}
	for _, dir := range []string{"a", "b", "c", "d/in", "e", "f"} {
		must(t, syscall.Unmount(at("program/"+dir), syscall.MNT_DETACH))
	}
	if !t.Failed() {
		t.Log("the mounts exist, and golem refuses them")
	}
}
