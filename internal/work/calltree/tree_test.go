package calltree_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/internal/work/calltree"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/worker"
)

// load returns the tree of a program with these files.
func load(t *testing.T, files map[string]string) calltree.Tree {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"data", "out", "workers"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if name != project.File && name != "main.worker" {
			name = "workers/" + name
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := calltree.Tree{Root: root, Complete: true, Tools: []string{"read_file", "write_file"}}
	var err error
	if c.Project, err = project.Load(root, project.File, project.Env{}, nil); err != nil {
		t.Fatal(err)
	}
	if c.Workers, err = worker.Discover(root, []string{"workers"}, nil); err != nil {
		t.Fatal(err)
	}
	c.Entry = calltree.Named(c.Workers, "main")
	return c
}

// draw writes a step and its calls as name(call call). A star marks a repeated worker, a
// circle a circular one, and an exclamation mark one with problems.
func draw(s *calltree.Step) string {
	text := s.Worker.Name
	if s.Repeated {
		text += "*"
	}
	if s.Circular {
		text += "°"
	}
	if len(s.Problems) > 0 {
		text += "!"
	}
	var calls []string
	for _, call := range s.Calls {
		calls = append(calls, draw(call))
	}
	if len(calls) > 0 {
		text += "(" + strings.Join(calls, " ") + ")"
	}
	return text
}

// calls returns a worker file that may call some workers.
func calls(names string) string {
	return "---\ntoolsets: {workers: {allowed_workers: [" + names + "]}}\n---\nGo.\n"
}

const mounts = "sandbox:\n  mounts:\n    - {source: ./data, target: /data, mode: ro}\n    - {source: ./out, target: /out, mode: rw}\n"

// TestTop checks which workers are in the tree, and where.
func TestTop(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"alone":          {map[string]string{"main.worker": calls("")}, "main"},
		"two levels":     {map[string]string{"main.worker": calls("a, b"), "a.worker": calls("b"), "b.worker": calls("")}, "main(a(b*) b)"},
		"nearest first":  {map[string]string{"main.worker": calls("a, b, c"), "a.worker": calls("b, c"), "b.worker": calls("c"), "c.worker": calls("")}, "main(a(b* c*) b(c*) c)"},
		"a circle":       {map[string]string{"main.worker": calls("a, main"), "a.worker": calls("a, main")}, "main(main*° a(main*° a*°))"},
		"all of them":    {map[string]string{"main.worker": calls("'*'"), "a.worker": calls(""), "b.worker": calls("")}, "main(a b)"},
		"asks for more":  {map[string]string{"main.worker": calls("a"), "a.worker": calls("b"), "b.worker": calls("")}, "main(a!)"},
		"too deep":       {map[string]string{"main.worker": calls("a, b"), "a.worker": calls("b"), "b.worker": calls(""), project.File: mounts + "delegation: {max_depth: 1}\n"}, "main(a b)"},
		"nobody calls b": {map[string]string{"main.worker": calls("a"), "a.worker": calls(""), "b.worker": calls("")}, "main(a)"},
	} {
		if test.files[project.File] == "" {
			test.files[project.File] = mounts
		}
		c := load(t, test.files)
		if got := draw(c.Top()); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
	c := load(t, map[string]string{project.File: mounts, "a.worker": "---\n---\nGo.\n"})
	if c.Top() != nil {
		t.Error("a program without an entry worker has a tree")
	}
}

// TestFind checks that Find returns the nearest step of a worker, with its chain.
func TestFind(t *testing.T) {
	c := load(t, map[string]string{project.File: mounts, "main.worker": calls("a, b, c"), "a.worker": calls("b, c"), "b.worker": calls(""), "c.worker": calls("")})
	top := c.Top()
	for name, want := range map[string]string{"main": "main", "b": "main b", "c": "main c"} {
		if got := strings.Join(top.Find(name).Chain(), " "); got != want {
			t.Errorf("%s: got the chain %q, want %q", name, got, want)
		}
	}
	if top.Find("z") != nil || (*calltree.Step)(nil).Find("a") != nil {
		t.Error("found a worker that does not exist")
	}
	if err := calltree.UnknownError(c.Workers, "mian"); !strings.Contains(err.Error(), "main") {
		t.Errorf("a typo: got %v", err)
	}
}

// TestGrants checks that a called worker has a part of its caller's files and depth.
func TestGrants(t *testing.T) {
	c := load(t, map[string]string{project.File: mounts, "main.worker": "---\nsandbox: inherit\ntoolsets: {workers: {allowed_workers: [a]}}\n---\nGo.\n", "a.worker": "---\nsandbox: {paths: {data: {root: ./data, mode: ro}}}\n---\nGo.\n"})
	top := c.Top()
	a := top.Find("a")
	if a.Grant.Depth != top.Grant.Depth-1 {
		t.Errorf("depth: got %d below %d", a.Grant.Depth, top.Grant.Depth)
	}
	all, err := c.Project.Sandbox(explain.ProbeMount)
	if err != nil {
		t.Fatal(err)
	}
	files, err := a.Grant.Files.Apply(all)
	if err != nil || !files.CanRead("/data") || files.CanRead("/out") || files.CanWrite("/data/x") {
		t.Errorf("got %v, %v", files.Mounts(), err)
	}
}

// TestLint checks the problems between files.
func TestLint(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  []string // a part of each problem
	}{
		"nothing":                  {map[string]string{"main.worker": "---\ntoolsets: {workers: {allowed_workers: [a]}}\n---\nGo.\n", "a.worker": "---\n---\nGo.\n"}, nil},
		"no such worker":           {map[string]string{"main.worker": "---\ntoolsets: {workers: {allowed_workers: [b]}}\n---\nGo.\n", "a.worker": "---\n---\nGo.\n"}, []string{"no worker b"}},
		"more than the caller":     {map[string]string{"main.worker": "---\ntoolsets: {workers: {allowed_workers: [a]}}\nsandbox: {paths: {data: {root: ./data, mode: ro}}}\n---\nGo.\n", "a.worker": "---\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\n---\nGo.\n"}, []string{"tool filesystem: exceeds_parent", "path out: exceeds_parent"}},
		"uncalled, and too much":   {map[string]string{"main.worker": "---\n---\nGo.\n", "a.worker": "---\nsandbox: {paths: {data: {root: ./data, mode: rw}}}\n---\nGo.\n"}, []string{"workers/a.worker:2"}},
		"a rule for an old name":   {map[string]string{"main.worker": "---\ntool_rules: {readFile: {approval_required: true}}\n---\nGo.\n"}, nil},
		"a rule for no tool":       {map[string]string{"main.worker": "---\ntool_rules: {red_file: {approval_required: true}}\n---\nGo.\n"}, []string{"no tool red_file"}},
		"a target that is missing": {map[string]string{"main.worker": "---\ntoolsets: {git: {default_target: prod}}\n---\nGo.\n"}, []string{"no target prod"}},
	} {
		test.files[project.File] = mounts
		problems := load(t, test.files).Lint()
		ok := len(problems) == len(test.want)
		for i := 0; ok && i < len(problems); i++ {
			ok = strings.Contains(problems[i].Error(), test.want[i])
		}
		if !ok {
			t.Errorf("%s: got %v, want %q", name, problems, test.want)
		}
	}
}

