package worker_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

func parse(t testing.TB, text string) *worker.Worker {
	t.Helper()
	w, err := worker.Parse("w.worker", []byte(text))
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, text)
	}
	return w
}

// problemsOf returns the problems of a file that must have some.
func problemsOf(t testing.TB, text string) strictyaml.Problems {
	t.Helper()
	w, err := worker.Parse("w.worker", []byte(text))
	var problems strictyaml.Problems
	if !errors.As(err, &problems) || len(problems) == 0 || w != nil {
		t.Fatalf("Parse: got %v, %v, want problems and no worker\n%s", w, err, text)
	}
	if !errors.Is(err, sandbox.ErrInvalid) {
		t.Errorf("Parse: got code %s, want %s", sandbox.CodeOf(err), sandbox.ErrInvalid)
	}
	return problems
}

// TestParts: Parse divides a file into its parts.
func TestParts(t *testing.T) {
	for _, c := range []struct {
		name, text          string
		description, prompt string
	}{
		{"front matter", "---\ndescription: d\n---\nHello.\n", "d", "Hello.\n"},
		{"no line end", "---\ndescription: d\n---\nHello.", "d", "Hello."},
		{"no body", "---\ndescription: d\n---\n", "d", ""},
		{"no body, no line end", "---\ndescription: d\n---", "d", ""},
		{"empty lines for a body", "---\ndescription: d\n---\n\n \n", "d", "\n \n"},
		{"the body as it is", "---\ndescription: d\n---\n\n  a\tb \n\n\nc\n\n", "d", "\n  a\tb \n\n\nc\n\n"},
		{"--- in the body", "---\ndescription: d\n---\na\n---\nb: c\n---\n", "d", "a\n---\nb: c\n---\n"},
		{"--- first in the body", "---\ndescription: d\n---\n---\nb\n", "d", "---\nb\n"},
		{"--- in a value", "---\ndescription: |\n  a\n  ---\n  b\n---\nc", "a\n---\nb\n", "c"},
		{"--- in a line", "---\ndescription: a --- b\n---\nc --- d", "a --- b", "c --- d"},
		{"spaces after ---", "--- \t\ndescription: d\n---  \nHello.", "d", "Hello."},
		{"CRLF", "---\r\ndescription: d\r\n---\r\nHello.\r\nYou.\r\n", "d", "Hello.\nYou.\n"},
		{"a byte order mark", "\ufeff---\ndescription: d\n---\nHello.", "d", "Hello."},
		{"a byte order mark and CRLF", "\ufeff---\r\ndescription: d\r\n---\r\nHello.", "d", "Hello."},
		{"Unicode", "---\ndescription: Prüft — 検査\n---\nПривет, 世界 🙂\u202e\n", "Prüft — 検査", "Привет, 世界 🙂\u202e\n"},
		{"a comment first", "# w.worker\n---\ndescription: d\n---\nHello.", "d", "Hello."},
		{"empty lines and comments first", "\n  # a\n\n#b\n---\ndescription: d\n---\nHello.", "d", "Hello."},
		{"nothing between", "---\n---\nHello.", "", "Hello."},
		{"plain YAML", "description: d\ninstructions: Hello.\n", "d", "Hello."},
		{"plain YAML, prompt", "description: d\nprompt: |\n  Hello.\n  ---\n  You.\n", "d", "Hello.\n---\nYou.\n"},
		{"plain YAML with a comment", "# w.worker\ndescription: d\n", "d", ""},
		{"plain YAML, CRLF", "description: d\r\ninstructions: |\r\n  Hello.\r\n  You.\r\n", "d", "Hello.\nYou.\n"},
		{"plain YAML, a byte order mark", "\ufeffdescription: d\n", "d", ""},
		{"instructions in front matter", "---\ninstructions: Hello.\n---\n\n", "", "Hello."},
		{"nothing at all", "", "", ""},
		{"comments alone", "# nothing\n", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := parse(t, c.text)
			if w.Description != c.description || w.Prompt != c.prompt {
				t.Errorf("got description %q, prompt %q, want %q, %q", w.Description, w.Prompt, c.description, c.prompt)
			}
			if string(w.Content) != c.text {
				t.Errorf("content: got %q, want all of the file", w.Content)
			}
		})
	}
}

