package checks_test

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// checkTypes counts the methods of each type.
func checkTypes(r *report, rule string, pkg []*file) {
	methods := map[string]map[string]bool{}
	for _, f := range pkg {
		if f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil {
				of := receiver(fn)
				if methods[of] == nil {
					methods[of] = map[string]bool{}
				}
				methods[of][fn.Name.Name] = true // one of several versions for different systems
			}
		}
	}
	for _, of := range slices.Sorted(maps.Keys(methods)) {
		most := maxOfType
		for _, row := range broad {
			if row.name == pkg[0].pkg+"."+of {
				most = row.most
			}
		}
		if n := len(methods[of]); n > most {
			r.add(pkg[0], nil, rule, "%s has %d methods, and may have %d: split it", of, n, most)
		}
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
