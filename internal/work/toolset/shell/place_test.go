package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// newWorldWithTree returns a world with a tree of directories.
func newWorldWithTree(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, append(newMounts(), sandbox.Mount{Target: "/", Access: sandbox.ReadWrite}))
	for _, name := range []string{"/src/a", "/out/b"} {
		if err := w.Files.MakeDir(name); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// ends runs a command that ends with the given result. It returns the command as the
// runner got it, the cwd of the result and its notes.
func (w *world) ends(t *testing.T, a args, says jail.Result) (jail.Command, string, []string) {
	t.Helper()
	a.Command, says.Level = "x", jail.Namespaces
	w.runner.says = says
	r := w.run(t, a)
	if r.Err != nil && !errors.Is(r.Err, sandbox.Code("stopped")) {
		t.Fatal(r.Err)
	}
	return w.runner.command[len(w.runner.command)-1], r.Words(), r.Notes
}

func newResult(dir string, set ...string) jail.Result {
	return jail.Result{Left: &jail.Left{Dir: dir, Set: set}}
}

// TestDirectoryStays checks that a command starts where the last one ended, and that the
// result names the directory by its canonical name if it has changed.
func TestDirectoryStays(t *testing.T) {
	const nowhere = "it ended outside the visible directories; the starting directory of the next command is unchanged"
	for _, test := range []struct {
		cwd, ends string // where it is asked to start, and where it ends
		says      string // the directory in the result
		note      string
		next      string // where the next command starts
	}{
		{"", "/work", "", "", "/work"},
		{"", "/work/src/a", "; now in /src/a", "", "/work/src/a"},
		{"", "/out/b", "; now in /out/b", "", "/out/b"},
		{"", "/work/out/b", "; now in /out/b", "", "/out/b"},
		{"/src", "/work/src", "", "", "/work/src"},
		{"/src", "/work", "; now in /", "", "/work"},
		{"", "/tmp", "", nowhere, "/work"},
		{"", "/home/golem/x", "", nowhere, "/work"},
		{"/src", "/usr/lib", "", nowhere, "/work"},
		{"", "", "", nowhere, "/work"},
		{"", "/src/a", "", nowhere, "/work"}, // which is /work/src/a in a command
	} {
		w := newWorldWithTree(t)
		_, text, notes := w.ends(t, args{Cwd: test.cwd}, newResult(test.ends))
		if want := "exit 0 in 0.0 s (namespaces, network off)" + test.says; text != want || strings.Join(notes, "; ") != test.note {
			t.Errorf("%s, %s: %q, %q\nwant %q, %q", test.cwd, test.ends, text, notes, want, test.note)
		}
		if c, _, _ := w.ends(t, args{}, newResult("/work")); c.Dir != test.next {
			t.Errorf("%s, %s: the next one begins in %s, want %s", test.cwd, test.ends, c.Dir, test.next)
		}
	}
}

// TestDirectoryIsInRequest checks that a request for approval shows where a command
// starts, and that its digest covers the directory.
func TestDirectoryIsInRequest(t *testing.T) {
	w := newWorldWithTree(t)
	w.ends(t, args{}, newResult("/work/src"))
	w.ends(t, args{}, newResult("/work/src"))
	w.ends(t, args{Cwd: "/src"}, newResult("/work/src"))
	var got []string
	for _, r := range w.asked.list {
		got = append(got, string(r.Args))
	}
	if want := []string{`{"command":"x"}`, `{"command":"x","cwd":"/src"}`, `{"command":"x","cwd":"/src"}`}; !slices.Equal(got, want) {
		t.Errorf("asked with %q, want %q", got, want)
	}
	if w.asked.list[0].Digest == w.asked.list[1].Digest || w.asked.list[1].Digest != w.asked.list[2].Digest {
		t.Error("an answer counts for another directory than the shown one")
	}
}

// TestDirectoryGone checks that a command starts at the top, with a note, if the
// directory where the last one ended is gone or no longer visible.
func TestDirectoryGone(t *testing.T) {
	w := newWorldWithTree(t)
	w.ends(t, args{}, newResult("/work/src/a"))
	if err := w.Files.Delete("/src/a"); err != nil {
		t.Fatal(err)
	}
	c, _, notes := w.ends(t, args{}, newResult("/work/src"))
	if want := "/src/a, where the last command ended, is gone; this command started in /"; c.Dir != "/work" || !slices.Contains(notes, want) {
		t.Errorf("began in %s, %q", c.Dir, notes)
	}
	w.Grant.Approvals = w.Grant.Approvals.With(policy.Rule{Verb: policy.Read, Target: "/src", Approval: policy.Ask})
	c, _, notes = w.ends(t, args{}, newResult("/work"))
	if want := "/src, where the last command ended, is gone; this command started in /"; c.Dir != "/work" || !slices.Contains(notes, want) {
		t.Errorf("hidden directory: began in %s, %q", c.Dir, notes)
	}
	if c, _, notes = w.ends(t, args{}, newResult("/work")); c.Dir != "/work" || slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "is gone") }) {
		t.Errorf("reported twice: began in %s, %q", c.Dir, notes)
	}
}

