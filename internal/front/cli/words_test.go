package cli

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestWrapCells checks that a row of a narrow terminal breaks between cells and words.
func TestWrapCells(t *testing.T) {
	for _, test := range []struct {
		row  []string
		want string
	}{
		{[]string{"k3xq2a", "sh", "3 min ago", "2 files", "+2 -1", ""}, "  k3xq2a  sh  3 min ago  2 files  +2 -1"},
		{[]string{"k3xq2a", "sh", "3 min ago", "changes", "2 files", "4 bytes", ""}, "  k3xq2a  sh  3 min ago  changes\n    2 files  4 bytes"},
		{[]string{"1", "just now", "a command of several words that has to continue", "x"}, "  1  just now\n    a command of several words that\n    has to continue  x"},
		{[]string{"digest", strings.Repeat("a", 50)}, "  digest\n    " + strings.Repeat("a", 35) + "\n    " + strings.Repeat("a", 15)},
	} {
		got := strings.Join(wrapCells(test.row, 40), "\n")
		if got != test.want {
			t.Errorf("%q: got\n%s\nwant\n%s", test.row, got, test.want)
		}
		for line := range strings.SplitSeq(got, "\n") {
			if utf8.RuneCountInString(line) >= 40 {
				t.Errorf("%q: the line %q is too long", test.row, line)
			}
		}
	}
	rows := [][]string{{"k3xq2a", "sh", "3 min ago", "changes", "2 files"}}
	widths := []int{6, 2, 9, 7, 0}
	for columns, want := range map[int]bool{0: false, 37: true, 41: true, 42: false, 100: false} {
		if got := isNarrow(rows, widths, columns); got != want {
			t.Errorf("%d columns: got %v, want %v", columns, got, want)
		}
	}
}

// TestPrintLine checks that a line without a terminal stays whole.
func TestPrintLine(t *testing.T) {
	var b strings.Builder
	printLine(&b, "state  yes  ", strings.Repeat("word ", 60)+"end")
	if got := b.String(); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "end\n") {
		t.Errorf("got %q", got)
	}
}
