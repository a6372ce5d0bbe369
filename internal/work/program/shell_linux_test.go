package program_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/toolset/shell"
)

// gateWith returns the gate of a program with a shell, and the program's directory. The
// first command makes the directory out.
func gateWith(t *testing.T, settings string) (*program.OpenWorker, string) {
	t.Helper()
	return gateWithTools(t, settings, "[filesystem, shell]")
}

func gateWithTools(t *testing.T, settings, toolsets string) (*program.OpenWorker, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  mode: direct\n  zones:\n    out: {path: ./out, mode: rw}\n    in: {path: ./in, mode: ro}\n" + settings,
		"main.worker":             "---\ndescription: x\nsandbox: inherit\ntoolsets: " + toolsets + "\n---\nWork.\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, err := loadProgram(dir, t.TempDir())
	if err == nil {
		err = p.Trust()
	}
	if err != nil {
		t.Fatal(err)
	}
	gate, err := p.OpenWorker(program.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gate.Close(); err != nil {
			t.Error(err)
		}
	})
	return gate, dir
}

// runCommand runs a command through the gate.
func runCommand(t *testing.T, gate *program.OpenWorker, command string) shell.Ran {
	t.Helper()
	args, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	r := gate.Do(context.Background(), policy.Model, tool.Call{Tool: "shell", Args: args})
	if !r.OK() {
		t.Error(r.Err)
		return shell.Ran{}
	}
	return r.Data.(shell.Ran)
}

// TestGateHasOneJailSession: the commands of a gate share one session of the jail and one
// network, one after the other or at once. The next command and the file tools see the
// files that a command writes. golem makes a missing mount.
func TestGateHasOneJailSession(t *testing.T) {
	gate, dir := gateWith(t, "")
	first := runCommand(t, gate, "readlink /proc/self/ns/net; echo 1 >/out/one; ls -A /in")
	if text, err := os.ReadFile(filepath.Join(dir, "out", "one")); err != nil || string(text) != "1\n" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "in")); err == nil {
		t.Error("a read-only directory was created")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := runCommand(t, gate, "readlink /proc/self/ns/net; cat /out/one >&2"); got.Stdout != first.Stdout || got.Stderr != "1\n" {
				t.Errorf("got %+v, want the network %s", got, first.Stdout)
			}
		})
	}
	wg.Wait()
	host, err := os.Readlink("/proc/self/ns/net")
	if err != nil || !strings.HasPrefix(first.Stdout, "net:") || strings.TrimSpace(first.Stdout) == host {
		t.Errorf("got the network %q, the host has %q, %v", first.Stdout, host, err)
	}
}

// listenOnHost returns the address of a listener on the host's loopback.
func listenOnHost(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// TestGateLimitsCommands: commands have the limits and the network of the program.
func TestGateLimitsCommands(t *testing.T) {
	gate, _ := gateWith(t, "  network: true\nlimits: {output: 1000, file_size: 1000, time: 60s}\n")
	_, port, _ := net.SplitHostPort(listenOnHost(t))
	got := runCommand(t, gate, "bash -c 'exec 3<>/dev/tcp/127.0.0.1/"+port+"' && echo reached; head -c 5000 /dev/zero >/out/large; head -c 5000 /dev/zero | tr '\\0' x")
	if !strings.HasPrefix(got.Stdout, "reached\n") || got.Network != "on" {
		t.Errorf("network %s: got %.40q, want that the host is reached", got.Network, got.Stdout)
	}
	if got.HiddenStdout < 4000 || len(got.Stdout) > 1100 {
		t.Errorf("output: %d bytes kept, %d hidden", len(got.Stdout), got.HiddenStdout)
	}
	if size := runCommand(t, gate, "stat -c %s /out/large").Stdout; size != "1000\n" {
		t.Errorf("a file of %s bytes, want 1000", size)
	}
}

// TestCommandsThatOnlyRead: commands that only read can run at once. A command that may
// write, or changes where the next one starts, runs by itself.
func TestCommandsThatOnlyRead(t *testing.T) {
	gate, _ := gateWithTools(t, "", "{filesystem: {}, shell: {default: {approval: preApproved}}}")
	runCommand(t, gate, "true") // makes the directory
	for command, want := range map[string]bool{"cat /out/one": true, "ls | wc -l": true, "touch /out/two": false, "cd /out": false, "make": false} {
		args, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		reach, ok := gate.Reach(context.Background(), policy.Model, tool.Call{Tool: "shell", Args: args})
		if ok != want || ok && (len(reach.Writes) > 0 || len(reach.Reads) == 0) {
			t.Errorf("%s: %+v, %v", command, reach, ok)
		}
	}
}