// TestFailedCommandKeepsPlace checks that a command that was killed, timed out or did not report
// where it ended changes neither directory nor variables of the next one.
func TestFailedCommandKeepsPlace(t *testing.T) {
	for name, says := range map[string]jail.Result{
		"killed":  {Code: 137, Signal: "SIGKILL"},
		"late":    {Code: 137, Signal: "SIGKILL", Late: true},
		"stopped": {Stopped: true},
		"mute":    {},
	} {
		w := newWorldWithTree(t)
		w.ends(t, args{}, newResult("/work/src", "A=1"))
		if name != "mute" {
			says.Left = &jail.Left{Dir: "/work/out", Set: []string{"A=2"}}
		}
		w.runner.mute = true
		_, _, notes := w.ends(t, args{Cwd: "/out"}, says)
		if told := len(notes) == 1 && strings.HasPrefix(notes[0], "golem does not know in which directory it ended"); told != (name == "mute") {
			t.Errorf("%s: %q", name, notes)
		}
		if c, _, _ := w.ends(t, args{}, newResult("/work")); c.Dir != "/work/src" || !slices.Equal(c.Env, []string{"A=1"}) {
			t.Errorf("%s: the next one begins in %s with %q", name, c.Dir, c.Env)
		}
	}
}

// TestVariablesStay checks that variables are kept, except those that a shell sets by
// itself and those that could change what an allowed command does. A note lists the
// latter.
func TestVariablesStay(t *testing.T) {
	long := strings.Repeat("x", maxBytes)
	many := make([]string, maxVariables+1)
	for i := range many {
		many[i] = fmt.Sprintf("V%d=1", i)
	}
	const lost, much = "not kept for the next command, because it could change what that command runs: ", "its exported variables are not kept for the next command: they are too many or too long"
	for _, test := range []struct {
		set, gone []string
		env       []string
		note      string
	}{
		{[]string{"A=1", "B=x\ny", "C=", "PWD=/", "SHLVL=1", "_=/usr/bin/env", "OLDPWD=/"}, nil, []string{"A=1", "B=x\ny", "C=", "OLD=0"}, ""},
		{[]string{"OLD=1"}, nil, []string{"OLD=1"}, ""},
		{nil, []string{"OLD"}, []string{"OLD"}, ""},
		{nil, []string{"LANG", "TERM"}, []string{"OLD=0", "LANG", "TERM"}, ""},
		{[]string{"PATH=/x", "A=1"}, []string{"HOME"}, []string{"A=1", "OLD=0"}, lost + "HOME, PATH; set it in the command line that needs it"},
		{[]string{"BASH_FUNC_ls%%=() { :; }"}, nil, []string{"OLD=0"}, lost + "BASH_FUNC_ls%%; set it in the command line that needs it"},
		{[]string{"A=\xff"}, nil, []string{"OLD=0"}, lost + "A; set it in the command line that needs it"},
		{[]string{"A=" + long}, []string{"LANG"}, []string{"OLD=0"}, much},
		{many, nil, []string{"OLD=0"}, much},
	} {
		w := newWorldWithTree(t)
		w.ends(t, args{}, newResult("/work", "OLD=0"))
		_, _, notes := w.ends(t, args{}, jail.Result{Left: &jail.Left{Dir: "/work", Set: test.set, Gone: test.gone}})
		c, _, _ := w.ends(t, args{}, newResult("/work"))
		if !slices.Equal(c.Env, test.env) || strings.Join(notes, "; ") != test.note {
			t.Errorf("%.60q, %q: the next one has %.80q, %q\nwant %q, %q", test.set, test.gone, c.Env, notes, test.env, test.note)
		}
	}
}

