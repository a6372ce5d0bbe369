package worker_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/worker"
)

// TestApproval checks every spelling of an approval level, with its rules.
func TestApproval(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"toolsets: {filesystem: {approval: {write: ask}}}", []string{"write / ask 1"}},
		{"sandbox:\n  zones:\n  - name: a\n    approval: {write: ask,\n      delete: blocked}\n  - {name: b, approval: {read: preApproved}}",
			[]string{"write /a ask 4", "delete /a blocked 5", "read /b preApproved 6"}},
		{"sandbox: {zones: [{name: a, approval: {write: preApproved}}]}\ntoolsets: {filesystem: {approval: {write: blocked}}}",
			[]string{"write /a preApproved 1", "write / blocked 2"}},

		{"tool_rules: {sandbox.read: {approval_required: true}}", []string{"attach / ask 1"}},
		{"tool_rules: {sandbox.read: {approval_required: false}}", []string{"attach / preApproved 1"}},
		{"tool_rules: {sandbox.read: {allowed: false}}", []string{"attach / blocked 1", "read / blocked 1"}},
		{"tool_rules: {sandbox.read: {allowed: false, approval_required: true}}", []string{"attach / blocked 1", "read / blocked 1"}},
		{"tool_rules: {sandbox.read: {allowed: true}}", nil},
		{"tool_rules: {sandbox.write: {approval_required: true}}", []string{"write / ask 1", "delete / ask 1"}},
		{"tool_rules: {sandbox.write: {approval_required: false}}", []string{"write / preApproved 1"}},
		{"tool_rules: {sandbox.write: {allowed: false}}", []string{"write / blocked 1", "delete / blocked 1"}},
		{"tool_rules: {shell: {approval_required: true}}", []string{"run * ask 1"}},
		{"tool_rules: {worker.call: {approval_required: true}}", []string{"call * ask 1"}},
		{"tool_rules: {worker.create: {allowed: false}}", []string{"use worker_create blocked 1"}},
		{"tool_rules:\n  write_file: {allowed: false}\n  search: {approval_required: true}", []string{"use write_file blocked 2", "use search ask 3"}},
	} {
		var got []string
		for _, r := range parse(t, c.text).Rules {
			got = append(got, r.Verb.String()+" "+r.Target+" "+r.Approval.String()+" "+strings.TrimPrefix(r.From, "w.worker:"))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestShell(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"toolsets: {shell: {default: {approval: blocked}}}", "else blocked"},
		{"toolsets: {shell: {rules: [{pattern: ls -l, approval: ask}]}}", "ls -l ask"},
		{"shell_rules: [{pattern: ls, approval: preApproved}]", "ls preApproved"},
		{"shell_rules: [{pattern: ls, approval_required: false}]", "ls preApproved"},
		{"shell_rules: [{pattern: ls, approval_required: true, allowed: true}]", "ls ask"},
		{"shell_rules: [{pattern: ls, allowed: false}]", "ls blocked"},
		{"shell_default: {approval: ask}", "else ask"},
		{"shell_default: {allowed: false}", "else blocked"},
		{"shell_default: {approval_required: false}", "else preApproved"},
		{"shell_rules: [{pattern: b, allowed: false}, {pattern: a, approval: ask}]\nshell_default: {approval: ask}", "b blocked, a ask, else ask"},
		{"toolsets: {shell: {default: {approval: ask}}}\nshell_rules: [{pattern: ls, allowed: false}]", "ls blocked, else ask"},
		{"shell_rules: [{pattern: ls, approval: preApproved}]\ntool_rules: {shell: {approval_required: true}}", "ls preApproved, else ask"},
		{"shell_rules: [{pattern: ls, approval: preApproved}]\ntool_rules: {shell: {allowed: false}}", "ls preApproved"},
		{"toolsets: {shell: {rules: [{use: read_only}, {use: build, match: [make all, go test ./...], not_match: [rm x]}]}}", "<read_only> preApproved, <build> preApproved"},
		{"shell_rules: [{use: read_only, match: [ls | wc -l]}]", "<read_only> preApproved"},
		{"shell_rules: [{pattern: rm -rf, allowed: false, match: ['rm -fr x', 'ls; sudo rm -r x -f'], not_match: [rm x, 'rm $x']}]", "rm -rf blocked"},
		{"shell_rules: [{pattern: git log, approval: preApproved, match: [git log -p], not_match: [git log --output=x, 'git log; ls', X=1 git log]}]", "git log preApproved"},
	} {
		layer := parse(t, c.text).Shell
		if layer == nil {
			t.Errorf("%q: got no layer", c.text)
			continue
		}
		var got []string
		for _, r := range layer.Rules {
			name := r.Pattern
			if r.Use != "" {
				name = "<" + r.Use + ">"
			}
			got = append(got, name+" "+r.Approval.String())
		}
		if !layer.NoDefault {
			got = append(got, "else "+layer.Default.String())
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%q: got %s, want %s", c.text, got, c.want)
		}
	}
}

func TestTarget(t *testing.T) {
	for _, c := range []struct {
		text string
		want worker.Target
	}{
		{"{type: local, path: .}", worker.Target{Type: "local", Path: ".", Branch: "main"}},
		{"{type: bare, path: ../notes.git, branch: drafts/a}", worker.Target{Type: "bare", Path: "../notes.git", Branch: "drafts/a"}},
		{"{type: remote, url: https://example.com/a.git}", worker.Target{Type: "remote", URL: "https://example.com/a.git", Branch: "main"}},
		{"{type: remote, url: git@example.com:a/b.git}", worker.Target{Type: "remote", URL: "git@example.com:a/b.git", Branch: "main"}},
		{"{type: github, repo: user/reports}", worker.Target{Type: "github", Repo: "user/reports", Branch: "main"}},
	} {
		g := parse(t, "toolsets: {git: {default_target: "+c.text+"}}").Git
		if g.Inline == nil || g.Target != "" {
			t.Errorf("%s: got %+v", c.text, g)
			continue
		}
		got := *g.Inline
		got.Place = c.want.Place
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.text, got, c.want)
		}
	}
}
