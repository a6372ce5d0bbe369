package shell

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// records is a journal in memory.
type records struct{ list []audit.Record }

func (j *records) Write(r audit.Record, wait audit.Wait) error {
	if wait < r.Least() {
		return errors.New("the journal is not waited for")
	}
	j.list = append(j.list, r)
	return nil
}

// asked is an approver that approves everything and keeps the requests.
type asked struct {
	list   []tool.Request
	during func() // runs while the question is open; may be nil
}

func (a *asked) Approve(_ context.Context, r tool.Request) tool.Answer {
	a.list = append(a.list, r)
	if a.during != nil {
		a.during()
	}
	return tool.Answer{Verdict: tool.Approved, By: "user", Seen: r.FollowRule()}
}

// runner is a jail that runs nothing. It returns the result that a test sets.
type runner struct {
	layered bool
	says    jail.Result
	fails   error
	unable  error
	command []jail.Command
	files   *sandbox.Sandbox
	mute    bool // it does not report where a command ended
}

func (r *runner) Layered() bool { return r.layered }

func (r *runner) Last() (*changes.AppliedTransaction, error) { return nil, fs.ErrNotExist }

func (r *runner) Undo(*changes.AppliedTransaction) ([]string, error) { return nil, nil }

func (r *runner) Run(_ context.Context, files *sandbox.Sandbox, c jail.Command, _ bool) (changes.Result, error) {
	r.command, r.files = append(r.command, c), files
	says := r.says
	if says.Left == nil && !r.mute { // the command ended where it started
		says.Left = &jail.Left{Dir: c.Dir}
	}
	return changes.Result{Result: says}, r.fails
}

func (r *runner) Able() error { return r.unable }

// A world is a gate to the shell tool with a journal, an approver and a runner.
type world struct {
	tool.Gate
	runner  *runner
	asked   *asked
	journal *records
}

func newWorld(t *testing.T, mounts []sandbox.Mount, rules ...policy.Rule) *world {
	t.Helper()
	for i := range mounts {
		mounts[i].Source = sandbox.Host(t.TempDir())
	}
	files, err := sandbox.New(sandbox.Config{Mounts: mounts})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{runner: &runner{says: jail.Result{Level: jail.Namespaces}}, asked: &asked{}, journal: &records{}}
	w.Gate = tool.Gate{Tools: Set{Runner: w.runner, Place: NewPlace(Standing{}, nil)}.Tools(), Files: files, Approver: w.asked, Journal: w.journal, Workers: []string{"main"},
		Grant: policy.Grant{Files: policy.AllFiles(), Tools: policy.All(), Approvals: policy.Approvals{}.With(rules...)}}
	return w
}

func (w *world) run(t *testing.T, a args) tool.Result {
	t.Helper()
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return w.Do(t.Context(), policy.Model, tool.Call{Tool: "shell", Args: b})
}

func newMounts() []sandbox.Mount {
	return []sandbox.Mount{{Target: "/in", Access: sandbox.ReadOnly}, {Target: "/out", Access: sandbox.ReadWrite}}
}

func formatEffects(effects []policy.Effect) string {
	var words []string
	for _, e := range effects {
		words = append(words, e.String())
	}
	return strings.Join(words, ", ")
}

// newOpenRules returns rules that allow everything without approval.
func newOpenRules() []policy.Rule {
	return []policy.Rule{
		{Verb: policy.Run, Target: "*", Approval: policy.PreApproved}, {Verb: policy.Write, Target: "/", Approval: policy.PreApproved},
		{Verb: policy.Delete, Target: "/", Approval: policy.PreApproved}, {Verb: policy.Connect, Target: "*", Approval: policy.PreApproved},
	}
}

