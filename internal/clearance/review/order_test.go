package review_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/review"
)

// flood returns the flags of a change with so many files of each harmless-looking kind, and
// with some files that become code.
func flood(n int) []review.Flag {
	var l review.Collector
	for i := range n {
		l.Add(newFileChange(fmt.Sprintf("a/%03d.txt", i), "-", strings.Repeat("x\u202ey\n", 20)))
		l.Add(newFileChange(fmt.Sprintf("b/%03d.txt", i), "-", strings.Repeat("x\u200by\n", 20)))
		l.Add(newFileChange(fmt.Sprintf("node_modules/%03d/package.json", i), "-", `{"scripts":{"postinstall":"x"}}`))
		l.Add(newFileChange(fmt.Sprintf("node_modules/%03d/Makefile", i), "-", "all:\n"))
		l.Add(newFileChange(fmt.Sprintf("go/%03d/go.mod", i), "-", "module x\n"))
		l.Add(newFileChange(fmt.Sprintf("A%03d.mk", i), "-", "all:\n"))
		l.Add(newFileChange(fmt.Sprintf("a/%03d/package.json", i), "-", `{"scripts":{"postinstall":"x"}}`))
	}
	l.Add(newFileChange("zz/.github/workflows/ci.yml", "a\n", "b\n"))
	l.Add(newFileChange("zz/Makefile", "a\n", "b\n"))
	l.Add(newFileChange("zz/package.json", `{}`, `{"scripts":{"postinstall":"x"}}`))
	l.Add(newFileChange("zz/node_modules/x/Makefile", "a\n", "b\n")) // it was there before
	l.Add(review.FileChange{Path: "src", Operation: "delete", OldMode: "000000", Mode: "000000", Files: 100})
	return l.Flags()
}

// TestOrder checks that no number of flags of one kind hides another kind, and that files
// that become code come first.
func TestOrder(t *testing.T) {
	for _, n := range []int{1, 30, 700} {
		flags := flood(n)
		for what, most := range map[string]int{"zz/.github/workflows/ci.yml": 12, "zz/Makefile": 12, "zz/package.json": 12, "zz/node_modules/x/Makefile": 12, "src": 20} {
			if i := slices.IndexFunc(flags, func(f review.Flag) bool { return f.Path == what }); i < 0 || i >= most {
				t.Errorf("%d of each: got %s at %d", n, what, i)
			}
		}
		for _, kind := range []review.Kind{review.Becomes, review.Bidi, review.Invisible, review.DeleteMany} {
			if i := slices.IndexFunc(flags, func(f review.Flag) bool { return f.Kind == kind }); i < 0 || i > 20 {
				t.Errorf("%d of each: got the first %s at %d", n, kind, i)
			}
		}
		if first := slices.IndexFunc(flags, func(f review.Flag) bool { return f.Installed }); first < 0 || slices.ContainsFunc(flags[first:], func(f review.Flag) bool { return !f.Installed }) {
			t.Errorf("%d of each: installed files are not last", n)
		}
		short := review.Shorten(flags)
		if len(short) > 2*10+3*3 {
			t.Errorf("%d of each: got %d lines", n, len(short))
		}
		for _, kind := range []review.Kind{review.Becomes, review.Bidi, review.Invisible, review.DeleteMany} {
			if !slices.ContainsFunc(short, func(f review.Flag) bool { return f.Kind == kind }) {
				t.Errorf("%d of each: the short list lacks %s", n, kind)
			}
		}
		for _, path := range []string{"zz/.github/workflows/ci.yml", "zz/Makefile", "zz/package.json", "src"} {
			if !slices.ContainsFunc(short, func(f review.Flag) bool { return f.Path == path }) {
				t.Errorf("%d of each: the short list lacks %s", n, path)
			}
		}
		left := len(flags)
		for _, f := range short {
			more := 0
			if _, text, ok := strings.Cut(f.Text, "; and "); ok {
				fmt.Sscanf(text, "%d more like it", &more)
			}
			left -= 1 + more
		}
		if left != 0 {
			t.Errorf("%d of each: the short list does not count %d flags", n, left)
		}
		var names []string
		for _, f := range review.FirstOfEach(flags) {
			names = append(names, f.Path)
		}
		if got, want := strings.Join(names, " "), "zz/package.json zz/.github/workflows/ci.yml zz/Makefile"; got != want {
			t.Errorf("%d of each: got the first files %s, want %s", n, got, want)
		}
	}
}

