package project_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A world is a program on a host, with a home and a place for state:
//
//	program/  in/  afile  link -> in  away -> ../home/npm
//	home/     npm/  .npm/  reports/  afile
//	state/
type world struct {
	top, program string
	env          project.Env
}

func newWorld(t testing.TB) world {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := world{top, filepath.Join(top, "program"), project.Env{Home: filepath.Join(top, "home"), State: filepath.Join(top, "state")}}
	for _, dir := range []string{"program/in", "program/shared", "home/npm", "home/.npm", "home/reports", "state"} {
		must(t, os.MkdirAll(filepath.Join(top, dir), 0o777))
	}
	for _, file := range []string{"program/afile", "home/afile"} {
		must(t, os.WriteFile(filepath.Join(top, file), nil, 0o666))
	}
	must(t, os.Symlink("in", filepath.Join(w.program, "link")))
	must(t, os.Symlink("../home/npm", filepath.Join(w.program, "away")))
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// parse reads a project file called p.yaml, with settings in the form of --set.
func (w world) parse(yaml string, sets ...string) (*project.Project, error) {
	var settings []project.Setting
	for _, text := range sets {
		s, err := project.ParseSet("--set", text)
		if err != nil {
			return nil, err
		}
		settings = append(settings, s)
	}
	return project.Parse(w.program, "p.yaml", []byte(yaml), w.env, settings)
}

// table formats the mounts: target, mode, directory, and other settings. A directory that
// may be missing is "base + source".
func (w world) table(p *project.Project) string {
	short := func(h any) string {
		return strings.ReplaceAll(fmt.Sprint(h), w.top+string(filepath.Separator), "")
	}
	var lines []string
	for _, m := range p.Mounts {
		line := m.Target + " " + m.Mode + " "
		if m.Base != "" {
			line += short(string(m.Base)) + " + "
		}
		line += short(string(m.Source))
		if m.Suffixes != nil {
			line += fmt.Sprint(" ", m.Suffixes)
		}
		if m.MaxFileBytes != 0 {
			line += fmt.Sprint(" ", m.MaxFileBytes)
		}
		if m.Untrusted {
			line += " untrusted"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// rules formats the approval levels of the file.
func rules(p *project.Project) string {
	var lines []string
	for _, r := range p.Rules {
		lines = append(lines, fmt.Sprint(r.Verb, " ", r.Target, " ", r.Approval, " ", r.From))
	}
	return strings.Join(lines, "\n")
}

// trimIndent removes the indentation of a text in a table of tests.
func trimIndent(text string) string {
	var list []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return strings.Join(list, "\n")
}

func TestDialects(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name, yaml, dialect, want string
	}{
		{"nothing", ``, "default", `
			/cache rw program + .sandbox/cache
			/workspace rw program + .sandbox/workspace`},
		{"nothing on directories", `sandbox: {network: true}`, "default", `
			/cache rw program + .sandbox/cache
			/workspace rw program + .sandbox/workspace`},
		{"root", `sandbox: {root: .}`, "mounts", `/ rw program + .`},
		{"root by its whole path", `sandbox: {root: ` + w.program + `/in}`, "mounts", `/ rw program + in`},
		{"readonly", `sandbox: {root: ., readonly: true}`, "mounts", `/ ro program + .`},
		{"not readonly", `sandbox: {root: ., readonly: false}`, "mounts", `/ rw program + .`},
		{"both agree", `sandbox: {root: ., readonly: true, mode: ro}`, "mounts", `/ ro program + .`},
		{"the root has limits", `sandbox: {root: in, mode: ro, suffixes: [.md, .tar.gz], max_file_bytes: 10MB, trust: untrusted}`, "mounts",
			`/ ro program + in [.md .tar.gz] 10000000 untrusted`},
		{"mounts alone", `sandbox: {mounts: [{source: ./out, target: /out}, {source: in, target: /in/, mode: ro}]}`, "mounts", `
			/in ro program + in
			/out rw program + out`},
		{"root and mounts", `
sandbox:
  root: .
  mounts:
    - {source: ~/npm, target: /cache, readonly: true}
    - {source: missing/deep, target: /a/b, suffixes: [.md], max_file_bytes: 5, trust: untrusted}`, "mounts", `
			/ rw program + .
			/a/b rw program + missing/deep [.md] 5 untrusted
			/cache ro home/npm`},
		{"home itself", `sandbox: {mounts: [{source: "~", target: /home}]}`, "mounts", `/home rw home`},
		{"zones", `sandbox: {zones: {data: {path: ./data, mode: ro}, out: {path: deep/out}}}`, "zones", `
			/data ro program + .sandbox/data
			/out rw program + .sandbox/deep/out`},
		{"zones elsewhere", `sandbox: {root: ./gray, zones: {data: {path: data}}}`, "zones", `/data rw program + gray/data`},
		{"zones direct", `sandbox: {mode: direct, zones: {data: {path: ./data}, npm: {path: ~/npm, suffixes: [.js], max_file_bytes: 1KiB}}}`, "zones", `
			/data rw program + data
			/npm rw home/npm [.js] 1024`},
		{"sandboxed", `sandbox: {mode: sandboxed}`, "zones", `
			/cache rw program + .sandbox/cache
			/workspace rw program + .sandbox/workspace`},
		{"sandboxed under another root", `sandbox: {mode: sandboxed, root: gray}`, "zones", `
			/cache rw program + gray/cache
			/workspace rw program + gray/workspace`},
		{"sandboxed outside: what nobody wrote may be missing", `sandbox: {mode: sandboxed, root: ~/reports}`, "zones", `
			/cache rw home/reports + cache
			/workspace rw home/reports + workspace`},
		{"direct", `sandbox: {mode: direct}`, "zones", `
			/cache rw program + workspace/.cache
			/workspace rw program + workspace`},
		{"direct with both", `sandbox: {mode: direct, cache: ./downloads, workspace: ./reports}`, "zones", `
			/cache rw program + downloads
			/workspace rw program + reports`},
		{"direct without cache", `sandbox: {mode: direct, workspace: reports/}`, "zones", `
			/cache rw program + reports/.cache
			/workspace rw program + reports`},
		{"direct outside without cache", `sandbox: {mode: direct, workspace: ~/reports}`, "zones", `
			/cache rw home/reports + .cache
			/workspace rw home/reports`},
		{"workspace alone is the zone spelling", `sandbox: {workspace: w}`, "zones", `
			/cache rw program + .sandbox/cache
			/workspace rw program + .sandbox/w`},
		{"cache alone is the zone spelling", `sandbox: {cache: c}`, "zones", `
			/cache rw program + .sandbox/c
			/workspace rw program + .sandbox/workspace`},
		{"zones and a shorthand", `sandbox: {cache: c, zones: {data: {path: d}}}`, "zones", `
			/cache rw program + .sandbox/c
			/data rw program + .sandbox/d`},
		{"names of other scripts", `sandbox: {zones: {資料: {path: 資料}}}`, "zones", `/資料 rw program + .sandbox/資料`},
		{"llm-do", `sandbox: {paths: {a: {root: in}, b: {root: ~/npm, mode: rw, suffixes: [.md]}}}`, "paths", `
			/a ro program + in
			/b rw home/npm [.md]`},
		{"carriage returns and a mark", "\ufeffsandbox:\r\n  root: .\r\n", "mounts", `/ rw program + .`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := w.parse(test.yaml)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.table(p); got != trimIndent(test.want) {
				t.Errorf("mounts:\n%s\nwant:\n%s", got, trimIndent(test.want))
			}
			if p.Dialect != test.dialect {
				t.Errorf("dialect %s, want %s", p.Dialect, test.dialect)
			}
			if _, err := p.Sandbox(openPlainMount); err != nil {
				t.Errorf("sandbox: %v", err)
			}
		})
	}
}

// TestOtherKeys reads every key that is not about directories.
func TestOtherKeys(t *testing.T) {
	w := newWorld(t)
	p, err := w.parse(`
sandbox:
  zones:
    data: {path: data, approval: {write: preApproved, delete: blocked}}
    plain: {path: plain}
  approval: {read: ask, write: ask}
  protect: [.env, "*.key"]
  network: true
  require_os_sandbox: namespaces
model: openai:gpt-5
approval: {mode: auto_deny}
delegation: {maxDepth: 0}
workerPaths: [./shared/, .]
budget: {turns: 50, workers: 7, tokens: 1_000_000, cost: 2.50, time: 1h30m}
limits: {cpu: 30, memory: 2GiB, pids: 64, time: 60s, output: 1MiB, file_size: 100MB}
clearance:
  scanners: [secrets, format]
  limits: {max_files: 20, max_bytes: 1MB}
  targets:
    origin: {type: github, repo: you/notes, at: /data/notes}
    backup: {type: bare, path: ~/notes.git, branch: drafts/a, at: /}
    mirror: {type: remote, url: "git@example.com:you/notes.git", at: /data}
    here: {type: local, path: ., at: /plain}
`)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%v\n%v %v %q\n%s %s %d %q\n%+v\n%q %+v\n", p.Protect, p.Network.IsAll(), p.Level, p.File, p.Model, p.Approval, p.MaxDepth,
		p.WorkerPaths, p.Limits, p.Scanners, p.ClearanceLimits)
	for _, x := range p.Targets {
		got += fmt.Sprintf("%s %s %q %q %q %s %s %s\n", x.Name, x.Type, strings.TrimPrefix(string(x.Path), w.top), x.URL, x.Repo, x.Branch, x.At, x.From)
	}
	want := trimIndent(`
		[.env *.key]
		true namespaces "p.yaml"
		openai:gpt-5 auto_deny 0 ["shared" "."]
		{CPU:30s Memory:2147483648 Pids:64 Time:1m0s Output:1048576 FileSize:100000000 Disk:0 Turns:50 Workers:7 Tokens:1000000 Cost:2.5 Budget:1h30m0s}
		["secrets" "format"] {MaxFiles:20 MaxBytes:1000000 MaxPercent:0 ScanBytes:0 ScanTime:0s}
		backup bare "/home/notes.git" "" "" drafts/a / p.yaml:21
		here local "/program" "" "" main /plain p.yaml:23
		mirror remote "" "git@example.com:you/notes.git" "" main /data p.yaml:22
		origin github "" "" "you/notes" main /data/notes p.yaml:20`)
	if strings.TrimSpace(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got, want := rules(p), trimIndent(`
		read / ask p.yaml:6
		write / ask p.yaml:6
		write /data preApproved p.yaml:4
		delete /data blocked p.yaml:4`); got != want {
		t.Errorf("rules:\n%s\nwant:\n%s", got, want)
	}
}

// TestRulesOfTheRootMount reads the approval levels of a mount at / as its own, and those of
// the sandbox once.
func TestRulesOfTheRootMount(t *testing.T) {
	w := newWorld(t)
	for yaml, want := range map[string]string{
		`sandbox: {root: ., approval: {write: ask}}`:                              "write / ask p.yaml:1",
		`sandbox: {mounts: [{source: ., target: /, approval: {write: blocked}}]}`: "write / blocked p.yaml:1",
		`sandbox: {mounts: [{source: in, target: /in, approval: {read: ask}}]}`:   "read /in ask p.yaml:1",
	} {
		p, err := w.parse(yaml)
		if err != nil {
			t.Fatal(err)
		}
		if got := rules(p); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", yaml, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	w := newWorld(t)
	p, err := project.Parse(w.program, "", nil, w.env, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%q %q %v %q %q %s %d %q %+v %q %+v %d %d", p.File, p.Protect, p.Network.IsEmpty(), p.Level, p.Model, p.Approval, p.MaxDepth,
		p.WorkerPaths, p.Limits, p.Scanners, p.ClearanceLimits, len(p.Rules), len(p.Targets))
	want := `"" [] true "" "" interactive 5 ["." "workers" ".workers"] {CPU:0s Memory:0 Pids:0 Time:0s Output:0 FileSize:0 Disk:0 Turns:0 Workers:0 Tokens:0 Cost:0 Budget:0s}` +
		` ["format" "size" "content" "secrets" "malware"] {MaxFiles:0 MaxBytes:0 MaxPercent:0 ScanBytes:0 ScanTime:0s} 0 0`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, m := range p.Mounts {
		if m.From != strictyaml.Default {
			t.Errorf("origin of %s: got %v", m.Target, m.From)
		}
	}
}

// TestWords reads the keys that accept one of several words.
func TestWords(t *testing.T) {
	w := newWorld(t)
	read := map[string]func(*project.Project) string{
		"approval.mode": func(p *project.Project) string { return p.Approval },
		"level":         func(p *project.Project) string { return p.Level },
		"network":       func(p *project.Project) string { return fmt.Sprint(p.Network.IsAll(), p.Network.IsEmpty()) },
		"at":            func(p *project.Project) string { return p.Targets[0].At },
	}
	for _, test := range []struct{ what, yaml, want string }{
		{"approval.mode", `approval: {mode: interactive}`, "interactive"},
		{"approval.mode", `approval: {mode: approve_all}`, "approve_all"},
		{"approval.mode", `approval: {mode: auto_deny}`, "auto_deny"},
		{"approval.mode", `approval: {mode: auto}`, "approve_all"},
		{"approval.mode", `approval: {mode: manual}`, "interactive"},
		{"approval.mode", `approval: {mode: tool}`, "interactive"},
		{"level", `sandbox: {require_os_sandbox: false}`, ""},
		{"level", `sandbox: {require_os_sandbox: true}`, "landlock"},
		{"level", `sandbox: {require_os_sandbox: landlock}`, "landlock"},
		{"level", `sandbox: {require_os_sandbox: container}`, "container"},
		{"network", `sandbox: {network: false}`, "false true"},
		{"network", `sandbox: {network: []}`, "false true"},
		{"network", `sandbox: {network: true}`, "true false"},
		{"at", `{sandbox: {root: .}, clearance: {targets: {o: {type: github, repo: a/b}}}}`, "/"},
		{"at", `clearance: {targets: {o: {type: github, repo: a/b}}}`, "/workspace"},
	} {
		p, err := w.parse(test.yaml)
		if err != nil {
			t.Errorf("%s: %v", test.yaml, err)
		} else if got := read[test.what](p); got != test.want {
			t.Errorf("%s: %s, want %s", test.yaml, got, test.want)
		}
	}
}

func TestSandboxErrorNamesLine(t *testing.T) {
	w := newWorld(t)
	p, err := w.parse("sandbox:\n  mounts:\n    - {source: ~/npm, target: /cache}\n")
	if err != nil {
		t.Fatal(err)
	}
	must(t, os.Remove(filepath.Join(w.env.Home, "npm")))
	_, err = p.Sandbox(openPlainMount)
	if want := "p.yaml:3: mount /cache: not_found; the source directory does not exist"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestFirstWriteMakesDirectory checks that the first write creates a directory of the
// program.
func TestFirstWriteMakesDirectory(t *testing.T) {
	w := newWorld(t)
	p, err := w.parse("")
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Sandbox(openPlainMount)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(w.program, ".sandbox")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("opening made .sandbox: %v", err)
	}
	_, err = s.Write("/workspace/a.md", []byte("x"))
	must(t, err)
	if got, err := os.ReadFile(filepath.Join(w.program, ".sandbox", "workspace", "a.md")); string(got) != "x" {
		t.Errorf("got %q, %v", got, err)
	}
}

// openPlainMount opens overlay mounts as plain directories.
func openPlainMount(m project.Mount) (sandbox.Mount, error) {
	b, err := sandbox.DirIn(m.Base, m.Source)
	return sandbox.Mount{Backend: b, Access: m.Access()}, err
}

// TestOverlayApproval: changes in an overlay need no approval unless the file sets a
// level. A directory in it that is no overlay is like any other.
func TestOverlayApproval(t *testing.T) {
	for _, test := range []struct{ text, effect, want string }{
		{"{root: ., mode: overlay}", "/a", "preApproved"},
		{"{root: ., mode: overlay, approval: {write: ask}}", "/a", "ask"},
		{"{root: ., mode: overlay, approval: {write: blocked}}", "/a", "blocked"},
		{"{root: ., mode: overlay, mounts: [{source: out, target: /out}]}", "/out/a", "ask"},
		{"{root: ., mode: overlay, mounts: [{source: out, target: /out, approval: {write: preApproved}}]}", "/out/a", "preApproved"},
		{"{root: ., mounts: [{source: out, target: /out, mode: overlay}]}", "/out/a", "preApproved"},
		{"{root: ., mounts: [{source: out, target: /out, mode: overlay}]}", "/a", "ask"},
		{"{zones: {a: {path: a, mode: overlay}, b: {path: b}}}", "/a/x", "preApproved"},
		{"{zones: {a: {path: a, mode: overlay}, b: {path: b}}}", "/b/x", "ask"},
	} {
		p, err := project.Parse(t.TempDir(), "p.yaml", []byte("sandbox: "+test.text), project.Env{}, nil)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		for _, verb := range []policy.Verb{policy.Write, policy.Delete} {
			if verb == policy.Delete && strings.Contains(test.text, "write:") {
				continue
			}
			got, _ := p.Grant().Approvals.Of(policy.Effect{Verb: verb, Target: test.effect})
			if got.String() != test.want {
				t.Errorf("%s: %s %s is %s, want %s", test.text, verb, test.effect, got, test.want)
			}
		}
	}
}
