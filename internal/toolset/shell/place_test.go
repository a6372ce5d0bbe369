package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

// withTop is a tree with directories in it.
func withTop(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, append(zones(), sandbox.Mount{Target: "/", Access: sandbox.ReadWrite}))
	for _, name := range []string{"/src/a", "/out/b"} {
		if err := w.Files.MakeDir(name); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// ends lets a command end as told, and returns where it began, and what came of it.
func (w *world) ends(t *testing.T, a args, says jail.Result) (jail.Command, string, []string) {
	t.Helper()
	a.Command, says.Level = "x", jail.Namespaces
	w.runner.says = says
	r := w.run(t, a)
	if r.Err != nil && !errors.Is(r.Err, sandbox.Code("stopped")) {
		t.Fatal(r.Err)
	}
	return w.runner.command[len(w.runner.command)-1], r.Text, r.Notes
}

func left(dir string, set ...string) jail.Result {
	return jail.Result{Left: &jail.Left{Dir: dir, Set: set}}
}

// A command begins where the last one ended, by the name that the tree has for it, and
// the answer says where that is if it is another directory.
func TestFolderStays(t *testing.T) {
	const nowhere = "it ended in no folder of the tree: the next command begins as this one did"
	for _, test := range []struct {
		cwd, ends string // where it is told to begin, and ends
		says      string // of where it is
		note      string
		next      string // where the next one begins
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
		w := withTop(t)
		_, text, notes := w.ends(t, args{Cwd: test.cwd}, left(test.ends))
		if want := "exit 0 in 0.0 s (namespaces, network off)" + test.says; text != want || strings.Join(notes, "; ") != test.note {
			t.Errorf("%s, %s: %q, %q\nwant %q, %q", test.cwd, test.ends, text, notes, want, test.note)
		}
		if c, _, _ := w.ends(t, args{}, left("/work")); c.Dir != test.next {
			t.Errorf("%s, %s: the next one begins in %s, want %s", test.cwd, test.ends, c.Dir, test.next)
		}
	}
}

// Who is asked about a command sees where it begins, and the answer is for there.
func TestFolderIsAskedAbout(t *testing.T) {
	w := withTop(t)
	w.ends(t, args{}, left("/work/src"))
	w.ends(t, args{}, left("/work/src"))
	w.ends(t, args{Cwd: "/src"}, left("/work/src"))
	var got []string
	for _, r := range w.asked.list {
		got = append(got, string(r.Args))
	}
	if want := []string{`{"command":"x"}`, `{"command":"x","cwd":"/src"}`, `{"command":"x","cwd":"/src"}`}; !slices.Equal(got, want) {
		t.Errorf("asked with %q, want %q", got, want)
	}
	if w.asked.list[0].Digest == w.asked.list[1].Digest || w.asked.list[1].Digest != w.asked.list[2].Digest {
		t.Error("an answer is not for the folder that was shown")
	}
}

// A directory that is gone, or may not be seen any more, is not begun in, and that is said.
func TestFolderGone(t *testing.T) {
	w := withTop(t)
	w.ends(t, args{}, left("/work/src/a"))
	if err := w.Files.Delete("/src/a"); err != nil {
		t.Fatal(err)
	}
	c, _, notes := w.ends(t, args{}, left("/work/src"))
	if want := "/src/a, where the last command ended, is gone: it began in /"; c.Dir != "/work" || !slices.Contains(notes, want) {
		t.Errorf("began in %s, %q", c.Dir, notes)
	}
	w.Grant.Approvals = w.Grant.Approvals.With(policy.Rule{Verb: policy.Read, Target: "/src", Approval: policy.Ask})
	c, _, notes = w.ends(t, args{}, left("/work"))
	if want := "/src, where the last command ended, is gone: it began in /"; c.Dir != "/work" || !slices.Contains(notes, want) {
		t.Errorf("hidden: began in %s, %q", c.Dir, notes)
	}
	if c, _, notes = w.ends(t, args{}, left("/work")); c.Dir != "/work" || slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "is gone") }) {
		t.Errorf("told twice: began in %s, %q", c.Dir, notes)
	}
}

// What was killed, timed out or has not told leaves all as it was.
func TestLeavesAsItWas(t *testing.T) {
	for name, says := range map[string]jail.Result{
		"killed":  {Code: 137, Signal: "SIGKILL"},
		"late":    {Code: 137, Signal: "SIGKILL", Late: true},
		"stopped": {Stopped: true},
		"mute":    {},
	} {
		w := withTop(t)
		w.ends(t, args{}, left("/work/src", "A=1"))
		if name != "mute" {
			says.Left = &jail.Left{Dir: "/work/out", Set: []string{"A=2"}}
		}
		w.runner.mute = true
		_, _, notes := w.ends(t, args{Cwd: "/out"}, says)
		if told := len(notes) == 1 && strings.HasPrefix(notes[0], "where it ended is not known"); told != (name == "mute") {
			t.Errorf("%s: %q", name, notes)
		}
		if c, _, _ := w.ends(t, args{}, left("/work")); c.Dir != "/work/src" || !slices.Equal(c.Env, []string{"A=1"}) {
			t.Errorf("%s: the next one begins in %s with %q", name, c.Dir, c.Env)
		}
	}
}

