package checks_test

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// doc opens a package with its comment.
func doc(name, rest string) string {
	return fmt.Sprintf("// Package %s is a sample.\npackage %s\n%s", name, name, rest)
}

// importOf is an import of a package of this module.
func importOf(pkg string) string { return fmt.Sprintf("import _ %q\n", module+"/"+pkg) }

// importNamed returns an import of a package under its own name.
func importNamed(pkg string) string { return fmt.Sprintf("import %q\n", module+"/"+pkg) }

// methodsOf declares n methods of a type.
func methodsOf(name string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "func (%s) m%d() {}\n", name, i)
	}
	return b.String()
}

// namesOf declares n functions whose names begin with a prefix.
func namesOf(prefix string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "func %s%d() {}\n", prefix, i)
	}
	return b.String()
}

// circle returns n files, each of which refers to all others.
func circle(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		var b strings.Builder
		for j := range n {
			if j != i {
				fmt.Fprintf(&b, "\tf%d()\n", j)
			}
		}
		files[fmt.Sprintf("internal/decide/policy/f%d.go", i)] = doc("policy", fmt.Sprintf("func f%d() {\n%s}\n", i, b.String()))
	}
	return files
}

// breaches are small trees and the rules they break, one line each in want.
var breaches = []struct {
	name  string
	files map[string]string
	want  []string
}{
	{"a clean tree", map[string]string{
		"sandbox/sandbox.go":                    doc("sandbox", "// A is one.\ntype A struct{}\n"),
		"sandbox/sandboxtest/suite.go":          doc("sandboxtest", importOf("sandbox")),
		"internal/jail/jail.go":                 doc("jail", importOf("sandbox")),
		"internal/work/model/model.go":          doc("model", importOf("internal/decide/tool")),
		"internal/work/model/scripted/turns.go": doc("scripted", importOf("internal/work/model")),
		"internal/work/toolset/file/file.go":    doc("file", importOf("internal/decide/tool")),
		"internal/front/cli/cli.go":             doc("cli", importOf("internal/work/program")),
		"cmd/golem/main.go":                     "// Golem forges.\npackage main\n" + importOf("internal/front/cli") + importOf("internal/front/mcp"),
		"internal/decide/policy/grant_test.go":  "package policy\n" + importOf("internal/decide/tool"),
		"internal/front/web/browse_test.go":     "package web_test\n" + importOf("internal/front/cli"),
		"internal/checks/arch_test.go":          "package checks_test\n",
	}, nil},

	{"a type with too many methods", map[string]string{"internal/decide/policy/a.go": doc("policy", "type a struct{}\n"+methodsOf("a", maxOperations+1))}, []string{"operations"}},
	{"a type with many methods", map[string]string{"internal/decide/policy/a.go": doc("policy", "type a struct{}\n"+methodsOf("a", maxOperations))}, nil},
	{"a type that too many functions take", map[string]string{"internal/decide/policy/a.go": doc("policy", "import \"context\"\ntype a struct{}\n"+methodsOf("a", maxOperations-2)+"func f(*a) {}\nfunc g(context.Context, a) {}\nfunc h(a, int) {}\n")}, []string{"operations"}},
	{"a type that functions take later", map[string]string{"internal/decide/policy/a.go": doc("policy", "type a struct{}\n"+methodsOf("a", maxOperations)+"func f(int, a) {}\nfunc g([]a) {}\n")}, nil},
	{"too many exported names", map[string]string{"internal/decide/command/a.go": doc("command", namesOf("N", maxExported+1))}, []string{"exported names"}},
	{"many exported names", map[string]string{"internal/decide/command/a.go": doc("command", namesOf("N", maxExported)+namesOf("n", maxExported))}, nil},
	{"methods for two systems count once", map[string]string{
		"internal/decide/policy/a_linux.go": doc("policy", methodsOf("a", maxOperations)), "internal/decide/policy/a_darwin.go": "package policy\n" + methodsOf("a", maxOperations),
		"internal/decide/policy/b.go": "package policy\ntype a struct{}\n",
	}, nil},
	{"files that refer to each other", circle(6), []string{"backward"}},

	{"a package that the table lacks", map[string]string{"internal/util/util.go": doc("util", "")}, []string{"unknown package"}},
	{"a package below one that the table has", map[string]string{"internal/decide/policy/rule/rule.go": doc("rule", "")}, []string{"unknown package"}},
	{"a third public package", map[string]string{"policy/policy.go": doc("policy", "")}, []string{"unknown package"}},
	{"an unknown package of tests only", map[string]string{"bench/read_test.go": "package bench\n"}, []string{"unknown package"}},

	{"upward", map[string]string{"sandbox/a.go": doc("sandbox", importOf("internal/decide/policy"))}, []string{"layer"}},
	{"upward by far", map[string]string{"internal/decide/policy/a.go": doc("policy", importOf("internal/work/program"))}, []string{"layer"}},
	{"upward behind a build tag", map[string]string{"sandbox/a_plan9.go": "//go:build plan9\n\n" + doc("sandbox", importOf("internal/jail"))}, []string{"layer"}},
	{"sideways", map[string]string{"internal/jail/a.go": doc("jail", importOf("internal/clearance/git"))}, []string{"layer"}},
	{"the thing imports its suite", map[string]string{"sandbox/a.go": doc("sandbox", importOf("sandbox/sandboxtest"))}, []string{"layer"}},
	{"the interface imports a vendor", map[string]string{"internal/work/model/a.go": doc("model", importOf("internal/work/model/openai"))}, []string{"layer"}},
	{"a vendor imports a vendor", map[string]string{"internal/work/model/replay/a.go": doc("replay", importOf("internal/work/model/scripted"))}, []string{"layer"}},
	{"a toolset imports a toolset", map[string]string{"internal/work/toolset/git/a.go": doc("git", importOf("internal/work/toolset/file"))}, []string{"layer"}},
	{"a front imports a front", map[string]string{"internal/front/cli/a.go": doc("cli", importOf("internal/front/tui"))}, []string{"layer"}},
	{"a low test imports a front", map[string]string{"internal/work/run/a_test.go": "package run\n" + importOf("internal/front/cli")}, []string{"layer"}},
	{"a low test imports a command", map[string]string{"sandbox/a_test.go": "package sandbox\n" + importOf("cmd/golem")}, []string{"layer"}},

	{"no package comment", map[string]string{"internal/decide/policy/a.go": "package policy\n"}, []string{"package comment"}},
	{"a comment about something else", map[string]string{"internal/decide/policy/a.go": "// Copyright.\npackage policy\n"}, []string{"package comment"}},
	{"a directive is no comment", map[string]string{"cmd/golem/main.go": "//go:build linux\npackage main\n"}, []string{"package comment"}},
	{"a comment in one file is enough", map[string]string{"internal/decide/policy/a.go": "package policy\n", "internal/decide/policy/doc.go": doc("policy", "")}, nil},
	{"a comment in a test is not", map[string]string{"internal/decide/policy/a.go": "package policy\n", "internal/decide/policy/a_test.go": doc("policy", "")}, []string{"package comment"}},

	{"a renamed import is still found", map[string]string{"internal/decide/policy/a.go": doc("policy", "import sys \"os\"\nvar a = sys.Args\n")}, []string{"identifier"}},
	{"another package's Args is not", map[string]string{"internal/decide/policy/a.go": doc("policy", "import os \"example.com/os\"\nvar a = os.Args\n")}, nil},
	{"a dot import", map[string]string{"internal/decide/policy/a.go": doc("policy", "import . \"os\"\nvar a = Args\n")}, []string{"import by its dot"}},

	{"a mutex in a package of services", map[string]string{"internal/records/audit/a.go": doc("audit", "import \"sync\"\ntype log struct { mu sync.Mutex }\n")}, nil},
	{"a package-level mutex", map[string]string{"internal/records/audit/a.go": doc("audit", "import \"sync\"\nvar mu sync.Mutex\n")}, []string{"package variable"}},
	{"a mutex inside a variable", map[string]string{"internal/records/audit/a.go": doc("audit", "import \"sync\"\nvar a = struct { mu sync.Mutex }{}\n")}, []string{"package variable"}},
	{"a mutex inside a function of a variable", map[string]string{"internal/records/audit/a.go": doc("audit", "import \"sync\"\nvar a = func() { var mu sync.Mutex; mu.Lock() }\n")}, nil},

	{"a go statement", map[string]string{"internal/decide/tool/a.go": doc("tool", "func a() { go a() }\n")}, []string{"goroutine"}},
	{"a hidden go statement", map[string]string{"internal/decide/tool/a.go": doc("tool", "import \"sync\"\nfunc a() { var wg sync.WaitGroup; wg.Go(a) }\n")}, []string{"goroutine"}},
	{"a delayed go statement", map[string]string{"internal/decide/tool/a.go": doc("tool", "import \"time\"\nfunc a() { time.AfterFunc(1, a) }\n")}, []string{"goroutine"}},
	{"a go statement in the sandbox", map[string]string{"sandbox/write.go": doc("sandbox", "func a() { go a() }\n")}, []string{"goroutine"}},
	{"a go statement in the walker", map[string]string{"sandbox/walk.go": doc("sandbox", "func a() { go a() }\n"), "sandbox/search_linux.go": "package sandbox\nfunc b() { go a() }\n"}, nil},
	{"a go statement in a test", map[string]string{"internal/decide/tool/a_test.go": "package tool\nfunc a() { go a() }\n"}, nil},

	{"an init function", map[string]string{"internal/decide/tool/a.go": doc("tool", "func init() {}\n")}, []string{"init function"}},
	{"the init function that there is", map[string]string{"internal/files/part/a.go": doc("part", "func init() {}\n")}, nil},
	{"an init function of another front", map[string]string{"internal/front/cli/a.go": doc("cli", "func init() {}\n")}, []string{"init function"}},
	{"a method of that name", map[string]string{"internal/decide/tool/a.go": doc("tool", "type a struct{}\nfunc (a) init() {}\n")}, nil},

	{"an undocumented function", map[string]string{"sandbox/a.go": doc("sandbox", "func A() {}\n")}, []string{"doc comment"}},
	{"an undocumented method", map[string]string{"sandbox/a.go": doc("sandbox", "// A is.\ntype A[T any] struct{}\nfunc (*A[T]) B() {}\n")}, []string{"doc comment"}},
	{"an undocumented type, constant and variable", map[string]string{"sandbox/sandboxtest/a.go": doc("sandboxtest", "type A int\nconst B = 1\nvar C = 1\n")}, []string{"doc comment", "doc comment", "doc comment"}},
	{"an undocumented method of an interface", map[string]string{"sandbox/a.go": doc("sandbox", "// A is.\ntype A interface { B() }\n")}, []string{"doc comment"}},
	{"documented by group, by line, or not exported", map[string]string{"sandbox/a.go": doc("sandbox", "// Both are.\nconst (\n\tA = 1\n\tB = 2\n)\nvar C = 1 // C is.\ntype d int\nfunc (d) E() {}\n")}, nil},
	{"documented on one system", map[string]string{"sandbox/a_linux.go": doc("sandbox", "// A is.\nfunc A() {}\n"), "sandbox/a_other.go": "package sandbox\nfunc A() {}\n"}, nil},
	{"undocumented where nobody imports", map[string]string{"internal/decide/tool/a.go": doc("tool", "func A() {}\n")}, nil},

	{"a long file", map[string]string{"internal/decide/tool/a.go": doc("tool", strings.Repeat("\n", maxLines))}, []string{"file length"}},
	{"a long test", map[string]string{"internal/decide/tool/a_test.go": doc("tool", strings.Repeat("\n", maxLines))}, nil},
	{"a long main", map[string]string{"cmd/golem/main.go": doc("main", strings.Repeat("\n", maxMain))}, []string{"file length"}},

	{"a wide interface", map[string]string{"internal/decide/tool/a.go": doc("tool", "type a interface { B(); C(); D(); E(); F(); G() }\n")}, []string{"interface size"}},
	{"the one that may be wide", map[string]string{"sandbox/a.go": doc("sandbox", "// Backend is.\ntype Backend interface { a(); b(); c(); d(); e(); f(); g() }\n")}, nil},
	{"wider than it may be", map[string]string{"sandbox/a.go": doc("sandbox", "// Backend is.\ntype Backend interface { a(); b(); c(); d(); e(); f(); g(); h() }\n")}, []string{"interface size"}},

	{"an error that says nothing", map[string]string{"internal/decide/tool/a.go": doc("tool", "const a = \"Failed to open %s\"\n")}, []string{"wording"}},
	{"a front that reads a parameter's text", map[string]string{"internal/front/cli/a.go": doc("cli", "import \"strings\"\n"+importNamed("internal/decide/tool")+"func a(r tool.Result) bool { return strings.HasPrefix(r.Text, \"applied: \") }\n")}, []string{"result text"}},
	{"a front that reads what a gate returned", map[string]string{"internal/front/tui/a.go": doc("tui", "import \"strings\"\nfunc a(g gate) { r := g.Do(); _, _, _ = strings.Cut(r.Words(), \":\") }\n")}, []string{"result text"}},
	{"a front that reads a field's text", map[string]string{"internal/front/desk/a.go": doc("desk", "import \"strings\"\nfunc a(m called) bool { return strings.Contains(m.result.Err.Hint, \"x\") }\n")}, []string{"result text"}},
	{"a front that reads another text", map[string]string{"internal/front/cli/a.go": doc("cli", "import \"strings\"\nfunc a(r string) bool { return strings.HasPrefix(r, \"a\") }\n")}, nil},
	{"a test that reads a result's text", map[string]string{"internal/front/cli/a_test.go": "package cli\nimport \"strings\"\nfunc a(g gate) bool { r := g.Do(); return strings.HasPrefix(r.Text, \"a\") }\n"}, nil},
	{"an undocumented name in the root folder", map[string]string{"golem.go": doc("golem", "func A() {}\n")}, []string{"doc comment"}},
	{"a file that does not parse", map[string]string{"internal/decide/tool/a.go": "package\n"}, []string{"file that parses"}},
}

