package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
)

// approver returns a function as an approver.
func approver(f func(gate.Request) gate.Decision) gate.ApproverFunc {
	return func(_ context.Context, r gate.Request) gate.Decision { return f(r) }
}

// look renders all pages of a request and approves it.
func look(r gate.Request) gate.Decision {
	v := r.Render(80, 24)
	v.WriteTo(io.Discard)
	seen, err := v.Seen()
	if err != nil {
		return r.Decline("test", err.Error())
	}
	return seen.Approve("ann")
}

// newGate returns a gate with the file tools over a new directory, and that directory.
func newGate(t testing.TB, a gate.Approver) (gate.Gate, string) {
	t.Helper()
	dir := t.TempDir()
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/out", Source: sandbox.Host(dir), Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	journal, err := gate.OpenJournal(filepath.Join(t.TempDir(), "state"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := journal.Verify(context.Background()); err != nil {
			t.Error(err)
		}
		journal.Close()
	})
	return gate.Gate{Tools: gate.FileTools(), Files: files, Grant: gate.GrantAll(), Approver: a, Journal: journal, Key: []byte("0123456789abcdef")}, dir
}

func write(g gate.Gate, name, content string) gate.Result {
	args, _ := json.Marshal(map[string]string{"path": name, "content": content})
	return g.Do(context.Background(), gate.Model, gate.Call{Tool: "write_file", Args: args})
}

// content returns the content of a file, "" if there is none.
func content(dir, name string) string {
	data, _ := os.ReadFile(filepath.Join(dir, name))
	return string(data)
}

func code(r gate.Result) sandbox.Code {
	if r.Err == nil {
		return ""
	}
	return r.Err.Code
}

// TestApprovals checks that only a decision that covers everything makes the call.
func TestApprovals(t *testing.T) {
	var before gate.Seen
	long := strings.Repeat("line\n", 100)
	for _, test := range []struct {
		name   string
		decide func(gate.Request) gate.Decision
		want   bool
	}{
		{"all pages", look, true},
		{"all items", func(r gate.Request) gate.Decision {
			var acks []string
			for _, item := range r.Items() {
				acks = append(acks, item.Ack)
			}
			seen, err := r.Acknowledge(acks...)
			if err != nil {
				t.Error(err)
			}
			before = seen
			return seen.Approve("ann")
		}, true},
		{"the decision about another request", func(gate.Request) gate.Decision { return before.Approve("ann") }, false},
		{"the zero decision", func(gate.Request) gate.Decision { return gate.Decision{} }, false},
		{"nothing seen", func(gate.Request) gate.Decision { return gate.Seen{}.Approve("ann") }, false},
		{"the first page", func(r gate.Request) gate.Decision {
			v := r.Render(80, 24)
			v.Page(0)
			seen, err := v.Seen()
			if sandbox.CodeOf(err) != gate.ErrUnseen {
				t.Errorf("the first of %d pages: got %v", v.Pages(), err)
			}
			return seen.Approve("ann")
		}, false},
		{"all items but one", func(r gate.Request) gate.Decision {
			items := r.Items()
			var acks []string
			for _, item := range items[1:] {
				acks = append(acks, item.Ack, "")
			}
			seen, err := r.Acknowledge(acks...)
			if sandbox.CodeOf(err) != gate.ErrUnseen {
				t.Errorf("all items but one: got %v", err)
			}
			return seen.Approve("ann")
		}, false},
		{"an unseen approval without the digest", func(r gate.Request) gate.Decision {
			seen, err := r.Unseen("")
			if err == nil {
				t.Error("no digest is enough")
			}
			return seen.Approve("ann")
		}, false},
		{"the typed digest", func(r gate.Request) gate.Decision {
			seen, err := r.Unseen(r.Digest()[:8])
			if err != nil {
				t.Error(err)
			}
			return seen.Approve("ann")
		}, true},
		{"a panic", func(gate.Request) gate.Decision { panic("broken") }, false},
		{"declined", func(r gate.Request) gate.Decision { return r.Decline("ann", "not now") }, false},
	} {
		g, dir := newGate(t, approver(test.decide))
		r := write(g, "/out/a.md", long)
		if got := content(dir, "a.md") == long; got != test.want || (code(r) == "") != test.want {
			t.Errorf("%s: got %q, written %v", test.name, r.Text, got)
		}
	}
}

