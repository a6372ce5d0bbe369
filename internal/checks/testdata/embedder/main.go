// The program of TestEmbedder: it gives all names of attacks to all file tools, approves every
// call, and looks whether anything outside the directory was read or changed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golem-forge/golem"
	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
)

// yes renders every request and approves it.
type yes struct{}

func (yes) Approve(_ context.Context, r gate.Request) gate.Decision {
	view := r.Render(200, 1000)
	view.WriteTo(io.Discard)
	seen, err := view.Seen()
	if err != nil {
		return r.Decline("yes", err.Error())
	}
	return seen.Approve("yes")
}

func main() {
	top := os.Args[1]
	inside, outside := filepath.Join(top, "inside"), filepath.Join(top, "outside")
	for _, dir := range []string{inside, outside, filepath.Join(inside, ".git"), filepath.Join(inside, "dir")} {
		must(os.MkdirAll(dir, 0o700))
	}
	canary := filepath.Join(outside, "canary")
	for name, text := range map[string]string{canary: "CANARY", inside + "/a.txt": "a", inside + "/.git/config": "[core]", inside + "/dir/b.txt": "b"} {
		must(os.WriteFile(name, []byte(text), 0o600))
	}
	for link, to := range map[string]string{"up": "..", "file": canary, "relative": "../outside/canary", "dir/deep": "../../outside", "loop": "loop", "proc": "/proc/self/root"} {
		must(os.Symlink(to, filepath.Join(inside, link)))
	}
	must(os.Link(canary, filepath.Join(outside, "second")))

	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/in", Source: sandbox.Host(inside), Access: sandbox.ReadWrite}}})
	must(err)
	journal, err := gate.OpenJournal(filepath.Join(top, "state"), time.Now)
	must(err)
	g := gate.Gate{Tools: gate.FileTools(), Files: files, Grant: gate.GrantAll(), Approver: yes{}, Journal: journal}
	names := []string{
		"/in/../../outside/canary", "/../outside/canary", "../outside/canary", canary, "/in/up/outside/canary", "/in/file", "/in/relative", "/in/dir/deep/canary",
		"/in/loop", "/in/proc" + canary, "/in/up", "/in/dir/deep", "/in/./../in/../" + canary, "/in/%2e%2e/outside/canary", "/in/..\\outside\\canary", "file://" + canary, "~/canary",
		"/in/a.txt\x00/../../outside/canary", "//" + canary, "/proc/self/root" + canary, "/in/dir/../../outside/canary", "/in/.git/config", "/in/.GIT/config", "", "/", ".", "/in/" + strings.Repeat("../", 50) + canary,
	}
	calls := 0
	for _, tool := range g.Offer(gate.Model) {
		for _, name := range names {
			for _, args := range []map[string]any{{"path": name}, {"path": name, "content": "OWNED"}, {"path": name, "old_text": "CANARY", "new_text": "OWNED"}, {"from": name, "to": "/in/taken"},
				{"from": "/in/a.txt", "to": name}, {"source": name, "destination": "/in/taken"}, {"path": name, "pattern": "CANARY"}, {"path": name, "edits": []map[string]string{{"old_text": "CANARY", "new_text": "OWNED"}}}} {
				text, err := json.Marshal(args)
				must(err)
				result := g.Do(context.Background(), gate.Model, gate.Call{Tool: tool.Name, Args: text})
				calls++
				if strings.Contains(result.Text, "CANARY") && !strings.Contains(string(text), "CANARY") || strings.Contains(result.Text, top) && !strings.Contains(string(text), top) {
					fail("%s %s: %s", tool.Name, text, result.Text)
				}
				copied := filepath.Join(inside, "taken")
				if info, err := os.Lstat(copied); err == nil && info.Mode().IsRegular() { // a moved symlink is no copy
					if taken, err := os.ReadFile(copied); err != nil || strings.Contains(string(taken), "CANARY") {
						fail("%s %s copied it", tool.Name, text)
					}
				}
			}
		}
	}
	if text, err := os.ReadFile(canary); err != nil || string(text) != "CANARY" {
		fail("the file outside has %q, %v", text, err)
	}
	if text, err := os.ReadFile(inside + "/.git/config"); err != nil || string(text) != "[core]" {
		fail("a protected file has %q, %v", text, err)
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) != 2 {
		fail("the directory outside has %v, %v", list, err)
	}
	records, err := journal.Verify(context.Background())
	must(err)
	must(journal.Close())

	ws, err := golem.Open(inside, golem.Options{State: filepath.Join(top, "golem")})
	must(err)
	out, err := ws.Exec(context.Background(), golem.Command{Args: []string{"sh", "-c", "cat " + canary + " file relative dir/deep/canary; echo OWNED >" + canary + "; echo x >file; env"}})
	must(err)
	if text, err := os.ReadFile(canary); err != nil || string(text) != "CANARY" || strings.Contains(out.Stdout+out.Stderr, "CANARY") || strings.Contains(out.Stdout, "TEST_SECRET") {
		fail("a command: the file outside has %q; got %+v", text, out)
	}
	must(ws.Remove())
	fmt.Printf("%d calls, %d records: nothing read or changed outside\n", calls, records)
}

func must(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func fail(format string, args ...any) {
	fmt.Printf(format+"\n", args...)
	os.Exit(1)
}
