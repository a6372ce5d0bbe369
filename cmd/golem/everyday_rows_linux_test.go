package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A row is a command of the table "Every day" in README.md, which is typed at a terminal.
type row struct {
	command string
	before  string      // shell commands that run first, without a terminal
	typed   [][2]string // waits for a text, and then types keys
	want    string      // on the screen at the end
	after   string      // shell commands that must succeed afterwards
	code    int
}

// everydayRows are the commands of the table that run here. In their directory the model is
// a script, which makes the same changes at each run.
var everydayRows = []row{
	{command: `golem run "fix the failing test"`, want: "M  src/main.c", after: "golem diff | grep -q '^+three'; ! grep -q three src/main.c"},
	{command: `golem run --sandbox memory "remove the old API"`, want: "I changed two lines", after: "! grep -q three src/main.c"},
	{command: "golem status", want: "1 session with changes"},
	{command: "golem diff", want: "+ three"},
	{command: "golem apply", typed: [][2]string{{"You are about to", "y\r"}}, after: "grep -q three src/main.c; grep -q thirty src/main.c"},
	{command: "golem undo", typed: [][2]string{{"You are about to", "y\r"}}, after: "! grep -q three src/main.c"},
	{command: "golem apply src/main.c", typed: [][2]string{{"You are about to", "y\r"}}, after: "grep -q three src/main.c; test ! -e notes.md"},
	{command: "golem apply -p", before: "golem undo --yes", typed: [][2]string{{"1 of 3", "y\r"}, {"2 of 3", "y\r"}, {"3 of 3", "n\r"}, {"You are about to", "y\r"}}, after: "test -e notes.md; grep -q three src/main.c; ! grep -q thirty src/main.c"},
	{command: "golem apply --hunks src/main.c:1,3", before: "golem undo --yes; golem exec -c sed -i 's/line 20/twenty/' src/main.c", typed: [][2]string{{"You are about to", "y\r"}}, after: "grep -q three src/main.c; grep -q thirty src/main.c; ! grep -q twenty src/main.c"},
	{command: "golem discard", typed: [][2]string{{"You are about to", "y\r"}}, after: "golem status | grep -q 'nothing waits'"},
	{command: "golem apply --commits --branch from-agent", before: "git commit -qam more; golem exec sh -c 'echo c > c.txt; git add c.txt; git commit -qm \"add c\"'",
		typed: [][2]string{{"You are about to", "y\r"}}, after: "git log --format=%s from-agent | grep -qx 'add c'"},
	{command: "golem approve", before: "golem config set model scripted:$HOME/asks.yaml; golem run . go --set 'sandbox.approval={write: ask}' || test $? = 3",
		typed: [][2]string{{"wants to", "y\r"}}, want: "next: golem run --resume "},
	{command: "golem run --resume last", want: "I wrote it"},
	{command: "golem status -i", typed: [][2]string{{"waiting for you", "q"}}},
	{command: "golem diff -i", typed: [][2]string{{"asked.txt", "q"}}},
	{command: "golem review -i", code: 1, want: "golem config edit"},
	{command: "golem desk", typed: [][2]string{{"http://", "\x03"}}, code: 130},
	{command: "golem audit show FILE", want: "src/main.c"},
	{command: "golem init notes", typed: [][2]string{{"What is this program for?", "1\r"}, {"Which model does it use?", "\r"}}, want: "golem run"},
	{command: `golem run notes "Summarise" --model scripted:notes/demo.yaml`, typed: [][2]string{{"wants to create /out/paper.md", "y\r"}}, after: "test -s notes/out/paper.md"},
	{command: "golem schema project", want: "$schema"},
	{command: "golem schema worker", want: "$schema"},
	{command: "golem COMMAND --help", want: "golem exec"},
	{command: "golem man DIR", after: "test -s DIR/golem-exec.1"},
	{command: "golem ps", before: "golem exec -d -- sh -c 'sleep 1000'", want: "in the background"},
	{command: "golem attach", typed: [][2]string{{"Ctrl-] d leaves it", "\x1dd"}}, want: "continues in the background", after: "golem ps stop --now last"},
}