// TestScriptsByContent checks that a script is marked whatever its name, its permission bits
// and the rest of its content are, and comes before files that only become executable.
func TestScriptsByContent(t *testing.T) {
	for path, content := range map[string]string{
		"deploy": "#!/bin/sh\nrm x\n", "x.txt": "#!/usr/bin/env python3\n", "polyglot.png": "#!/bin/sh\nexit\n\x00\x89PNG", ".x/y": "#!/bin/sh\n",
		"deploy.sh": "echo\n", "a/bin/run": "x", "scripts/x.py": "pass\n", "x.bat": "dir\r\n", "x.ps1": "ls\n", "x.ipynb": "{}\n", "X.CMD": "dir\n",
	} {
		c := newFileChange(path, "-", content)
		c.Binary = strings.Contains(content, "\x00")
		if flags := review.Flags(c); !slices.ContainsFunc(flags, func(f review.Flag) bool {
			return f.BecomesCode() && (strings.HasPrefix(f.Text, "a script") || strings.HasPrefix(f.Text, "a notebook"))
		}) {
			t.Errorf("%s: got %v", path, flags)
		}
		if path == "polyglot.png" && !slices.ContainsFunc(review.Flags(c), func(f review.Flag) bool { return f.Kind == review.Binary && strings.HasPrefix(f.Text, "a script, ") }) {
			t.Errorf("%s: got %v", path, review.Flags(c))
		}
	}
	for path, want := range map[string]string{"lib/x.jar": "a packed program", "x.docm": "a document with macros", "X.XLSM": "a document with macros", "a/x.Rmd": "a notebook", "x.qmd": "a notebook", "x.el": "Emacs"} {
		if why, ok := review.Code(path); !ok || !strings.HasPrefix(why, want) {
			t.Errorf("%s: got %q, want %s", path, why, want)
		}
	}
	for _, path := range []string{"a.md", "scripts/README.md", "cabin/run", "x.shx", "main_test.go"} {
		if flags := review.Flags(newFileChange(path, "-", "x\n")); len(flags) > 0 {
			t.Errorf("%s: got %v", path, flags)
		}
	}
	var l review.Collector
	for i := range 300 {
		c := review.FileChange{Path: fmt.Sprintf("%03d", i), Operation: "update", OldMode: "100644", Mode: "100755"}
		if i == 200 {
			c.New = []byte("#!/bin/sh")
		}
		l.Add(c)
	}
	if flags := l.Flags(); flags[0].Path != "200" || !flags[0].BecomesCode() {
		t.Errorf("300 modes: got first %v", flags[0])
	}
}

// TestSort checks that files come in the order of their flags, and that the flag of a
// directory counts for the files in it.
func TestSort(t *testing.T) {
	files := []string{"a", "b", "c", "d", "e", "f/x/g", "/h/i/j", "/h/k"}
	review.Sort(files, strings.Clone, []review.Flag{{Path: "c", Risk: 10}, {Path: "d", Risk: 90}, {Path: "e", Risk: 10}, {Path: "e", Risk: 5}, {Path: "f", Risk: 50}, {Path: "/h/i", Risk: 70}, {Path: "/h", Risk: 1}, {Path: "f/x", Risk: 2}})
	if got := strings.Join(files, " "); got != "d /h/i/j f/x/g c e /h/k a b" {
		t.Errorf("got %s", got)
	}
	many := []string{"y"}
	var flags []review.Flag
	for i := range 100 {
		name := fmt.Sprintf("bidi%d", i)
		many = append(many, name)
		flags = append(flags, review.Flag{Kind: review.Bidi, Path: name, Risk: 90})
	}
	review.Sort(many, strings.Clone, append(flags, review.Flag{Kind: review.DeleteMany, Path: "y", Risk: 80}))
	if i := slices.Index(many, "y"); i > 5 {
		t.Errorf("the deleted directory is at %d of 101", i)
	}
}