// TestInvalidFile: Parse reports a file that is not a worker file, with the place.
func TestInvalidFile(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"never closed", "---\nname: a\nHello.\n", "w.worker:1:1: front matter that does not end; write ---"},
		{"never closed, after a comment", "# x\n\n---\nname: a\n", "w.worker:3:1: front matter that does not end"},
		{"closed by four", "---\nname: a\n----\nHello.", "w.worker:1:1: front matter that does not end"},
		{"closed with an indent", "---\nname: a\n ---\nHello.", "w.worker:1:1: front matter that does not end"},
		{"prose", "You are a helpful worker.", "w.worker:1:1: not a worker file: a single value; write ---"},
		{"a list", "---\n- a\n---\n", "w.worker:2:1: not a worker file: a list"},
		{"not UTF-8", "---\nname: a\n---\n\xff", "w.worker:1:1: not UTF-8"},
		{"too large", "---\n---\n" + strings.Repeat("x", 1<<20), "w.worker:1:1: 1048584 bytes; a worker file may have 1048576"},
		{"two documents", "name: a\n---\nHello.", "w.worker:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := problemsOf(t, c.text).Error(); !strings.Contains(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	if w := parse(t, "---\n---\n"+strings.Repeat("x", 1<<20-8)); len(w.Prompt) != 1<<20-8 {
		t.Errorf("a file of 1 MiB: got a prompt of %d bytes", len(w.Prompt))
	}
}