// TestCanKeep checks that variables that decide which program runs, or what it reads
// first, are not kept.
func TestCanKeep(t *testing.T) {
	for _, name := range []string{"PATH", "BASH_ENV", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_DIR", "GIT_CONFIG_COUNT", "PAGER", "MANPAGER",
		"EDITOR", "VISUAL", "NODE_OPTIONS", "NODE_PATH", "PYTHONSTARTUP", "PYTHONPATH", "BASH_FUNC_ls%%", "BASHOPTS", "SHELLOPTS", "PS4", "PROMPT_COMMAND", "CDPATH", "HOME", "TMPDIR", "GOLEM_JAIL", "PERL5OPT", "RUBYOPT",
		"GOFLAGS", "GOROOT", "CC", "CFLAGS", "MAKEFLAGS", "MAKEFILES", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JAVA_HOME", "RUSTC_WRAPPER", "CARGO_HOME", "npm_config_script_shell", "LESSOPEN", "TAR_OPTIONS", "RIPGREP_CONFIG_PATH",
		"http_proxy", "HTTPS_PROXY", "XDG_CONFIG_HOME", "SSH_ASKPASS", "OPENSSL_CONF", "PYTEST_ADDOPTS", "DOTNET_STARTUP_HOOKS", "INPUTRC", "GCONV_PATH", "IFS", "", "1A", "A-B", "A B", "Ä"} {
		if canKeep(name) {
			t.Errorf("%s stays", name)
		}
	}
	for _, name := range []string{"A", "a_1", "CI", "DEBUG", "NODE_ENV", "DATABASE_URL", "PORT", "RUST_LOG", "GOOS", "CGO_ENABLED", "LANG", "LC_ALL", "TZ", "TERM", "NO_COLOR", "SRC", "API_TOKEN", "VIRTUAL_ENV", "GIT_AUTHOR_NAME", "PYTHONUNBUFFERED"} {
		if !canKeep(name) {
			t.Errorf("%s cannot be kept", name)
		}
	}
}

// TestPlaceOfTwoCommands checks that two commands that run at once each record only what they
// have changed.
func TestPlaceOfTwoCommands(t *testing.T) {
	p := NewPlace(Standing{Set: map[string]string{"X": "0"}}, nil)
	one, two := p.here(), p.here()
	p.leave(one, "/a", &jail.Left{Set: []string{"A=1", "X=1"}})
	p.leave(two, "", &jail.Left{Set: []string{"B=2"}})
	if got := p.here(); got.Dir != "/a" || strings.Join(got.env(), " ") != "A=1 B=2 X=1" {
		t.Errorf("got %+v", got)
	}
	p.leave(two, "/b", &jail.Left{Set: []string{"A=2"}, Gone: []string{"X"}})
	if got := p.here(); got.Dir != "/b" || strings.Join(got.env(), " ") != "A=2 B=2 X" {
		t.Errorf("got %+v", got)
	}
}

// TestPlaceIsSaved checks that a saved place is loaded without variables that must not be
// kept, and that a note reports a failure to save.
func TestPlaceIsSaved(t *testing.T) {
	var kept Standing
	p := NewPlace(Standing{Dir: "/a", Set: map[string]string{"A": "1", "PATH": "/x"}}, func(s Standing) error { kept = s; return nil })
	if got := p.here(); got.Dir != "/a" || strings.Join(got.env(), " ") != "A=1" {
		t.Errorf("got %+v", got)
	}
	p.leave(p.here(), "", &jail.Left{})
	if kept.Set != nil {
		t.Error("written although nothing changed")
	}
	p.leave(p.here(), "/b", &jail.Left{Gone: []string{"LANG"}})
	if kept.Dir != "/b" || strings.Join(kept.env(), " ") != "A=1 LANG" {
		t.Errorf("kept %+v", kept)
	}
	full := NewPlace(Standing{}, func(Standing) error { return errors.New("no room") })
	if notes := full.leave(full.here(), "/b", &jail.Left{}); len(notes) != 1 || !strings.Contains(notes[0], "could not be saved") || full.here().Dir != "/b" {
		t.Errorf("got %q, %+v", notes, full.here())
	}
}
