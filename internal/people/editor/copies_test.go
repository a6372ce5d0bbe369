package editor_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/people/editor"
)

// TestCopiesOfHostileNames copies files whose names a tool, a shell or git could obey.
func TestCopiesOfHostileNames(t *testing.T) {
	in := t.TempDir()
	c, err := editor.MakeCopies(in)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{
		"../../out", "x/..", "a/../../out", "./x", "-rf", "a/--exec", "a b", "new\nline", "esc\x1b[31m", "$(touch x)", "`id`", "*", "~", "%2Erc", ".rc", "a%20b",
		".git/config", ".GIT/config", "bare/HEAD", "bare/head", "bare/config", ".vscode/tasks.json", ".dir-locals.el", "quo\"te'", "tab\t", "caf\u00e9", "bad\xff\xfe", "a\\b", "C:x",
		strings.Repeat("d", 255) + "/f.go", strings.Repeat("ä\n", 80) + ".go", strings.Repeat("ä\n", 80) + "x.go", "end.", "\u202egnp.exe",
	}
	for _, name := range names {
		if err := c.Add(name, nil, []byte(name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := c.Add(strings.Repeat("deep/", 900)+"f", nil, []byte("x")); err == nil {
		t.Error("a path of 4500 bytes was copied")
	}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	safe := regexp.MustCompile(`^[\pL\pN_+=@,%][\pL\pN_+=@,%.-]*$`)
	seen := make(map[string]bool)
	for i, p := range c.Pairs {
		below, err := filepath.Rel(c.After(), p.After)
		if err != nil || !filepath.IsLocal(below) || seen[below] {
			t.Errorf("%q became %s", names[i], p.After)
		}
		seen[below] = true
		for part := range strings.SplitSeq(filepath.ToSlash(below), "/") {
			if !safe.MatchString(part) || strings.EqualFold(part, "HEAD") || len(part) > 255 {
				t.Errorf("%q became %s, which has %q", names[i], below, part)
			}
		}
		if got, err := os.ReadFile(p.After); err != nil || names[i] == "a b" && string(got) != "a b" {
			t.Errorf("%q: %q, %v", names[i], got, err)
		}
		info, err := os.Lstat(p.After)
		if err != nil || info.Mode() != 0o400 || p.Before != os.DevNull {
			t.Errorf("%q: %v, %v, before %s", names[i], info.Mode(), err, p.Before)
		}
	}
	if len(seen) != len(names) {
		t.Errorf("%d copies of %d files", len(seen), len(names))
	}
	above, _ := os.ReadDir(filepath.Dir(in))
	if len(above) != 1 {
		t.Errorf("%v beside the copies", above)
	}
	if info, err := os.Stat(c.Dir()); err != nil || info.Mode().Perm() != 0o500 {
		t.Error("the directory of the copies is not read-only:", info.Mode(), err)
	}
	if err := c.Remove(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(in); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestCopiesHaveNoControlCharacters copies texts that a terminal would obey.
func TestCopiesHaveNoControlCharacters(t *testing.T) {
	late := append(bytes.Repeat([]byte("x"), 9000), 0)
	for _, test := range []struct{ name, content, want string }{
		{"plain", "a\tb\r\nc\n", "a\tb\r\nc\n"},
		{"empty", "", ""},
		{"escape", "a\x1b]52;c;aGk=\a\n", "a␛]52;c;aGk=␇\n"},
		{"return", "good\revil\n", "good␍evil\n"},
		{"delete", "a\x7fb", "a␡b"},
		{"eight bits", "a\u009bb", "a\ufffdb"},
		{"raw eight bits", "a\x9bb\xe9", "a\ufffdb\xe9"},
		{"binary", "\x89PNG\x00\x1b", "\x89PNG\x00\x1b"},
		{"late zero", "\x1b[31m" + string(late), "␛[31m" + string(late[:9000]) + "␀"},
	} {
		c, err := editor.MakeCopies(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Add("f", []byte(test.content), nil); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(c.Pairs[0].Before); err != nil || string(got) != test.want {
			t.Errorf("%s: %q, %v, want %q", test.name, got, err, test.want)
		}
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	}
}

// TestCopiesAreLimited adds more than golem copies.
func TestCopiesAreLimited(t *testing.T) {
	c, err := editor.MakeCopies(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Remove()
	large := make([]byte, editor.MaxCopied)
	for i := range 20 {
		if err = c.Add(string(rune('a'+i)), nil, large); err != nil {
			break
		}
	}
	if !errors.Is(err, editor.ErrFull) || len(c.Pairs) != 16 {
		t.Errorf("%d copies of 32 MiB, then %v", len(c.Pairs), err)
	}
}

// TestFindDiffTool reads the settings of the user as git does.
func TestFindDiffTool(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings map[string]string
		want     string
	}{
		{"", nil, "error: your configuration of git names no tool"},
		{"", map[string]string{"diff.tool": "meld"}, "meld trees"},
		{"", map[string]string{"merge.tool": "vimdiff"}, "vimdiff"},
		{"", map[string]string{"merge.tool": "vimdiff", "diff.tool": "kdiff3"}, "kdiff3 trees"},
		{"tkdiff", map[string]string{"diff.tool": "meld"}, "tkdiff"},
		{"meld", map[string]string{"difftool.meld.cmd": "meld"}, "meld"},
		{"mine", map[string]string{"mergetool.mine.cmd": "x"}, "mine"},
		{"mine", map[string]string{"difftool.mine.path": "/bin/mine"}, "error: golem does not know the tool mine"},
		{"a\nb", nil, "error: one line"},
	} {
		got, err := editor.FindDiffTool(test.name, func(key string) (string, error) { return test.settings[key], nil })
		text := got.Name
		if got.ComparesTrees() {
			text += " trees"
		}
		if want, fails := strings.CutPrefix(test.want, "error: "); fails {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want an error with %q", test, err, want)
			}
		} else if err != nil || text != test.want {
			t.Errorf("%v: %s, %v", test, text, err)
		}
	}
	if _, err := editor.FindDiffTool("meld", func(string) (string, error) { return "", fs.ErrPermission }); !errors.Is(err, fs.ErrPermission) {
		t.Error("the error of a setting is lost:", err)
	}
}

// TestDiffToolFails starts tools that are not there and that fail.
func TestDiffToolFails(t *testing.T) {
	for command, want := range map[string]string{"exit 1": "", "exit 127": "failed (exit status 127)", "golem-no-such-tool": "failed (exit status 127)", `test "$LOCAL" = /b && test "$REMOTE" = /a || exit 126`: ""} {
		tool, err := editor.FindDiffTool("mine", func(key string) (string, error) {
			return map[string]string{"difftool.mine.cmd": command}[key], nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = tool.Open(t.Context(), os.Environ(), [3]*os.File{os.Stdin, os.Stdout, os.Stderr}, t.TempDir(), "/b", "/a")
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", command, err, want)
		}
	}
	tool, err := editor.FindDiffTool("meld", func(key string) (string, error) {
		return map[string]string{"difftool.meld.path": "/no/such"}[key], nil
	})
	if err == nil {
		err = tool.Open(t.Context(), os.Environ(), [3]*os.File{os.Stdin, os.Stdout, os.Stderr}, t.TempDir(), "/b", "/a")
	}
	if err == nil || !strings.Contains(err.Error(), "meld cannot be started") {
		t.Error(err)
	}
}