// TestAlwaysAsks checks that a command that writes directly asks even if the grant allows
// all its effects, and that a command on overlays does not.
func TestAlwaysAsks(t *testing.T) {
	w := newWorld(t, newMounts(), newOpenRules()...)
	if r := w.run(t, args{Command: "ls"}); !r.OK() {
		t.Fatal(r.Err)
	}
	if len(w.asked.list) != 1 {
		t.Fatalf("asked %d times, want 1", len(w.asked.list))
	}
	layered := newWorld(t, newMounts(), newOpenRules()...)
	layered.runner.layered = true
	if r := layered.run(t, args{Command: "ls"}); !r.OK() || len(layered.asked.list) != 0 {
		t.Fatalf("on layers: %v, asked %d times", r.Err, len(layered.asked.list))
	}
	const want = "run ls, write /out/**, delete /out/**"
	if got := formatEffects(w.asked.list[0].ToApprove); got != want {
		t.Errorf("asks for %s\nwant     %s", got, want)
	}
	w.Approver = nil
	if r := w.run(t, args{Command: "ls"}); r.OK() || r.Err.Code != "declined" || len(w.runner.command) != 1 {
		t.Errorf("with nobody to ask: %v, ran %d times", r.Err, len(w.runner.command))
	}
}

// TestEffects checks that the plan declares what a command may see and change, and that
// the jail gets exactly that.
func TestEffects(t *testing.T) {
	rule := func(v policy.Verb, target string, c policy.Approval) policy.Rule {
		return policy.Rule{Verb: v, Target: target, Approval: c, From: "p.yaml:1"}
	}
	narrow := newMounts()
	narrow[1].Suffixes = []string{".md"}
	tests := []struct {
		name   string
		mounts []sandbox.Mount
		rules  []policy.Rule
		want   string
		begins string
	}{
		{"zones", newMounts(), nil, "read /in/**, read /out/**, write /out/**, delete /out/**", "/out"},
		{"a blocked write", newMounts(), []policy.Rule{rule(policy.Write, "/out", policy.Blocked)}, "read /in/**, read /out/**", "/in"},
		{"a blocked delete", newMounts(), []policy.Rule{rule(policy.Delete, "/out", policy.Blocked)}, "read /in/**, read /out/**", "/in"},
		{"a blocked delete below", newMounts(), []policy.Rule{rule(policy.Delete, "/out/a", policy.Blocked)}, "read /in/**, read /out/**, read /out/a/**", "/in"},
		{"a blocked write below", newMounts(), []policy.Rule{rule(policy.Write, "/out/a", policy.Blocked)},
			"read /in/**, read /out/**, write /out/**, delete /out/**, read /out/a/**", "/out"},
		{"reading that asks", newMounts(), []policy.Rule{rule(policy.Read, "/in", policy.Ask)}, "read /out/**, write /out/**, delete /out/**", "/out"},
		{"reading that is blocked", newMounts(), []policy.Rule{rule(policy.Read, "/", policy.Blocked)}, "", "/work"},
		{"suffixes", narrow, nil, "read /in/**, read /out/**", "/in"},
		{"a mount at the top", append(newMounts(), sandbox.Mount{Target: "/", Access: sandbox.ReadOnly}), nil,
			"read /**, read /in/**, read /out/**, write /out/**, delete /out/**", "/work"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.mounts, test.rules...)
			if r := w.run(t, args{Command: "ls"}); !r.OK() {
				t.Fatal(r.Err)
			}
			want := "run ls"
			if test.want != "" {
				want += ", " + test.want
			}
			if got := formatEffects(w.asked.list[0].Effects); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if got := w.runner.command[0].Dir; got != test.begins {
				t.Errorf("begins in %s, want %s", got, test.begins)
			}
			for _, m := range w.Files.Mounts() {
				write := strings.Contains(test.want, "write "+strings.TrimSuffix(m.Target, "/")+"/**")
				if got := w.runner.files.CanWrite(m.Target); got != write {
					t.Errorf("%s: the jail may write: %v, want %v", m.Target, got, write)
				}
				read := strings.Contains(test.want, "read "+strings.TrimSuffix(m.Target, "/")+"/**")
				if got := w.runner.files.CanRead(m.Target); got != read {
					t.Errorf("%s: the jail may read: %v, want %v", m.Target, got, read)
				}
			}
		})
	}
}

