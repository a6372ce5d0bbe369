package checks_test

import (
	"cmp"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// checkOperations limits the operations of each type.
func checkOperations(r *report, rule string, pkg []*file) {
	for name, n := range countOperations(pkg) {
		r.limit(pkg[0], rule, name, "operations", n, maxOperations, broad)
	}
}

// countOperations counts the operations of each type: its methods, and the functions of its
// package whose first parameter it is.
func countOperations(pkg []*file) map[string]int {
	types, operations := map[string]bool{}, map[string]map[string]bool{}
	for _, f := range pkg {
		if f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			switch decl := decl.(type) {
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						types[spec.Name.Name] = true
					}
				}
			case *ast.FuncDecl:
				of := cmp.Or(receiver(decl), f.subject(decl))
				if operations[of] == nil {
					operations[of] = map[string]bool{}
				}
				operations[of][decl.Name.Name] = true // one of several versions for different systems
			}
		}
	}
	counts := map[string]int{}
	for of, names := range operations {
		if types[of] {
			counts[pkg[0].pkg+"."+of] = len(names)
		}
	}
	return counts
}

// subject returns the name of the type that a function takes first, without star and type
// parameters. A context before it does not count. It returns "" for a type of another package.
func (f *file) subject(fn *ast.FuncDecl) string {
	for _, field := range fn.Type.Params.List {
		if name, ok := f.qualified(field.Type); ok && name == "context.Context" {
			continue
		}
		of := field.Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		switch generic := of.(type) {
		case *ast.IndexExpr:
			of = generic.X
		case *ast.IndexListExpr:
			of = generic.X
		}
		if id, ok := of.(*ast.Ident); ok {
			return id.Name
		}
		return ""
	}
	return ""
}

// checkExports limits the names that a package exports.
func checkExports(r *report, rule string, pkg []*file) {
	r.limit(pkg[0], rule, pkg[0].pkg, "exported names", countExports(pkg), maxExported, crowded)
}

// countExports counts the names that a package exports, with methods.
func countExports(pkg []*file) int {
	names := map[string]bool{}
	for _, f := range pkg {
		if f.test {
			continue
		}
		for _, e := range exports(f) {
			names[e.name] = true
		}
	}
	return len(names)
}

// limit reports a number above its limit, or above that of an exception with its name.
func (r *report) limit(f *file, rule, name, what string, n, most int, rows []exception) {
	for _, row := range rows {
		if row.name == name {
			most = row.most
		}
	}
	if n > most {
		r.add(f, nil, rule, "%s has %d %s, and may have %d: split it", name, n, what, most)
	}
}

// A reference is a pair of files: from uses a name that to declares.
type reference struct{ from, to string }

// checkBackward measures how many references between the files of a package run
// backwards.
func checkBackward(r *report, rule string, pkg []*file) {
	most, ok := backward[pkg[0].pkg]
	if !ok {
		most = maxBackward
	}
	all := referencesOf(pkg)
	if len(all) < 20 {
		return
	}
	if back := countBackward(all); back*100 > most*len(all) {
		r.add(pkg[0], nil, rule, "%d of %d references between files run backwards, which is more than %d %%", back, len(all), most)
	}
}

// referencesOf returns the references between files of a package, tests apart. A method
// counts if only one file declares its name.
func referencesOf(pkg []*file) []reference {
	declared := map[string]string{} // a name to its file, "" if there are several
	declare := func(name, path string) {
		if was, ok := declared[name]; ok && was != path {
			path = ""
		}
		declared[name] = path
	}
	for _, f := range pkg {
		if f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv != nil {
					declare("."+decl.Name.Name, f.path)
				} else {
					declare(decl.Name.Name, f.path)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						declare(spec.Name.Name, f.path)
					case *ast.ValueSpec:
						for _, id := range spec.Names {
							declare(id.Name, f.path)
						}
					}
				}
			}
		}
	}
	seen := map[reference]bool{}
	for _, f := range pkg {
		if f.test {
			continue
		}
		local := localNames(f.ast)
		for n := range ast.Preorder(f.ast) {
			to := ""
			switch n := n.(type) {
			case *ast.Ident:
				if !local[n.Name] {
					to = declared[n.Name]
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); !ok || f.imports[x.Name] == "" {
					to = declared["."+n.Sel.Name]
				}
			}
			if to != "" && to != f.path {
				seen[reference{f.path, to}] = true
			}
		}
	}
	list := slices.Collect(maps.Keys(seen))
	slices.SortFunc(list, func(a, b reference) int {
		return strings.Compare(a.from+" "+a.to, b.from+" "+b.to)
	})
	return list
}

