package jail_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// swaps put another directory at the path of one, and return where the first one is then.
func swaps(root bool) map[string]func(t *testing.T, top string) (old string) {
	list := map[string]func(*testing.T, string) string{
		"rename": func(t *testing.T, top string) string {
			check(t, os.Rename(top+"/project", top+"/was"))
			check(t, os.Rename(top+"/other", top+"/project"))
			return top + "/was"
		},
		"exchange": func(t *testing.T, top string) string {
			check(t, unix.Renameat2(unix.AT_FDCWD, top+"/project", unix.AT_FDCWD, top+"/other", unix.RENAME_EXCHANGE))
			return top + "/other"
		},
		"link": func(t *testing.T, top string) string {
			check(t, os.Rename(top+"/project", top+"/was"))
			check(t, os.Symlink("other", top+"/project"))
			return top + "/was"
		},
		"parent": func(t *testing.T, top string) string {
			check(t, os.Rename(top, top+".was"))
			check(t, os.MkdirAll(top+"/project/sub", 0o755))
			for _, name := range []string{"/file", "/sub/file"} {
				check(t, os.WriteFile(top+"/project"+name, []byte("new\n"), 0o644))
			}
			return top + ".was/project"
		},
	}
	if root {
		list["bind"] = func(t *testing.T, top string) string {
			check(t, unix.Mount(top+"/other", top+"/project", "", unix.MS_BIND, ""))
			t.Cleanup(func() { unix.Unmount(top+"/project", unix.MNT_DETACH) })
			return ""
		}
	}
	return list
}

// TestCommandsUseTheHeldFolder replaces the directory of a sandbox with another one.
// Commands must work in the directory that file tools hold open, wherever it is now, or
// fail.
func TestCommandsUseTheHeldFolder(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		for name, swap := range swaps(!m.user) {
			for _, access := range []sandbox.Access{sandbox.ReadOnly, sandbox.ReadWrite} {
				for _, layered := range []bool{false, true} {
					if layered && (m.refused || access == sandbox.ReadOnly) {
						continue
					}
					t.Run(fmt.Sprintf("%s %s layered %t", name, access, layered), func(t *testing.T) {
						tryHeld(t, m, swap, access, layered)
					})
				}
			}
		}
	})
}

func tryHeld(t *testing.T, m mode, swap func(*testing.T, string) string, access sandbox.Access, layered bool) {
	top := filepath.Join(t.TempDir(), "top")
	for _, dir := range []string{"/project", "/other"} {
		check(t, os.MkdirAll(top+dir+"/sub", 0o755))
		for _, name := range []string{"/file", "/sub/file"} {
			check(t, os.WriteFile(top+dir+name, []byte(map[string]string{"/project": "old\n", "/other": "new\n"}[dir]), 0o644))
		}
	}
	mounts := []sandbox.Mount{{Target: "/", Source: sandbox.Host(top + "/project"), Access: access}}
	if !m.refused { // with other rules in a part of it
		mounts = append(mounts, sandbox.Mount{Target: "/sub", Base: sandbox.Host(top + "/project"), Source: "sub", Access: sandbox.ReadOnly})
	}
	files, err := sandbox.New(sandbox.Config{Mounts: mounts})
	check(t, err)
	start := func() (*jail.Jail, error) {
		list, err := jail.MountsOf(files)
		if err != nil {
			return nil, err
		}
		p := jail.Policy{Mounts: list, Least: m.level()}
		if layered {
			p.Recorder = changes.Recorder{Dir: sandbox.Host(t.TempDir())}
		}
		s, err := jail.Start(p, time.Now)
		if err == nil {
			t.Cleanup(func() { s.Close() })
		}
		return s, err
	}
	line := "cat file sub/file; pwd -P >&2"
	if access == sandbox.ReadWrite {
		line += "; echo made > made"
	}
	try := func(what string, s *jail.Jail, err error) (worked bool) {
		t.Helper()
		var r changes.Result
		if err == nil {
			r, err = changes.Finish(s.Run(context.Background(), jail.Shell(line)))
		}
		if err == nil && r.Changed != nil {
			_, err = r.Changed.Apply(nil)
		}
		out := string(r.Stdout.Head)
		if strings.Contains(out, "new") {
			t.Errorf("%s: the other directory was read: %q", what, out)
		}
		if err != nil && strings.Contains(err.Error(), top) {
			t.Errorf("%s: the error has a host path: %v", what, err)
		}
		t.Logf("%s: %q %v %s", what, out, err, r.Stderr.Head)
		return out == "old\nold\n" && err == nil
	}
	before, err := start()
	if !try("before", before, err) {
		t.Fatal("the command fails before the swap")
	}
	old := swap(t, top)
	there := func(dir string) bool {
		_, err := os.Lstat(dir + "/made")
		return err == nil
	}
	if old != "" && access == sandbox.ReadWrite {
		check(t, os.Remove(old+"/made"))
	}
	try("a session from before", before, nil)
	after, err := start()
	worked := try("a new session", after, err)
	if old != "" {
		if !worked {
			t.Error("an existing directory is not found")
		}
		if got := there(old); got != (access == sandbox.ReadWrite) {
			t.Errorf("written to the directory: %t", got)
		}
	}
	if there(top+"/other") && top+"/other" != old || there(top+"/project") && old != "" {
		t.Error("the other directory was changed")
	}
	if text, err := files.Read("/file"); err != nil || string(text) != "old\n" {
		t.Errorf("the file tools read %q, %v", text, err)
	}
}

// TestSwapDuringCommand replaces the directory while a command writes to it. The
// command must write to no other directory than its own.
func TestSwapDuringCommand(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		for name, swap := range swaps(!m.user) {
			for _, layered := range []bool{false, true} {
				if layered && m.refused {
					continue
				}
				t.Run(fmt.Sprintf("%s layered %t", name, layered), func(t *testing.T) {
					top := filepath.Join(t.TempDir(), "top")
					for _, dir := range []string{"/project", "/other"} {
						check(t, os.MkdirAll(top+dir, 0o755))
					}
					files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Source: sandbox.Host(top + "/project"), Access: sandbox.ReadWrite}}})
					check(t, err)
					list, err := jail.MountsOf(files)
					check(t, err)
					p := jail.Policy{Mounts: list, Least: m.level()}
					if layered {
						p.Recorder = changes.Recorder{Dir: sandbox.Host(t.TempDir())}
					}
					s, err := jail.Start(p, time.Now)
					check(t, err)
					defer s.Close()
					in, begun, err := os.Pipe()
					check(t, err)
					wait, give, err := os.Pipe()
					check(t, err)
					defer wait.Close()
					done := make(chan changes.Result, 1)
					go func() {
						r, err := changes.Finish(s.Attach(context.Background(), jail.Shell("echo begun; read line; echo made > made"), jail.Attached{Stdin: wait, Stdout: begun}))
						if layered != (err != nil) || layered && !strings.Contains(err.Error(), "replaced by another one meanwhile") {
							t.Errorf("got %v", err)
						}
						done <- r
					}()
					if _, err := in.Read(make([]byte, 6)); err != nil {
						t.Fatal(err)
					}
					old := swap(t, top)
					give.Write([]byte("go\n"))
					give.Close()
					r := waitForValue(t, done)
					begun.Close()
					in.Close()
					if r.Changed != nil {
						t.Error("the changes of the command could be applied")
					}
					for _, dir := range []string{top + "/project", top + "/other"} {
						if _, err := os.Lstat(dir + "/made"); err == nil && dir != old {
							t.Errorf("the other directory was changed")
						}
					}
				})
			}
		}
	})
}