// TestNetwork checks that an open network is an effect of the plan, and that a rule that
// blocks it turns it off.
func TestNetwork(t *testing.T) {
	w := newWorld(t, newMounts())
	w.Grant.Hosts = policy.AllHosts()
	r := w.run(t, args{Command: "ls"})
	if got := formatEffects(w.asked.list[0].Effects); !strings.HasSuffix(got, ", connect *") || !strings.Contains(r.Words(), "network on") {
		t.Errorf("effects %s, text %s", got, r.Words())
	}
	w.Grant.Approvals = policy.Approvals{}.With(policy.Rule{Verb: policy.Connect, Target: "*", Approval: policy.Blocked})
	r = w.run(t, args{Command: "ls"})
	if got := formatEffects(w.asked.list[1].Effects); strings.Contains(got, "connect") || !strings.Contains(r.Words(), "network off") || w.HasNetwork() {
		t.Errorf("blocked: effects %s, text %s", got, r.Words())
	}
}

// TestRules checks that rules decide whether golem asks about a command, and that golem
// refuses what they block. Package command tests which rule matches what.
func TestRules(t *testing.T) {
	rule := func(approval policy.Approval, pattern string) policy.ShellRule {
		return policy.ShellRule{Pattern: pattern, Approval: approval, From: "w:" + pattern}
	}
	layer := policy.ShellLayer{NoDefault: true, From: "w:1", Rules: []policy.ShellRule{
		rule(policy.Blocked, "rm"), rule(policy.Ask, "git push"), rule(policy.PreApproved, "git"), {Use: "read_only", Approval: policy.PreApproved, From: "w:set"}}}
	strict := policy.ShellLayer{From: "w:9", Default: policy.Blocked, Rules: layer.Rules}
	asks := policy.Rule{Verb: policy.Run, Target: "*", Approval: policy.Ask, From: "p:1"}
	passes := policy.Rule{Verb: policy.Run, Target: "*", Approval: policy.PreApproved, From: "p:2"}
	never := policy.Rule{Verb: policy.Run, Target: "*", Approval: policy.Blocked, From: "p:3"}
	for _, test := range []struct {
		layers  []policy.ShellLayer
		rules   []policy.Rule
		command string
		want    string // passes, asks with rule and reason, or blocked with the start of the hint
	}{
		{nil, nil, "ls", "asks"},
		{[]policy.ShellLayer{layer}, nil, "git status | wc -l", "passes"},
		{[]policy.ShellLayer{layer}, nil, "git push; ls", "asks w:git push git push"},
		{[]policy.ShellLayer{layer}, nil, "ls; curl x", "asks curl x: no rule matches it"},
		{[]policy.ShellLayer{layer}, nil, "ls; sort -o x y", "asks sort -o x y: -o changes what the command does"},
		{[]policy.ShellLayer{layer}, nil, "X=1 ls", "asks X=1 ls: X is set for it"},
		{[]policy.ShellLayer{layer}, nil, "$x", "blocked golem cannot tell whether it runs a command that a rule (w:rm) blocks, and no approval changes that"},
		{[]policy.ShellLayer{layer}, nil, "ls >/out/x", "passes"}, // the gate decides about its changes when it has ended
		{[]policy.ShellLayer{layer}, nil, "rm x", "blocked a rule (w:rm) blocks it, and no approval changes that"},
		{[]policy.ShellLayer{layer}, nil, "ls; sh -c 'rm x'", "blocked rm x: a rule (w:rm) blocks it"},
		{[]policy.ShellLayer{strict}, nil, "curl x", "blocked a rule (w:9) blocks it"},
		{[]policy.ShellLayer{strict}, nil, "ls; $x", "blocked $x: a rule (w:9) blocks it, and no approval changes that; what it runs is not known"},
		{[]policy.ShellLayer{layer}, []policy.Rule{asks}, "ls", "asks p:1"},
		{[]policy.ShellLayer{layer}, []policy.Rule{passes}, "curl x", "passes"},
		{[]policy.ShellLayer{layer}, []policy.Rule{passes}, "git push", "asks w:git push git push"},
		{[]policy.ShellLayer{layer}, []policy.Rule{passes}, "rm x", "blocked"},
		{[]policy.ShellLayer{layer}, []policy.Rule{never}, "ls", "blocked a rule (p:3) blocks it"},
		{[]policy.ShellLayer{layer, {Default: policy.Ask, From: "w:7"}}, nil, "ls", "asks w:7 ls"},
	} {
		w := newWorld(t, newMounts(), test.rules...)
		w.runner.layered = true
		w.Tools = Set{Runner: w.runner, Rules: policy.Shell{Layers: test.layers}}.Tools()
		r := w.run(t, args{Command: test.command})
		got := "passes"
		switch {
		case len(w.asked.list) > 0:
			got = strings.Join(strings.Fields("asks "+w.asked.list[0].Rule+" "+w.asked.list[0].Why), " ")
		case !r.OK():
			got = string(r.Err.Code) + " " + r.Err.Hint
		}
		if ran := len(w.runner.command) > 0; ran != (r.OK()) || got != test.want && !(strings.HasPrefix(test.want, "blocked") && strings.HasPrefix(got, test.want)) {
			t.Errorf("%q: got %s, want %s; ran %v", test.command, got, test.want, ran)
		}
	}
}

