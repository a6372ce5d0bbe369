package checks_test

import (
	"bytes"
	"fmt"
	"go/ast"
	godoc "go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// TestAPI compares the exported names of the public packages with the files in api/. A change
// of such a file is a change that other programs notice.
func TestAPI(t *testing.T) {
	for name, dir := range map[string]string{"golem": ".", "gate": "gate", "sandbox": "sandbox"} {
		got, types := exportedNames(t, name, dir)
		file := filepath.Join("api", name+".txt")
		testutil.Golden(t, file, got)
		if most := map[string]int{"golem": 25, "gate": 25, "sandbox": 31}[name]; types > most {
			t.Errorf("package %s has %d exported types, and may have %d", name, types, most)
		}
		methods := map[string]int{}
		for _, line := range regexp.MustCompile(`(?m)^type (\w+) interface(, )?`).FindAllStringSubmatch(got, -1) {
			methods[line[1]] += len(line[2]) / 2
		}
		for kind, n := range methods {
			if n > 5 && kind != "Backend" { // of package sandbox: a whole file system
				t.Errorf("the interface %s.%s has %d methods, and may have 5", name, kind, n)
			}
		}
		if len(methods) > 5 {
			t.Errorf("package %s has %d interfaces, and may have 5", name, len(methods))
		}
		doc, err := exec.Command("go", "doc", "./"+dir).CombinedOutput()
		if n := strings.Count(string(doc), "\n"); err != nil || n > 3*40 {
			t.Errorf("go doc of package %s has %d lines, more than three screens: %v", name, n, err)
		}
	}
}

// exportedNames returns the exported declarations of a package, a line each, and how many types
// are among them.
func exportedNames(t *testing.T, name, dir string) (text string, types int) {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	all, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, file := range all {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := godoc.NewFromFiles(set, files, name)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	add := func(prefix string, node any) {
		var b bytes.Buffer
		if err := printer.Fprint(&b, set, node); err != nil {
			t.Fatal(err)
		}
		lines[prefix+strings.Join(strings.Fields(b.String()), " ")] = true
	}
	values := func(list []*godoc.Value) {
		for _, v := range list {
			for _, one := range v.Names {
				if token.IsExported(one) {
					lines[v.Decl.Tok.String()+" "+one] = true
				}
			}
		}
	}
	functions := func(list []*godoc.Func) {
		for _, f := range list {
			f.Decl.Body, f.Decl.Doc = nil, nil
			add("", f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	functions(p.Funcs)
	for _, kind := range p.Types {
		types++
		values(kind.Consts)
		values(kind.Vars)
		functions(kind.Funcs)
		functions(kind.Methods)
		spec := kind.Decl.Specs[0].(*ast.TypeSpec)
		switch under := spec.Type.(type) {
		case *ast.StructType:
			lines["type "+kind.Name+" struct"] = true
			for _, field := range under.Fields.List {
				for _, one := range field.Names {
					if one.IsExported() {
						add("type "+kind.Name+" struct, "+one.Name+" ", field.Type)
					}
				}
				if len(field.Names) == 0 {
					add("type "+kind.Name+" struct, embedded ", field.Type)
				}
			}
		case *ast.InterfaceType:
			lines["type "+kind.Name+" interface"] = true
			for _, method := range under.Methods.List {
				for _, one := range method.Names {
					add("type "+kind.Name+" interface, "+one.Name+" ", method.Type)
				}
			}
		default:
			add("type "+kind.Name+" ", under)
		}
	}
	sorted := make([]string, 0, len(lines))
	for line := range lines {
		sorted = append(sorted, line)
	}
	slices.Sort(sorted)
	return fmt.Sprintln(strings.Join(sorted, "\n")), types
}
