package jail_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// TestAttacksOverTime checks what one command can do to the next one, which may run in
// another cell.
func TestAttacksOverTime(t *testing.T) {
	self := copyOfSelf(t, t.TempDir())
	for _, a := range laterAttacks() {
		t.Run(a.name, func(t *testing.T) { a.try(t, newAttackEnv(t, self)) })
	}
}

// runInNewCell runs a line in a new cell, because another command occupies the first one. It
// returns the output, or "" if no new cell can start.
func (y *attackEnv) runInNewCell(line string) string {
	y.t.Helper()
	var wait sync.WaitGroup
	defer wait.Wait()
	defer os.WriteFile(y.work+"/go", nil, 0o644)
	refused := make(chan struct{})
	wait.Go(func() {
		if _, err := y.session.Run(context.Background(), jail.Shell("echo > /work/began; until [ -e /work/go ]; do sleep 0.01; done")); err != nil {
			close(refused)
		}
	})
	for i := 0; ; i++ {
		if _, err := os.Stat(y.work + "/began"); err == nil {
			break
		}
		select {
		case <-refused:
			return ""
		case <-time.After(10 * time.Millisecond):
		}
		if i > 1000 {
			y.t.Fatal("the other command did not start")
		}
	}
	r, err := y.session.Run(context.Background(), jail.Shell(line))
	if err != nil {
		return ""
	}
	return y.outputOf(r)
}

// mountInside makes directories inside the writable one and mounts them. One without a source
// is hidden.
func (y *attackEnv) mountInside(mounts ...jail.Mount) {
	y.t.Helper()
	for _, m := range mounts {
		if m.Source != "" {
			m.Source = sandbox.Host(y.work) + "/" + m.Source
			check(y.t, os.MkdirAll(string(m.Source), 0o755))
		}
		y.policy.Mounts = append(y.policy.Mounts, m)
	}
}

// restart makes an empty directory and starts another session.
func (y *attackEnv) restart(name string) {
	y.t.Helper()
	if y.session != nil {
		y.session.Close()
		y.session = nil
	}
	top, _, _ := strings.Cut(name, "/")
	for _, old := range []string{top, "go", "began"} {
		check(y.t, os.RemoveAll(y.work+"/"+old))
	}
	check(y.t, os.MkdirAll(y.work+"/"+name, 0o755))
}

// laterAttacks returns attacks of a command on later commands.
func laterAttacks() []attack {
	// Paths to the outside directory: in the tree of the cell while it builds, and on the
	// host.
	ways := func(y *attackEnv) []string {
		return []string{"/old" + y.outside, strings.Repeat("../", 20) + "old" + y.outside, "../../outside"}
	}
	return []attack{
		{"a folder that is shown is swapped for a link", func(t *testing.T, y *attackEnv) {
			y.mountInside(jail.Mount{Source: "a/in", Target: "/in2"})
			for _, to := range ways(y) {
				y.restart("a/in")
				y.sh("rmdir a/in; ln -s %s a/in", to)
				if out := y.runInNewCell("cat /in2/.netrc; ls -A /in2"); strings.Contains(out, ".netrc\n") {
					t.Errorf("%s is shown:\n%s", to, out)
				}
			}
		}},
		{"a folder that may be written is swapped for a link", func(t *testing.T, y *attackEnv) {
			y.mountInside(jail.Mount{Source: "a/out", Target: "/out", Write: true})
			for _, to := range ways(y) {
				y.restart("a/out")
				y.sh("rmdir a/out; ln -s %s a/out", to)
				y.runInNewCell("echo x > /out/planted") // the end of the test checks the outside directory
			}
		}},
		{"the place of a folder is swapped for a link", func(t *testing.T, y *attackEnv) {
			y.mountInside(jail.Mount{Source: "other", Target: "/work/a/b/c"})
			for _, to := range ways(y) {
				y.restart("a/b/c")
				y.sh("mv a/b a/was; ln -s %s a/b", to)
				y.runInNewCell("true")
			}
		}},
		{"a folder that is shown is gone", func(t *testing.T, y *attackEnv) {
			y.mountInside(jail.Mount{Source: "a/out", Target: "/out", Write: true})
			y.sh("rmdir a/out")
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				y.session.Run(context.Background(), jail.Shell("true")) // may return an error
			}()
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Error("the call does not end")
			}
		}},
		{"what is hidden is moved", func(t *testing.T, y *attackEnv) {
			check(t, os.MkdirAll(y.work+"/a/hidden", 0o755))
			check(t, os.WriteFile(y.work+"/a/hidden/key", []byte(y.canary), 0o644))
			y.mountInside(jail.Mount{Target: "/work/a/hidden"})
			y.sh("mv a b && mkdir -p a/hidden")
			y.runInNewCell("cat /work/*/hidden/key")
		}},
		{"what may only be read is moved", func(t *testing.T, y *attackEnv) {
			y.mountInside(jail.Mount{Source: "a/kept", Target: "/work/a/kept"})
			check(t, os.WriteFile(y.work+"/a/kept/file", []byte("kept"), 0o644))
			y.sh("mv a b && mkdir -p a/kept")
			y.runInNewCell("echo x > /work/b/kept/file")
			for _, name := range []string{"/a/kept/file", "/b/kept/file"} {
				if data, err := os.ReadFile(y.work + name); err == nil && string(data) != "kept" {
					t.Errorf("%s was written", name)
				}
			}
		}},
		{"memory and messages that no process holds", func(t *testing.T, y *attackEnv) {
			if out := y.sh("ipcmk -M 4096; ipcmk -Q; ipcmk -S 1"); strings.Count(out, "id: ") != 3 {
				t.Fatalf("ipcmk failed:\n%s", out)
			}
			y.is(y.sh("tail -q -n +2 /proc/sysvipc/*"), "")
		}},
		{"files that are empty fill a file system as well", func(t *testing.T, y *attackEnv) {
			y.policy.Limits.Temp = 4 << 20
			var inodes [2]int64
			fmt.Sscan(y.sh("stat -f -c %%c /tmp /dev/shm"), &inodes[0], &inodes[1])
			for _, n := range inodes { // each is about a kilobyte of the kernel's memory
				if n == 0 || n > 1<<16 {
					t.Errorf("%d files can be made in memory", n)
				}
			}
		}},
		{"the wish to stop comes with the command", func(t *testing.T, y *attackEnv) {
			y.sh("true")
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			var wait sync.WaitGroup
			for range 4 {
				wait.Go(func() {
					for range 100 {
						if r, err := y.session.Run(ctx, jail.Shell("sleep 2; echo went on")); err == nil && len(r.Stdout.Head) > 0 {
							t.Error("the command was not stopped")
							return
						}
					}
				})
			}
			wait.Wait()
		}},
	}
}
