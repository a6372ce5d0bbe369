package checks_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A stage runs the transcripts of a document in an empty directory, with golem in PATH
// and a separate state directory. The user's home directory has a name for git and nothing
// else.
type stage struct {
	*testing.T
	home, dir, bin string
	user           string // the user's home directory
	status         int    // the exit code of the last command
	colour         bool   // whether commands may print colours
}

func newStage(t *testing.T, golem string) *stage {
	s := &stage{T: t, home: t.TempDir(), bin: t.TempDir()}
	s.dir = s.home
	if err := os.Link(golem, filepath.Join(s.bin, "golem")); err != nil {
		t.Fatal(err)
	}
	s.user = t.TempDir()
	if err := os.WriteFile(filepath.Join(s.user, ".gitconfig"), []byte("[user]\nname = you\nemail = you@example.com\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// golem builds golem.
func golem(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "golem")
	build(t, name, "./cmd/golem")
	return name
}

// transcripts runs the commands of a document and compares their output. Commands in
// console blocks run without a terminal. Commands in terminal blocks run at one, and the
// text behind a prompt is typed there. In the expected output, … matches anything.
func (s *stage) transcripts(document string) {
	s.Helper()
	commands := 0
	for _, b := range blocks(s.T, document) {
		commands += s.block(document, b)
	}
	if commands < 5 {
		s.Fatalf("%s: found %d commands: the test checks nothing", document, commands)
	}
}

// block runs the commands of a block if it is a transcript, and returns how many it has.
// The block "yaml NAME.yaml" becomes a file in the current directory.
func (s *stage) block(document string, b block) int {
	s.Helper()
	if _, name, ok := strings.Cut(b.lang, "yaml "); ok && strings.HasSuffix(name, ".yaml") {
		if err := os.WriteFile(filepath.Join(s.dir, filepath.Base(name)), []byte(b.text), 0o666); err != nil {
			s.Fatal(err)
		}
		return 0
	}
	if b.lang != "console" && b.lang != "terminal" {
		return 0
	}
	list := commandsOf(s.T, document, b)
	for _, c := range list {
		var got string
		if b.lang == "terminal" {
			got = s.shell(c.text, answers(c.want))
		} else {
			got = s.shell(c.text, nil)
		}
		if !patternFor(c.want).MatchString(got) {
			s.Errorf("%s:%d: $ %s\ngot:\n%s\nwant:\n%s", document, c.line, c.text, got, c.want)
		}
	}
	return len(list)
}

// A command is a line that begins with $, and its expected output.
type command struct {
	text, want string
	line       int
}

func commandsOf(t *testing.T, document string, b block) []command {
	t.Helper()
	var list []command
	line := b.line
	for l := range strings.Lines(b.text) {
		if text, ok := strings.CutPrefix(l, "$ "); ok {
			list = append(list, command{text: strings.TrimSpace(text), line: line})
		} else if len(list) == 0 {
			t.Fatalf("%s:%d: the transcript does not begin with a command", document, line)
		} else {
			list[len(list)-1].want += l
		}
		line++
	}
	return list
}

// patternFor returns a pattern for a text. … matches anything on its line, and any number of
// lines if it is alone on a line.
func patternFor(text string) *regexp.Regexp {
	var b strings.Builder
	for l := range strings.Lines(strings.TrimSpace(text)) {
		if strings.TrimSpace(l) == "…" {
			b.WriteString("(?:.*\n?)*?")
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(l), "…", ".*"))
	}
	return regexp.MustCompile("^" + strings.TrimSuffix(b.String(), "\n") + "\\s*$")
}

// asks matches golem's prompt at a terminal.
var asks = regexp.MustCompile(`(?:^|\n)┃ > $`)

// escapes matches the control sequences by which golem colours its output.
var escapes = regexp.MustCompile(`\x1b\[[?\d;]*[A-Za-z]`)

// erasedLines matches status lines, which golem draws on a slow machine and erases.
var erasedLines = regexp.MustCompile(`golem: [^\r\n]*\r\x1b\[K`)

// answers returns the text that a transcript types: the rest of each prompt line.
func answers(want string) []string {
	typed := []string{}
	for l := range strings.Lines(want) {
		if answer, ok := strings.CutPrefix(l, "┃ > "); ok {
			typed = append(typed, strings.TrimSpace(answer))
		}
	}
	return typed
}

// shell runs a line of shell in the directory of the last one and returns its output. If
// answers is not nil, the line runs at a terminal and the answers are typed there.
func (s *stage) shell(line string, answers []string) string {
	s.Helper()
	after := filepath.Join(s.bin, "after")
	script := fmt.Sprintf("cd %q; (exit %d); %s\ns=$?; printf '%%s\n%%s' $s \"$PWD\" >%q", s.dir, s.status, line, after)
	var out string
	if answers == nil {
		out, _ = s.run("bash", "-c", script)
	} else {
		out = s.atTerminal(answers, "bash", "-c", script)
	}
	left, err := os.ReadFile(after)
	if err != nil {
		s.Fatalf("$ %s\n%s\n%v", line, out, err)
	}
	status, dir, _ := strings.Cut(string(left), "\n")
	s.status, _ = strconv.Atoi(status)
	s.dir = dir
	return strings.TrimSpace(out)
}

// command returns a program with the directory and environment of the stage.
func (s *stage) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = s.dir
	looks := []string{"NO_COLOR=1"}
	if s.colour {
		looks = []string{"NO_COLOR=", "TERM=xterm-256color"}
	}
	cmd.Env = append(append(os.Environ(), looks...), "LC_ALL=C", "TZ=UTC", "GOLEM_PAGER=cat", "GOLEM_STATE="+filepath.Join(s.bin, "state"),
		"HOME="+s.user, "PATH="+s.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return cmd
}

// run runs a program and returns its output.
func (s *stage) run(program string, args ...string) (string, error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	out, err := s.command(ctx, program, args...).CombinedOutput()
	if ctx.Err() != nil || err != nil && len(out) == 0 {
		s.Fatalf("%s: %v", program, err)
	}
	return string(out), err
}

// atTerminal runs a program at a new terminal, types one answer at each prompt, and
// returns the output without the carriage returns that a terminal adds.
func (s *stage) atTerminal(answers []string, program string, args ...string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	keys, err := openTerminal(s.command(ctx, program, args...))
	if err != nil {
		s.Fatal(err)
	}
	defer keys.Close()
	var got bytes.Buffer
	piece := make([]byte, 4096)
	for {
		n, err := keys.Read(piece)
		got.Write(bytes.ReplaceAll(piece[:n], []byte("\r\n"), []byte("\n")))
		if err != nil {
			break // the program has ended and closed its terminal
		}
		if asks.Match(escapes.ReplaceAll(got.Bytes(), nil)) && len(answers) > 0 {
			fmt.Fprintln(keys, answers[0])
			answers = answers[1:]
		}
	}
	return erasedLines.ReplaceAllString(got.String(), "")
}
