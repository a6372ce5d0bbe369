package project_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

func TestValues(t *testing.T) {
	w := newWorld(t)
	p, err := w.parse(`
sandbox:
  root: .
  readonly: true
  mounts:
    - {source: ~/npm, target: /npm, mode: ro}
    - {source: out, target: /out, suffixes: [.md, .txt]}
approval: {mode: auto}
clearance:
  targets:
    origin: {type: github, repo: you/notes}
`, "budget.turns=9", "sandbox.network=[]")
	if err != nil {
		t.Fatal(err)
	}
	want := trimIndent(`
		sandbox.root = . (p.yaml:3)
		sandbox.mode = ro (p.yaml:4)
		sandbox.readonly = true (p.yaml:4)
		sandbox.suffixes =  (default)
		sandbox.max_file_bytes =  (default)
		sandbox.trust =  (default)
		sandbox.mounts[0].source = ~/npm (p.yaml:6)
		sandbox.mounts[0].target = /npm (p.yaml:6)
		sandbox.mounts[0].readonly = true (p.yaml:6)
		sandbox.mounts[0].mode = ro (p.yaml:6)
		sandbox.mounts[0].suffixes =  (default)
		sandbox.mounts[0].max_file_bytes =  (default)
		sandbox.mounts[0].approval.read =  (default)
		sandbox.mounts[0].approval.write =  (default)
		sandbox.mounts[0].approval.delete =  (default)
		sandbox.mounts[0].trust =  (default)
		sandbox.mounts[1].source = out (p.yaml:7)
		sandbox.mounts[1].target = /out (p.yaml:7)
		sandbox.mounts[1].readonly = false (default)
		sandbox.mounts[1].mode = rw (default)
		sandbox.mounts[1].suffixes = [.md, .txt] (p.yaml:7)
		sandbox.mounts[1].max_file_bytes =  (default)
		sandbox.mounts[1].approval.read =  (default)
		sandbox.mounts[1].approval.write =  (default)
		sandbox.mounts[1].approval.delete =  (default)
		sandbox.mounts[1].trust =  (default)
		sandbox.zones =  (default)
		sandbox.cache =  (default)
		sandbox.workspace =  (default)
		sandbox.paths =  (default)
		sandbox.approval.read = preApproved (default)
		sandbox.approval.write = ask (default)
		sandbox.approval.delete = ask (default)
		sandbox.protect =  (default)
		sandbox.network = [] (--set)
		sandbox.require_os_sandbox = false (default)
		network.allow =  (default)
		network.allow_private = false (default)
		network.ask = false (default)
		network.fetch =  (default)
		network.presets =  (default)
		credentials =  (default)
		model =  (default)
		summary_model =  (default)
		fallback_models =  (default)
		effort =  (default)
		temperature =  (default)
		max_answer_tokens =  (default)
		show_thinking = false (default)
		model_server.url =  (default)
		model_server.key =  (default)
		model_server.api =  (default)
		approval.mode = approve_all (p.yaml:8)
		delegation.max_depth = 5 (default)
		ignored_without_git =  (default)
		worker_paths = [., workers, .workers] (default)
		budget.turns = 9 (--set)
		budget.workers =  (default)
		budget.tokens =  (default)
		budget.cost =  (default)
		budget.time =  (default)
		intake =  (default)
		clearance.targets.origin.type = github (p.yaml:11)
		clearance.targets.origin.path =  (default)
		clearance.targets.origin.url =  (default)
		clearance.targets.origin.repo = you/notes (p.yaml:11)
		clearance.targets.origin.branch = main (default)
		clearance.targets.origin.hooks = skip (default)
		clearance.targets.origin.at = / (default)
		clearance.endpoints =  (default)
		clearance.scanners = [format, size, content, secrets, malware] (default)
		clearance.allow =  (default)
		clearance.malware.clamd =  (default)
		clearance.malware.clamscan = false (default)
		clearance.malware.yara =  (default)
		clearance.external =  (default)
		clearance.limits.max_files =  (default)
		clearance.limits.max_bytes =  (default)
		clearance.limits.max_percent =  (default)
		clearance.limits.scan_bytes =  (default)
		clearance.limits.scan_time =  (default)
		commit.trailer =  (default)
		limits.cpu =  (default)
		limits.memory =  (default)
		limits.pids =  (default)
		limits.time =  (default)
		limits.output =  (default)
		limits.file_size =  (default)
		limits.disk =  (default)
		jail.etc =  (default)
		jail.gpu = false (default)`)
	var got []string
	for _, v := range p.Values() {
		got = append(got, fmt.Sprintf("%s = %s (%s)", v.Key, v.Text, v.From))
	}
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got:\n%s\nwant:\n%s", text, want)
	}
}

