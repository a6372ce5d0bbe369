package command

import (
	"os"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// parseRules makes a layer from lines. Each line is yes, ask or no, followed by a pattern or
// by a set in < >. The pattern "default" sets the default of the layer.
func parseRules(lines ...string) policy.ShellLayer {
	l := policy.ShellLayer{NoDefault: true, From: "default"}
	for _, line := range lines {
		word, pattern, _ := strings.Cut(line, " ")
		consent, ok := policy.ParseApproval(map[string]string{"yes": "preApproved", "ask": "ask", "no": "blocked"}[word])
		if !ok {
			panic(line)
		}
		switch {
		case pattern == "default":
			l.Default, l.NoDefault = consent, false
		case strings.HasPrefix(pattern, "<"):
			l.Rules = append(l.Rules, policy.ShellRule{Use: strings.Trim(pattern, "<>"), Approval: consent, From: pattern})
		default:
			l.Rules = append(l.Rules, policy.ShellRule{Pattern: pattern, Approval: consent, From: pattern})
		}
	}
	return l
}

// verdict judges a line by layers. It returns yes, ask or no with the rule that decides,
// or "-" if the default for commands decides.
func verdict(line string, layers ...policy.ShellLayer) string {
	j := NewRules(policy.Shell{Layers: layers}).Judge(line)
	rule, ok := j.ApprovalRule()
	if !ok {
		return "-"
	}
	return map[policy.Approval]string{policy.PreApproved: "yes ", policy.Ask: "ask ", policy.Blocked: "no "}[rule.Approval] + rule.From
}

// TestJudge checks which rule decides about a line.
func TestJudge(t *testing.T) {
	status := parseRules("yes git status")
	for _, test := range []struct {
		line, want string
		layers     []policy.ShellLayer
	}{
		{"ls", "-", nil},
		{"git status", "yes git status", []policy.ShellLayer{status}},
		{"git status -s x", "yes git status", []policy.ShellLayer{status}},
		{"/usr/bin/git status", "yes git status", []policy.ShellLayer{status}},
		{"git -C x status", "yes git status", []policy.ShellLayer{status}},
		{"timeout 5 git status", "yes git status", []policy.ShellLayer{status}},
		{"x=1; [[ -d .git ]] && git status; true=1", "yes git status", []policy.ShellLayer{status}},
		{"git statusx", "-", []policy.ShellLayer{status}},
		{"git", "-", []policy.ShellLayer{status}},
		{"./git status", "-", []policy.ShellLayer{status}},
		{"/tmp/git status", "-", []policy.ShellLayer{status}},
		{"git status; rm x", "-", []policy.ShellLayer{status}},
		{"git status\nrm x", "-", []policy.ShellLayer{status}},
		{"git status `rm x`", "-", []policy.ShellLayer{status}},
		{"git -c a=b status", "-", []policy.ShellLayer{status}},
		{"X=1 git status", "-", []policy.ShellLayer{status}},
		{"env X=1 git status", "-", []policy.ShellLayer{status}},
		{"g'i't sta\"tus\"", "yes git status", []policy.ShellLayer{status}},
		{"git $x", "-", []policy.ShellLayer{status}},

		// Stars, and variables that a rule names.
		{"npm run build", "yes npm run *", []policy.ShellLayer{parseRules("yes npm run *")}},
		{"npm run", "-", []policy.ShellLayer{parseRules("yes npm run *")}},
		{`npm run "$x"`, "yes npm run *", []policy.ShellLayer{parseRules("yes npm run *")}},
		{"npm run $x", "-", []policy.ShellLayer{parseRules("yes npm run *")}},
		{"CI=1 npm test", "yes CI=1 npm test", []policy.ShellLayer{parseRules("yes CI=1 npm test")}},
		{"CI=2 npm test", "-", []policy.ShellLayer{parseRules("yes CI=1 npm test")}},
		{"CI=1 X=2 npm test", "-", []policy.ShellLayer{parseRules("yes CI=1 npm test")}},
		{"npm test", "-", []policy.ShellLayer{parseRules("yes CI=1 npm test")}},
		{"CI=2 npm test", "yes CI=* npm test", []policy.ShellLayer{parseRules("yes CI=* npm test")}},

		// Words that make a command another one, unless the pattern contains them.
		{"find . -name x", "yes find", []policy.ShellLayer{parseRules("yes find")}},
		{"find . -delete", "-", []policy.ShellLayer{parseRules("yes find")}},
		{"find . $x", "-", []policy.ShellLayer{parseRules("yes find")}},
		{"find . -delete", "yes find * -delete", []policy.ShellLayer{parseRules("yes find", "yes find * -delete")}},
		{"find . -exec rm {} +", "-", []policy.ShellLayer{parseRules("yes find")}},
		{"find . -exec ls {} +", "yes find", []policy.ShellLayer{parseRules("yes find", "yes ls")}},
		{`find . -exec \; rm \;`, "-", []policy.ShellLayer{parseRules("yes find")}},
		{"sed -i s/a/b/ x", "-", []policy.ShellLayer{parseRules("yes sed")}},
		{"sed -i s/a/b/ x", "yes sed -i", []policy.ShellLayer{parseRules("yes sed -i")}},
		{"awk '{print > \"x\"}'", "-", []policy.ShellLayer{parseRules("yes awk")}},
		{"awk '{print > \"x\"}'", "yes awk *", []policy.ShellLayer{parseRules("yes awk *")}},
		{"git log --output=x", "-", []policy.ShellLayer{parseRules("yes git")}},

		// The longest rule of a layer wins, and the strictest of equally long ones.
		{"rm x", "no rm", []policy.ShellLayer{parseRules("no rm", "ask rm temp")}},
		{"rm temp x", "ask rm temp", []policy.ShellLayer{parseRules("no rm", "ask rm temp")}},
		{"rm x", "no rm", []policy.ShellLayer{parseRules("yes rm", "no rm")}},
		{"git push", "no git push", []policy.ShellLayer{parseRules("yes git", "no git push")}},
		{"git pull", "ask git *", []policy.ShellLayer{parseRules("yes git", "no git push", "ask git *")}},
		{"ls x", "ask ls x", []policy.ShellLayer{parseRules("yes ls *", "ask ls x")}},

		// The strictest layer wins.
		{"ls", "ask ls", []policy.ShellLayer{parseRules("yes ls"), parseRules("ask ls")}},
		{"ls", "no default", []policy.ShellLayer{parseRules("yes default"), parseRules("no default")}},
		{"ls", "yes ls", []policy.ShellLayer{parseRules("yes ls"), parseRules("no rm")}},
		{"ls; pwd", "-", []policy.ShellLayer{parseRules("yes ls"), parseRules("ask curl")}},
		{"ls; pwd", "yes ls", []policy.ShellLayer{parseRules("yes ls"), parseRules("yes pwd")}},

		// Restricting rules match other spellings.
		{"rm -rf x", "no rm -rf", []policy.ShellLayer{parseRules("yes rm", "no rm -rf")}},
		{"rm -fr x", "no rm -rf", []policy.ShellLayer{parseRules("yes rm", "no rm -rf")}},
		{"rm -r x -f", "no rm -rf", []policy.ShellLayer{parseRules("yes rm", "no rm -rf")}},
		{"rm -r x", "yes rm", []policy.ShellLayer{parseRules("yes rm", "no rm -rf")}},
		{"git push --force-with-lease", "yes git push", []policy.ShellLayer{parseRules("yes git push", "no git push --force")}},
		{"git push origin --forc", "no git push --force", []policy.ShellLayer{parseRules("yes git push", "no git push --force")}},
		{"npm --silent --prefix x publish", "no npm publish", []policy.ShellLayer{parseRules("yes npm", "no npm publish")}},
		{"npm run publish", "yes npm", []policy.ShellLayer{parseRules("yes npm", "no npm publish")}},
		{"find . -name x -delete", "ask find -delete", []policy.ShellLayer{parseRules("yes find", "ask find -delete")}},
		{"/bin/rm x", "no rm", []policy.ShellLayer{parseRules("yes default", "no rm")}},
		{"X=1 nohup sh -c 'timeout 1 rm x'", "no rm", []policy.ShellLayer{parseRules("yes default", "no rm")}},
		{"sudo -u x rm y", "no rm", []policy.ShellLayer{parseRules("yes default", "no rm")}},
		{"timeout 5 ls", "no timeout", []policy.ShellLayer{parseRules("yes ls", "no timeout")}},
		{"xargs -i rm", "no rm", []policy.ShellLayer{parseRules("yes default", "no rm")}},
		{"eval 'rm x'", "no rm", []policy.ShellLayer{parseRules("yes default", "no rm")}},
		{"f() { rm x; }", "no rm", []policy.ShellLayer{parseRules("yes default", "no rm")}},
		{"rm x; (", "no rm", []policy.ShellLayer{parseRules("yes default", "no rm")}},

		// If a restricting rule could match, it blocks or asks.
		{"$x y", "no rm", []policy.ShellLayer{parseRules("yes default", "no rm")}},
		{"$x y", "ask rm", []policy.ShellLayer{parseRules("yes default", "ask rm")}},
		{"git $x", "no git push", []policy.ShellLayer{parseRules("yes git", "no git push")}},
		{"git $x", "ask git push", []policy.ShellLayer{parseRules("yes git", "ask git push")}},
		{"cp a $x", "yes cp", []policy.ShellLayer{parseRules("yes cp", "no rm")}},
		{"bash -c \"$x\"", "no rm", []policy.ShellLayer{parseRules("yes default", "no rm")}},
		{"ls >$x", "yes default", []policy.ShellLayer{parseRules("yes default", "no rm")}},
		{"ls >$x", "-", []policy.ShellLayer{parseRules("yes ls", "no rm")}},
		{"echo $x", "yes default", []policy.ShellLayer{parseRules("yes default", "no rm")}},

		// Rules for all commands.
		{"$x y", "yes default", []policy.ShellLayer{parseRules("yes default")}},
		{"$x y", "yes *", []policy.ShellLayer{parseRules("yes *")}},
		{"PATH=. ls", "yes *", []policy.ShellLayer{parseRules("yes *", "no default")}},
		{"$x y", "no default", []policy.ShellLayer{parseRules("yes git", "no default")}},
		{"ls", "yes ls", []policy.ShellLayer{parseRules("no *", "yes ls")}},
		{"x=1", "yes default", []policy.ShellLayer{parseRules("yes default")}},
		{"x=1", "-", []policy.ShellLayer{parseRules("yes ls")}},
		{"sudo ls", "-", []policy.ShellLayer{parseRules("yes ls")}},

		// A rule with a pattern wins over a set.
		{"git status", "yes <read_only>", []policy.ShellLayer{parseRules("yes <read_only>")}},
		{"git status", "ask git", []policy.ShellLayer{parseRules("yes <read_only>", "ask git")}},
		{"make", "yes <build>", []policy.ShellLayer{parseRules("yes <read_only>", "yes <build>", "no default")}},
		{"make", "no default", []policy.ShellLayer{parseRules("yes <read_only>", "no default")}},

		// A pattern that is not valid blocks.
		{"ls", "no a | b", []policy.ShellLayer{parseRules("yes a | b")}},
	} {
		if got := verdict(test.line, test.layers...); got != test.want {
			t.Errorf("%q: got %s, want %s", test.line, got, test.want)
		}
	}
}

// readLines returns the lines of a file, without comments.
func readLines(t testing.TB, file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for l := range strings.Lines(string(text)) {
		if l = strings.TrimSuffix(l, "\n"); !strings.HasPrefix(l, "#") {
			list = append(list, l)
		}
	}
	if len(list) < 20 {
		t.Fatalf("%s: %d lines: the test checks nothing", file, len(list))
	}
	return list
}

// readySets returns a layer that allows both ready-made sets.
func readySets() policy.ShellLayer { return parseRules("yes <read_only>", "yes <build>") }

// TestBypasses checks that no known way around the allowlists of other tools works here.
func TestBypasses(t *testing.T) {
	for _, line := range readLines(t, "testdata/bypasses.txt") {
		if got := verdict(line, readySets()); strings.HasPrefix(got, "yes") {
			t.Errorf("%q passes: %s", line, got)
		}
		if got := verdict(line, readySets(), parseRules("no default")); !strings.HasPrefix(got, "no") {
			t.Errorf("%q is not blocked by default: %s", line, got)
		}
	}
}

// TestOrdinary checks that harmless lines are allowed, and that their writes are
// reported.
func TestOrdinary(t *testing.T) {
	for _, line := range readLines(t, "testdata/ordinary.txt") {
		if got := verdict(line, readySets()); !strings.HasPrefix(got, "yes") {
			j := NewRules(policy.Shell{}.With(readySets())).Judge(line)
			t.Errorf("%q: got %s: %+v", line, got, j.Verdicts[max(0, j.Decides())])
		}
	}
	for line, want := range map[string]string{"ls >out 2>&1": "out", "ls >~/x": "~/x", "ls >/dev/null": "", "cat <x >&y": "y", "git log &>>z": "z"} {
		var got []string
		j := NewRules(policy.Shell{}.With(readySets())).Judge(line)
		for _, w := range j.Writes {
			got = append(got, w.Path)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: writes %q, want %q", line, got, want)
		}
	}
}

// TestSets checks that every command of a set is allowed by it, and is not with a
// variable or an unknown word in front.
func TestSets(t *testing.T) {
	for _, set := range Sets() {
		if About(set) == "" {
			t.Errorf("%s: About is empty", set)
		}
		for _, list := range entries()[set] {
			for _, e := range list {
				line := e.words
				if strings.HasPrefix(line, "[") {
					line += " -f x ]"
				}
				layer := parseRules("yes <" + set + ">")
				if got := verdict(line, layer); got != "yes <"+set+">" {
					t.Errorf("%s: %q: got %s", set, line, got)
				}
				for _, other := range []string{"LD_PRELOAD=x " + line, "$x " + line, line + "; $x", "PATH=.; " + line, "sudo " + line} {
					if got := verdict(other, layer); got != "-" {
						t.Errorf("%s: %q: got %s", set, other, got)
					}
				}
			}
		}
	}
}

// TestReasons checks that a verdict gives the reason.
func TestReasons(t *testing.T) {
	for line, want := range map[string]string{
		"sort -o x y":           "-o changes what the command does",
		"X=1 ls":                "X is set for it",
		"git branch new":        "with new it does something else",
		"git branch -D x":       "-D is not among the options that the set allows",
		"$x":                    "what it runs is not known before it runs",
		"sort $x":               "$x could be an option that changes what the command does",
		"a; (":                  "a shell could not read it",
		"curl x":                "",
		"sed 'w x' y":           "w x: a script that may do more than show",
		"git -c a=b log":        "git -c: an option that can make git run something else",
		"x=a; echo $((x))":      "arithmetic on a variable",
		"timeout --odd 5 ls":    "timeout --odd: an option that is not known here",
		"ls | sh":               "a shell that reads what it runs from its input",
		"bash -c 'ls' <<<x; $y": "what it runs is not known before it runs",
	} {
		j := NewRules(policy.Shell{}.With(readySets())).Judge(line)
		at := j.Decides()
		if at < 0 || !strings.HasPrefix(j.Verdicts[at].Why, want) || want == "" && j.Verdicts[at].Why != "" {
			t.Errorf("%q: got %+v, want %q", line, j.Verdicts, want)
		}
	}
}

// TestPatterns checks which patterns are valid for rules that allow and for rules that restrict.
func TestPatterns(t *testing.T) {
	for _, test := range []struct{ pattern, yes, no string }{
		{"git status", "", ""},
		{"  rm   -rf ", "", ""},
		{"*", "", ""},
		{"CI=1 npm test", "", ""},
		{"", "write the words", "write the words"},
		{"X=1", "write the words", "write the words"},
		{"a | b", "a pattern is the words of one command", "a pattern is the words of one command"},
		{"a;", "a pattern is", "a pattern is"},
		{"echo \"x\"", "a pattern is", "a pattern is"},
		{"* x", "its first word is the command", ""},
		{"timeout 5 ls", "timeout is looked through", ""},
		{"env", "", ""},
		{"env ls", "env is looked through", ""},
		{"command -v", "", ""},
		{"bash -c", "bash -c is looked through", ""},
		{"bash x.sh", "", ""},
		{"sudo", "sudo is never understood", ""},
		{"source x", "source is never understood", ""},
		{"git -C x status", "options before git's subcommand", ""},
	} {
		for _, passes := range []bool{true, false} {
			want := map[bool]string{true: test.yes, false: test.no}[passes]
			if _, got := NewPattern(test.pattern, passes); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%q, passes %v: got %q, want %q", test.pattern, passes, got, want)
			}
		}
	}
}

