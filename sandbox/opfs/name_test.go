package opfs

import (
	"io/fs"
	"strings"
	"testing"
)

// TestNames checks that every name has one stored name, with nothing that browsers refuse.
func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"a", "A", "...", ".hidden", "a.", " a", "a ", `back\slash`, "100%", "%2e%2e", "a%=755", "a%@", "a:b", "*", "ümläut", "\x1b[2K", "a.crswap", "x.CRSWAP", "日本語", strings.Repeat("%", 255)} {
		for _, mode := range []fs.FileMode{usualMode, 0o755, 0o444, fs.ModeDir | 0o755, fs.ModeSymlink | 0o777} {
			stored := storedName(name, mode)
			got, gotMode, ok := parseStored(stored, mode.IsDir())
			if !ok || got != name || gotMode != mode {
				t.Errorf("%q, %v as %q: got %q, %v, %v", name, mode, stored, got, gotMode, ok)
			}
			if stored == "." || stored == ".." || strings.ContainsAny(stored, "/\\\"*:<>?|\x1b") || strings.HasSuffix(strings.ToLower(stored), ".crswap") {
				t.Errorf("%q is stored as %q", name, stored)
			}
			key := stored
			if mode.IsDir() {
				continue // a directory may have the stored name of a file, and then only one of them exists
			}
			if other, twice := seen[key]; twice {
				t.Errorf("%q and %s are both stored as %q", name, other, stored)
			}
			seen[key] = name
		}
	}
}

// TestForeignNames checks that a name that this package does not store has no name in the
// sandbox, so that two stored files are never one.
func TestForeignNames(t *testing.T) {
	for _, stored := range []string{"", "100%", "a%2", "%zz", "a?b", "%61", "%41", "%2F%", "a%=644", "a%=0755", "a%=999", "a%=", "a%=+55", "a%@%@", "a.", ".a", `a\b`, "a%2E", "a.crswap"} {
		if name, mode, ok := parseStored(stored, false); ok {
			t.Errorf("%q: got %q, %v", stored, name, mode)
		}
	}
	for _, stored := range []string{"%2e", "%2e%2e", "a%2fb", "%2f", "a%00", "\xff"} {
		if name, _, ok := parseStored(stored, true); ok {
			t.Errorf("the directory %q: got %q", stored, name)
		}
	}
}
