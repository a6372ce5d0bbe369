package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/program"
)

// A viewer sees a whole request and approves it. It declines a request with more than
// most changes. It may also name the digest.
type viewer struct {
	names bool
	most  int
	asked []tool.Request
}

// Ask implements approval.Asker.
func (v *viewer) Ask(_ context.Context, r tool.Request) approval.Reply {
	v.asked = append(v.asked, r)
	reply := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}, Rendered: r.Items()}
	if v.most > 0 && len(r.Changes) > v.most {
		reply.Verdict = tool.Declined
	}
	if v.names {
		reply.DigestPrefix = r.Digest[:tool.MinDigestPrefix]
	}
	return reply
}

// openReviewGate returns the gate of a new program, the program and its directory out. The viewer
// answers the requests.
func openReviewGate(t *testing.T, v *viewer) (gate *program.OpenWorker, p *program.Program, out string) {
	t.Helper()
	dir, state := recordedText(t)
	p, err := program.Load(program.Options{Dir: dir, State: state, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if gate, err = p.OpenWorker(program.WorkerOptions{Asker: v}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	return gate, p, filepath.Join(dir, "out")
}

func callWith(gate *program.OpenWorker, name string, args map[string]any) tool.Result {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return gate.Do(context.Background(), policy.Model, tool.Call{Tool: name, Args: text})
}

// changesByName returns all names that a request shows.
func changesByName(r tool.Request) map[string]tool.Change {
	names := make(map[string]tool.Change)
	for _, c := range r.Changes {
		names[c.Path] = c
		for _, name := range c.Tree {
			names[name] = c
		}
	}
	return names
}

// TestPlainYesNeedsWholeList checks that the request about a command with very many
// changes names each one. Among them are a deleted directory with its content, a script,
// a mode and a symlink.
func TestPlainYesNeedsWholeList(t *testing.T) {
	v := &viewer{}
	gate, _, out := openReviewGate(t, v)
	must(t, os.MkdirAll(filepath.Join(out, "old/deep"), 0o755))
	want := []string{"/out/zz.sh", "/out/old", "/out/mode", "/out/link", "/out/was"}
	for i := range 300 {
		name := fmt.Sprintf("old/deep/%d", i)
		must(t, os.WriteFile(filepath.Join(out, name), []byte("x"), 0o644))
		want = append(want, "/out/"+name, fmt.Sprintf("/out/new/%d", i+1))
	}
	must(t, os.WriteFile(filepath.Join(out, "mode"), []byte("x"), 0o644))
	must(t, os.Mkdir(filepath.Join(out, "was"), 0o755))
	must(t, os.WriteFile(filepath.Join(out, "was/in it"), []byte("x"), 0o644))
	want = append(want, "/out/was/in it")

	r := callWith(gate, "shell", map[string]any{"command": "cd /out; mkdir new; for i in $(seq 1 2500); do echo $i >new/$i; done; rm -r old was; echo file >was; echo '#!/bin/sh' >zz.sh; chmod 755 zz.sh mode; ln -s /etc/passwd link"})
	if !r.OK() {
		t.Fatal(r.Err)
	}
	asked := v.asked[len(v.asked)-1]
	names := changesByName(asked)
	for _, name := range want {
		if _, ok := names[name]; !ok {
			t.Errorf("%s is not in the request", name)
		}
	}
	if left := asked.Omitted(); len(left) > 0 {
		t.Errorf("omitted: %q", left)
	}
	if about := names["/out/mode"].About; !strings.Contains(about, "0644 → 0755") {
		t.Errorf("the mode is described as %q", about)
	}
	if about := names["/out/link"].About; !strings.Contains(about, "/etc/passwd") {
		t.Errorf("the symlink is described as %q", about)
	}
	if len(r.Changes) > 201 {
		t.Errorf("the result names %d changes", len(r.Changes))
	}
}

// TestUnseenContentNeedsTheDigest checks that a plain yes does not approve content that
// is too large to show, or binary, for any tool, and that the journal records it.
func TestUnseenContentNeedsTheDigest(t *testing.T) {
	for name, command := range map[string]string{
		"large":     "head -c 5000000 /dev/zero | tr '\\0' x >/out/big",
		"binary":    "head -c 10 /dev/zero >/out/big",
		"large was": "echo small >/out/before",
		"much":      "for i in 1 2 3 4 5 6 7 8; do head -c 1500000 /dev/zero | tr '\\0' x >/out/big$i; done",
	} {
		t.Run(name, func(t *testing.T) {
			v := &viewer{}
			gate, p, out := openReviewGate(t, v)
			before := strings.Repeat("x\n", 2<<20)
			must(t, os.WriteFile(filepath.Join(out, "before"), []byte(before), 0o644))
			if r := callWith(gate, "shell", map[string]any{"command": command}); r.Err == nil || r.Err.Code != "declined" || !strings.Contains(r.Err.Hint, "were not shown") {
				t.Errorf("a plain yes: got %v", r.Err)
			}
			if left, err := filepath.Glob(out + "/big*"); err != nil || len(left) > 0 {
				t.Errorf("landed: %v, %v", left, err)
			}
			if now, err := os.ReadFile(out + "/before"); err != nil || string(now) != before {
				t.Errorf("the file out/before was changed, %v", err)
			}
			v.names = true
			if r := callWith(gate, "shell", map[string]any{"command": command}); r.Err != nil {
				t.Errorf("named: got %v", r.Err)
			}
			seen := readDecisions(t, p, "shell")
			if !slices.Contains(seen, "unseen") || !slices.ContainsFunc(seen, func(s string) bool { return strings.HasPrefix(s, "all ") }) {
				t.Errorf("the journal has %q", seen)
			}
		})
	}
}

// readDecisions returns how much of each request about a tool the user saw, as the journal
// records it.
func readDecisions(t *testing.T, p *program.Program, name string) (seen []string) {
	t.Helper()
	folder, err := p.Storage.OpenJournal()
	must(t, err)
	defer folder.Close()
	must(t, audit.Read(folder, audit.Filter{Tool: name, Decision: "yes"}, func(r audit.Record, _ []byte) error {
		seen = append(seen, r.Seen)
		return nil
	}))
	return seen
}

// TestManyChangesStayBounded checks that the question about very many changes comes
// soon, and that a pending request is stored in full.
func TestManyChangesStayBounded(t *testing.T) {
	v := &viewer{most: 1000}
	gate, p, _ := openReviewGate(t, v)
	const many = 20_000
	r := callWith(gate, "shell", map[string]any{"command": fmt.Sprintf("cd /out; mkdir d; cd d; for i in $(seq 1 %d); do echo line $i >some-file-$i; done", many)})
	if r.Err == nil || len(v.asked) < 2 {
		t.Fatalf("got %v", r)
	}
	asked := v.asked[len(v.asked)-1]
	if len(asked.Changes) != many+1 || len(asked.Omitted()) > 0 {
		t.Errorf("got %d changes, %d omitted", len(asked.Changes), len(asked.Omitted()))
	}
	start := time.Now()
	records, err := p.Storage.OpenRecords()
	must(t, err)
	defer records.Close()
	desk := &approval.Approver{Store: records.Approvals, Policy: records.Policy, Now: time.Now}
	a := desk.Approve(context.Background(), asked)
	if a.Verdict != tool.Undecided {
		t.Fatalf("got %+v", a)
	}
	w, err := records.Approvals.FindPending(a.ID)
	must(t, err)
	kept, err := records.Approvals.Request(w)
	must(t, err)
	if len(kept.Changes) != len(asked.Changes) {
		t.Errorf("%d changes are kept", len(kept.Changes))
	}
	t.Logf("kept %d bytes in %v", w.Size, time.Since(start))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
