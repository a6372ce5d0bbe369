package project_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// TestAliases: a rule that asks or blocks applies to a directory under all of its names.
func TestAliases(t *testing.T) {
	w := newWorld(t)
	must(t, os.Symlink("npm", filepath.Join(w.top, "home", "again")))
	for _, test := range []struct{ name, yaml, want string }{
		{"the inner is blocked", `sandbox: {mode: direct, zones: {all: {path: .}, secret: {path: ./secret, approval: {read: blocked}}}}`,
			"read /secret/x blocked, read /all/secret/x blocked, read /all/secret blocked, read /all/x preApproved, read /all/secretx preApproved, attach /all/secret/x blocked"},
		{"the outer is blocked", `sandbox: {mode: direct, zones: {all: {path: ., approval: {read: blocked}}, open: {path: ./a/b, approval: {read: preApproved}}}}`,
			"read /all/a/b/x blocked, read /open/x blocked"},
		{"one directory twice", `sandbox: {mode: direct, zones: {a: {path: in, approval: {write: preApproved}}, b: {path: ./in/, approval: {write: blocked}}}}`,
			"write /a/x blocked, write /b/x blocked, read /a/x preApproved"},
		{"at its own place the closer rule decides", `sandbox: {root: ., approval: {write: ask}, mounts: [{source: out, target: /out, approval: {write: preApproved}}]}`,
			"write /out/x preApproved, write /x ask"},
		{"its own place, and another", `sandbox: {root: ., approval: {write: blocked}, mounts: [{source: out, target: /out, approval: {write: ask}}, {source: out, target: /results, approval: {write: preApproved}}]}`,
			"write /out/x ask, write /results/x ask, write /x blocked"},
		{"nothing is given by another name", `sandbox: {mode: direct, zones: {all: {path: .}, out: {path: out, approval: {write: preApproved}}}}`,
			"write /out/x preApproved, write /all/out/x ask"},
		{"a closer name does not lift", `sandbox: {mode: direct, zones: {all: {path: .}, secret: {path: secret, approval: {read: blocked}}, pub: {path: secret/pub, approval: {read: ask}}}}`,
			"read /all/secret/pub/x blocked, read /secret/pub/x blocked, read /pub/x blocked"},
		{"the root", `sandbox: {root: ., mounts: [{source: secret, target: /s, approval: {read: blocked}}]}`,
			"read /secret/x blocked, read /s/x blocked, read /x preApproved"},
		{"another mount stands there", `sandbox: {root: ., mounts: [{source: secret, target: /s, approval: {read: blocked}}, {source: in, target: /secret}]}`,
			"read /secret/x preApproved, read /s/x blocked, read /in/x preApproved"},
		{"outside, by a link", `sandbox: {mounts: [{source: ~/again, target: /a, approval: {read: blocked}}, {source: ~, target: /home}]}`,
			"read /home/npm/x blocked"},
		{"the whole sandbox's is no directory's", `sandbox: {mode: direct, approval: {write: blocked}, zones: {all: {path: .}, out: {path: out, approval: {write: preApproved}}}}`,
			"write /out/x preApproved, write /all/out/x blocked"},
	} {
		p, err := w.parse(strings.ReplaceAll(test.yaml, "source: ~,", "source: "+w.env.Home+","))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		verbs := map[string]policy.Verb{"read": policy.Read, "write": policy.Write, "attach": policy.Attach}
		for row := range strings.SplitSeq(test.want, ", ") {
			words := strings.Fields(row)
			if got := p.Grant().Decide(policy.Effect{Verb: verbs[words[0]], Target: words[1]}); got.Approval.String() != words[2] {
				t.Errorf("%s: %s: got %v", test.name, row, got.Approval)
			}
		}
	}
}