// TestToolIsOffered checks that the tool is offered if a rule allows any command.
func TestToolIsOffered(t *testing.T) {
	w := newWorld(t, newMounts())
	for _, test := range []struct {
		layers []policy.ShellLayer
		want   policy.Approval
	}{
		{nil, policy.Ask},
		{[]policy.ShellLayer{{Default: policy.Blocked}}, policy.Blocked},
		{[]policy.ShellLayer{{Default: policy.Blocked, Rules: []policy.ShellRule{{Pattern: "ls", Approval: policy.PreApproved}}}}, policy.PreApproved},
		{[]policy.ShellLayer{{NoDefault: true, Rules: []policy.ShellRule{{Pattern: "ls", Approval: policy.PreApproved}}}, {Default: policy.Ask}}, policy.Ask},
		{[]policy.ShellLayer{{NoDefault: true, Rules: []policy.ShellRule{{Pattern: "rm", Approval: policy.Blocked}}}}, policy.Ask},
	} {
		w.Grant.Shell = policy.Shell{Layers: test.layers}
		if got := w.HighestApproval(w.Tools[0]); got != test.want {
			t.Errorf("%+v: got %s, want %s", test.layers, got, test.want)
		}
	}
}

// TestBlocked checks that a blocked command is refused before anybody is asked.
func TestBlocked(t *testing.T) {
	w := newWorld(t, newMounts(), policy.Rule{Verb: policy.Run, Target: "*", Approval: policy.Blocked})
	if r := w.run(t, args{Command: "ls"}); r.OK() || r.Err.Code != "blocked" {
		t.Errorf("got %v, want blocked", r.Err)
	}
	w = newWorld(t, newMounts())
	w.Tools = Set{Runner: w.runner, Rules: policy.Shell{}.With(policy.ShellLayer{Default: policy.Blocked})}.Tools()
	if r := w.run(t, args{Command: "ls"}); r.OK() || r.Err.Code != "blocked" {
		t.Errorf("got %v, want blocked", r.Err)
	}
	if len(w.asked.list)+len(w.runner.command) > 0 {
		t.Error("golem asked about the command, or ran it")
	}
}

// TestArguments checks that invalid commands and timeouts are refused.
func TestArguments(t *testing.T) {
	for _, a := range []args{{}, {Command: " \n"}, {Command: "a\x00b"}, {Command: strings.Repeat("x", maxCommand+1)}, {Command: "x", Timeout: 1e300}, {Command: "x", Timeout: -1}} {
		w := newWorld(t, newMounts())
		if r := w.run(t, a); r.OK() || r.Err.Code != "invalid_args" || len(w.runner.command) > 0 {
			t.Errorf("%.20q %v: got %v", a.Command, a.Timeout, r.Err)
		}
	}
	w := newWorld(t, newMounts())
	if r := w.run(t, args{Command: "x", Timeout: 1.5}); !r.OK() || w.runner.command[0].Time != 1500*time.Millisecond {
		t.Errorf("got %v, %v", r.Err, w.runner.command)
	}
}

