package patch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// number returns a text of n lines, with some of them replaced.
func number(n int, replaced ...int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		word := "line"
		for _, r := range replaced {
			if r == i {
				word = "changed"
			}
		}
		fmt.Fprintf(&b, "%s %d\n", word, i)
	}
	return b.String()
}

// randomText returns a text of a few lines, often without a newline at its end.
func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(30) {
		fmt.Fprintf(&b, "%c\n", 'a'+rune(r.IntN(4)))
	}
	return strings.TrimSuffix(b.String(), []string{"", "\n"}[r.IntN(2)])
}

// TestHunksApply checks for random texts that all hunks make the new text, that no hunk
// keeps the old one, and that the parts of a hunk do what the hunk does.
func TestHunksApply(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		old, new := randomText(r), randomText(r)
		hunks := Hunks(old, new)
		if got, err := Apply(old, nil); err != nil || got != old {
			t.Errorf("no hunk of %q: got %q, %v", old, got, err)
		}
		if got, err := Apply(old, hunks); err != nil || got != new {
			t.Errorf("%q to %q: got %q, %v", old, new, got, err)
		}
		var parts []Hunk
		for _, h := range hunks {
			parts = append(parts, h.Split()...)
			same, err := h.Edit(h.String(), old)
			if err != nil || same.String() != h.String() {
				t.Errorf("%q to %q: an edit without a change gives\n%s%v, not\n%s", old, new, same, err, h)
			}
		}
		if got, err := Apply(old, parts); err != nil || got != new {
			t.Errorf("%q to %q in %d parts: got %q, %v", old, new, len(parts), got, err)
		}
		var written strings.Builder
		for _, h := range hunks {
			written.WriteString(h.String())
		}
		read, err := Parse(written.String())
		if err != nil {
			t.Fatalf("%q: %v", written.String(), err)
		}
		if got, err := Apply(old, read); err != nil || got != new {
			t.Errorf("%q to %q, written and read: got %q, %v", old, new, got, err)
		}
		before, after := splitLines(old), splitLines(new)
		for _, h := range slices.Concat(hunks, parts) {
			i, j := h.old, h.new
			for _, l := range h.Lines {
				if l.Mark != Added {
					if i >= len(before) || before[i] != l.Text {
						t.Fatalf("%q to %q: the old text does not have line %d of\n%s", old, new, i+1, h)
					}
					i++
				}
				if l.Mark != Removed {
					if j >= len(after) || after[j] != l.Text {
						t.Fatalf("%q to %q: the new text does not have line %d of\n%s", old, new, j+1, h)
					}
					j++
				}
			}
		}
		for i, p := range parts {
			if len(p.Split()) != 1 {
				t.Errorf("part %d can be split again:\n%s", i, p)
			}
		}
	}
}

// TestSplitChooses checks that each choice of the parts of one hunk changes exactly the
// lines of these parts.
func TestSplitChooses(t *testing.T) {
	places := []int{5, 7, 9}
	old := number(12)
	hunks := Hunks(old, number(12, places...))
	if len(hunks) != 1 {
		t.Fatalf("got %d hunks", len(hunks))
	}
	parts := hunks[0].Split()
	if len(parts) != 3 {
		t.Fatalf("got %d parts", len(parts))
	}
	for choice := range 8 {
		var chosen []Hunk
		var want []int
		for i, place := range places {
			if choice&(1<<i) != 0 {
				chosen, want = append(chosen, parts[i]), append(want, place)
			}
		}
		if got, err := Apply(old, chosen); err != nil || got != number(12, want...) {
			t.Errorf("choice %d: got %v\n%s", choice, err, got)
		}
	}
}