func TestName(t *testing.T) {
	for _, c := range []struct{ file, text, want, place string }{
		{"review.worker", "", "review", "review.worker:1"},
		{"workers/review.worker", "", "review", "workers/review.worker:1"},
		{"review/worker.worker", "", "review", "review/worker.worker:1"},
		{"workers/review/worker.worker", "", "review", "workers/review/worker.worker:1"},
		{"worker.worker", "", "worker", "worker.worker:1"},
		{"worker.yaml", "", "worker", "worker.yaml:1"},
		{"a.yml", "", "a", "a.yml:1"},
		{"a.worker", "---\n# c\nname: b_2-X\n---\n", "b_2-X", "a.worker:3"},
		{"no word.worker", "name: word", "word", "no word.worker:1"},
		{"x/worker.worker", "name: y", "y", "x/worker.worker:1"},
		{"a.worker", "name: 007", "007", "a.worker:1"},
		{strings.Repeat("n", 64) + ".worker", "", strings.Repeat("n", 64), ""},
	} {
		w, err := worker.Parse(c.file, []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if w.Name != c.want || w.File != c.file || c.place != "" && w.Place.String() != c.place {
			t.Errorf("%s: got %q in %q at %s, want %q at %s", c.file, w.Name, w.File, w.Place, c.want, c.place)
		}
	}
	for _, c := range []struct{ file, text, want string }{
		{"no word.worker", "", "no word.worker:1:1: name: no word; the file's name is none; write name:"},
		{strings.Repeat("n", 65) + ".worker", "", "64 at most"},
		{"a.worker", `name: "a b"`, "a.worker:1:7: name: a b; letters, digits, _ and -, 64 at most"},
		{"a.worker", `name: ""`, `a.worker:1:7: name: ""; letters`},
		{"a.worker", "name: ä", "a.worker:1:7: name: ä; letters"},
		{"a.worker", "name: ../b", "a.worker:1:7: name: ../b; letters"},
		{"a.worker", "name:", "a.worker:1:6: name: nothing; it is "},
		{"a.worker", "name: [b]", "a.worker:1:7: name: a list; it is "},
	} {
		if _, err := worker.Parse(c.file, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: got %v, want %s", c.file, c.text, err, c.want)
		}
	}
}

// TestMeaning checks every key and its meaning.
func TestMeaning(t *testing.T) {
	w := parse(t, `---
name: reviewer
description: Reviews
mode: chat
compatible_models: ["anthropic:*", openai:gpt-5]
sandbox: inherit
toolsets:
  shell:
    rules:
      - {pattern: git status, approval: preApproved}
      - {pattern: rm, approval: blocked}
    default: {approval: ask}
  filesystem:
    approval: {read: ask, write: preApproved, delete: blocked}
  git:
    default_target: origin
    credentials: {mode: explicit, env: {GIT_AUTHOR_NAME: Golem, GITHUB_TOKEN: , GH_TOKEN: "${GH_TOKEN}", GIT_TERMINAL_PROMPT: 0}}
  workers:
    allowed_workers: [b, a]
  mcp: {}
  custom:
attachment_policy: {max_attachments: 2, max_total_bytes: 5MB, allowed_suffixes: [.PDF, .tar.gz], denied_suffixes: [.exe]}
allow_empty_input: true
locked: true
output_schema: {type: object}
max_context_tokens: 100_000
---
Go.`)
	check := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	check("mode", w.Mode, "chat")
	check("models", strings.Join(w.Models, " "), "anthropic:* openai:gpt-5")
	check("sandbox", w.Sandbox.Kind, worker.Inherit)
	check("empty input", w.AllowEmptyInput, true)
	check("locked", w.Locked, true)
	check("context", w.MaxContextTokens, int64(100_000))
	schema, _ := w.OutputSchema.At("type")
	check("output schema", schema.Text, "object")
	var sets []string
	for _, s := range w.Toolsets {
		sets = append(sets, s.Name+" "+s.Place.String())
	}
	check("toolsets", strings.Join(sets, ", "), "shell w.worker:8, filesystem w.worker:13, git w.worker:15, workers w.worker:18, mcp w.worker:20, custom w.worker:21")
	mcp, _ := w.Toolset("mcp")
	check("mcp", mcp.Config.Kind.String(), "a map")
	check("workers", strings.Join(w.Workers.Names(), " "), "a b")
	check("calls", w.Calls()[0].Place.String()+" "+w.Calls()[0].Text, "w.worker:19 b")
	if got, want := w.Shell, (policy.ShellLayer{Default: policy.Ask, From: "w.worker:12", Rules: []policy.ShellRule{
		{Pattern: "git status", Approval: policy.PreApproved, From: "w.worker:10"},
		{Pattern: "rm", Approval: policy.Blocked, From: "w.worker:11"},
	}}); got == nil || got.Default != want.Default || got.NoDefault || got.From != want.From || !slices.Equal(got.Rules, want.Rules) {
		t.Errorf("shell: got %+v, want %+v", got, want)
	}
	if want := []policy.Rule{
		{Verb: policy.Read, Target: "/", Approval: policy.Ask, From: "w.worker:14"},
		{Verb: policy.Write, Target: "/", Approval: policy.PreApproved, From: "w.worker:14"},
		{Verb: policy.Delete, Target: "/", Approval: policy.Blocked, From: "w.worker:14"},
	}; !slices.Equal(w.Rules, want) {
		t.Errorf("rules: got %v, want %v", w.Rules, want)
	}
	check("target", w.Git.Target, "origin")
	check("credentials", w.Git.Credentials.Mode, "explicit")
	var env []string
	for _, v := range w.Git.Credentials.Env {
		text := v.Name + "=" + v.Value
		if v.Pass {
			text += " (passed on)"
		}
		env = append(env, text)
	}
	check("env", strings.Join(env, ", "), "GIT_AUTHOR_NAME=Golem, GITHUB_TOKEN= (passed on), GH_TOKEN= (passed on), GIT_TERMINAL_PROMPT=0")
	a := w.Attachments
	check("attachments", a.Max, 2)
	check("attachment bytes", a.Bytes, int64(5_000_000))
	check("allowed", strings.Join(a.Allowed, " "), ".pdf .tar.gz")
	check("denied", strings.Join(a.Denied, " "), ".exe")
}

// TestDefaults checks the defaults of a worker file.
func TestDefaults(t *testing.T) {
	w := parse(t, "---\n---\n")
	if w.Mode != "single" || len(w.Models) > 0 || w.Sandbox.Kind != worker.NoSandbox || len(w.Toolsets) > 0 || w.Shell != nil ||
		len(w.Rules) > 0 || w.AllowEmptyInput || w.Locked || w.MaxContextTokens != 0 || w.OutputSchema.Kind != strictyaml.Null ||
		!w.Workers.IsEmpty() || len(w.Calls()) > 0 || w.Git.Credentials.Mode != "" {
		t.Errorf("got %+v", w)
	}
	if a := w.Attachments; a.Max != 4 || a.Bytes != 10_000_000 || len(a.Allowed)+len(a.Denied) > 0 || a.Unlimited {
		t.Errorf("attachments: got %+v, want 4 of 10000000 bytes", a)
	}
	if w := parse(t, "attachment_policy: {max_attachments: 0}"); w.Attachments.Max != 0 || w.Attachments.Bytes != 10_000_000 {
		t.Errorf("no attachments: got %+v", w.Attachments)
	}
	w = parse(t, "sandbox: {}\ntoolsets: {git: , shell: }")
	if g := w.Git; g.Credentials.Mode != "inherit" || g.Target != "" || g.Inline != nil || w.Shell != nil {
		t.Errorf("git: got %+v, shell %v", g, w.Shell)
	}
	w = parse(t, "sandbox: {}\ntoolsets: {shell: {rules: [{pattern: ls, approval: ask}]}}")
	if !w.Shell.NoDefault || w.Shell.Default != policy.Blocked {
		t.Errorf("shell without a default: got %+v, want none", w.Shell)
	}
}

// TestToolsets checks toolsets as a map or a list, and the toolsets that other keys
// imply.
func TestToolsets(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"toolsets: {filesystem: , custom: {}}", "filesystem:1 custom:1"},
		{"toolsets:\n  - filesystem\n  - custom: {}\n  - workers: {allowed_workers: []}", "filesystem:2 custom:3 workers:4"},
		{"toolsets:", ""},
		{"toolsets: {}", ""},
		{"toolsets: []", ""},
		{"sandbox: {}\ntoolsets: []", ""},
		{"sandbox: {}", "filesystem:1 implied"},
		{"\nsandbox: inherit", "filesystem:2 implied"},
		{"sandbox: {readonly: true}", "filesystem:1 implied"},
		{"sandbox: {zones: [{name: a}]}", "filesystem:1 implied"},
		{"sandbox: {paths: {a: {root: .}}}", "filesystem:1 implied"},
		{"sandbox: {zones: []}", ""},
		{"shell_default: {approval: ask}", "shell:1"},
		{"sandbox: {}\nshell_rules: [{pattern: ls, approval: ask}]", "shell:2 filesystem:1 implied"},
		{"toolsets: [shell]\nshell_rules: [{pattern: ls, approval: ask}]", "shell:1"},
		{"allow_workers: [a]", "workers:1"},
		{"allow_workers: []", ""},
		{"toolsets: [custom]\nallow_workers: [a]", "custom:1 workers:2"},
	} {
		var got []string
		for _, s := range parse(t, c.text).Toolsets {
			text := strings.Replace(s.Place.String(), "w.worker", s.Name, 1)
			if s.Implied {
				text += " implied"
			}
			got = append(got, text)
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%q: got %s, want %s", c.text, got, c.want)
		}
	}
}