// TestMissing checks which workers lack the tools for their caller's files.
func TestMissing(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  []string // a part of each problem
	}{
		"files without tools": {map[string]string{"main.worker": "---\nsandbox: inherit\n" + calls("a, b")[4:], "a.worker": "---\nsandbox: inherit\n---\nGo.\n", "b.worker": "---\nsandbox: inherit\ntoolsets: []\n---\nGo.\n"}, []string{"workers/a.worker:2:10: no tools for files: main calls it"}},
		"no files at all":     {map[string]string{"main.worker": calls("a"), "a.worker": "---\nsandbox: {readonly: true}\n---\nGo.\n"}, []string{"no tools for files: main"}},
		"files with tools":    {map[string]string{"main.worker": "---\nsandbox: inherit\ntoolsets: {filesystem: , workers: {allowed_workers: [a]}}\n---\nGo.\n", "a.worker": "---\nsandbox: inherit\n---\nGo.\n"}, nil},
	} {
		test.files[project.File] = mounts
		c := load(t, test.files)
		if problems := c.Lint(); len(problems) > 0 {
			t.Errorf("%s: golem refuses the program: %v", name, problems)
		}
		problems := c.Top().AllMissing()
		ok := len(problems) == len(test.want)
		for i := 0; ok && i < len(problems); i++ {
			ok = strings.Contains(problems[i].Error(), test.want[i])
		}
		if !ok {
			t.Errorf("%s: got %v, want %q", name, problems, test.want)
		}
	}
}