// TestValuesOfDirectories lists the default directories too.
func TestValuesOfDirectories(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct{ yaml, key, want string }{
		{``, "sandbox.root", ".sandbox (default)"},
		{``, "sandbox.mode", "sandboxed (default)"},
		{``, "sandbox.cache", "./cache (default)"},
		{``, "sandbox.workspace", "./workspace (default)"},
		{`sandbox: {mode: direct, workspace: reports/}`, "sandbox.cache", "reports/.cache (default)"},
		{`sandbox: {mode: direct, workspace: reports/}`, "sandbox.workspace", "reports/ (p.yaml:1)"},
		{`sandbox: {mode: direct, workspace: reports/}`, "sandbox.root", " (default)"},
		{`sandbox: {mode: direct}`, "sandbox.mode", "direct (p.yaml:1)"},
		{`sandbox: {root: .}`, "sandbox.mode", "rw (default)"},
		{`sandbox: {root: ., mode: ro}`, "sandbox.readonly", "true (p.yaml:1)"},
		{`sandbox: {zones: {a: {path: a}}}`, "sandbox.zones.a.mode", "rw (default)"},
		{`sandbox: {zones: {a: {path: a}}}`, "sandbox.cache", " (default)"},
		{`sandbox: {paths: {a: {root: a}}}`, "sandbox.paths.a.mode", "ro (default)"},
		{`sandbox: {paths: {a: {root: a}}}`, "sandbox.mode", " (default)"},
		{`clearance: {targets: {o: {type: github, repo: a/b}}}`, "clearance.targets.o.at", "/workspace (default)"},
	} {
		p, err := w.parse(test.yaml)
		if err != nil {
			t.Errorf("%s: %v", test.yaml, err)
			continue
		}
		v := findValue(p, test.key)
		if got := v.Text + " (" + v.From.String() + ")"; got != test.want {
			t.Errorf("%s: %s = %s, want %s", test.yaml, test.key, got, test.want)
		}
	}
}

// TestGrant checks that the grant limits workers: it finds requests beyond it.
func TestGrant(t *testing.T) {
	w := newWorld(t)
	p, err := w.parse(`
sandbox:
  zones:
    data: {path: data, mode: ro}
    out: {path: out, approval: {write: preApproved, delete: blocked}}
  approval: {read: ask}
  require_os_sandbox: namespaces
delegation: {max_depth: 2}
limits: {pids: 10}
`)
	if err != nil {
		t.Fatal(err)
	}
	g := p.Grant()
	for _, test := range []struct {
		effect policy.Effect
		want   policy.Approval
		from   string
	}{
		{policy.Effect{Verb: policy.Read, Target: "/data/a"}, policy.Ask, "p.yaml:6"},
		{policy.Effect{Verb: policy.Write, Target: "/data/a"}, policy.Blocked, ""},
		{policy.Effect{Verb: policy.Write, Target: "/out/a"}, policy.PreApproved, "p.yaml:5"},
		{policy.Effect{Verb: policy.Delete, Target: "/out/a"}, policy.Blocked, "p.yaml:5"},
		{policy.Effect{Verb: policy.Read, Target: "/elsewhere"}, policy.Blocked, ""},
		{policy.Effect{Verb: policy.Use, Target: "any"}, policy.PreApproved, ""},
		{policy.Effect{Verb: policy.Call, Target: "any"}, policy.PreApproved, ""},
		{policy.Effect{Verb: policy.Connect, Target: "example.com"}, policy.Blocked, ""},
	} {
		if d := g.Decide(test.effect); d.Approval != test.want || d.Rule.From != test.from {
			t.Errorf("%v: %v by %q, want %v by %q", test.effect, d.Approval, d.Rule.From, test.want, test.from)
		}
	}
	if g.Depth != 2 || g.Limits.Pids != 10 || !g.Attachments.Unlimited || !g.Credentials.IsAll() || g.Level != policy.Namespaces {
		t.Errorf("got %+v", g)
	}
	worker := g
	worker.Files = policy.AllFiles().With(sandbox.Limit{Path: "/data", Access: sandbox.ReadWrite})
	excess := worker.Within(g)
	if len(excess) != 1 || excess[0].Error() != "file /data: exceeds_parent; asks for rw, the parent has ro" {
		t.Errorf("got %v", excess)
	}
	s, err := p.Sandbox(openPlainMount)
	if err != nil {
		t.Fatal(err)
	}
	same, err := g.Files.Apply(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/", "/data", "/out/x", "/none"} {
		if a, b := same.Access(name), s.Access(name); a != b {
			t.Errorf("the grant leaves %v of %v at %s", a, b, name)
		}
	}
}

func TestFromOfMounts(t *testing.T) {
	w := newWorld(t)
	p, err := w.parse("sandbox:\n  zones:\n    a:\n      path: a\n    b: {path: b}\n")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []strictyaml.Place{{Source: "p.yaml", Line: 3, Col: 5}, {Source: "p.yaml", Line: 5, Col: 5}} {
		if m := p.Mounts[i]; m.From != want || m.Name != m.Target[1:] {
			t.Errorf("%s %q comes from %+v, want %+v", m.Target, m.Name, m.From, want)
		}
	}
}
