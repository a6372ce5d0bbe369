package trust_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/trust"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/worker"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func parse(t *testing.T, name, text string) *worker.Worker {
	t.Helper()
	w, err := worker.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// newContent returns the content of a program with one worker and one tool file.
func newContent(t *testing.T, config, prompt, script string) trust.Content {
	t.Helper()
	return trust.NewContent(project.File, []byte(config), []*worker.Worker{parse(t, "main.worker", "---\n---\n"+prompt)}, trust.ToolFiles{"run.sh": []byte(script)}, nil)
}

// TestStore checks that trust is for exact content, and that golem keeps the content for a
// diff.
func TestStore(t *testing.T) {
	s := trust.Decisions{State: filepath.Join(t.TempDir(), "state"), Root: "/p", Now: func() time.Time { return start }}
	first := newContent(t, "a: 1\n", "One.\n", "echo 1\n")
	is := func(c trust.Content) bool {
		t.Helper()
		ok, err := s.IsTrusted(c)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if is(first) || is(trust.Content{}) {
		t.Error("content is trusted before Add")
	}
	if _, err := os.Stat(s.State); err == nil {
		t.Error("a question created the state directory")
	}
	if err := s.Add(first); err != nil || !is(first) {
		t.Fatalf("after Add: %v", err)
	}
	for name, c := range map[string]trust.Content{"config": newContent(t, "a: 2\n", "One.\n", "echo 1\n"), "worker": newContent(t, "a: 1\n", "Two.\n", "echo 1\n"), "tool": newContent(t, "a: 1\n", "One.\n", "echo 2\n")} {
		if is(c) {
			t.Errorf("%s: changed content is trusted", name)
		}
		list, err := s.Differences(c)
		if err != nil || len(list) != 1 || strings.Count(list[0].Diff, "\n-") != 1 || strings.Count(list[0].Diff, "\n+") != 2 {
			t.Errorf("%s: got the differences %v, %v", name, list, err)
		}
	}
	if list, err := s.Differences(first); err != nil || len(list) > 0 {
		t.Errorf("the same content: got the differences %v, %v", list, err)
	}
	other := newContent(t, "a: 3\n", "One.\n", "")
	s.Accepted, s.UnseenOff = other.Hash, "policy.yaml:2"
	if ok, err := s.IsTrusted(other); ok || err == nil || !strings.Contains(err.Error(), "policy.yaml:2 does not allow --trust") {
		t.Errorf("a hash that nobody looked at, and a policy against it: got %v, %v", ok, err)
	}
	if s.Accepted = first.Hash; !is(first) {
		t.Error("the policy also refuses a hash that the user trusts")
	}
	s.Accepted, s.UnseenOff = "", ""
	for i := range 30 {
		if err := s.Add(newContent(t, fmt.Sprintf("a: %d\n", 100+i), "One.\n", "")); err != nil {
			t.Fatal(err)
		}
	}
	if is(first) || !is(newContent(t, "a: 129\n", "One.\n", "")) || !is(newContent(t, "a: 110\n", "One.\n", "")) {
		t.Error("golem must keep the newest 20 records")
	}
}

// TestAccepted checks --trust HASH: it replaces the records, and only for that content.
func TestAccepted(t *testing.T) {
	c := newContent(t, "a: 1\n", "One.\n", "")
	s := trust.Decisions{State: t.TempDir(), Accepted: c.Hash, Now: func() time.Time { return start }}
	if ok, err := s.IsTrusted(c); !ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
	if ok, err := s.IsTrusted(newContent(t, "a: 2\n", "One.\n", "")); ok || err == nil || !strings.Contains(err.Error(), "golem trust") {
		t.Errorf("other content: got %v, %v", ok, err)
	}
}

// TestDamaged checks that damaged records trust nothing, and that Add does not replace them.
func TestDamaged(t *testing.T) {
	s := trust.Decisions{State: t.TempDir(), Now: func() time.Time { return start }}
	c := newContent(t, "a: 1\n", "One.\n", "")
	if err := s.Add(c); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.State, "trust.json")
	if err := os.WriteFile(file, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.IsTrusted(c); ok || err == nil || !strings.Contains(err.Error(), "trust.json") {
		t.Errorf("got %v, %v", ok, err)
	}
	if err := s.Add(c); err == nil {
		t.Error("Add replaced damaged records")
	}
	if data, _ := os.ReadFile(file); string(data) != "[{" {
		t.Errorf("the file has %q", data)
	}
}

// TestContent checks the hash, the size and the names of content.
func TestContent(t *testing.T) {
	if c := trust.NewContent("", nil, nil, nil, nil); c.Hash != "" || c.Size() != 0 {
		t.Errorf("no files: got %+v", c)
	}
	c := newContent(t, "a: 1\n", "One.\n", "echo\n")
	if got := c.Others([]string{project.File, "run.sh"}); !slices.Equal(got, []string{"main.worker"}) {
		t.Errorf("others: got %q", got)
	}
	if c.Size() != len("a: 1\n---\n---\nOne.\necho\n") {
		t.Errorf("size: got %d", c.Size())
	}
	binary := newContent(t, "a: 1\n", "One.\n", "\x00elf")
	if text := binary.Files["./run.sh"]; strings.Contains(text, "elf") || !strings.Contains(text, "4 bytes") {
		t.Errorf("a binary tool is recorded as %q", text)
	}
	// A tool file cannot stand in for a worker of the same name.
	if a, b := trust.NewContent("", nil, nil, trust.ToolFiles{"main.worker": []byte("---\n---\nOne.\n")}, nil), trust.NewContent("", nil, []*worker.Worker{parse(t, "main.worker", "---\n---\nOne.\n")}, nil, nil); a.Hash == b.Hash {
		t.Error("a tool file and a worker have the same hash")
	}
}

const toolWorker = "---\ntoolsets:\n  custom:\n    count: {command: [./run.sh], schema: ./run.json, with: [./lib]}\n---\nCount.\n"

// TestToolFiles checks which files belong to a foreign tool, and the problems with them.
func TestToolFiles(t *testing.T) {
	w := parse(t, "main.worker", toolWorker)
	for name, test := range map[string]struct {
		change func(root string) error
		names  string
		want   string // a part of the only problem
	}{
		"all there":     {func(string) error { return nil }, "lib/a.txt lib/deep/b.txt run.json run.sh", ""},
		"no program":    {func(root string) error { return os.Remove(root + "/run.sh") }, "lib/a.txt lib/deep/b.txt run.json", "no file run.sh"},
		"a symlink":     {func(root string) error { os.Remove(root + "/run.sh"); return os.Symlink("/bin/true", root+"/run.sh") }, "lib/a.txt lib/deep/b.txt run.json", "run.sh"},
		"one in a dir":  {func(root string) error { return os.Symlink("/etc/passwd", root+"/lib/link") }, "lib/a.txt lib/deep/b.txt run.json run.sh", ""},
		"no directory":  {func(root string) error { return os.RemoveAll(root + "/lib") }, "run.json run.sh", "no file lib"},
		"a large file":  {func(root string) error { return os.Truncate(root+"/run.sh", 33<<20) }, "lib/a.txt lib/deep/b.txt run.json", "too large"},
		"an empty file": {func(root string) error { return os.Truncate(root+"/run.sh", 0) }, "lib/a.txt lib/deep/b.txt run.json run.sh", ""},
	} {
		root := t.TempDir()
		for file, text := range map[string]string{"run.sh": "#!/bin/sh\n", "run.json": "{}", "lib/a.txt": "a", "lib/deep/b.txt": "b", "other": "x"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := test.change(root); err != nil {
			t.Fatal(err)
		}
		files, problems := trust.ReadToolFiles(root, []*worker.Worker{w})
		var names []string
		for file := range files {
			names = append(names, file)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != test.names {
			t.Errorf("%s: got %s, want %s", name, got, test.names)
		}
		if (len(problems) > 0) != (test.want != "") || len(problems) > 0 && !strings.Contains(problems[0].Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, problems, test.want)
		}
		if test.want == "" {
			if got := strings.Join(files.NamesOf(w.Custom[0].Foreign), " "); got != "lib/a.txt lib/deep/b.txt run.sh" {
				t.Errorf("%s: the program sees %s", name, got)
			}
		}
	}
	one, two := trust.ToolFiles{"a": []byte("bc")}, trust.ToolFiles{"ab": []byte("c")}
	if one.Hash([]string{"a"}) == two.Hash([]string{"ab"}) {
		t.Error("different files have the same hash")
	}
}

// TestPermissions checks that what a program may do is listed with its line.
func TestPermissions(t *testing.T) {
	for name, test := range map[string]struct {
		config, worker string
		want           []string // a part of each permission, "place what"
	}{
		"the default":      {"sandbox: {root: ., mode: ro}\n", "---\nsandbox: inherit\n---\nGo.\n", nil},
		"a writable mount": {"sandbox: {root: ., mode: rw}\n", "---\nsandbox: inherit\n---\nGo.\n", []string{`golem-forge.config.yaml:1 workers write`}},
		"the network":      {"sandbox: {root: ., mode: ro}\nnetwork: {allow: [example.com]}\n", "---\nsandbox: inherit\n---\nGo.\n", []string{"golem-forge.config.yaml:2 commands reach the host"}},
		"names of anybody": {"sandbox: {root: ., mode: ro}\nnetwork: {allow: ['*.com', '*.co.uk:8443', '*.github.io', '*.example.com', '*.test', '*.home.arpa', co.uk]}\n", "---\nsandbox: inherit\n---\nGo.\n",
			[]string{"golem-forge.config.yaml:2 commands reach the host *.co.uk:8443, where anybody can get a name", "golem-forge.config.yaml:2 commands reach the host *.com, where anybody can get a name",
				"golem-forge.config.yaml:2 commands reach the host *.example.com", "golem-forge.config.yaml:2 commands reach the host *.github.io, where anybody can get a name",
				"golem-forge.config.yaml:2 commands reach the host *.home.arpa", "golem-forge.config.yaml:2 commands reach the host *.test", "golem-forge.config.yaml:2 commands reach the host co.uk"}},
		"everything": {"sandbox: {root: ., mode: ro}\napproval: {mode: approve_all}\n", "---\nsandbox: inherit\n---\nGo.\n", []string{"golem-forge.config.yaml:2 golem runs every call without asking you"}},
		"a model":    {"sandbox: {root: ., mode: ro}\nmodel: ollama:x\n", "---\nsandbox: inherit\n---\nGo.\n", []string{"golem-forge.config.yaml:2 the model"}},
		"a jail": {"sandbox: {root: ., mode: ro, require_os_sandbox: false}\njail: {etc: [ssh, ssl], gpu: true}\n", "---\nsandbox: inherit\n---\nGo.\n",
			[]string{"golem-forge.config.yaml:1 commands run at any level of the jail", "golem-forge.config.yaml:2 commands see in /etc also ssh, ssl", "golem-forge.config.yaml:2 commands reach the GPU's driver in your kernel"}},
		"rules of yara": {"sandbox: {root: ., mode: ro}\nclearance: {malware: {yara: [own.yar,\n  /opt/rules.yar]}}\n", "---\nsandbox: inherit\n---\nGo.\n",
			[]string{"golem-forge.config.yaml:2 the scanner yara gets the text of own.yar", "golem-forge.config.yaml:2 the scanner yara gets the text of /opt/rules.yar, outside the program"}},
		"servers": {"sandbox: {root: ., mode: ro}\nclearance:\n  targets:\n    a: {type: github, repo: o/r, at: /}\n    b: {type: github, repo: o/r, url: 'https://git.example/', at: /}\n", "---\nsandbox: inherit\n---\nGo.\n",
			[]string{"golem-forge.config.yaml:4 results can be pushed to a: o/r, only by you", "golem-forge.config.yaml:4 workers read every branch of o/r", "golem-forge.config.yaml:5 results can be pushed to b: https://git.example/o/r, only by you; this server gets your token",
				"golem-forge.config.yaml:5 workers read every branch of https://git.example/o/r"}},
		"repositories here": {"sandbox: {root: ., mode: ro}\nclearance:\n  targets:\n    a: {type: local, path: ., at: /}\n    b: {type: bare, path: /srv/b.git, at: /}\n    c: {type: remote, url: 'file:///srv/c.git', at: /}\n", "---\nsandbox: inherit\n---\nGo.\n",
			[]string{"golem-forge.config.yaml:4 results can be pushed to a: ", "golem-forge.config.yaml:5 results can be pushed to b: /srv/b.git, only by you", "golem-forge.config.yaml:5 workers read every branch of /srv/b.git",
				"golem-forge.config.yaml:6 results can be pushed to c: file:///srv/c.git, only by you", "golem-forge.config.yaml:6 workers read every branch of /srv/c.git"}},
		"usual limits": {"sandbox: {root: ., mode: ro, require_os_sandbox: namespaces}\nlimits: {memory: 2GiB, pids: 512, time: 2m, cpu: 1m, output: 50KB, file_size: 1GiB}\nbudget: {turns: 500, workers: 200}\ndelegation: {max_depth: 5}\n" +
			"clearance: {limits: {max_files: 10, max_bytes: 4GiB, scan_bytes: 32MiB, scan_time: 1m, max_percent: 50}}\n", "---\nsandbox: inherit\n---\nGo.\n", nil},
		"raised limits": {"sandbox: {root: ., mode: ro}\nlimits: {memory: 900GiB, pids: 4194304,\n  time: 100h, cpu: 200h,\n  output: 1GiB, file_size: 2GiB}\nbudget: {turns: 501, workers: 201}\ndelegation: {max_depth: 6}\n" +
			"clearance: {limits: {max_bytes: 5GiB, scan_bytes: 33MiB, scan_time: 2m, max_percent: 100000}}\n", "---\nsandbox: inherit\n---\nGo.\n",
			[]string{"golem-forge.config.yaml:2 raises limits.memory from 2147 MB to 966 GB", "golem-forge.config.yaml:2 raises limits.pids from 512 to 4194304",
				"golem-forge.config.yaml:3 raises limits.cpu from 100h0m0s to 200h0m0s", "golem-forge.config.yaml:3 raises limits.time from 2m0s to 100h0m0s",
				"golem-forge.config.yaml:4 raises limits.output from ", "golem-forge.config.yaml:4 raises limits.file_size from 1073 MB to 2147 MB",
				"golem-forge.config.yaml:5 raises budget.turns from 500 to 501", "golem-forge.config.yaml:5 raises budget.workers from 200 to 201", "golem-forge.config.yaml:6 raises delegation.max_depth from 5 to 6",
				"golem-forge.config.yaml:7 raises clearance.limits.max_bytes from 4294 MB to 5368 MB", "golem-forge.config.yaml:7 raises clearance.limits.scan_bytes from 33 MB to 34 MB",
				"golem-forge.config.yaml:7 raises clearance.limits.scan_time from 1m0s to 2m0s", "golem-forge.config.yaml:7 reviews do not warn of results with up to 100000 bytes"}},
		"commands": {"sandbox: {root: ., mode: ro}\n", "---\nsandbox: inherit\ntoolsets: [shell]\n---\nGo.\n", []string{"main.worker:3 main runs commands"}},
	} {
		root := t.TempDir()
		p, err := project.Parse(root, project.File, []byte(test.config), project.Env{}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		w := parse(t, "main.worker", test.worker)
		var got []string
		ok := true
		for i, one := range (trust.Request{Root: root, Project: p, Workers: []*worker.Worker{w}, Entry: w}).Permissions() {
			got = append(got, one.From+" "+one.What)
			ok = ok && i < len(test.want) && strings.HasPrefix(strings.ReplaceAll(got[i], `"`, ""), test.want[i]) && strings.Contains(got[i], "anybody") == strings.Contains(test.want[i], "anybody")
		}
		if !ok || len(got) != len(test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestManyToolFiles checks that a package with thousands of files can be trusted, that its
// record stays small, and that golem refuses files that are too large in all.
func TestManyToolFiles(t *testing.T) {
	w := parse(t, "main.worker", toolWorker)
	root := t.TempDir()
	for file, text := range map[string]string{"run.sh": "#!/bin/sh\n", "run.json": "{}"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(from, to int, text string) {
		t.Helper()
		for i := from; i < to; i++ {
			file := filepath.Join(root, "lib", fmt.Sprint("package", i/100), fmt.Sprint(i, ".js"))
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(0, 4200, strings.Repeat("x", 2000))
	files, problems := trust.ReadToolFiles(root, []*worker.Worker{w})
	if len(problems) > 0 || len(files) != 4202 {
		t.Fatalf("%d files, %v", len(files), problems)
	}
	content := trust.NewContent("", nil, []*worker.Worker{w}, files, nil)
	if content.Size() > 1<<20 {
		t.Errorf("the record has %d bytes", content.Size())
	}
	files["lib/package3/345.js"] = append([]byte{'y'}, files["lib/package3/345.js"][1:]...)
	if trust.NewContent("", nil, []*worker.Worker{w}, files, nil).Hash == content.Hash {
		t.Error("a changed file has the same hash")
	}
	for i := range 5 {
		large := filepath.Join(root, "lib", fmt.Sprint("large", i))
		if err := errors.Join(os.WriteFile(large, nil, 0o644), os.Truncate(large, 30<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if _, problems := trust.ReadToolFiles(root, []*worker.Worker{w}); len(problems) == 0 || !strings.Contains(problems[0].Error(), "at most 20000 files and 134217728 bytes") {
		t.Errorf("too many files: %v", problems)
	}
}

// TestRiskOfCommands checks that every way to run commands without a question is as severe.
func TestRiskOfCommands(t *testing.T) {
	p, err := project.Parse(t.TempDir(), project.File, []byte("sandbox: {root: ., mode: ro}\n"), project.Env{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"toolsets: {shell: {default: {approval: preApproved}}}", "toolsets: {shell: {rules: [{pattern: '*', approval: preApproved}]}}",
		"toolsets: [shell]\ntool_rules: {shell: {approval_required: false}}"} {
		w := parse(t, "main.worker", "---\nsandbox: inherit\n"+text+"\n---\nGo.\n")
		list := (trust.Request{Root: t.TempDir(), Project: p, Workers: []*worker.Worker{w}, Entry: w}).Permissions()
		if !slices.ContainsFunc(list, func(one trust.Permission) bool {
			return one.Risk == trust.Severe && strings.Contains(one.What, "without asking you")
		}) {
			t.Errorf("%s: got %+v", text, list)
		}
	}
}