// TestNothingWithoutPermission checks that what is missing never means more rights.
func TestNothingWithoutPermission(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*gate.Gate)
		want   sandbox.Code
	}{
		{"nobody to ask", func(g *gate.Gate) { g.Approver = nil }, gate.ErrDeclined},
		{"no grant", func(g *gate.Gate) { g.Grant = gate.Grant{} }, gate.ErrUnknownTool},
		{"no files", func(g *gate.Gate) { g.Files = nil }, gate.ErrBlocked},
		{"no access", func(g *gate.Gate) { g.Grant.Files = nil }, sandbox.ErrNotFound},
		{"read only", func(g *gate.Gate) { g.Grant.Files = []sandbox.Limit{{Path: "/out", Access: sandbox.ReadOnly}} }, sandbox.ErrReadOnly},
		{"no journal", func(g *gate.Gate) { g.Journal = nil }, gate.ErrBlocked},
		{"a journal that fails", func(g *gate.Gate) { g.Journal = badJournal{} }, sandbox.ErrInternal},
		{"a blocking rule", func(g *gate.Gate) { g.Rules = []gate.Rule{{Verb: gate.Write, Target: "/out", From: "test"}} }, gate.ErrBlocked},
		{"a rule without a target", func(g *gate.Gate) { g.Rules = []gate.Rule{{Verb: gate.Write, Level: gate.PreApproved}} }, gate.ErrBlocked},
		{"a rule with an unknown level", func(g *gate.Gate) { g.Rules = []gate.Rule{{Verb: gate.Write, Target: "/", Level: 9}} }, gate.ErrBlocked},
		{"a short key", func(g *gate.Gate) { g.Key = []byte("short") }, gate.ErrSeal},
		{"a tool that New has not made", func(g *gate.Gate) { g.Tools = []gate.Tool{{Name: "write_file"}} }, gate.ErrUnknownTool},
	} {
		g, dir := newGate(t, approver(look))
		test.change(&g)
		if r := write(g, "/out/a.md", "x"); code(r) != test.want || content(dir, "a.md") != "" {
			t.Errorf("%s: got %q, want the code %s", test.name, r.Text, test.want)
		}
	}
	g, dir := newGate(t, nil)
	g.Rules = []gate.Rule{{Verb: gate.Write, Target: "/out", Level: gate.PreApproved, From: "test"}}
	if r := write(g, "/out/a.md", "x"); r.Err != nil || content(dir, "a.md") != "x" {
		t.Errorf("approved in advance: got %q", r.Text)
	}
	if r := g.Do(context.Background(), 0, gate.Call{Tool: "list_files"}); r.Err == nil {
		t.Error("nobody can call a tool")
	}
}

type badJournal struct{}

func (badJournal) Begin(gate.Record) error { panic("broken") }
func (badJournal) End(gate.Record) error   { return errors.New("full") }

