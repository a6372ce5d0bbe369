package testutil

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write anew what files should be")

// Golden compares a file with its expected content. With -update it writes the file.
func Golden(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, file); got != want {
		a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
		for len(a) > 1 && len(b) > 1 && a[0] == b[0] {
			a, b = a[1:], b[1:]
		}
		t.Errorf("%s has fallen behind; -update writes it\nthe first other line:\n%s\nwant:\n%s", file, a[0], b[0])
	}
}

// GoldenPart is like Golden for the text between two lines of a file.
func GoldenPart(t *testing.T, file, begin, end, want string) {
	t.Helper()
	head, rest, ok := strings.Cut(read(t, file), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %s or no %s", file, begin, end)
	}
	Golden(t, file, head+begin+want+end+tail)
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
