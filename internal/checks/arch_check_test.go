package checks_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A source is one Go file; its path is relative to the module, with slashes.
type source struct{ path, text string }

// readTree returns the Go files of the module. Like the go command, it skips testdata,
// hidden directories and other modules.
func readTree(tree fs.FS) ([]source, error) {
	var sources []source
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." {
			base := d.Name()
			_, err := fs.Stat(tree, path.Join(name, "go.mod"))
			if err == nil || base[0] == '.' || base[0] == '_' || base == "testdata" || base == "vendor" {
				return fs.SkipDir
			}
		}
		if d.IsDir() || path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		sources = append(sources, source{name, string(text)})
		return err
	})
	return sources, err
}

// A file is a parsed source.
type file struct {
	path, pkg string
	test      bool
	lines     int
	ast       *ast.File
	imports   map[string]string // local name to import path
	line      func(ast.Node) int
}

// A finding is one place where the code breaks a rule.
type finding struct {
	path string
	line int
	rule string
	text string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.path, f.line, f.rule, f.text)
}

// A report collects findings.
type report struct{ found []finding }

func (r *report) add(f *file, n ast.Node, rule, format string, args ...any) {
	line := 1
	if n != nil {
		line = f.line(n)
	}
	r.found = append(r.found, finding{f.path, line, rule, fmt.Sprintf(format, args...)})
}

// rules are the checks by the name that reports use. Each checks one package.
var rules = map[string]func(r *report, rule string, pkg []*file){
	"unknown package":   checkKnown,
	"layer":             checkLayers,
	"import":            checkImports,
	"identifier":        checkIdentifiers,
	"package variable":  checkVariables,
	"goroutine":         checkGoroutines,
	"init function":     checkInit,
	"package comment":   checkPackageComment,
	"doc comment":       checkDocs,
	"file length":       checkLength,
	"interface size":    checkInterfaces,
	"operations":        checkOperations,
	"exported names":    checkExports,
	"backward":          checkBackward,
	"wording":           checkWording,
	"result text":       checkResultText,
	"file that parses":  nil, // reported by check itself
	"import by its dot": checkDot,
}

// parse returns the files of each package.
func (r *report) parse(sources []source) map[string][]*file {
	pkgs := map[string][]*file{}
	for _, s := range sources {
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, s.path, s.text, parser.ParseComments|parser.SkipObjectResolution)
		f := &file{
			path: s.path, pkg: path.Dir(s.path), ast: tree, imports: map[string]string{},
			test:  strings.HasSuffix(s.path, "_test.go"),
			lines: strings.Count(s.text, "\n"),
			line:  func(n ast.Node) int { return fset.Position(n.Pos()).Line },
		}
		if err != nil {
			r.add(f, nil, "file that parses", "%v", err)
			continue
		}
		for _, spec := range tree.Imports {
			name := path.Base(importPath(spec))
			if spec.Name != nil {
				name = spec.Name.Name
			}
			f.imports[name] = importPath(spec)
		}
		pkgs[f.pkg] = append(pkgs[f.pkg], f)
	}
	return pkgs
}

// check compares the sources with every rule.
func check(sources []source) []finding {
	var r report
	pkgs := r.parse(sources)
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		for _, pkg := range slices.Sorted(maps.Keys(pkgs)) {
			if rule := rules[name]; rule != nil {
				rule(&r, name, pkgs[pkg])
			}
		}
	}
	slices.SortStableFunc(r.found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.line, b.line))
	})
	return r.found
}

func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	return p
}

// layerOf returns a package's layer: that of the first row that matches.
func layerOf(pkg string) (int, bool) {
	for _, row := range layers {
		if matches(row.pkg, pkg) {
			return row.layer, true
		}
	}
	return 0, false
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	if err != nil {
		panic(err) // a table above is wrong
	}
	return ok
}

// forbids reports whether the limit forbids its names in the file.
func (l limit) forbids(f *file) bool {
	at := func(place string) bool {
		if strings.HasSuffix(place, ".go") {
			return matches(place, f.path)
		}
		return matches(place, f.pkg)
	}
	switch {
	case f.test:
		return false
	case l.never != nil:
		return slices.ContainsFunc(l.never, at)
	default:
		return !slices.ContainsFunc(l.only, at)
	}
}

