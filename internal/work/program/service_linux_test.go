package program_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/toolset/shell"
)

// use calls a tool through the gate.
func use(t *testing.T, gate *program.OpenWorker, name string, args map[string]any) tool.Result {
	t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	r := gate.Do(context.Background(), policy.Model, tool.Call{Tool: name, Args: data})
	if !r.OK() {
		t.Errorf("%s %v: %v", name, args, r.Err)
	}
	return r
}

// waitForOutput waits until a service prints a text.
func waitForOutput(t *testing.T, gate *program.OpenWorker, name, text string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if d, ok := use(t, gate, "service_output", map[string]any{"name": name, "offset": 0}).Data.(shell.Served); ok && strings.Contains(d.Output, text) {
			return
		}
	}
	t.Fatalf("%s does not print %q: %s", name, text, use(t, gate, "service_output", map[string]any{"name": name}))
}

// fetch is a line that reads a page of a server on this machine.
const fetch = `exec 3<>/dev/tcp/127.0.0.1/8123; printf 'GET /%s HTTP/1.0\r\n\r\n' "$page" >&3; tail -n 1 <&3`

// TestServiceOfSession: a service runs in the session while commands and file tools
// continue. Each sees the files that the other writes, and the service ends with the
// gate.
func TestServiceOfSession(t *testing.T) {
	dir, open := repository(t)
	gate, err := open().OpenWorker(program.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	runCommand(t, gate, "export ROLE=web; mkdir -p site; cd site; echo first >index")
	r := use(t, gate, "service_start", map[string]any{"name": "web", "command": `echo "$ROLE" in "$PWD" >&2; echo mine >written; exec -a served-by-test python3 -u -m http.server 8123`})
	if d := r.Data.(shell.Served); !d.Running || d.Cwd != "/site" || len(r.Notes) > 0 {
		t.Errorf("got %+v", r)
	}
	waitForOutput(t, gate, "web", "web in /work/site\n")
	waitForOutput(t, gate, "web", "Serving HTTP")
	if got := runCommand(t, gate, "page=index; "+fetch+"; cat written").Stdout; got != "first\nmine\n" {
		t.Errorf("got %q", got)
	}
	use(t, gate, "write_file", map[string]any{"path": "/site/index", "content": "second\n"})
	if got := runCommand(t, gate, "page=index; "+fetch).Stdout; got != "second\n" {
		t.Errorf("got %q", got)
	}
	os.WriteFile(filepath.Join(dir, "Makefile"), []byte("edited\n"), 0o644)
	if got := runCommand(t, gate, "cd ..; cat Makefile").Stdout; got != "edited\n" {
		t.Errorf("the user's edit: got %q", got)
	}
	p := open()
	s, err := p.Storage.Sessions.Find("")
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := p.Storage.Sessions.Changes(s, nil, false)
	var names []string
	for _, c := range list {
		names = append(names, c.Path)
	}
	if got := strings.Join(names, " "); err != nil || got != "/site" {
		t.Errorf("the session has changed %s, %v", got, err)
	}
	if n := countServers(); n != 1 {
		t.Errorf("%d processes serve, want 1", n)
	}
	if err := gate.Close(); err != nil {
		t.Fatal(err)
	}
	if n := countServers(); n != 0 {
		t.Errorf("%d processes serve after the end", n)
	}
	if r := gate.Do(context.Background(), policy.Model, tool.Call{Tool: "service_start", Args: []byte(`{"command":"sleep 9"}`)}); r.OK() {
		t.Error("a service started in a closed session")
	}
}

// countServers counts the running servers of TestServiceOfSession.
func countServers() (n int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if data, _ := os.ReadFile(name); strings.HasPrefix(string(data), "served-by-test") {
			n++
		}
	}
	return n
}

// TestServiceOverDirectories: over mounts without overlays a service only reads, and sees
// changes after they are applied.
func TestServiceOverDirectories(t *testing.T) {
	gate, dir := gateWith(t, "")
	runCommand(t, gate, "echo first >/out/a")
	r := use(t, gate, "service_start", map[string]any{"command": "echo x >/out/b; cat /out/a; until grep -q second /out/a; do read -t 0.05 <> <(:); done; echo seen; sleep 9876", "name": "w"})
	if notes := strings.Join(r.Notes, "; "); notes != "read-only for services: /out" {
		t.Errorf("got %s", notes)
	}
	waitForOutput(t, gate, "w", "Read-only file system")
	if got := runCommand(t, gate, "echo second >/out/a; cat /out/a").Stdout; got != "second\n" {
		t.Errorf("got %q", got)
	}
	waitForOutput(t, gate, "w", "first\nseen\n")
	if d := use(t, gate, "service_stop", map[string]any{"name": "w"}).Data.(shell.Served); d.Running || !strings.HasPrefix(d.How, "stopped after") {
		t.Errorf("got %+v", d)
	}
	if _, err := os.Stat(filepath.Join(dir, "out", "b")); err == nil {
		t.Error("a service has changed the directory")
	}
}
