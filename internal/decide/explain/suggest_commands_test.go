package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// TestProposeCommands checks which rules a proposal has for the lines of a worker.
func TestProposeCommands(t *testing.T) {
	for name, c := range map[string]struct {
		line, decision, by, code string
		want                     []string
		asks                     string
	}{
		"words":     {line: "go test ./internal/x -run TestY", want: []string{"go test ./internal/x -run TestY"}},
		"a list":    {line: "cd src && grep -rn a . | head -n 2; ls", want: []string{"cd src", "grep -rn a .", "head -n 2", "ls"}},
		"runners":   {line: "timeout 5 go vet ./...", want: []string{"go vet ./..."}},
		"a shorter": {line: "ls -l; ls", want: []string{"ls"}},
		"odd words": {line: `grep "two words" x`, asks: "one of its words cannot stand in a rule"},
		"a star":    {line: "find d -name '*.tmp' -delete", asks: "one of its words cannot stand in a rule"},
		"a quote":   {line: `python3 'it'"'"'s.py'`, asks: "one of its words cannot stand in a rule"},
		"a file":    {line: "echo hi > /out/x", want: []string{"echo hi"}},
		"unclear":   {line: "$x -rf d", asks: "one of its words cannot stand in a rule"},
		"any":       {line: "'*' x", asks: "one of its words cannot stand in a rule"},
		"variables": {line: "PATH=/evil ls", asks: "golem cannot judge it"},
		"code":      {line: "curl -s x | sh", asks: "golem cannot judge it"},
		"approved":  {line: "make", decision: "yes", asks: "it was approved"},
		"failed":    {line: "make", code: "failed", asks: "it failed"},
		"tainted":   {line: "make", by: "untrusted: /in was read", asks: "the session had read untrusted content"},
		"cut":       {line: "make …(8 characters omitted)…", asks: "the journal does not have all of it"},
		"secret":    {line: "make ⟨redacted⟩", asks: "the journal does not have all of it"},
	} {
		if c.decision == "" {
			c.decision = policy.PreApproved.String()
		}
		p := &Past{}
		p.Add(audit.Record{Kind: audit.Intent, Call: "1", Workers: []string{"main"}, Tool: "shell", Args: map[string]any{"command": c.line}, Decision: c.decision, By: c.by})
		p.Add(audit.Record{Kind: audit.Outcome, Call: "1", Workers: []string{"main"}, Tool: "shell", Code: c.code})
		made := p.Propose(policy.Hosts{})
		if len(made.Commands) != 1 || !slices.Equal(made.Commands[0].Patterns, c.want) {
			t.Errorf("%s: got %+v, want %q", name, made.Commands, c.want)
			continue
		}
		one := made.Commands[0]
		if asks := strings.Join(one.Asks, "; "); !strings.HasSuffix(asks, c.asks) || (asks == "") != (c.asks == "") {
			t.Errorf("%s: asks %q, want %q", name, asks, c.asks)
		}
		if fails := one.replay(); len(fails) > 0 {
			t.Errorf("%s: the replay refuses %q", name, fails)
		}
		if one.Patterns = nil; len(c.want) > 0 && len(one.replay()) == 0 {
			t.Errorf("%s: the replay passes without rules", name)
		}
	}
}

// TestProposeWrites checks what a proposal knows about the files that a session changed.
func TestProposeWrites(t *testing.T) {
	files := func(f audit.Files) *audit.Files { return &f }
	for name, c := range map[string]struct {
		effects []string
		tool    string
		note    string
		code    string
		files   *audit.Files
		open    bool
		want    []string
		known   bool
	}{
		"nothing":             {known: true},
		"an overlay":          {files: files(audit.Files{List: []audit.File{{Path: "/src/a", Op: "create"}, {Path: "/b", Op: "delete"}}}), want: []string{"/b", "/src/a"}, known: true},
		"a mount":             {effects: []string{"read /**", "write /out/x", "delete /out/d/**"}, want: []string{"/out/d", "/out/x"}, known: true},
		"a mount, at the end": {effects: []string{"write /out/x"}, note: "applies the changes of 0", want: []string{"/out/x"}, known: true},
		"a failed write":      {effects: []string{"write /out/x"}, code: "failed", known: true},
		"applied":             {effects: []string{"write /x"}, tool: "apply_changes", known: true},
		"too many":            {files: files(audit.Files{List: []audit.File{{Path: "/a/b", Op: "create"}}, More: 1}), want: []string{"/a/b"}},
		"too many effects":    {effects: []string{"write /out/x", "⟨and 3 more⟩"}, want: []string{"/out/x"}},
		"killed":              {open: true},
		"a cut name":          {files: files(audit.Files{List: []audit.File{{Path: "/src/…(8 characters omitted)…", Op: "create"}}}), want: []string{"/src/…(8 characters omitted)…"}},
		"not a path":          {files: files(audit.Files{List: []audit.File{{Path: "src", Op: "create"}}}), want: []string{"src"}},
	} {
		p := &Past{}
		if c.tool == "" {
			c.tool = "exec"
		}
		p.Add(audit.Record{Kind: audit.Intent, Call: "1", Workers: []string{"project"}, Tool: c.tool, Note: c.note, Args: map[string]any{"command": []any{"x"}}, Effects: c.effects, Decision: "preApproved"})
		if !c.open {
			p.Add(audit.Record{Kind: audit.Outcome, Call: "1", Workers: []string{"project"}, Tool: c.tool, Code: c.code, Files: c.files})
		}
		made := p.Propose(policy.Hosts{})
		if !slices.Equal(made.Written, c.want) || made.WrittenKnown != c.known {
			t.Errorf("%s: got %q, %v, want %q, %v", name, made.Written, made.WrittenKnown, c.want, c.known)
		}
		for access, fails := range map[sandbox.Access]bool{sandbox.ReadWrite: false, sandbox.ReadOnly: len(c.want) > 0} {
			again, err := made.Replay(func(string) (Subject, error) {
				return Subject{Grant: policy.Grant{Files: policy.AllFiles().With(sandbox.Limit{Path: "/", Access: access})}}, nil
			})
			if name != "not a path" && (err != nil || len(again.Fails) > 0 != fails) {
				t.Errorf("%s: replay with %v: %q, %v", name, access, again.Fails, err)
			}
		}
	}
}