// ruleNames runs check and keeps the rules that were broken.
func ruleNames(files map[string]string) []string {
	var sources []source
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sources = append(sources, source{name, files[name]})
	}
	var names []string
	for _, f := range check(sources) {
		names = append(names, f.rule)
	}
	return names
}

// TestRulesFindBreaches checks that each rule finds what it should, and nothing else.
func TestRulesFindBreaches(t *testing.T) {
	broken := map[string]bool{}
	for _, row := range breaches {
		t.Run(row.name, func(t *testing.T) {
			if got := ruleNames(row.files); !slices.Equal(got, row.want) {
				t.Errorf("rules broken: got %q, want %q", got, row.want)
			}
		})
		for _, rule := range row.want {
			broken[rule] = true
		}
	}
	for rule := range rules {
		if !broken[rule] && rule != "import" { // TestLimitsFindBreaches covers that one
			t.Errorf("no test row breaks the rule %q", rule)
		}
	}
}

// TestLimitsFindBreaches uses every limited name once where it is forbidden, once
// where it is allowed, and once in a test.
func TestLimitsFindBreaches(t *testing.T) {
	const elsewhere = "internal/clearance/git/a.go"
	try := func(rule string, l limit, code string) {
		t.Helper()
		bad, good := elsewhere, ""
		switch {
		case l.never != nil:
			bad, good = fileAt(l.never[0]), elsewhere
		case l.only != nil:
			bad, good = "internal/decide/policy/a.go", fileAt(l.only[0])
		}
		sees := func(name string) bool {
			pkg := path.Base(path.Dir(name))
			return slices.Contains(ruleNames(map[string]string{name: doc(pkg, code)}), rule)
		}
		if !sees(bad) {
			t.Errorf("%s in %s: got nothing, want %s\n%s", rule, bad, rule, code)
		}
		if sees(strings.TrimSuffix(bad, ".go") + "_test.go") {
			t.Errorf("%s in a test of %s: got %s, want nothing\n%s", rule, path.Dir(bad), rule, code)
		}
		if good != "" && sees(good) {
			t.Errorf("%s in %s: got %s, want nothing\n%s", rule, good, rule, code)
		}
	}
	for _, l := range imports {
		for _, name := range l.names {
			try("import", l, fmt.Sprintf("import _ %q\n", name))
		}
	}
	for rule, limits := range map[string][]limit{"identifier": identifiers, "package variable": variables} {
		for _, l := range limits {
			for _, name := range l.names {
				dot := strings.LastIndex(name, ".")
				try(rule, l, fmt.Sprintf("import %q\nvar a = %s\n", name[:dot], path.Base(name)))
			}
		}
	}
}

