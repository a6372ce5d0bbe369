package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostile is a program whose every part writes: file tools, commands, a custom tool, hooks,
// an MCP server and a called worker, in directories without an overlay.
var hostile = map[string]string{
	"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./out, target: /out, mode: rw, approval: {write: preApproved, delete: preApproved}}\n    - {source: ./more, target: /more, mode: overlay, approval: {write: preApproved, delete: preApproved}}\n",
	"main.worker": `---
sandbox: inherit
toolsets:
  filesystem:
  shell: {default: {approval: preApproved}}
  workers: {allowed_workers: [child]}
  custom:
    mark: {command: [sh, -c, "cat >/dev/null; echo tool > /out/tool; rm -f /out/kept; echo marked"], schema: ./mark.json, files: {restrict: /out, readonly: false}}
  mcp:
    pen: {command: [sh, ./server.sh], files: {restrict: /out}}
hooks:
  before: {on: before_call, command: [sh, -c, "cat >/dev/null; echo x > /out/hook; echo x > /out/../hook; exit 0"], files: {restrict: /out}}
  last: {on: run_end, command: [sh, -c, "cat >/dev/null; echo x > /out/last; exit 0"], files: {restrict: /out}}
---
Work.
`,
	"child.worker": "---\ndescription: Works.\nsandbox: inherit\ntoolsets:\n  shell: {default: {approval: preApproved}}\n---\nWork.\n",
	"mark.json":    `{"description": "Mark.", "type": "object", "x-golem": {"mode": "both", "approval": "preApproved"}, "properties": {}}`,
	"server.sh": `echo started > /out/server
while read -r line; do
	id=$(echo "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	case $line in
	*'"method":"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"pen\",\"version\":\"1\"}}}";;
	*'"method":"tools/list"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[{\"name\":\"write\",\"inputSchema\":{\"type\":\"object\"}}]}}";;
	*'"method":"tools/call"'*) echo called > /out/called; echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"written\"}]}}";;
	esac
done
`,
	"demo.yaml": `main:
  - calls: [{tool: write_file, args: {path: /out/kept, content: changed}}, {tool: delete_file, args: {path: /more/old}}, {tool: make_directory, args: {path: /out/new}}]
  - calls: [{tool: shell, args: {command: "echo x > /out/shell; chmod 777 /out/kept; ln -s /etc /more/link; echo $HOME > ~/file; echo t > /tmp/t; echo v > /var/tmp/v; touch /out; true"}}]
  - calls: [{tool: mark, args: {}}]
  - calls: [{tool: pen_write, args: {}}]
  - calls: [{tool: child, args: {input: go}}]
  - text: All done.
child:
  - calls: [{tool: shell, args: {command: "echo child > /out/child; rm -rf /more/*"}}]
  - text: Done.
`,
	"out/kept": "kept\n",
	"more/old": "old\n",
}

// TestSandboxedRuns checks that a run with --sandbox changes nothing outside its directory,
// whatever the parts of the program try.
func TestSandboxedRuns(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"memory", "DIR"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			dir, state, golem := newTrustedProgram(t, hostile)
			home, box := t.TempDir(), filepath.Join(t.TempDir(), "box")
			for _, name := range []string{".config/golem/config.yaml", ".ssh/id_ed25519", ".local/state/golem/other/trust.json"} {
				name = filepath.Join(home, name)
				os.MkdirAll(filepath.Dir(name), 0o755)
				if err := os.WriteFile(name, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			sandboxed := func(args ...string) *exec.Cmd {
				cmd := golem(args...)
				cmd.Env = append(cmd.Env, "HOME="+home, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=")
				return cmd
			}
			where := place
			if place == "DIR" {
				where = box
			}
			before := treesOf(t, dir, state, home, filepath.Dir(box))
			out, err := sandboxed("run", "--sandbox", where, "--approval", "approve_all", "--model", "scripted:demo.yaml", ".", "go").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{"All done.", "your files are as they were", "out/kept", "out/tool", "pen_write", "written", "out/child", "out/shell", "mark"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("the run does not mention %s:\n%s", want, out)
				}
			}
			if !strings.Contains(string(out), "(8 ok, 0 refused)") {
				t.Errorf("a call was refused:\n%s", out)
			}
			after := treesOf(t, dir, state, home, filepath.Dir(box))
			after = slices.DeleteFunc(after, func(line string) bool {
				return line == "" || strings.HasPrefix(line, box+" ") || strings.HasPrefix(line, box+"/") || strings.HasPrefix(line, filepath.Dir(box)+" ")
			})
			before = slices.DeleteFunc(before, func(line string) bool { return strings.HasPrefix(line, filepath.Dir(box)+" ") })
			if !slices.Equal(before, after) {
				t.Errorf("files of the user changed\nbefore:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			if place == "memory" {
				if left, _ := filepath.Glob("/dev/shm/golem-memory-*"); slices.ContainsFunc(left, isOld) {
					t.Errorf("mount points are left: %v", left)
				}
				return
			}
			if out, err := sandboxed("diff", "--state", box, "--stat").CombinedOutput(); err != nil || !strings.Contains(string(out), "out/child") {
				t.Errorf("golem diff: %v\n%s", err, out)
			}
			if out, err := sandboxed("apply", "--state", box, "--yes", "out/child").CombinedOutput(); err != nil {
				t.Errorf("golem apply: %v\n%s", err, out)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "out/child")); err != nil || string(text) != "child\n" {
				t.Errorf("golem apply wrote %q, %v", text, err)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "out/kept")); err != nil || string(text) != "kept\n" {
				t.Errorf("golem apply changed another file: %q, %v", text, err)
			}
		})
	}
}