// TestLater decides about a call in another process, after its parts were stored.
func TestLater(t *testing.T) {
	g, dir := newGate(t, approver(func(r gate.Request) gate.Decision { return r.Later() }))
	wait := func(name string) (stored []byte) {
		t.Helper()
		r := write(g, name, "new\n")
		if r.Pending == nil || r.Err == nil || content(dir, filepath.Base(name)) == "new\n" {
			t.Fatalf("got %+v", r)
		}
		stored, err := r.Pending.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	decide := func(stored []byte) (gate.Pending, []byte) {
		t.Helper()
		other := gate.Gate{Key: g.Key} // a process that only shows and decides
		p, err := other.OpenPending(stored)
		if err != nil {
			t.Fatal(err)
		}
		v := p.Request().Render(100, 50)
		if text := v.Page(0); !strings.Contains(text, "+ new") {
			t.Errorf("got\n%s", text)
		}
		seen, err := v.Seen()
		if err != nil {
			t.Fatal(err)
		}
		data, err := seen.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		return p, data
	}
	open := func(data []byte) gate.Decision {
		t.Helper()
		seen, err := g.OpenSeen(data)
		if err != nil {
			t.Fatal(err)
		}
		return seen.Approve("ann")
	}

	p, data := decide(wait("/out/a.md"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes := map[sandbox.Code]int{}
	for range 8 { // at once
		wg.Go(func() {
			r := g.Resume(context.Background(), p, open(data))
			mu.Lock()
			codes[code(r)]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if codes[""] != 1 || content(dir, "a.md") != "new\n" {
		t.Errorf("resumed eight times: got %v", codes)
	}
	os.Remove(filepath.Join(dir, "a.md"))
	if r := g.Resume(context.Background(), p, open(data)); r.Err == nil || content(dir, "a.md") != "" {
		t.Errorf("resumed again: got %q", r.Text)
	}

	p, data = decide(wait("/out/b.md"))
	other, _ := decide(wait("/out/c.md"))
	if r := g.Resume(context.Background(), other, open(data)); code(r) != gate.ErrUnseen || content(dir, "c.md") != "" {
		t.Errorf("the decision about another call: got %q", r.Text)
	}
	if err := os.WriteFile(filepath.Join(dir, "b.md"), []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := g.Resume(context.Background(), p, open(data)); code(r) != gate.ErrDeclined || content(dir, "b.md") != "mine\n" {
		t.Errorf("a file that changed meanwhile: got %q", r.Text)
	}
	if r := g.Resume(context.Background(), p, gate.Decision{}); code(r) != gate.ErrDeclined {
		t.Errorf("the zero decision: got %q", r.Text)
	}
	if r := g.Resume(context.Background(), gate.Pending{}, open(data)); r.Err == nil {
		t.Error("resumed the zero Pending")
	}
}

// TestSeals checks that nothing is opened that was changed or sealed with another key.
func TestSeals(t *testing.T) {
	g, _ := newGate(t, approver(func(r gate.Request) gate.Decision { return r.Later() }))
	r := write(g, "/out/a.md", "new\n")
	pending, err := r.Pending.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	v := r.Pending.Request().Render(80, 100)
	v.Page(0)
	seen, err := v.Seen()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seen.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{pending, sealed} {
		for _, other := range []gate.Gate{{}, {Key: []byte("0123456789abcdeX")}, {Key: []byte("0123456789abcde")}} {
			_, err1 := other.OpenPending(data)
			_, err2 := other.OpenSeen(data)
			if sandbox.CodeOf(err1) != gate.ErrSeal || sandbox.CodeOf(err2) != gate.ErrSeal {
				t.Errorf("another key: got %v and %v", err1, err2)
			}
		}
		for i := range data {
			changed := bytes.Clone(data)
			changed[i] ^= 1
			_, err1 := g.OpenPending(changed)
			_, err2 := g.OpenSeen(changed)
			if err1 == nil || err2 == nil {
				t.Fatalf("byte %d of %s can be changed", i, data)
			}
		}
	}
	if _, err := g.OpenPending(sealed); err == nil {
		t.Error("a Seen was opened as a Pending")
	}
	if _, err := g.OpenSeen(pending); err == nil {
		t.Error("a Pending was opened as a Seen")
	}
	g.Key = nil
	if r := write(g, "/out/a.md", "new\n"); r.Pending == nil {
		t.Errorf("got %+v", r)
	} else if d := look(r.Pending.Request()); g.Resume(context.Background(), *r.Pending, d).Err != nil {
		t.Error("without a key, a call must be resumed in the same process")
	}
}

// TestOwnTools checks tools that a program makes.
func TestOwnTools(t *testing.T) {
	type args struct {
		Path string `json:"path" jsonschema:"the file"`
		Line string `json:"line" jsonschema:"what to add"`
	}
	ran := 0
	tools := []gate.Tool{
		gate.New(gate.Tool{Name: "add_line", Description: "Adds a line."}, func(_ context.Context, a args) (gate.Plan, error) {
			return gate.Edit(a.Path, func(old []byte) ([]byte, error) { return append(old, a.Line+"\n"...), nil }), nil
		}),
		gate.New(gate.Tool{Name: "send"}, func(_ context.Context, a args) (gate.Plan, error) {
			return gate.Plan{Summary: "send " + a.Line, Run: func(context.Context, *sandbox.Sandbox) (gate.Result, error) {
				ran++
				return gate.Result{Text: "sent"}, nil
			}}, nil
		}),
		gate.New(gate.Tool{Name: "cheat"}, func(_ context.Context, a args) (gate.Plan, error) {
			return gate.Plan{Effects: []gate.Effect{{Verb: gate.Read, Target: a.Path}}, Run: func(_ context.Context, files *sandbox.Sandbox) (gate.Result, error) {
				_, err := files.Write(a.Path, []byte("cheated"))
				return gate.Result{}, err
			}}, nil
		}),
		gate.New(gate.Tool{Name: "clear", UserOnly: true}, func(context.Context, args) (gate.Plan, error) { return gate.Plan{}, nil }),
	}
	asked := 0
	g, dir := newGate(t, approver(func(r gate.Request) gate.Decision { asked++; return look(r) }))
	g.Tools = append(g.Tools, tools...)
	do := func(name string) gate.Result {
		return g.Do(context.Background(), gate.Model, gate.Call{Tool: name, Args: []byte(`{"path": "/out/a.md", "line": "hello"}`)})
	}
	for want := range 2 {
		if r := do("add_line"); r.Err != nil || content(dir, "a.md") != strings.Repeat("hello\n", want+1) {
			t.Errorf("got %q, and %q", r.Text, content(dir, "a.md"))
		}
	}
	if r := do("send"); r.Err != nil || ran != 1 || asked != 3 {
		t.Errorf("got %q after %d questions", r.Text, asked)
	}
	g.Rules = []gate.Rule{{Verb: gate.Use, Target: "*", Level: gate.PreApproved}}
	if r := do("send"); r.Err != nil || asked != 4 {
		t.Errorf("a call without effects was not asked about: got %q after %d questions", r.Text, asked)
	}
	if r := do("cheat"); r.Err == nil || strings.Contains(content(dir, "a.md"), "cheated") {
		t.Errorf("a call wrote what it had planned to read: got %q", r.Text)
	}
	if r := do("clear"); code(r) != gate.ErrManualOnly {
		t.Errorf("the model called a tool of the user: got %q", r.Text)
	}
	for _, tool := range g.Offer(gate.Model) {
		if schema, err := tool.Schema(); err != nil || !json.Valid(schema) || tool.Name == "clear" {
			t.Errorf("%s: got %s, %v", tool.Name, schema, err)
		}
	}
}

// TestChangedDuringApproval checks that the run makes exactly what the approver saw.
func TestChangedDuringApproval(t *testing.T) {
	var dir string
	edit := gate.New(gate.Tool{Name: "edit"}, func(context.Context, struct{}) (gate.Plan, error) {
		return gate.Edit("/out/a.md", func(old []byte) ([]byte, error) { return []byte("theirs"), nil }), nil
	})
	for _, old := range []string{"", "old"} {
		var g gate.Gate
		g, dir = newGate(t, approver(func(r gate.Request) gate.Decision {
			os.WriteFile(filepath.Join(dir, "a.md"), []byte("mine"), 0o600)
			return look(r)
		}))
		g.Tools = []gate.Tool{edit}
		if old != "" {
			os.WriteFile(filepath.Join(dir, "a.md"), []byte(old), 0o600)
		}
		if r := g.Do(context.Background(), gate.Model, gate.Call{Tool: "edit"}); r.Err == nil || content(dir, "a.md") != "mine" {
			t.Errorf("over %q: got %q, and %q", old, r.Text, content(dir, "a.md"))
		}
	}
}

// brokenWriter takes some pages. Of the next it takes half, with or without an error.
type brokenWriter struct {
	pages int
	err   error
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.pages--; w.pages >= 0 {
		return len(p), nil
	}
	return len(p) / 2, w.err
}

// TestWriteTo checks that only pages count as shown that were written.
func TestWriteTo(t *testing.T) {
	var view *gate.View
	g, _ := newGate(t, approver(func(r gate.Request) gate.Decision {
		view = r.Render(80, 5)
		return gate.Decision{}
	}))
	write(g, "/out/long.md", strings.Repeat("line\n", 20))
	for _, w := range []io.Writer{&brokenWriter{pages: 2, err: io.ErrClosedPipe}, &brokenWriter{pages: 2}} {
		if _, err := view.WriteTo(w); err == nil {
			t.Error("a write that failed is no error")
		}
		if _, err := view.Seen(); sandbox.CodeOf(err) != gate.ErrUnseen {
			t.Errorf("pages that were not written count as shown: %v", err)
		}
	}
	var text strings.Builder
	if n, err := view.WriteTo(&text); err != nil || int(n) != text.Len() || strings.Count(text.String(), "+ line") != 20 {
		t.Errorf("got %d, %v\n%s", n, err, &text)
	}
	if _, err := view.Seen(); err != nil {
		t.Error(err)
	}
}

// TestHugeRequest checks that only what was shown completely can be approved by looking.
func TestHugeRequest(t *testing.T) {
	for _, test := range []struct {
		name, text   string
		pages, items bool // whether they can show it
	}{
		{"many lines", strings.Repeat("x\n", 110_000), false, true},
		{"a long line", strings.Repeat("y", 1<<20+100), true, false},
	} {
		g, _ := newGate(t, approver(func(r gate.Request) gate.Decision {
			var acks []string
			for _, item := range r.Items() {
				if len(item.Text) > 1<<20 {
					t.Errorf("%s: an item of %d bytes", test.name, len(item.Text))
				}
				acks = append(acks, item.Ack)
			}
			if _, err := r.Acknowledge(acks...); (err == nil) != test.items {
				t.Errorf("%s: the items: got %v", test.name, err)
			}
			v, shown := r.Render(80, 24), 0
			for i := range v.Pages() {
				shown += strings.Count(v.Page(i), test.text[:1])
			}
			if _, err := v.Seen(); (err == nil) != test.pages || test.pages && shown < strings.Count(test.text, test.text[:1]) {
				t.Errorf("%s: %s: got %v after %d", test.name, v, err, shown)
			}
			return gate.Decision{}
		}))
		write(g, "/out/a", test.text)
	}
}

// TestHooks checks that the functions before and after a call can refuse it or withhold its
// result, and that one that breaks does.
func TestHooks(t *testing.T) {
	broken := errors.New("not today")
	for _, test := range []struct {
		name          string
		before, after error
		panics        bool
		code          sandbox.Code
		written       string
	}{
		{name: "none", written: "x"},
		{name: "before", before: broken, code: "hook"},
		{name: "after", after: broken, code: "hook", written: "x"},
		{name: "a panic", panics: true, code: "hook"},
	} {
		asked := 0
		g, dir := newGate(t, approver(func(r gate.Request) gate.Decision { asked++; return look(r) }))
		g.Before = func(_ context.Context, c gate.Call) error {
			if test.panics {
				panic("broken")
			}
			if c.Tool != "write_file" || asked > 0 {
				t.Errorf("%s: got %+v after %d questions", test.name, c, asked)
			}
			return test.before
		}
		g.After = func(_ context.Context, _ gate.Call, r gate.Result) error {
			if len(r.Changes) != 1 {
				t.Errorf("%s: got %+v", test.name, r)
			}
			return test.after
		}
		if r := write(g, "/out/a", "x"); code(r) != test.code || content(dir, "a") != test.written || test.code != "" && len(r.Changes) > 0 {
			t.Errorf("%s: got %+v", test.name, r)
		}
	}
}

// TestResumeCounts checks that a decision counts once, at the gate of the call, whatever the
// rules say meanwhile, and also if it declines.
func TestResumeCounts(t *testing.T) {
	later := approver(func(r gate.Request) gate.Decision { return r.Later() })
	g, dir := newGate(t, later)
	other, dir2 := newGate(t, later)
	ctx := context.Background()
	p := *write(g, "/out/a", "new\n").Pending
	if r := other.Resume(ctx, p, look(p.Request())); code(r) != gate.ErrDeclined || content(dir2, "a") != "" {
		t.Errorf("at another gate: got %q", r.Text)
	}
	g.Rules = []gate.Rule{{Verb: gate.Write, Target: "/out", Level: gate.PreApproved}}
	for name, d := range map[string]gate.Decision{"the zero decision": {}, "that of another request": look(write(other, "/out/a", "new\n").Pending.Request())} {
		if r := g.Resume(ctx, p, d); r.Err == nil || content(dir, "a") != "" {
			t.Errorf("%s, and the rules approve in advance: got %q", name, r.Text)
		}
	}
	if r := g.Resume(ctx, p, p.Request().Decline("ann", "no")); code(r) != gate.ErrDeclined || content(dir, "a") != "" {
		t.Errorf("declined, and the rules approve in advance: got %q", r.Text)
	}
	if r := g.Resume(ctx, p, look(p.Request())); code(r) != gate.ErrUsed || content(dir, "a") != "" {
		t.Errorf("approved after it was declined: got %q", r.Text)
	}
}

// TestJournalAmongFiles checks that the journal cannot be in a directory that tools reach.
func TestJournalAmongFiles(t *testing.T) {
	g, dir := newGate(t, approver(look))
	inside, err := gate.OpenJournal(filepath.Join(dir, "state"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	g.Journal = inside
	if r := write(g, "/out/a", "x"); code(r) != gate.ErrBlocked || content(dir, "a") != "" {
		t.Errorf("got %q", r.Text)
	}
	if _, err := gate.OpenJournal(t.TempDir(), nil); err == nil {
		t.Error("opened a journal without a clock")
	}
	if err := errors.Join(new(gate.FileJournal).Begin(gate.Record{}), new(gate.FileJournal).Close()); err == nil {
		t.Error("the zero journal works")
	}
}

// TestEdits checks that an edit writes what was shown, about the file that a name leads to.
func TestEdits(t *testing.T) {
	n, buffer := 0, []byte("shown\n")
	plans := map[string]gate.Plan{
		"shared":  gate.Edit("/out/a", func([]byte) ([]byte, error) { n++; return fmt.Appendf(nil, "content %d\n", n), nil }),
		"buffer":  gate.Edit("/out/a", func([]byte) ([]byte, error) { return buffer, nil }),
		"empties": gate.Edit("/out/full", func([]byte) ([]byte, error) { return nil, nil }),
		"link":    gate.Edit("/out/link", func(old []byte) ([]byte, error) { return append(old, "more\n"...), nil }),
		"unknown": {Effects: []gate.Effect{{Verb: 4, Target: "/out/a"}}, Run: func(context.Context, *sandbox.Sandbox) (gate.Result, error) { return gate.Result{}, nil }},
		"hides":   {Effects: []gate.Effect{{Verb: gate.Write, Target: "/out/a"}}, Run: func(context.Context, *sandbox.Sandbox) (gate.Result, error) { return gate.Result{}, nil }},
	}
	var do func(name string) gate.Result
	nested := false
	g, dir := newGate(t, approver(func(r gate.Request) gate.Decision {
		d := look(r)
		if strings.Contains(r.Changes()[0].Diff(), "content 1") && !nested {
			nested = true
			do("shared") // plans "content 2" meanwhile, and is declined
			return d
		}
		copy(buffer, "other\n")
		if nested && strings.Contains(r.Changes()[0].Diff(), "content 2") {
			return gate.Decision{}
		}
		return d
	}))
	for name, text := range map[string]string{"full": "text\n", "real": "old\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, plan := range plans {
		g.Tools = append(g.Tools, gate.New(gate.Tool{Name: name}, func(context.Context, struct{}) (gate.Plan, error) { return plan, nil }))
	}
	g.Rules = []gate.Rule{{Verb: gate.Delete, Target: "/", Level: gate.Blocked}}
	do = func(name string) gate.Result { return g.Do(context.Background(), gate.Model, gate.Call{Tool: name}) }
	if r := do("shared"); r.Err != nil || content(dir, "a") != "content 1\n" {
		t.Errorf("two calls with one plan: got %q, and %q", r.Text, content(dir, "a"))
	}
	copy(buffer, "shown\n")
	if r := do("buffer"); r.Err != nil || content(dir, "a") != "shown\n" {
		t.Errorf("a buffer that changes: got %q, and %q", r.Text, content(dir, "a"))
	}
	if r := do("empties"); code(r) != gate.ErrBlocked || content(dir, "full") != "text\n" {
		t.Errorf("an edit that empties a file: got %q", r.Text)
	}
	if r := do("link"); r.Err != nil || content(dir, "real") != "old\nmore\n" {
		t.Errorf("through a symlink: got %q, and %q", r.Text, content(dir, "real"))
	}
	for _, name := range []string{"unknown", "hides"} {
		if r := do(name); r.Err == nil {
			t.Errorf("%s: got %q", name, r.Text)
		}
	}
}

// TestItems checks that items show blanks at the end of lines, and no control characters.
func TestItems(t *testing.T) {
	texts := map[string]bool{}
	g, _ := newGate(t, approver(func(r gate.Request) gate.Decision {
		var all string
		for _, item := range r.Items() {
			if strings.ContainsAny(item.Name+item.Text, "\x1b\u202e\r") {
				t.Errorf("got %q", item)
			}
			if strings.HasPrefix(item.Name, "the content") {
				all += item.Text
			}
		}
		texts[all] = true
		return gate.Decision{}
	}))
	for _, text := range []string{"a\n", "a \n", "a\t\n"} {
		write(g, "/out/a", text)
	}
	if len(texts) != 3 {
		t.Errorf("got %v", texts)
	}
	write(g, "/out/a\u202eb", "\x1b[2J")
}

// TestArgumentsBesideDiff checks that an approver sees what a call sends, if it also changes a
// file.
func TestArgumentsBesideDiff(t *testing.T) {
	type args struct {
		Body string `json:"body" jsonschema:"what to send"`
	}
	shown := ""
	g, _ := newGate(t, approver(func(r gate.Request) gate.Decision {
		for _, item := range r.Items() {
			shown += item.Text
		}
		return gate.Decision{}
	}))
	g.Grant.Hosts = []string{"example.com"}
	g.Tools = []gate.Tool{gate.New(gate.Tool{Name: "post"}, func(_ context.Context, a args) (gate.Plan, error) {
		return gate.Plan{
			Effects: []gate.Effect{{Verb: gate.Write, Target: "/out/log"}, {Verb: gate.Connect, Target: "example.com"}},
			Changes: func(context.Context, *sandbox.Sandbox) (map[string][]byte, error) {
				return map[string][]byte{"/out/log": []byte("sent\n")}, nil
			},
			Run: func(context.Context, *sandbox.Sandbox) (gate.Result, error) { return gate.Result{}, nil },
		}, nil
	})}
	g.Do(context.Background(), gate.Model, gate.Call{Tool: "post", Args: []byte(`{"body": "the secret"}`)})
	if !strings.Contains(shown, "the secret") {
		t.Errorf("got %q", shown)
	}
}