// TestPackagesInShort checks that in a short list one flag stands for the others of its group in a package, and that
// flags of other files stay.
func TestPackagesInShort(t *testing.T) {
	flags := []review.Flag{
		{Kind: review.Lookalike, Path: "/src/a.js", Text: "mixed scripts"},
		{Kind: review.Lookalike, Path: "/node_modules/iconv-lite/a.js", Line: 3, Text: "mixed scripts; x", Installed: true},
		{Kind: review.Lookalike, Path: "/node_modules/iconv-lite/lib/b.js", Text: "mixed scripts; y", Installed: true},
		{Kind: review.Lookalike, Path: "/node_modules/@a/b/c.js", Text: "mixed scripts", Installed: true},
		{Kind: review.Lookalike, Path: "/node_modules/@a/c/c.js", Text: "mixed scripts", Installed: true},
		{Kind: review.Bidi, Path: "/node_modules/iconv-lite/a.js", Text: "bidi", Installed: true},
		{Kind: review.Lookalike, Path: "/node_modules/x.js", Text: "mixed scripts", Installed: true},
		{Kind: review.Lookalike, Path: "/node_modules/changed.js", Text: "mixed scripts"},
	}
	var got []string
	for _, f := range review.Shorten(flags) {
		got = append(got, f.String())
	}
	want := []string{
		"/src/a.js: lookalike: mixed scripts", "/node_modules/iconv-lite: lookalike: 2 × mixed scripts", "/node_modules/@a/b/c.js: lookalike: mixed scripts", "/node_modules/@a/c/c.js: lookalike: mixed scripts; and 1 more like it",
		"/node_modules/iconv-lite/a.js: bidi: bidi", "/node_modules/changed.js: lookalike: mixed scripts",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestFirstScreen checks that neither many reasons for code nor one directory with a flag push
// the first of other kinds off the screen, and that code comes before riskier flags.
func TestFirstScreen(t *testing.T) {
	flags := []review.Flag{{Kind: review.DeleteMany, Path: "y", Risk: 83}, {Kind: review.Link, Path: "z", Risk: 99}, {Kind: review.Bare, Path: "bare", Risk: 99}}
	files := []string{"y", "z"}
	for i := range 40 {
		for j := range 5 {
			name := fmt.Sprintf("code%02d/%d", i, j)
			files = append(files, name, fmt.Sprintf("bare/%02d%d", i, j))
			flags = append(flags, review.Flag{Kind: review.Becomes, Path: name, Text: fmt.Sprintf("reason %d; %d", i, j), Risk: 88})
		}
	}
	first := review.Sort(files, strings.Clone, flags)
	review.Order(flags)
	if !flags[0].BecomesCode() || first > 20 {
		t.Errorf("got %v first, and %d files", flags[0], first)
	}
	for _, name := range []string{"y", "z", "bare/000"} {
		if i := slices.Index(files, name); i > 20 {
			t.Errorf("%s is at %d", name, i)
		}
	}
	if i := slices.Index(files, "bare/001"); i < 200 {
		t.Errorf("the second file of a directory with a flag is at %d", i)
	}
	if n := review.FirstCode(flags, func(f review.Flag) review.Flag { return f }); n != 10 {
		t.Errorf("got %d first flags of code", n)
	}
	again := slices.Clone(flags)
	slices.Reverse(again)
	if review.Order(again); !slices.Equal(again, flags) {
		t.Error("the order depends on the order before")
	}
}