// rowsElsewhere are the commands of the table that other tests run.
var rowsElsewhere = map[string]string{
	"golem exec claude":                                      "TestAgents, with a model",
	"golem exec -d claude":                                   "TestDetached, with a shell",
	"golem exec --name fix-login claude":                     "testdata/script/session-names.txtar, with a shell",
	"golem exec --session fix-login claude":                  "testdata/script/session-names.txtar, with a shell",
	"golem diff @fix-login":                                  "testdata/script/session-names.txtar",
	"golem pr":                                               "TestPullRequest, against a server on this machine",
	"sudo mkdir -p /etc/golem":                               "testdata/script/policy.txtar",
	`echo "network: off" \| sudo tee /etc/golem/policy.yaml`: "testdata/script/policy.txtar",
}

// TestEverydayRows types every command of the table "Every day" in README.md, in their
// order, at a terminal in one directory. Each does what the table says.
func TestEverydayRows(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Every day\n")
	table, _, _ = strings.Cut(table, "\n`golem desk` in a browser")
	var inPage, here []string
	for _, m := range regexp.MustCompile("`((?:golem|sudo|echo) [^`]*)`").FindAllStringSubmatch(table, -1) {
		if rowsElsewhere[m[1]] == "" {
			inPage = append(inPage, m[1])
		}
	}
	for _, r := range everydayRows {
		here = append(here, r.command)
	}
	slices.Sort(inPage)
	if sorted := slices.Sorted(slices.Values(here)); !slices.Equal(sorted, inPage) {
		t.Errorf("README.md has the commands\n%s\nthe test runs\n%s", strings.Join(inPage, "\n"), strings.Join(sorted, "\n"))
	}
	p := newRows(t)
	for _, r := range everydayRows {
		t.Run(r.command, func(t *testing.T) { r.try(p.forTest(t)) })
	}
}

func (r row) try(p *pickTest) {
	p.t.Helper()
	if r.before != "" {
		p.shell(r.before)
	}
	p.startProgram(100, "bash", "-c", strings.NewReplacer("FILE", "src/main.c", "COMMAND", "exec").Replace(r.command))
	for _, typed := range r.typed {
		p.screen.Until(typed[0])
		if strings.HasSuffix(typed[1], "\r") {
			p.answer("", typed[1])
		} else {
			p.typeKeys("", typed[1])
		}
	}
	code, seen := p.waitForEnd()
	if code != r.code || !strings.Contains(seen, r.want) {
		p.t.Errorf("code %d, want %d with %q\n%s", code, r.code, r.want, seen)
	}
	if r.after != "" {
		p.shell(r.after)
	}
}

// newRows makes a repository, and names a script as the user's model.
func newRows(t *testing.T) *pickTest {
	top := t.TempDir()
	p := &pickTest{t: t, dir: filepath.Join(top, "work"), rows: 60}
	p.env = append(os.Environ(), "HOME="+top, "XDG_CONFIG_HOME=", "GOLEM_STATE="+filepath.Join(top, "state"), "NO_COLOR=1", "TERM=xterm", "GOLEM_PAGER=cat", "BROWSER=true")
	p.mkdir("src")
	p.write("src/main.c", numberLines(nil))
	p.write("../model.yaml", `- calls: [{tool: shell, args: {command: "sed -i 's/^line 3$/three/;s/^line 30$/thirty/' src/main.c; echo note > notes.md"}}]
- text: I changed two lines.
`)
	p.write("../asks.yaml", "- calls: [{tool: write_file, args: {path: /asked.txt, content: x}}]\n- text: I wrote it.\n")
	p.shell(`git init -q && git config user.name me && git config user.email me@example.com && git add . && git commit -qm first
printf '[user]\nname = me\nemail = me@example.com\n' > ~/.gitconfig
golem config set model scripted:$HOME/model.yaml`)
	return p
}

// shell runs lines that must succeed, without a terminal.
func (p *pickTest) shell(lines string) {
	p.t.Helper()
	cmd := exec.Command("bash", "-e", "-c", lines)
	cmd.Dir, cmd.Env = p.dir, p.env
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", lines, err, out)
	}
}