// TestDirectory checks that cwd must be a visible name of the tree.
func TestDirectory(t *testing.T) {
	w := newWorld(t, append(newMounts(), sandbox.Mount{Target: "/", Access: sandbox.ReadWrite}), policy.Rule{Verb: policy.Read, Target: "/in", Approval: policy.Ask})
	if err := w.Files.MakeDir("/src"); err != nil {
		t.Fatal(err)
	}
	for cwd, want := range map[string]string{"": "/work", "/": "/work", "src": "/work/src", "/work/src": "/work/src", "out:": "/out", "/in": "", "/../x": ""} {
		w.runner.command = nil
		w.Tools = Set{Runner: w.runner}.Tools() // without a place each command is the first
		r := w.run(t, args{Command: "pwd", Cwd: cwd})
		if want == "" {
			if r.OK() {
				t.Errorf("%s: got %v, want an error", cwd, w.runner.command)
			}
			continue
		}
		if !r.OK() || w.runner.command[0].Dir != want {
			t.Errorf("%s: got %v %v, want %s", cwd, r.Err, w.runner.command, want)
		}
	}
}

// TestOutcome checks that the journal records the outcome of a command, and that the tool
// returns errors of the jail.
func TestOutcome(t *testing.T) {
	w := newWorld(t, newMounts())
	w.runner.says = jail.Result{Code: 3, Took: 1900 * time.Millisecond, Level: jail.Landlock}
	w.run(t, args{Command: "false"})
	const want = "exit 3 in 1.9 s (landlock, network off)"
	if got := w.journal.list[1]; got.Kind != audit.Outcome || got.Note != want || got.Code != "" {
		t.Errorf("got %+v, want %s", got, want)
	}
	w.runner.fails = &sandbox.Error{Op: "shell", Code: jail.ErrNoSandbox}
	if r := w.run(t, args{Command: "true"}); r.OK() || !errors.Is(r.Err, jail.ErrNoSandbox) {
		t.Errorf("got %v", r.Err)
	}
	if got := w.journal.list[3]; got.Kind != audit.Outcome || got.Code != string(jail.ErrNoSandbox) {
		t.Errorf("got %+v", got)
	}
}

// TestNoCommands checks that nobody is asked for approval if no command can run.
func TestNoCommands(t *testing.T) {
	w := newWorld(t, newMounts())
	w.runner.unable = &sandbox.Error{Op: "shell", Code: jail.ErrNoSandbox}
	r := w.run(t, args{Command: "ls"})
	if r.OK() || r.Err.Code != jail.ErrNoSandbox || len(w.asked.list) > 0 || len(w.runner.command) > 0 {
		t.Errorf("got %v, asked %d times, ran %d", r.Err, len(w.asked.list), len(w.runner.command))
	}
}

// inSession is a backend whose changes a session keeps.
type inSession struct{ sandbox.Backend }

func (inSession) Traits() sandbox.Traits { return sandbox.Traits{Through: "/x"} }

// TestStopped checks that a stopped command is an error, and that its output and what
// became of its changes are reported.
func TestStopped(t *testing.T) {
	w := newWorld(t, newMounts())
	w.runner.says = jail.Result{Stopped: true, Signal: "SIGKILL", Level: jail.Namespaces, Stdout: jail.Output{Head: []byte("begun")}}
	r := w.run(t, args{Command: "x"})
	if ran, ok := r.Data.(Ran); r.OK() || r.Err.Code != "stopped" || !ok || ran.Stdout != "begun" {
		t.Errorf("got %v, %+v", r.Err, r.Data)
	}
	if !strings.Contains(r.Err.Hint, "its changes until then stay") {
		t.Errorf("got %v", r.Err)
	}
	w.runner.layered = true
	if r := w.run(t, args{Command: "x"}); !strings.Contains(r.Err.Hint, "none of its changes were applied") {
		t.Errorf("on layers: got %v", r.Err)
	}
	// Changes in a session are made while the command runs.
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Access: sandbox.ReadWrite, Backend: inSession{sandbox.NewMemory(nil)}}}})
	if err != nil {
		t.Fatal(err)
	}
	w.Files = files
	if r := w.run(t, args{Command: "x"}); !strings.Contains(r.Err.Hint, "until then are kept in the session") {
		t.Errorf("in a session: got %v", r.Err)
	}
	last := w.journal.list[len(w.journal.list)-1]
	if last.Kind != audit.Outcome || last.Code != "stopped" || !strings.HasPrefix(last.Note, "stopped after") {
		t.Errorf("the journal has %+v", last)
	}
}
