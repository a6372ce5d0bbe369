package custom_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/toolset/custom"
	"github.com/golem-forge/golem/sandbox"
)

// runner is a jail that runs nothing. It keeps the command and returns a result that a
// test sets. The script custom.txtar runs real programs.
type runner struct {
	result  jail.Result
	err     error
	layered bool
	got     jail.Command
	runs    int
}

func (r *runner) Able() error   { return nil }
func (r *runner) Layered() bool { return r.layered }
func (r *runner) Run(_ context.Context, _ *sandbox.Sandbox, c jail.Command, _ bool) (changes.Result, error) {
	r.got = c
	r.runs++
	return changes.Result{Result: r.result}, r.err
}

// journal refuses a record that is not waited for.
type journal struct{ list []audit.Record }

func (j *journal) Write(r audit.Record, wait audit.Wait) error {
	if wait < r.Least() {
		return errors.New("the journal is not waited for")
	}
	j.list = append(j.list, r)
	return nil
}

type says tool.Verdict

func (s says) Approve(_ context.Context, r tool.Request) tool.Answer {
	return tool.Answer{Verdict: tool.Verdict(s), Seen: r.FollowRule(), By: "user"}
}

func gate(t *testing.T, r *runner, verdict tool.Verdict) (tool.Gate, *journal) {
	t.Helper()
	tl, err := custom.New(tool.Tool{Name: "count", Mode: policy.Both, Description: "Counts."},
		[]byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`),
		custom.Program{Command: jail.Command{Args: []string{"count"}}, Timeout: 3 * time.Second}, r)
	if err != nil {
		t.Fatal(err)
	}
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadOnly}}})
	if err != nil {
		t.Fatal(err)
	}
	j := &journal{}
	return tool.Gate{Tools: []tool.Tool{tl}, Files: files, Journal: j, Approver: says(verdict), Workers: []string{"main"},
		Grant: policy.Grant{Files: policy.AllFiles(), Tools: policy.All()}}, j
}

func call(g tool.Gate, args string) tool.Result {
	return g.Do(context.Background(), policy.Model, tool.Call{Tool: "count", Args: []byte(args)})
}

// TestCustomRuns checks that a program gets its arguments as one line of JSON after
// the journal has the intent, and that the tool returns its output.
func TestCustomRuns(t *testing.T) {
	r := &runner{}
	g, j := gate(t, r, tool.Approved)
	if got := call(g, `{"n":3}`); !got.OK() || r.runs != 1 {
		t.Fatalf("got %+v, %d runs", got, r.runs)
	}
	if string(r.got.Input) != `{"n":3}`+"\n" || r.got.Time != 3*time.Second {
		t.Errorf("got %q, %v", r.got.Input, r.got.Time)
	}
	if len(j.list) != 2 || j.list[0].Kind != audit.Intent || !strings.Contains(strings.Join(j.list[0].Effects, " "), custom.Runs("count")) {
		t.Errorf("got %+v", j.list)
	}
}

// TestCustomRefused checks that nothing runs without approval, or with arguments that
// the schema refuses.
func TestCustomRefused(t *testing.T) {
	for args, verdict := range map[string]tool.Verdict{`{"n":3}`: tool.Declined, `{"n":"x"}`: tool.Approved, `{}`: tool.Approved, `{"n":1,"m":2}`: tool.Approved, `[]`: tool.Approved} {
		r := &runner{}
		g, _ := gate(t, r, verdict)
		if got := call(g, args); got.Err == nil || r.runs != 0 {
			t.Errorf("%s: got %+v, %d runs", args, got, r.runs)
		}
	}
}

// TestCustomFails checks the error code for each way in which a program can fail.
func TestCustomFails(t *testing.T) {
	for _, test := range []struct {
		result jail.Result
		code   sandbox.Code
		hint   string
	}{
		{jail.Result{Code: 7}, "failed", "exit 7"},
		{jail.Result{Late: true, Code: 137}, "timeout", "it timed out"},
		{jail.Result{Stopped: true, Code: 137}, "stopped", "it was stopped"},
		{jail.Result{Code: 137, Hit: []jail.Limit{jail.MemoryLimit}}, sandbox.ErrLimit, "limit of memory"},
		{jail.Result{Code: 1, Stderr: jail.Output{Head: []byte("sh: cannot create /in/a: Read-only file system\n")}}, "failed", "it may write only in /tmp: files: {restrict: DIR, readonly: false}"},
		{jail.Result{Code: 139, Signal: "SIGSEGV"}, "failed", "ended by SIGSEGV"},
	} {
		g, _ := gate(t, &runner{result: test.result}, tool.Approved)
		if got := call(g, `{"n":3}`); got.Err == nil || got.Err.Code != test.code || !strings.Contains(got.Err.Hint, test.hint) {
			t.Errorf("%+v: got %+v", test.result, got.Err)
		}
	}
}