// TestFindEntry: a program whose workers have limits never starts without them.
func TestFindEntry(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string // the file and the name that it gives its worker, "" for none
		entry string
		want  string // the file, or a part of the error
	}{
		"none":                          {nil, "", ""},
		"main":                          {map[string]string{"main.worker": "", "a.worker": ""}, "", "main.worker"},
		"main with another name":        {map[string]string{"main.worker": "writer", "a.worker": ""}, "", "main.worker"},
		"main in upper case":            {map[string]string{"main.worker": "Main", "a.worker": ""}, "", "main.worker"},
		"main before one called main":   {map[string]string{"main.worker": "x", "a.worker": "main"}, "", "main.worker"},
		"the file in upper case":        {map[string]string{"MAIN.worker": "x", "a.worker": ""}, "", "MAIN.worker"},
		"both cases":                    {map[string]string{"main.worker": "x", "Main.worker": "y"}, "", "main.worker"},
		"yaml":                          {map[string]string{"main.yml": "x", "a.worker": ""}, "", "main.yml"},
		"two of yaml":                   {map[string]string{"main.yml": "x", "main.yaml": "y"}, "", "--entry"},
		"main elsewhere":                {map[string]string{"workers/main.worker": "", "a.worker": ""}, "", "workers/main.worker"},
		"main elsewhere, another name":  {map[string]string{"workers/main.worker": "x", "a.worker": ""}, "", "none of a, x is the entry worker; name one with --entry, or call its file main.worker"},
		"only one":                      {map[string]string{"workers/x.worker": ""}, "", "workers/x.worker"},
		"two":                           {map[string]string{"a.worker": "", "b.worker": ""}, "", "none of a, b is the entry worker; name one with --entry"},
		"one called Main beside others": {map[string]string{"a.worker": "Main", "b.worker": ""}, "", "--entry"},
		"by name":                       {map[string]string{"main.worker": "", "b.worker": ""}, "b", "b.worker"},
		"main by its own name":          {map[string]string{"main.worker": "writer", "b.worker": ""}, "writer", "main.worker"},
		"a name in another case":        {map[string]string{"main.worker": "", "b.worker": ""}, "B", "did you mean b?"},
		"a name that nobody has":        {map[string]string{"main.worker": "writer", "b.worker": ""}, "main", "not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			var workers []*worker.Worker
			for file, own := range test.files {
				text := "---\n"
				if own != "" {
					text += "name: " + own + "\n"
				}
				w, err := worker.Parse(file, []byte(text+"---\nGo.\n"))
				if err != nil {
					t.Fatal(err)
				}
				workers = append(workers, w)
			}
			w, err := calltree.FindEntry(workers, test.entry)
			if err != nil && (w != nil || test.want == "" || !strings.Contains(err.Error(), test.want)) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if got := ""; err == nil {
				if w != nil {
					got = w.File
				}
				if got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			}
		})
	}
}
