package project_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestDScannerExample: the example of a scanner in docs/config.md finds the word, and
// nothing else.
func TestDScannerExample(t *testing.T) {
	page, err := os.ReadFile("../../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile("`external: \\{words: \\{command: \\[sh, -c, \"([^\"]*)\"\\]\\}\\}`").FindStringSubmatch(string(page))
	if line == nil {
		t.Fatal("there is no example")
	}
	for text, want := range map[string]int{"all is public\n": 0, "": 0, "one\nthis is Confidential\n": 1} {
		cmd := exec.Command("sh", "-c", line[1])
		cmd.Stdin = strings.NewReader(text)
		out, _ := cmd.Output()
		if got := cmd.ProcessState.ExitCode(); got != want || (want == 1) != (string(out) == "2:this is Confidential\n") {
			t.Errorf("%q: exit code %d, printed %q; want %d", text, got, out, want)
		}
	}
}
