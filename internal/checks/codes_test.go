package checks_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestCodes compares the table of codes in docs/tools.md with the codes in the packages.
func TestCodes(t *testing.T) {
	used := make(map[string]bool)
	err := filepath.WalkDir("internal", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		for n := range ast.Preorder(file) {
			if code := codeOf(n); code != "" {
				used[code] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Codes\n")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(listed)
	if want := slices.Sorted(maps.Keys(used)); !slices.Equal(listed, want) {
		t.Errorf("docs/tools.md lists the codes\n%s, want:\n%s", listed, want)
	}
}

// codeOf returns the code in a constant, a field or a conversion, or "" if there is none.
func codeOf(n ast.Node) string {
	var value ast.Expr
	switch n := n.(type) {
	case *ast.ValueSpec:
		if isCode(n.Type) && len(n.Values) == 1 {
			value = n.Values[0]
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
			value = n.Value
		}
	case *ast.CallExpr:
		if isCode(n.Fun) && len(n.Args) == 1 {
			value = n.Args[0]
		}
	}
	text, ok := value.(*ast.BasicLit)
	if !ok || text.Kind != token.STRING {
		return ""
	}
	code, _ := strconv.Unquote(text.Value)
	return code
}

func isCode(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Code"
}
