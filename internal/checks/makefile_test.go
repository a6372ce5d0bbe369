package checks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNeeds checks that each target installs the programs that its script needs and a bare Debian
// lacks.
func TestNeeds(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, target := range regexp.MustCompile(`(?m)^[a-z-]+:.*\n(?:\t.*\n)+`).FindAllString(string(text), -1) {
		for _, name := range regexp.MustCompile(`scripts/[a-z-]+`).FindAllString(target, -1) {
			script, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, program := range []string{"python3", "curl", "wget", "setsid", "jq", "ps", "ip", "node", "npm", "tmux", "rg", "bwrap", "socat"} {
				runs := regexp.MustCompile(`(?m)^[^#\n]*(?:^|[|(;&]|\bbegin \w+|\btimeout \d+|\bdo|\bthen) *` + program + ` `)
				if name == "scripts/need" || !runs.Match(script) {
					continue
				}
				found++
				made, _, _ := strings.Cut(target, ":")
				if !strings.Contains(target, program+"=") && !strings.Contains(string(script), program+"=") && !strings.Contains(string(script), "command -v "+program) {
					t.Errorf("make %s runs %s, which needs %s: call scripts/need %s=PACKAGE first", made, name, program, program)
				}
			}
		}
	}
	if found < 2 { // python3 and setsid of make demo-hub
		t.Errorf("found only %d programs that scripts need", found)
	}
}

// TestUnsteady checks that a test which failed once fails make test, unless the list has it with a day
// and a reason, and that the list is short and names tests that exist.
func TestUnsteady(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	list := write("list", "# a comment\n2026-01-31 internal/jail/egress.TestOne the clock of the kernel\n2026-01-31 internal/jail/egress.TestBare\n")
	const module = "github.com/golem-forge/golem/"
	for report, isFine := range map[string]bool{
		"":                                    true,
		"internal/jail/egress.TestOne":        true,
		"internal/jail/egress.TestOne/part/a": true,
		"internal/jail/egress.TestOneMore":    false,
		"internal/jail/egress.TestBare":       false, // without a reason
		"cmd/golem.TestOther":                 false,
	} {
		text := ""
		if report != "" {
			text = module + report + ": 2 runs, 1 failures\n"
		}
		out, err := exec.Command("scripts/unsteady", write("report", text), list).CombinedOutput()
		if isFine != (err == nil) || !strings.Contains(string(out), report) {
			t.Errorf("%q: got %v, %s", report, err, out)
		}
	}
	text, err := os.ReadFile("scripts/unsteady.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		lines++
		parts := regexp.MustCompile(`^\d{4}-\d{2}-\d{2} ([a-z/]+)\.(Test\w+)\S* \S.{20}`).FindStringSubmatch(line)
		if parts == nil {
			t.Errorf("scripts/unsteady.txt: %q is no day, package and test with a reason", line)
			continue
		}
		if exec.Command("grep", "-rq", "^func "+parts[2]+"(", parts[1]).Run() != nil {
			t.Errorf("scripts/unsteady.txt: there is no %s in %s", parts[2], parts[1])
		}
	}
	if lines > 5 {
		t.Errorf("scripts/unsteady.txt has %d tests; correct some of them", lines)
	}
	if makefile, err := os.ReadFile("Makefile"); err != nil || !strings.Contains(string(makefile), "scripts/unsteady bin/again.txt || code=1") {
		t.Errorf("make unit does not look at the tests that failed once: %v", err)
	}
}
