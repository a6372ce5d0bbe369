package program

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/starter"
	"github.com/golem-forge/golem/sandbox"
)

// TestRulesOnHostsThatIgnoreCase: on a host that ignores case, a rule applies to every
// spelling of its name.
func TestRulesOnHostsThatIgnoreCase(t *testing.T) {
	m := sandbox.NewMemory(map[string]sandbox.Object{"Secret/key.txt": {Content: "KEY"}}, sandbox.FoldCase)
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/Out", Backend: m, Access: sandbox.ReadWrite},
		{Target: "/out/sub", Backend: sandbox.NewMemory(nil, sandbox.FoldCase), Access: sandbox.ReadWrite},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := policy.Approvals{}.With(
		policy.Rule{Verb: policy.Read, Target: "/out/secret", Approval: policy.Blocked},
		policy.Rule{Verb: policy.Read, Target: "/OUT/SUB", Approval: policy.Blocked})
	files, c, err := canonicalRules(s, c)
	if err != nil {
		t.Fatal(err)
	}
	gate := tool.Gate{Files: files, Grant: policy.Grant{Files: policy.AllFiles(), Approvals: c}}
	for _, name := range []string{"/Out/Secret/key.txt", "/out/secret/key.txt", "/OUT/SECRET/KEY.TXT", "out:SeCrEt/key.txt", "/Out/sub/x", "/out/SUB/x"} {
		at, err := files.Locate("read", name, sandbox.ReadOnly, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := gate.Decide(policy.Effect{Verb: policy.Read, Target: at}).Approval; got != policy.Blocked {
			t.Errorf("%s, which is %s: got %v, want blocked", name, at, got)
		}
	}
	at, err := files.Locate("read", "/out/SECRETS", sandbox.ReadOnly, false)
	if got := gate.Decide(policy.Effect{Verb: policy.Read, Target: at}).Approval; err != nil || got != policy.PreApproved {
		t.Errorf("another name in the directory: got %v, %v", got, err)
	}
}

// TestPolicyHash: remembered approvals are bound to the mounts and rules in effect,
// whether a file or a flag set them, and not to the approval mode.
func TestPolicyHash(t *testing.T) {
	for _, test := range []struct {
		spelling, project string // "" is the project file that golem init makes
		sets              []string
	}{
		{"zones", "sandbox: {mode: direct, zones: {in: {path: ./in, mode: ro}, out: {path: ./out, approval: {write: ask}}}}\n", []string{
			"sandbox.zones.out.path=./in", "sandbox.zones.in.suffixes=[.md]", "sandbox.zones.out.approval.write=preApproved", "sandbox.protect=[secret]"}},
		{"mounts", "", []string{
			"sandbox.mode=rw", "sandbox.mode=ro", "sandbox.root=./workers", "sandbox.suffixes=[.md]", "sandbox.approval.write=ask", "sandbox.protect=[secret]",
			"sandbox.mounts=[{source: ./in, target: /in, mode: ro}, {source: ./out, target: /out, mode: overlay, approval: {write: ask, delete: ask}}]",
			"sandbox.mounts=[{source: ./in, target: /in, mode: ro}, {source: ./out, target: /out, approval: {write: preApproved, delete: ask}}]"}},
	} {
		t.Run(test.spelling, func(t *testing.T) {
			dir := t.TempDir()
			if _, _, err := starter.Make(dir, starter.Options{}); err != nil {
				t.Fatal(err)
			}
			if test.project != "" {
				if err := os.WriteFile(filepath.Join(dir, project.File), []byte(test.project), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			hash := func(set ...string) string {
				t.Helper()
				var settings []project.Setting
				for _, text := range set {
					s, err := project.ParseSet("--set", text)
					if err != nil {
						t.Fatal(err)
					}
					settings = append(settings, s)
				}
				p, err := Load(Options{Dir: dir, State: t.TempDir(), Now: time.Now, Settings: settings})
				if err != nil {
					t.Fatal(err)
				}
				return p.Storage.Policy
			}
			plain := hash()
			for _, set := range []string{"approval.mode=auto_deny", "model=ollama:m", "limits.memory=1GiB", "budget.turns=3"} {
				if got := hash(set); got != plain {
					t.Errorf("%s changes the hash of the policy", set)
				}
			}
			for _, set := range append(test.sets, "network.allow_private=true", "network.ask=true", "jail.gpu=true", "jail.etc=[php]", "sandbox.require_os_sandbox=landlock",
				"clearance.limits.max_files=5") {
				if got := hash(set); got == plain {
					t.Errorf("%s does not change the policy", set)
				}
			}
		})
	}
}