// fileAt returns a file name at a limit's place.
func fileAt(place string) string {
	place = strings.ReplaceAll(place, "*", "x")
	if strings.HasSuffix(place, ".go") {
		return place
	}
	return place + "/a.go"
}

// TestTablesAreConsistent checks that no row hides another or matches nothing.
func TestTablesAreConsistent(t *testing.T) {
	for i, row := range layers {
		if row.what == "" {
			t.Errorf("%s: the table does not say what it is", row.pkg)
		}
		for _, other := range layers[:i] {
			if matches(other.pkg, row.pkg) || matches(row.pkg, other.pkg) {
				t.Errorf("%s and %s are two rows for one package", other.pkg, row.pkg)
			}
		}
		if i > 0 && cmp.Compare(layers[i-1].layer, row.layer) > 0 {
			t.Errorf("%s: the rows are not in the order of their layers", row.pkg)
		}
	}
	for _, l := range slices.Concat(imports, identifiers, variables, []limit{goroutines}) {
		if l.why == "" || l.only != nil && l.never != nil {
			t.Errorf("limit on %q: it needs a reason, and one of only and never", l.names)
		}
		for _, place := range slices.Concat(l.only, l.never) {
			pkg := path.Dir(fileAt(place))
			pkg = strings.ReplaceAll(pkg, "cmd/x", "cmd/golem")
			if _, ok := layerOf(pkg); !ok {
				t.Errorf("limit on %q: %s is no package of the table", l.names, place)
			}
		}
	}
}

// TestReadTree checks which files readTree returns.
func TestReadTree(t *testing.T) {
	tree := fstest.MapFS{}
	for _, name := range []string{"a.go", "sandbox/a_windows.go", "sandbox/a_test.go", "sandbox/doc.md",
		"sandbox/testdata/a.go", ".ci/a.go", "_old/a.go", "vendor/x/a.go", "tools/go.mod", "tools/a.go"} {
		tree[name] = &fstest.MapFile{Data: []byte("package a\n")}
	}
	sources, err := readTree(tree)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sources {
		got = append(got, s.path)
	}
	want := []string{"a.go", "sandbox/a_test.go", "sandbox/a_windows.go"}
	if !slices.Equal(got, want) {
		t.Errorf("files read: got %q, want %q", got, want)
	}
}