// TestPositions checks that hunks have the right line numbers.
func TestPositions(t *testing.T) {
	hunks := Hunks(number(40), strings.Replace(number(40, 3, 5, 30), "line 36\n", "", 1))
	if len(hunks) != 2 {
		t.Fatal(hunks)
	}
	for i, want := range []string{"@@ -1,8 +1,8 @@\n", "@@ -27,13 +27,12 @@\n"} {
		if got := hunks[i].String(); !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestUnifiedAsGit compares diffs of random texts with those of git diff, byte by byte. No
// line occurs twice, so that there is one shortest diff.
func TestUnifiedAsGit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	dir := t.TempDir()
	var made strings.Builder
	for n := range 400 {
		texts := [2]string{}
		for i := range 5 + r.IntN(60) {
			line := fmt.Sprintf("line %d of %d\n", i, n)
			if r.IntN(6) > 0 {
				texts[0] += line
				texts[1] += line
				continue
			}
			for side := range texts {
				for more := range r.IntN(3) {
					texts[side] += fmt.Sprintf("%d.%d only on side %d of %d\n", i, more, side, n)
				}
			}
		}
		if n%4 == 0 {
			texts[n/4%2] = strings.TrimSuffix(texts[n/4%2], "\n")
		}
		name := fmt.Sprintf("%04d", n)
		for side, text := range texts {
			if err := os.MkdirAll(filepath.Join(dir, "ab"[side:side+1]), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "ab"[side:side+1], name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		made.WriteString(Unified("a/"+name, "b/"+name, texts[0], texts[1]))
	}
	git := exec.Command("git", "diff", "--no-index", "--no-prefix", "--no-color", "--diff-algorithm=minimal", "--no-indent-heuristic", "a", "b")
	git.Dir = dir
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, _ := git.Output() // it exits with 1 if the directories differ
	var want strings.Builder
	for line := range strings.Lines(string(out)) {
		switch {
		case strings.HasPrefix(line, "diff --git "), strings.HasPrefix(line, "index "):
			continue
		case strings.HasPrefix(line, "@@ "): // git adds a line of the file after the second @@
			line = line[:strings.LastIndex(line, " @@")+3] + "\n"
		}
		want.WriteString(line)
	}
	got, wanted := strings.Split(made.String(), "\n"), strings.Split(want.String(), "\n")
	for i := range min(len(wanted), len(got)) {
		if wanted[i] != got[i] {
			t.Fatalf("line %d: got %q, git has %q; before it\n%s", i+1, got[i], wanted[i], strings.Join(got[max(0, i-20):i], "\n"))
		}
	}
	if len(wanted) != len(got) || len(got) < 1000 {
		t.Errorf("got %d lines, git has %d", len(got), len(wanted))
	}
}

// TestEdit checks which edits of a hunk fit.
func TestEdit(t *testing.T) {
	old := "one\ntwo\nthree\n"
	hunks := Hunks(old, "one\n2\nthree\n")
	if len(hunks) != 1 {
		t.Fatal(hunks)
	}
	for _, test := range []struct{ text, want, err string }{
		{"# a comment\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n", "one\nzwei\nthree\n", ""},
		{" one\n two\n+2\n three\n", "one\ntwo\n2\nthree\n", ""},
		{" one\n two\n three\n", "", "nothing"},
		{"", "", "nothing"},
		{" one\n-zwei\n three\n", "", "line 2 of the file is different"},
		{"x\n", "", "line 1 begins with none of"},
		{" one\n two\n three\n+four\n+five\n\\ No newline at end of file\n", "one\ntwo\nthree\nfour\nfive", ""},
		{" one\n two\n three\n+four\n\\ No newline at end of file\n+five\n", "", "not the last one"},
		{" one\n two\n three\n four\n+x\n", "", "only 3 lines"},
	} {
		h, err := hunks[0].Edit(test.text, old)
		switch {
		case test.err == "nothing":
			if err != nil || len(h.Lines) != 0 {
				t.Errorf("%q: got %v, %v, want no lines", test.text, h, err)
			}
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q: got %v, want %q", test.text, err, test.err)
			}
		default:
			if got, e := Apply(old, []Hunk{h}); err != nil || e != nil || got != test.want {
				t.Errorf("%q: got %q, %v, %v", test.text, got, err, e)
			}
		}
	}
}

// TestGitApplies checks that git apply makes of the old files exactly the new ones: with
// strange names, binary content, escape sequences, modes and symlinks.
func TestGitApplies(t *testing.T) {
	big := make([]byte, 300_000)
	rand.NewChaCha8([32]byte{1}).Read(big)
	files := []File{
		{Name: "plain.txt", OldMode: "100644", Mode: "100644", Old: []byte(number(30)), New: []byte(number(30, 3, 20)), Numbered: true},
		{Name: "with space", OldMode: "100644", Mode: "100644", Old: []byte("a\n"), New: []byte("b")},
		{Name: "new file", Mode: "100755", New: []byte("#!/bin/sh\n")},
		{Name: "empty", Mode: "100644"},
		{Name: "gone", OldMode: "100644", Old: []byte("x\ny")},
		{Name: "gone empty", OldMode: "100644"},
		{Name: "ünder\t\"quote\"\\ \x01", OldMode: "100644", Mode: "100644", Old: []byte("a\n"), New: []byte("\x1b[31mred\x1b[0m\u202e\n")},
		{Name: "dir/latin1", OldMode: "100644", Mode: "100644", Old: []byte("caf\xe9\n"), New: []byte("th\xe9\n")},
		{Name: "crlf", OldMode: "100644", Mode: "100644", Old: []byte("a\r\nb\r\n"), New: []byte("a\r\nc\r\n")},
		{Name: "binary", OldMode: "100644", Mode: "100755", Old: []byte("a\x00b"), New: big},
		{Name: "mode", OldMode: "100644", Mode: "100755", Old: []byte("x\n"), New: []byte("x\n")},
		{Name: "link", Mode: "120000", New: []byte("plain.txt")},
		{Name: "linked", OldMode: "120000", Mode: "120000", Old: []byte("a"), New: []byte("b")},
		{Name: "becomes link", OldMode: "100644", Mode: "120000", Old: []byte("text\n"), New: []byte("x")},
	}
	dir := t.TempDir()
	write := func(f File) {
		name := filepath.Join(dir, f.Name)
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		switch {
		case f.OldMode == "120000":
			err = os.Symlink(string(f.Old), name)
		case f.OldMode != "":
			err = os.WriteFile(name, f.Old, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	for _, f := range files {
		write(f)
		if err := f.Write(&b); err != nil {
			t.Fatal(err)
		}
	}
	git := exec.Command("git", "apply", "-")
	git.Dir, git.Stdin = dir, bytes.NewReader(b.Bytes())
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v: %s\n%q", err, out, b.String())
	}
	for _, f := range files {
		name := filepath.Join(dir, f.Name)
		info, err := os.Lstat(name)
		switch {
		case f.Mode == "":
			if err == nil {
				t.Errorf("%q still exists", f.Name)
			}
		case err != nil:
			t.Error(err)
		case f.Mode == "120000":
			if to, err := os.Readlink(name); err != nil || to != string(f.New) {
				t.Errorf("%q: got %q, %v", f.Name, to, err)
			}
		default:
			data, err := os.ReadFile(name)
			if err != nil || !bytes.Equal(data, f.New) {
				t.Errorf("%q: got %d bytes, %v", f.Name, len(data), err)
			}
			if executable := info.Mode()&0o100 != 0; executable != (f.Mode == "100755") {
				t.Errorf("%q: got mode %v", f.Name, info.Mode())
			}
		}
	}
}
