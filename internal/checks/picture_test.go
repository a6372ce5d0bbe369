package checks_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// TestLayersPicture compares the picture and the tables in CONTRIBUTING.md with the
// tables of wings and layers. With -update it writes all three.
func TestLayersPicture(t *testing.T) {
	testutil.GoldenPart(t, "CONTRIBUTING.md", "<!-- layers -->\n", "<!-- end of layers -->\n", listWings()+"\n"+drawLayers()+"\n"+listPackages())
}

// drawLayers draws one box per layer, the highest first.
func drawLayers() string {
	const width = 72
	names := map[int][]string{}
	for _, l := range layers {
		if exists(l.pkg) {
			names[l.layer] = append(names[l.layer], shortName(l.pkg))
		}
	}
	var b strings.Builder
	rule := func(left, right string) {
		fmt.Fprintf(&b, "   %s%s%s\n", left, strings.Repeat("─", width+2), right)
	}
	b.WriteString("```text\n")
	rule("┌", "┐")
	for i := len(names) - 1; i >= 0; i-- {
		for n, line := range wrap(names[i], width) {
			label := "  "
			if n == 0 {
				label = fmt.Sprintf("%2d", i)
			}
			fmt.Fprintf(&b, "%s │ %s%s │\n", label, line, strings.Repeat(" ", width-utf8.RuneCountInString(line)))
		}
		if i > 0 {
			rule("├", "┤")
		}
	}
	rule("└", "┘")
	b.WriteString("```\n")
	return b.String()
}

// listPackages returns a table of the packages, by wing.
func listPackages() string {
	var b strings.Builder
	b.WriteString("| package | layer | holds |\n|---|---|---|\n")
	for _, w := range wings {
		for _, l := range layers {
			if wingOf(l.pkg) == w.dir && exists(l.pkg) {
				fmt.Fprintf(&b, "| `%s` | %d | %s |\n", shortName(l.pkg), l.layer, l.what)
			}
		}
	}
	return b.String()
}

// exists reports whether a row of the table has a directory. Some rows wait for theirs.
func exists(pkg string) bool {
	_, err := os.Stat(strings.TrimSuffix(pkg, "/*"))
	return pkg != "." && err == nil
}

func shortName(pkg string) string { return strings.TrimPrefix(pkg, "internal/") }

// wrap joins words with two spaces into lines of at most width characters.
func wrap(words []string, width int) (lines []string) {
	line := ""
	for _, w := range words {
		if line != "" && utf8.RuneCountInString(line)+2+utf8.RuneCountInString(w) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += "  "
		}
		line += w
	}
	return append(lines, line)
}
