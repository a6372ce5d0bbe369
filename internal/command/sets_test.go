package command_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/command"
)

// TestOnlyReads: a line that changes a file, or what the next command starts with, does
// more than read.
func TestOnlyReads(t *testing.T) {
	for line, want := range map[string]bool{
		"ls": true, "cat a | grep b": true, "git status && git log -3": true, "find . -name '*.go'": true, "ls 2>/dev/null": true, "wc -l $(git ls-files)": true,
		"": false, "cd src": false, "cd src && ls": false, "ls > list": false, "cat a >> b": false, "make": false, "X=1": false, "X=1 ls": false,
		"export X=1": false, "find . -delete": false, "sed -i s/a/b/ f": false, "ls; touch a": false, "bash x.sh": false, "read X": false, "set -e": false,
	} {
		if got := command.OnlyReads(line); got != want {
			t.Errorf("%q: got %v, want %v", line, got, want)
		}
	}
}
