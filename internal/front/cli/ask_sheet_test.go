package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
)

// TestShowRequest checks that golem prints a whole request, with the arguments if there
// is no diff.
func TestShowRequest(t *testing.T) {
	effects := []policy.Effect{{Verb: policy.Read, Target: "/in"}, {Verb: policy.Run, Target: "make -s\x1b"}}
	r := tool.Request{Origin: policy.Peer, Tool: "shell", Args: []byte(`{"timeout":5,"command":"make -s\u001b","text":"a\n\tb"}`), Effects: effects, ToApprove: effects[1:]}
	var out bytes.Buffer
	showRequest(&out, r)
	want := `  another agent wants to run "make -s\x1b"
  (tool shell, called by another agent, network off, asked by default)
  • read /in
  • run "make -s\x1b" (asks)
  = command: make -s\x1b
  = text: 2 lines, without a newline at the end
  │ a
  │ 	b
  = timeout: 5
  ! it holds characters that cannot be seen or that a terminal would obey; they are shown like this: \u202e
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r.Changes = []tool.Change{{Path: "/out/a b", Op: tool.Update, Diff: strings.Repeat("-x\n+y\n", 500) + "+" + strings.Repeat("z", 1000) + "\n", About: "1 KB"}}
	out.Reset()
	showRequest(&out, r)
	if got := out.String(); !strings.Contains(got, `update "/out/a b" (+501 -500; 1 KB)`) || strings.Count(got, "\n  + y\n") != 500 ||
		!strings.Contains(got, strings.Repeat("z", 1000)) || strings.Contains(got, "=") {
		t.Errorf("got\n%s", got)
	}
}

// TestSingleChangeNamesItsFile checks that a single change is named if the first row is a
// summary.
func TestSingleChangeNamesItsFile(t *testing.T) {
	effects := []policy.Effect{{Verb: policy.Use, Target: "git_push"}}
	var out bytes.Buffer
	showRequest(&out, tool.Request{Origin: policy.User, Workers: []string{"main"}, Tool: "git_push", OnlyUser: true, Effects: effects, ToApprove: effects, Summary: `push "Add b" (1 file) to origin main`,
		Changes: []tool.Change{{Path: "/b", Op: tool.Create, Diff: "@@ -0,0 +1 @@\n+b\n"}}})
	want := `  You are about to push "Add b" (1 file) to origin main
  (tool git_push as main, asked every time)
  • create /b (1 line)
  @ @@ -0,0 +1 @@
  + b
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestEffectsListedOnce checks that effects are not listed if the changes show them. If one
// effect has no change or needs no approval, all effects are listed.
func TestEffectsListedOnce(t *testing.T) {
	write, remove := policy.Effect{Verb: policy.Write, Target: "/a"}, policy.Effect{Verb: policy.Delete, Target: "/b"}
	changes := []tool.Change{{Path: "/a", Op: tool.Create}, {Path: "/b", Op: tool.Delete}}
	for _, test := range []struct {
		name          string
		effects, asks []policy.Effect
		want          string
	}{
		{"told", []policy.Effect{write, remove}, []policy.Effect{write, remove}, ""},
		{"one more", []policy.Effect{write, remove, {Verb: policy.Write, Target: "/c"}}, []policy.Effect{write, remove, {Verb: policy.Write, Target: "/c"}},
			"  • write /a (asks)\n  • delete /b (asks)\n  • write /c (asks)\n"},
		{"another verb", []policy.Effect{write, {Verb: policy.Write, Target: "/b"}}, []policy.Effect{write, {Verb: policy.Write, Target: "/b"}}, "  • write /a (asks)\n  • write /b (asks)\n"},
		{"its own use", []policy.Effect{{Verb: policy.Use, Target: "apply_changes"}}, []policy.Effect{{Verb: policy.Use, Target: "apply_changes"}}, ""},
		{"another use", []policy.Effect{{Verb: policy.Use, Target: "other"}}, []policy.Effect{{Verb: policy.Use, Target: "other"}}, "  • use other (asks)\n"},
		{"one unasked", []policy.Effect{write, remove}, []policy.Effect{remove}, "  • write /a\n  • delete /b (asks)\n"},
	} {
		var out bytes.Buffer
		showRequest(&out, tool.Request{Origin: policy.User, Workers: []string{"main"}, Tool: "apply_changes", OnlyUser: true, Effects: test.effects, ToApprove: test.asks, Changes: changes})
		want := "  You are about to apply 2 changes\n  (tool apply_changes as main, asked every time)\n" + test.want + "  • create /a\n  • delete /b\n"
		if got := out.String(); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, want)
		}
	}
}