// TestNarrow checks that proposed patterns are as narrow as the words allow, and cover
// nothing else.
func TestNarrow(t *testing.T) {
	for line, want := range map[string]string{
		"git status":                "git status",
		"git status -s src":         "git status -s",
		"git -C x status":           "",
		"go test ./... && go vet .": "go test, go vet",
		"npm run build --if x":      "npm run build --if",
		"ls -la /x":                 "ls -la",
		"make test":                 "make test",
		"cat a | grep -n b":         "cat, grep -n",
		"x=1; git log":              "git log",
		"/usr/bin/git log":          "git log",
		"git log $(git status)":     "",
		"git log | sh":              "",
		"timeout 5 ls":              "",
		"X=1 ls":                    "",
		"ls >x":                     "",
		"ls >/dev/null":             "ls",
		"ls $x":                     "",
		"rm -rf build":              "",
		"curl https://x":            "",
		"python3 x.py":              "",
		"bash x.sh":                 "",
		"./x":                       "",
		"sudo ls":                   "",
		"sort -o x y":               "sort -o",
		"sort x -o y":               "",
		"a; b; c; d; e":             "",
		"x=1":                       "",
		"git":                       "",
		"git --version":             "",
		"npm test -- x":             "npm test",
		"npm run":                   "",
		"make":                      "",
		"echo 'a b'":                "echo",
		"'a b' c":                   "'a b'",
	} {
		if line == "'a b' c" {
			want = "" // a name with a space cannot be a word of a pattern
		}
		if got := strings.Join(Narrow(line), ", "); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
	for _, line := range []string{"git status", "git status -s", "git status; git status x"} {
		if !Covers([]string{"git status"}, line) {
			t.Errorf("%q is not covered", line)
		}
	}
	// Threat A07: a remembered pattern must not cover more than its words.
	for _, line := range []string{"git status; touch x", "git status\ntouch x", "git status $(touch x)", "env git status", "git -c alias.x=y status",
		"GIT_EXTERNAL_DIFF=x git status", "git statusx", "busybox sh -c 'touch x'", "git status >x", "git status $x", "git", "x=1", "", "git status --output=x",
		"timeout 5 git status", "git -C x status", "git status | sh", "./git status"} {
		if Covers([]string{"git status"}, line) {
			t.Errorf("%q is covered", line)
		}
	}
}