// Variables stay, except those that a shell sets by itself and those that could make an
// allowed command another one, which is said.
func TestVariablesStay(t *testing.T) {
	long := strings.Repeat("x", maxBytes)
	many := make([]string, maxVariables+1)
	for i := range many {
		many[i] = fmt.Sprintf("V%d=1", i)
	}
	const lost, much = "not kept for the next command, for it could change what that runs: ", "the variables that it has exported do not stay: they are too many, or too long"
	for _, test := range []struct {
		set, gone []string
		env       []string
		note      string
	}{
		{[]string{"A=1", "B=x\ny", "C=", "PWD=/", "SHLVL=1", "_=/usr/bin/env", "OLDPWD=/"}, nil, []string{"A=1", "B=x\ny", "C=", "OLD=0"}, ""},
		{[]string{"OLD=1"}, nil, []string{"OLD=1"}, ""},
		{nil, []string{"OLD"}, []string{"OLD"}, ""},
		{nil, []string{"LANG", "TERM"}, []string{"OLD=0", "LANG", "TERM"}, ""},
		{[]string{"PATH=/x", "A=1"}, []string{"HOME"}, []string{"A=1", "OLD=0"}, lost + "HOME, PATH; set it in the line that needs it"},
		{[]string{"BASH_FUNC_ls%%=() { :; }"}, nil, []string{"OLD=0"}, lost + "BASH_FUNC_ls%%; set it in the line that needs it"},
		{[]string{"A=\xff"}, nil, []string{"OLD=0"}, lost + "A; set it in the line that needs it"},
		{[]string{"A=" + long}, []string{"LANG"}, []string{"OLD=0"}, much},
		{many, nil, []string{"OLD=0"}, much},
	} {
		w := withTop(t)
		w.ends(t, args{}, left("/work", "OLD=0"))
		_, _, notes := w.ends(t, args{}, jail.Result{Left: &jail.Left{Dir: "/work", Set: test.set, Gone: test.gone}})
		c, _, _ := w.ends(t, args{}, left("/work"))
		if !slices.Equal(c.Env, test.env) || strings.Join(notes, "; ") != test.note {
			t.Errorf("%.60q, %q: the next one has %.80q, %q\nwant %q, %q", test.set, test.gone, c.Env, notes, test.env, test.note)
		}
	}
}

// What says which program is run, or what it reads first, does not stay.
func TestStays(t *testing.T) {
	for _, name := range []string{"PATH", "BASH_ENV", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_DIR", "GIT_CONFIG_COUNT", "PAGER", "MANPAGER",
		"EDITOR", "VISUAL", "NODE_OPTIONS", "NODE_PATH", "PYTHONSTARTUP", "PYTHONPATH", "BASH_FUNC_ls%%", "BASHOPTS", "SHELLOPTS", "PS4", "PROMPT_COMMAND", "CDPATH", "HOME", "TMPDIR", "GOLEM_JAIL", "PERL5OPT", "RUBYOPT",
		"GOFLAGS", "GOROOT", "CC", "CFLAGS", "MAKEFLAGS", "MAKEFILES", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JAVA_HOME", "RUSTC_WRAPPER", "CARGO_HOME", "npm_config_script_shell", "LESSOPEN", "TAR_OPTIONS", "RIPGREP_CONFIG_PATH",
		"http_proxy", "HTTPS_PROXY", "XDG_CONFIG_HOME", "SSH_ASKPASS", "OPENSSL_CONF", "PYTEST_ADDOPTS", "DOTNET_STARTUP_HOOKS", "INPUTRC", "GCONV_PATH", "IFS", "", "1A", "A-B", "A B", "Ä"} {
		if stays(name) {
			t.Errorf("%s stays", name)
		}
	}
	for _, name := range []string{"A", "a_1", "CI", "DEBUG", "NODE_ENV", "DATABASE_URL", "PORT", "RUST_LOG", "GOOS", "CGO_ENABLED", "LANG", "LC_ALL", "TZ", "TERM", "NO_COLOR", "SRC", "API_TOKEN", "VIRTUAL_ENV", "GIT_AUTHOR_NAME", "PYTHONUNBUFFERED"} {
		if !stays(name) {
			t.Errorf("%s does not stay", name)
		}
	}
}

// Of what two commands change that run at once each brings its own.
func TestPlaceOfTwo(t *testing.T) {
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

// What is written down is read again except what must not stay; that it could not be
// written is said.
func TestPlaceKept(t *testing.T) {
	var kept Standing
	p := NewPlace(Standing{Dir: "/a", Set: map[string]string{"A": "1", "PATH": "/x"}}, func(s Standing) error { kept = s; return nil })
	if got := p.here(); got.Dir != "/a" || strings.Join(got.env(), " ") != "A=1" {
		t.Errorf("got %+v", got)
	}
	p.leave(p.here(), "", &jail.Left{})
	if kept.Set != nil {
		t.Error("written though nothing has changed")
	}
	p.leave(p.here(), "/b", &jail.Left{Gone: []string{"LANG"}})
	if kept.Dir != "/b" || strings.Join(kept.env(), " ") != "A=1 LANG" {
		t.Errorf("kept %+v", kept)
	}
	full := NewPlace(Standing{}, func(Standing) error { return errors.New("no room") })
	if notes := full.leave(full.here(), "/b", &jail.Left{}); len(notes) != 1 || !strings.Contains(notes[0], "could not be written down") || full.here().Dir != "/b" {
		t.Errorf("got %q, %+v", notes, full.here())
	}
}
