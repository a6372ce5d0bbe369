package golem_test

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

// TestCodes holds the table of codes in docs/tools.md to those that the packages have.
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
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(table, -1) {
		told = append(told, row[1])
	}
	slices.Sort(told)
	if want := slices.Sorted(maps.Keys(used)); !slices.Equal(told, want) {
		t.Errorf("docs/tools.md tells the codes\n%s, want:\n%s", told, want)
	}
}

// codeOf returns the code that is written at a place of the source, "" for none: that of
// a constant, of a field or of a conversion.
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