// isOld reports whether no process uses a mount point.
func isOld(dir string) bool {
	var pid int
	fmt.Sscanf(strings.TrimPrefix(filepath.Base(dir), "golem-memory-"), "%d-", &pid)
	return unix.Kill(pid, 0) != nil
}

// treesOf returns a line for each file below some directories: name, mode, times and content.
func treesOf(t *testing.T, dirs ...string) (lines []string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Lstat(name)
			if err != nil {
				return err
			}
			content, _ := os.ReadFile(name)
			lines = append(lines, fmt.Sprintf("%s %v %d %q", name, info.Mode(), info.ModTime().UnixNano(), content))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

// TestSandboxMemoryEnds checks that the memory of a run is bounded, and that nothing stays
// if the run is stopped or killed.
func TestSandboxMemoryEnds(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  mounts: [{source: ./out, target: /out, approval: {write: preApproved}}]\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  filesystem:\n  shell: {default: {approval: preApproved}}\n---\nWork.\n",
		"fill.yaml":               "- calls: [{tool: shell, args: {command: \"head -c 90000000 /dev/zero > /out/big\"}}]\n- text: Done.\n",
		"slow.yaml":               "- calls: [{tool: shell, args: {command: \"echo a > /out/a; sleep 60\"}}]\n- text: Done.\n",
		"out/kept":                "kept\n",
	}
	dir, state, golem := newTrustedProgram(t, files)
	before := treesOf(t, dir, state)
	out, err := golem("run", "--sandbox", "memory:32MiB", "--approval", "approve_all", "--model", "scripted:fill.yaml", ".", "go").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the memory of the run is full (32 MiB); --sandbox memory:128MiB gives it more") {
		t.Errorf("a run that fills its memory: %v\n%s", err, out)
	}
	for _, how := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGKILL} {
		cmd := golem("run", "--sandbox", "memory", "--approval", "approve_all", "--model", "scripted:slow.yaml", ".", "go")
		cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		mounted := fmt.Sprintf("/dev/shm/golem-memory-%d-*", cmd.Process.Pid)
		for range 500 { // until the command runs
			if inside(cmd.Process.Pid, "sleep 60") {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		cmd.Process.Signal(how)
		time.Sleep(50 * time.Millisecond)
		if how == unix.SIGINT {
			cmd.Process.Signal(how) // the first one waits for the call
		}
		cmd.Wait()
		for range 500 {
			if !inside(cmd.Process.Pid, "slow.yaml") {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if inside(cmd.Process.Pid, "slow.yaml") {
			t.Errorf("%v: processes of the run are left", how)
		}
		left, _ := filepath.Glob(mounted)
		switch {
		case how != unix.SIGKILL && len(left) > 0:
			t.Errorf("%v: %v is left\n%s", how, left, said.String())
		case how == unix.SIGKILL && len(left) != 1:
			t.Errorf("after a kill there is %v, want the empty mount point", left)
		}
		for _, d := range left {
			if entries, err := os.ReadDir(d); err != nil || len(entries) > 0 {
				t.Errorf("%v: %s has %v, %v", how, d, entries, err)
			}
		}
	}
	if out, err := golem("run", "--sandbox", "memory:16MiB", "--dry-run", ".").CombinedOutput(); err != nil {
		t.Errorf("a dry run: %v\n%s", err, out)
	}
	golem("run", "--sandbox", "memory", "--approval", "auto_deny", "--model", "scripted:none.yaml", ".", "go").Run()
	if left, _ := filepath.Glob("/dev/shm/golem-memory-*"); slices.ContainsFunc(left, isOld) {
		t.Errorf("the next run leaves %v", left)
	}
	if after := treesOf(t, dir, state); !slices.Equal(before, after) {
		t.Errorf("files of the user changed\nbefore:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// inside reports whether a process of a session of processes has a text in its arguments.
func inside(session int, text string) bool {
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range list {
		data, _ := os.ReadFile(name)
		if !strings.Contains(strings.ReplaceAll(string(data), "\x00", " "), text) {
			continue
		}
		var pid int
		fmt.Sscanf(name, "/proc/%d/", &pid)
		if text == "sleep 60" { // the command has its own session
			return true
		}
		if id, err := unix.Getsid(pid); err == nil && id == session {
			return true
		}
	}
	return false
}
