package jail_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/jail"
)

// TestShellReport checks that a shell reports its directory and its exported variables at its
// end, unless it ends by exec or a signal. The exit code, the output and the descriptors
// must be those of the line.
func TestShellReport(t *testing.T) {
	tests := []struct {
		line string
		code int
		out  string
		left string // "-" for nothing
	}{
		{"cd sub; export A=1", 0, "", "sub A=1"},
		{"echo $#,$0", 0, "0,bash\n", ""},
		{"-x; echo x # y \\", 0, "x\n", ""},
		{"cat <<E\nx", 0, "x\n", ""},
		{"cd sub; export A=1; false", 1, "", "sub A=1"},
		{"cd sub; export A=1; exit 42; cd /", 42, "", "sub A=1"},
		{"export A=1; set -eu; false; export A=2", 1, "", "A=1"},
		{"export A=1; set -u; echo $nosuch", 127, "", "A=1"},
		{"export A=1; ${A:?}; : ${nosuch:?}", 127, "", "A=1"},
		{"trap 'echo bye' EXIT; cd sub", 0, "bye\n", "sub"},
		{"trap 'echo bye' EXIT; exit 3", 3, "bye\n", "-"},
		{"trap 'echo bye' EXIT; (exit 3); (cd sub; export A=1); B=$(cd sub; exit 9)", 9, "bye\n", ""},
		{"export A=1; exec true", 0, "", "-"},
		{"exec 3>&1 4</dev/null; export A=1; echo x >&3", 0, "x\n", "A=1"},
		{"exec 7>mine; export A=1; echo x >&7; cat mine", 0, "x\n", "A=1"},
		{"export A=1; kill -TERM $$; sleep 9", 143, "", "-"},
		{"export A=1; set -x; :", 0, "", "A=1"},
		{"export A=1; set -a; B=2; set -f; set -C", 0, "", "A=1 B=2"},
		{"A=1; export B=2; unset LANG", 0, "", "B=2 !LANG"},
		{"export PATH=/nowhere", 0, "", "PATH=/nowhere"},
		{"export A='a\nb = \"c\" $x \\' E=", 0, "", "A=a\nb = \"c\" $x \\ E="},
		{"f() { echo f; }; export -f f; env() { echo no; }; printf() { echo no; }", 0, "", "BASH_FUNC_f%%=() {  echo f\n}"},
		{"sleep 98 & export A=1", 0, "", "A=1"},
		{"mkdir gone; cd gone; rmdir ../gone; export A=1", 0, "", "? A=1"},
		{"export A=1; exec 10>&- 11>&-", 0, "", "-"},
		{"head -c 400000 /dev/zero | tr '\\0' x >&10", 0, "", "-"},
		{"export A=1; (", 2, "", ""},
		{"export A=$(head -c 100000 /dev/zero | tr '\\0' x) B=$(head -c 100000 /dev/zero | tr '\\0' y) C=$(head -c 100000 /dev/zero | tr '\\0' z)", 0, "", "-"},
	}
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		p.allowed("folders", "mkdir sub")
		for _, test := range tests {
			r, err := p.Run(context.Background(), jail.Telling(test.line))
			if err != nil {
				t.Fatalf("%.80s: %v", test.line, err)
			}
			got := "-"
			if r.Left != nil {
				got = formatLeft(r.Left)
			}
			if r.Code != test.code || string(r.Stdout.Head) != test.out || got != test.left {
				t.Errorf("%.80s: code %d, %q, left %.200q, %s\nwant code %d, %q, left %q", test.line, r.Code, r.Stdout.Head, got, r.Stderr.Head, test.code, test.out, test.left)
			}
			if strings.Contains(string(r.Stderr.Head), "golem") {
				t.Errorf("%.80s: %s", test.line, r.Stderr.Head)
			}
		}
		if m.level() == jail.Landlock { // the level landlock has no /proc
			return
		}
		r, err := p.Run(context.Background(), jail.Telling("ls /proc/self/fd"))
		if got := strings.Fields(string(r.Stdout.Head)); err != nil || strings.Join(got, " ") != "0 1 2 3" {
			t.Errorf("a program has descriptors %q, %v, want three and that of the directory", got, err)
		}
	})
}

// formatLeft returns a Left in one line. It has the directory if it is not the first one, or ?
// if there is none, and the variables that shells do not always have.
func formatLeft(l *jail.Left) string {
	var list []string
	switch l.Dir {
	case jail.Work:
	case "":
		list = append(list, "?")
	default:
		list = append(list, strings.TrimPrefix(l.Dir, jail.Work+"/"))
	}
	slices.Sort(l.Set)
	for _, e := range l.Set {
		switch name, _, _ := strings.Cut(e, "="); name {
		case "PWD", "OLDPWD", "SHLVL", "_", "HOME", "TMPDIR":
		default:
			list = append(list, e)
		}
	}
	for _, name := range l.Gone {
		list = append(list, "!"+name)
	}
	return strings.Join(list, " ")
}

// TestGivenVariables checks that a command can add variables and remove some.
func TestGivenVariables(t *testing.T) {
	inModes(t, everyMode[:1], func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		c := jail.Shell(`echo "$A,${LANG-none},$PATH"`)
		c.Env = []string{"A=1", "LANG", "PATH=/x"}
		r, err := p.Run(context.Background(), c)
		if err != nil || string(r.Stdout.Head) != "1,none,/x\n" {
			t.Errorf("got %q, %v", r.Stdout.Head, err)
		}
	})
}