// localNames returns the names that functions of a file declare for themselves, and the
// names of fields.
func localNames(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for n := range ast.Preorder(f) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, x := range n.Lhs {
					if id, ok := x.(*ast.Ident); ok {
						names[id.Name] = true
					}
				}
			}
		case *ast.Field:
			for _, id := range n.Names {
				names[id.Name] = true
			}
		case *ast.RangeStmt:
			for _, x := range []ast.Expr{n.Key, n.Value} {
				if id, ok := x.(*ast.Ident); ok {
					names[id.Name] = true
				}
			}
		}
	}
	return names
}

// countBackward orders the files so that few references run backwards, and counts those
// that do. From the front it takes files that no other file refers to, and from the back
// files without references. Otherwise it takes the file with the most references.
func countBackward(all []reference) int {
	out, in := map[string]int{}, map[string]int{}
	left := map[string]bool{}
	for _, e := range all {
		out[e.from]++
		in[e.to]++
		left[e.from], left[e.to] = true, true
	}
	var front, back []string
	take := func(name string) {
		delete(left, name)
		for _, e := range all {
			if e.from == name && left[e.to] {
				in[e.to]--
			}
			if e.to == name && left[e.from] {
				out[e.from]--
			}
		}
	}
	for len(left) > 0 {
		names := slices.Sorted(maps.Keys(left))
		best := names[0]
		last := false
		for _, name := range names {
			switch {
			case out[name] == 0:
				best, last = name, true
			case !last && (in[name] == 0 || in[best] != 0 && out[name]-in[name] > out[best]-in[best]):
				best = name
			}
		}
		take(best)
		if last {
			back = append(back, best)
		} else {
			front = append(front, best)
		}
	}
	slices.Reverse(back)
	place := map[string]int{}
	for i, name := range append(front, back...) {
		place[name] = i
	}
	n := 0
	for _, e := range all {
		if place[e.from] > place[e.to] {
			n++
		}
	}
	return n
}

// textTests are the functions of package strings that tell texts apart, or take them apart.
var textTests = []string{"Contains", "ContainsAny", "Cut", "CutPrefix", "CutSuffix", "EqualFold", "Fields", "HasPrefix", "HasSuffix", "Index", "LastIndex", "Replace", "Split", "SplitN", "SplitSeq", "TrimPrefix"}

// checkResultText finds fronts that read the text of a tool's result. Results have fields
// for what a front needs to know.
func checkResultText(r *report, rule string, pkg []*file) {
	for _, f := range pkg {
		if f.test || !matches("internal/front/*", f.pkg) {
			continue
		}
		for _, decl := range f.ast.Decls {
			results := resultNames(f, decl)
			for n := range ast.Preorder(decl) {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					continue
				}
				name, _ := f.qualified(call.Fun)
				what, ok := strings.CutPrefix(name, "strings.")
				if ok && slices.Contains(textTests, what) && slices.ContainsFunc(call.Args, func(arg ast.Expr) bool { return mentions(arg, results) }) {
					r.add(f, n, rule, "%s on the text of a result: use its fields, or add one", name)
				}
			}
		}
	}
}

// resultNames returns the names of variables, parameters and fields in a declaration that
// hold results of tools.
func resultNames(f *file, decl ast.Decl) map[string]bool {
	names := map[string]bool{"result": true}
	for n := range ast.Preorder(decl) {
		switch n := n.(type) {
		case *ast.Field:
			if kind, _ := f.qualified(n.Type); kind == module+"/internal/decide/tool.Result" {
				for _, name := range n.Names {
					names[name.Name] = true
				}
			}
		case *ast.AssignStmt:
			if call, ok := n.Rhs[0].(*ast.CallExpr); ok {
				made, isMethod := call.Fun.(*ast.SelectorExpr)
				name, isName := n.Lhs[0].(*ast.Ident)
				if isMethod && isName && slices.Contains([]string{"Do", "do", "make", "localResult", "Result"}, made.Sel.Name) {
					names[name.Name] = true
				}
			}
		}
	}
	return names
}

// mentions reports whether an expression has one of the names.
func mentions(e ast.Expr, names map[string]bool) bool {
	for n := range ast.Preorder(e) {
		if name, ok := n.(*ast.Ident); ok && names[name.Name] {
			return true
		}
	}
	return false
}
