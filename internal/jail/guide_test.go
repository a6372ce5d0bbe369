package jail

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuide checks that every test that the guide names exists.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/jail.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, pattern := range []string{"*_test.go", "../../cmd/golem/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)(?:/([^`]+))?`").FindAllStringSubmatch(string(guide), -1)
	if len(named) < 20 {
		t.Fatalf("the guide names %d tests: the test checks nothing", len(named))
	}
	for _, m := range named {
		if !strings.Contains(code.String(), "\nfunc "+m[1]+"(") {
			t.Errorf("the guide names %s, which does not exist", m[1])
		}
		if m[2] != "" && !strings.Contains(code.String(), `{"`+m[2]+`", `) {
			t.Errorf("the guide names %s/%s, which does not exist", m[1], m[2])
		}
	}
}