// TestLinesAreCounted checks that the number of lines of an argument is that of the lines
// that are shown.
func TestLinesAreCounted(t *testing.T) {
	for args, want := range map[string]string{
		`{"content":"1\n2\n3\n"}`:   "  = content: 3 lines\n  │ 1\n  │ 2\n  │ 3\n",
		`{"content":"1\n2\n3"}`:     "  = content: 3 lines, without a newline at the end\n  │ 1\n  │ 2\n  │ 3\n",
		`{"content":"1\n2\n3\n\n"}`: "  = content: 4 lines\n  │ 1\n  │ 2\n  │ 3\n  │ \n",
	} {
		var out bytes.Buffer
		showRequest(&out, tool.Request{Tool: "x", Args: []byte(args)})
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: got\n%s\nwant\n%s", args, &out, want)
		}
	}
}

// TestLinesOfCommand checks that a command with several lines gets no warning, and that
// its lines are shown. A line end in a name gets a warning, and so do invisible
// characters in a command.
func TestLinesOfCommand(t *testing.T) {
	const odd = "cannot be seen or that a terminal would obey"
	for _, test := range []struct {
		effect policy.Effect
		args   string
		odd    bool
	}{
		{policy.Effect{Verb: policy.Run, Target: "cd src\n\tmake"}, `{"command":"cd src\n\tmake"}`, false},
		{policy.Effect{Verb: policy.Run, Target: "cd src\n\u202emake"}, `{"command":"cd src\n\u202emake"}`, true},
		{policy.Effect{Verb: policy.Run, Target: "cd src\rmake"}, `{"command":"cd src\rmake"}`, true},
		{policy.Effect{Verb: policy.Write, Target: "/out/a\nb"}, `{}`, true},
	} {
		var out bytes.Buffer
		showRequest(&out, tool.Request{Tool: "x", Args: []byte(test.args), Effects: []policy.Effect{test.effect}, ToApprove: []policy.Effect{test.effect}})
		if got := strings.Contains(out.String(), odd); got != test.odd {
			t.Errorf("%q: a warning: got %v, want %v\n%s", test.effect.Target, got, test.odd, &out)
		}
		if test.effect.Verb == policy.Run && !test.odd && !strings.Contains(out.String(), "  │ cd src\n  │ \tmake\n") {
			t.Errorf("%q: the lines of the command are not shown\n%s", test.effect.Target, &out)
		}
	}
}

// TestQuestionsWarnOfLookAlikes checks that look-alike paths, hosts, commands, workers
// and arguments get a line with the code points. Ordinary names get none.
func TestQuestionsWarnOfLookAlikes(t *testing.T) {
	write := func(path string) []policy.Effect { return []policy.Effect{{Verb: policy.Write, Target: path}} }
	for name, test := range map[string]struct {
		request tool.Request
		want    string
	}{
		"path":    {tool.Request{Tool: "write_file", Effects: write("/out/d\u0430ta"), ToApprove: write("/out/d\u0430ta")}, "d\u0430ta looks like data, but has U+0430 (Cyrillic)"},
		"moved":   {tool.Request{Tool: "move_file", Changes: []tool.Change{{Path: "/a", To: "/\u0430dmin", Op: tool.Move}}}, "\u0430dmin looks like admin, but has U+0430 (Cyrillic)"},
		"command": {tool.Request{Tool: "shell", Effects: []policy.Effect{{Verb: policy.Run, Target: "curl https://g\u0456thub.com/x"}}}, "g\u0456thub looks like github, but has U+0456 (Cyrillic)"},
		"host":    {tool.Request{Tool: "fetch", Args: []byte(`{"request":{"urls":["https://g\u0456thub.com"]}}`)}, "g\u0456thub looks like github, but has U+0456 (Cyrillic)"},
		"wish":    {tool.Request{Tool: "git_push", Summary: "push to \u043erigin"}, "\u043erigin looks like origin"},
		"worker":  {tool.Request{Tool: "x", Workers: []string{"m\u0430in"}}, "m\u0430in looks like main"},
		"plain":   {tool.Request{Tool: "write_file", Effects: write("/документы/отчёт.txt"), Args: []byte(`{"path":"/a","content":"два\nслова p\u0430ge"}`)}, ""},
	} {
		var out bytes.Buffer
		showRequest(&out, test.request)
		if got := out.String(); test.want != "" && !strings.Contains(got, "! look-alike letters: "+test.want) || test.want == "" && strings.Contains(got, "look-alike") {
			t.Errorf("%s: want %q in\n%s", name, test.want, got)
		}
	}
}
