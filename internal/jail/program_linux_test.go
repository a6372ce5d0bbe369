package jail_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/jail"
)

// TestProgramWithoutShell checks that the jail starts the program that a shell would
// execute, without the shell if that is possible. The shell prints a word on standard
// error if it runs.
func TestProgramWithoutShell(t *testing.T) {
	tests := []struct {
		args  []string
		env   string
		shell bool
		code  int
		out   string
	}{
		{args: []string{"/bin/echo", "a b", "$c", "-n"}, out: "a b $c -n\n"},
		{args: []string{"cat", "file"}, out: "content\n"},
		{args: []string{"sh", "-c", "echo $0,$PWD; exit 3", "x"}, code: 3},
		{args: []string{"./program", "1"}, out: "./program 1\n"},
		{args: []string{"program", "2"}, env: "PATH=/nowhere:/work/bin:/bin", out: "/work/bin/program 2\n"},
		{args: []string{"program", "3"}, env: "PATH=bin:/bin", shell: true, out: "bin/program 3\n"},
		{args: []string{"./script"}, shell: true, out: "a script without an interpreter\n"},
		{args: []string{"./file"}, shell: true, code: 126},
		{args: []string{"bin"}, env: "PATH=/work:/bin", shell: true, code: 126},
		{args: []string{"no-such-program"}, shell: true, code: 127},
		{args: []string{"/no/such/program"}, shell: true, code: 127},
	}
	inModes(t, everyMode, func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{})
		const program = "#!/bin/sh\necho \"$0\" \"$@\"\n"
		check(t, os.Mkdir(p.dir+"/bin", 0o755))
		for name, text := range map[string]string{"program": program, "bin/program": program, "script": "echo a script without an interpreter\n"} {
			check(t, os.WriteFile(p.dir+"/"+name, []byte(text), 0o755))
		}
		check(t, os.WriteFile(p.dir+"/file", []byte("content\n"), 0o644))
		for _, test := range tests {
			shell := []string{"sh", "-c", `echo shell >&2; exec "$@"`, "sh"}
			c := jail.Command{Path: "/bin/sh", Args: append(shell, test.args...), Program: len(shell), Dir: jail.Work}
			if test.env != "" {
				c.Env = []string{test.env}
			}
			r, err := p.Run(context.Background(), c)
			if err != nil {
				t.Errorf("%q: %v", test.args, err)
				continue
			}
			if r.Code != test.code || test.out != "" && m.level() == jail.Namespaces && string(r.Stdout.Head) != test.out {
				t.Errorf("%q: code %d, want %d; printed %q, want %q; %s", test.args, r.Code, test.code, r.Stdout.Head, test.out, r.Stderr.Head)
			}
			if has := len(r.Stderr.Head) > 0; has != test.shell {
				t.Errorf("%q: the shell has run: %v, want %v (%s)", test.args, has, test.shell, r.Stderr.Head)
			}
		}
		// A program finds its directory in the environment, as under a shell.
		r, err := p.Run(context.Background(), jail.Command{Path: "/bin/sh", Args: []string{"sh", "-c", `exec "$@"`, "sh", "env"}, Program: 4, Dir: jail.Work, Env: []string{"PWD=/wrong"}})
		check(t, err)
		direct := string(r.Stdout.Head)
		r, err = p.Run(context.Background(), jail.Command{Path: "/bin/sh", Args: []string{"sh", "-c", `exec "$@"`, "sh", "env"}, Dir: jail.Work, Env: []string{"PWD=/wrong"}})
		check(t, err)
		if a, b := findVariable(direct, "PWD"), findVariable(string(r.Stdout.Head), "PWD"); a != b || a == "" {
			t.Errorf("PWD is %q without the shell, and %q with it", a, b)
		}
	})
}

// findVariable returns the value of a variable in the output of env.
func findVariable(output, name string) string {
	for line := range strings.Lines(output) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