func checkKnown(r *report, rule string, pkg []*file) {
	if _, ok := layerOf(pkg[0].pkg); !ok {
		r.add(pkg[0], nil, rule, "%s is not in the table of layers", pkg[0].pkg)
	}
}

func checkLayers(r *report, rule string, pkg []*file) {
	from, known := layerOf(pkg[0].pkg)
	if !known {
		return
	}
	front, _ := layerOf("internal/front/cli")
	for _, f := range pkg {
		for _, spec := range f.ast.Imports {
			target, ours := strings.CutPrefix(importPath(spec), module+"/")
			to, known := layerOf(target)
			switch {
			case !ours || !known:
			case f.test:
				// A test may import higher layers, but neither fronts nor commands.
				if to >= front && from < front {
					r.add(f, spec, rule, "a test of layer %d imports %s of layer %d", from, target, to)
				}
			case to > from:
				r.add(f, spec, rule, "layer %d imports %s of layer %d, upward", from, target, to)
			case to == from && !allowedSideways(f.pkg, target):
				r.add(f, spec, rule, "layer %d imports %s, sideways", from, target)
			}
		}
	}
}

func allowedSideways(from, to string) bool {
	for _, row := range sideways {
		if matches(row.from, from) && matches(row.to, to) {
			return true
		}
	}
	return false
}

func checkImports(r *report, rule string, pkg []*file) {
	for _, f := range pkg {
		for _, spec := range f.ast.Imports {
			for _, l := range imports {
				if slices.Contains(l.names, importPath(spec)) && l.forbids(f) {
					r.add(f, spec, rule, "%s is not used here: %s", importPath(spec), l.why)
				}
			}
		}
	}
}

// checkDot refuses dot imports, because the other rules cannot see through them.
func checkDot(r *report, rule string, pkg []*file) {
	for _, f := range pkg {
		for _, spec := range f.ast.Imports {
			if spec.Name != nil && spec.Name.Name == "." && !f.test {
				r.add(f, spec, rule, "%s is imported without its name", importPath(spec))
			}
		}
	}
}

// qualified is the import path, dot and name of an expression such as os.Args.
func (f *file) qualified(n ast.Node) (string, bool) {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	from, ok := f.imports[x.Name]
	return from + "." + sel.Sel.Name, ok
}

func checkIdentifiers(r *report, rule string, pkg []*file) {
	for _, f := range pkg {
		for n := range ast.Preorder(f.ast) {
			name, ok := f.qualified(n)
			for _, l := range identifiers {
				if ok && slices.Contains(l.names, name) && l.forbids(f) {
					r.add(f, n, rule, "%s is not used here: %s", name, l.why)
				}
			}
		}
	}
}

func checkVariables(r *report, rule string, pkg []*file) {
	for _, f := range pkg {
		for _, decl := range f.ast.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			ast.Inspect(gen, func(n ast.Node) bool {
				if _, inside := n.(*ast.FuncLit); inside {
					return false
				}
				name, ok := f.qualified(n)
				for _, l := range variables {
					if ok && slices.Contains(l.names, name) && l.forbids(f) {
						r.add(f, n, rule, "a variable of %s: %s", name, l.why)
					}
				}
				return true
			})
		}
	}
}

func checkGoroutines(r *report, rule string, pkg []*file) {
	for _, f := range pkg {
		if !goroutines.forbids(f) {
			continue
		}
		for n := range ast.Preorder(f.ast) {
			switch n := n.(type) {
			case *ast.GoStmt:
				r.add(f, n, rule, "a go statement: %s", goroutines.why)
			case *ast.CallExpr:
				// sync.WaitGroup.Go, errgroup.Group.Go, time.AfterFunc, context.AfterFunc.
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if ok && (sel.Sel.Name == "Go" && len(n.Args) == 1 || sel.Sel.Name == "AfterFunc") {
					r.add(f, n, rule, "a call of %s: %s", sel.Sel.Name, goroutines.why)
				}
			}
		}
	}
}

