package main

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKilledAgent kills golem, or golem with all processes that it started, while an
// agent holds credentials. The credentials are never on disk, and they do not stay in
// memory.
func TestKilledAgent(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"namespaces", "landlock"} {
		for _, whole := range []bool{false, true} {
			t.Run(level+"-"+strconv.FormatBool(whole), func(t *testing.T) { t.Parallel(); killAgent(t, level, whole) })
		}
	}
}

func killAgent(t *testing.T, level string, whole bool) {
	top := t.TempDir()
	secret := "secret-" + filepath.Base(filepath.Dir(top)) + "-" + strconv.Itoa(os.Getpid()) + level + strconv.FormatBool(whole)
	for name, text := range map[string]string{"home/.claude/.credentials.json": secret, "work/a.txt": "a"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start := func(line string) (*exec.Cmd, *bufio.Reader) {
		cmd := exec.Command("golem", "exec", "--root", ".:ro", "--profile", "claude", "--", "sh", "-c", line)
		cmd.Dir = filepath.Join(top, "work")
		cmd.Env = append(os.Environ(), "HOME="+filepath.Join(top, "home"), "GOLEM_STATE="+filepath.Join(top, "state"), "TMPDIR="+top)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := startAt(cmd, level); err != nil {
			t.Fatal(err)
		}
		return cmd, bufio.NewReader(out)
	}
	cmd, out := start(`cd ~/.claude; cp .credentials.json t; mv t .credentials.json; cat .credentials.json; echo; sleep 1000`)
	if line, err := out.ReadString('\n'); err != nil || strings.TrimSpace(line) != secret {
		t.Fatalf("the agent read %q, %v", line, err)
	}
	if found := findFilesWith(t, secret, filepath.Join(top, "state")); len(found) > 0 {
		t.Errorf("credentials on disk while the agent runs: %q", found)
	}
	processes := []int{cmd.Process.Pid}
	if whole {
		processes = append(processes, childrenOf(cmd.Process.Pid)...)
	}
	for _, pid := range processes {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	cmd.Wait()
	if level == "landlock" && whole { // no process is left to remove the file, so the next golem removes it
		next, _ := start("true")
		next.Wait()
	}
	var found []string
	for i := 0; i < 100; i++ {
		if found = findFilesWith(t, secret, filepath.Join(top, "state"), "/dev/shm", "/run/user/"+strconv.Itoa(os.Getuid())); len(found) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("leftovers: %q", found)
}

// findFilesWith returns the files below some directories that contain a text.
func findFilesWith(t *testing.T, text string, dirs ...string) (found []string) {
	t.Helper()
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if data, err := os.ReadFile(name); err == nil && strings.Contains(string(data), text) {
					found = append(found, name)
				}
			}
			return nil
		})
	}
	return found
}

// childrenOf returns all descendants of a process.
func childrenOf(pid int) (list []int) {
	names, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, name := range names {
		data, _ := os.ReadFile(name)
		for _, field := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				list = append(append(list, child), childrenOf(child)...)
			}
		}
	}
	return list
}
