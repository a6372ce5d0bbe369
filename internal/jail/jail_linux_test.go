package jail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
)

// TestMain also runs the test program as a helper of golem, and as a probe in the jail.
func TestMain(m *testing.M) {
	if os.Getenv(forgets) != "" {
		forgetChild()
	}
	if code, is := changes.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
	if probe(os.Args[1:]) {
		os.Exit(0)
	}
	leave := enterTestGroups()
	code := m.Run()
	if err := leave(); err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", err)
		code = 1
	}
	os.Exit(code)
}

// inTestGroups marks a process that runs in the control groups of enterTestGroups.
const inTestGroups = "GOLEM_TEST_NET"

// enterTestGroups moves this process, with all processes that it starts, into control groups
// that keep the machine usable whatever a test does. leave moves it back. It fails if a
// test has left a process or a group.
func enterTestGroups() (leave func() error) {
	if os.Geteuid() != 0 || os.Getenv(inTestGroups) != "" {
		return func() error { return nil }
	}
	was, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return func() error { return nil }
	}
	var groups, back []string
	for line := range strings.Lines(string(was)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		root := "/sys/fs/cgroup/" + part[1] // "" in version 2
		old, _ := filepath.Glob(root + "/golem-test-*")
		for _, dir := range old {
			os.Remove(dir) // fails for a group that is in use
		}
		for name, most := range map[string]string{"pids.max": "2500", "memory.limit_in_bytes": "8G", "memory.max": "8G"} {
			group := fmt.Sprintf("%s/golem-test-%d", root, os.Getpid())
			os.Mkdir(group, 0o755)
			if f, err := os.OpenFile(group+"/"+name, os.O_WRONLY, 0); err == nil {
				_, err = f.WriteString(most)
				f.Close()
				if err == nil && os.WriteFile(group+"/cgroup.procs", []byte("0"), 0) == nil {
					groups, back = append(groups, group), append(back, root+part[2]+"/cgroup.procs")
					if name == "pids.max" {
						os.Setenv(inTestGroups, group)
					}
				}
			} else if len(groups) == 0 || groups[len(groups)-1] != group {
				os.Remove(group)
			}
		}
	}
	return func() error {
		for i, group := range groups {
			if err := os.WriteFile(back[i], []byte("0"), 0); err != nil {
				return err
			}
			var err error
			for range 2000 { // the kernel counts ended processes for a moment longer
				if err = os.Remove(group); err == nil || os.IsNotExist(err) {
					err = nil
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}