func checkInit(r *report, rule string, pkg []*file) {
	for _, f := range pkg {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !f.test && inits.forbids(f) {
				r.add(f, fn, rule, "%s", inits.why)
			}
		}
	}
}

func checkPackageComment(r *report, rule string, pkg []*file) {
	var code *file
	for _, f := range pkg {
		if f.test {
			continue
		}
		text := f.ast.Doc.Text()
		name := f.ast.Name.Name
		if name == "main" && text != "" || strings.HasPrefix(text, "Package "+name+" ") {
			return
		}
		code = f
	}
	if code != nil {
		r.add(code, nil, rule, "no file says what %s is", code.pkg)
	}
}

// checkDocs finds exported names of public packages without a doc comment. If a name has
// versions for several systems, one comment is enough.
func checkDocs(r *report, rule string, pkg []*file) {
	if !slices.Contains(public, pkg[0].pkg) {
		return
	}
	var all []exported
	documented := map[string]bool{}
	for _, f := range pkg {
		if f.test {
			continue
		}
		for _, e := range exports(f) {
			all = append(all, e)
			documented[e.name] = documented[e.name] || e.documented
		}
	}
	for _, e := range all {
		if !documented[e.name] {
			r.add(e.in, e.at, rule, "%s has none", e.name)
			documented[e.name] = true // once is enough
		}
	}
}

// An exported is a name that go doc prints.
type exported struct {
	name       string
	documented bool
	in         *file
	at         ast.Node
}

func exports(f *file) []exported {
	var all []exported
	add := func(id *ast.Ident, prefix string, docs ...*ast.CommentGroup) {
		if id.IsExported() {
			ok := slices.ContainsFunc(docs, func(c *ast.CommentGroup) bool { return c.Text() != "" })
			all = append(all, exported{prefix + id.Name, ok, f, id})
		}
	}
	for _, decl := range f.ast.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			of := receiver(decl)
			if of == "" || ast.IsExported(of) {
				add(decl.Name, strings.TrimPrefix(of+".", "."), decl.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name, "", decl.Doc, spec.Doc, spec.Comment)
					in, ok := spec.Type.(*ast.InterfaceType)
					if !ok || !spec.Name.IsExported() {
						continue
					}
					for _, m := range in.Methods.List {
						for _, id := range m.Names {
							add(id, spec.Name.Name+".", m.Doc, m.Comment)
						}
					}
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						add(id, "", decl.Doc, spec.Doc, spec.Comment)
					}
				}
			}
		}
	}
	return all
}

// receiver is the name of a method's type, without star and type parameters.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	for n := range ast.Preorder(fn.Recv.List[0].Type) {
		if id, ok := n.(*ast.Ident); ok {
			return id.Name
		}
	}
	return ""
}

func checkLength(r *report, rule string, pkg []*file) {
	for _, f := range pkg {
		most := maxLines
		if f.path == "cmd/golem/main.go" {
			most = maxMain
		}
		if !f.test && f.lines >= most {
			r.add(f, nil, rule, "%d lines; fewer than %d tell one thing", f.lines, most)
		}
	}
}

func checkInterfaces(r *report, rule string, pkg []*file) {
	for _, f := range pkg {
		for n := range ast.Preorder(f.ast) {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || f.test {
				continue
			}
			in, ok := spec.Type.(*ast.InterfaceType)
			name := path.Base(f.pkg) + "." + spec.Name.Name
			if ok && in.Methods.NumFields() > max(maxMethods, wide[name]) {
				r.add(f, spec, rule, "%s has %d methods", name, in.Methods.NumFields())
			}
		}
	}
}

// checkWording finds opening words that do not help a reader.
func checkWording(r *report, rule string, pkg []*file) {
	for _, f := range pkg {
		for n := range ast.Preorder(f.ast) {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || f.test {
				continue
			}
			text, _ := strconv.Unquote(lit.Value) // the parser has checked it
			if strings.HasPrefix(strings.ToLower(text), "failed to") {
				r.add(f, lit, rule, "an error says what is the matter: op /path: class; hint")
			}
		}
	}
}