func TestWorkers(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"toolsets: {workers: {allowed_workers: [a, b]}}", "a b"},
		{`toolsets: {workers: {allowed_workers: [a, "*"]}}`, "*"},
		{"toolsets: {workers: {allowed_workers: []}}", ""},
		{"toolsets: [workers: {allowed_workers: [a]}]", "a"},
		{"allow_workers: [b, a]", "a b"},
		{`allow_workers: ["*"]`, "*"},
		{"allow_workers: [a]\ntoolsets: [workers]", "a"},
	} {
		if got := strings.Join(parse(t, c.text).Workers.Names(), " "); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

// TestSandbox checks the sandbox in each of its spellings.
func TestSandbox(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"sandbox: {}", "inherit"},
		{"sandbox: inherit", "inherit"},
		{"sandbox: {restrict: /src, readonly: true}", "restrict /src ro"},
		{"sandbox: {restrict: /src, readonly: false}", "restrict /src"},
		{"sandbox: {restrict: src}", "restrict /src"},
		{"sandbox: {restrict: /src/}", "restrict /src"},
		{"sandbox: {restrict: /src//./x/}", "restrict /src/x"},
		{"sandbox: {restrict: /src/../secrets}", "restrict /secrets"},
		{"sandbox: {restrict: /SRC}", "restrict /SRC"},
		{"sandbox: {restrict: /}", "restrict /"},
		{"sandbox: {readonly: true}", "restrict / ro"},
		{"sandbox: {network: false}", "restrict / off"},
		{"sandbox: {require_os_sandbox: true}", "restrict / landlock"},
		{"sandbox: {zones: []}", "zones"},
		{"sandbox: {zones: [{name: a}, {name: b, mode: ro}, {name: ß.c-d, mode: rw}]}", "zones a:rw b:ro ß.c-d:rw"},
		{"sandbox: {zones: [{name: a}], network: true}", "zones a:rw on"},
		{"sandbox: {paths: {p: {root: ./p}, q: {root: ../q, mode: rw, suffixes: [.MD, .b], max_file_bytes: 10MB}}}",
			"paths p=./p:ro q=../q:rw .md .b 10000000"},
		{"sandbox: {paths: {p: {root: p}}, network: false, require_os_sandbox: false}", "paths p=p:ro off"},
		{"sandbox: {paths: {p: {root: p}}, network: true, require_os_sandbox: namespaces}", "paths p=p:ro on namespaces"},
		{"sandbox: {paths: {p: {root: p}}, require_os_sandbox: container}", "paths p=p:ro container"},
		{"sandbox: {paths: {p: {root: p}}, require_os_sandbox: landlock}", "paths p=p:ro landlock"},
	} {
		if got := describe(parse(t, c.text).Sandbox); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func describe(s worker.Sandbox) string {
	words := []string{s.Kind}
	if s.Restrict != "" {
		words = append(words, s.Restrict)
	}
	if s.ReadOnly {
		words = append(words, "ro")
	}
	for _, z := range s.Zones {
		words = append(words, z.Name+":"+z.Mode.String())
	}
	for _, p := range s.Paths {
		words = append(words, p.Name+"="+p.Root+":"+p.Access.String())
		words = append(words, p.Suffixes...)
		if p.MaxFileBytes > 0 {
			words = append(words, strconv.FormatInt(p.MaxFileBytes, 10))
		}
	}
	if s.Network != nil {
		words = append(words, map[bool]string{true: "on", false: "off"}[s.Network.On])
	}
	if s.Level != policy.AnyLevel {
		words = append(words, s.Level.String())
	}
	return strings.Join(words, " ")
}

// TestBudget: a number with underscores limits as one without.
func TestBudget(t *testing.T) {
	w := parse(t, "---\nbudget: {turns: 1_000, tokens: 2_000_000, cost: 0.5}\n---\n")
	if want := (policy.Limits{Turns: 1000, Tokens: 2_000_000, Cost: 0.5}); w.Budget != want {
		t.Errorf("got %+v, want %+v", w.Budget, want)
	}
}
