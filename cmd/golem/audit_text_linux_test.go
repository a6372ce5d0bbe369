package main

import (
	"slices"
	"strings"
	"testing"
)

// cutLast cuts a text at the last separator.
func cutLast(text, separator string) (before, after string, ok bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// shownText returns the last text that golem audit show says was on screen, without bars.
func (p *pickTest) shownText(args ...string) (lines []string) {
	p.t.Helper()
	out, code := p.golem(append([]string{"audit", "show"}, args...)...)
	_, text, ok := cutLast(out, "the text that was on screen; its hash is the one in the journal:\n")
	if code != 0 || !ok {
		p.t.Fatalf("audit show %v: code %d, and no text:\n%s", args, code, out)
	}
	for line := range strings.Lines(text) {
		line, ok := strings.CutPrefix(line, "┃")
		if !ok {
			break
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// TestAuditText checks that golem audit show prints exactly the text that was on screen when
// the user decided, for each way to ask at a terminal.
func TestAuditText(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, lines []string, seen string, want, not []string) {
		t.Helper()
		for _, line := range lines {
			if !strings.Contains(seen, line) {
				t.Errorf("audit show has %q, which was not on screen:\n%q", line, seen)
			}
		}
		for _, text := range want {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, text) }) {
				t.Errorf("audit show has no %q: %q", text, lines)
			}
		}
		for _, text := range not {
			if slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, text) }) {
				t.Errorf("audit show has %q, which was not chosen: %q", text, lines)
			}
		}
	}
	p := newPickTest(t, map[string]string{"a.txt": numberLines(nil)}, `sed -i 's/^line 3$/three/;s/^line 30$/thirty/' a.txt`)
	if out, code := p.golem("init", "notes"); code != 0 {
		t.Fatal(out)
	}

	// A prompt, approved and declined.
	for name, key := range map[string]string{"yes.md": "y\r", "no.md": "n not now\r"} {
		p := p.forTest(t)
		p.startAt(100, "tool", "-C", "notes", "write_file", "--path", "/out/"+name, "--content", "one\ntwo\n")
		p.answer("You are about to", key)
		_, seen := p.waitForEnd()
		check(t, p.shownText("-C", "notes", "/out/"+name), seen, []string{"You are about to", "one", "two"}, nil)
	}

	// A call that waited.
	if out, code := p.golem("tool", "-C", "notes", "write_file", "--path", "/out/later.md", "--content", "late\n"); code != 3 {
		t.Fatalf("code %d\n%s", code, out)
	}
	waits := p.forTest(t)
	waits.startAt(100, "approve", "-C", "notes")
	waits.answer("You are about to", "y\r")
	_, seen := waits.waitForEnd()
	if out, code := p.golem("tool", "-C", "notes", "write_file", "--path", "/out/later.md", "--content", "late\n"); code != 0 {
		t.Fatalf("code %d\n%s", code, out)
	}
	check(t, p.shownText("-C", "notes", "/out/later.md"), seen, []string{"late"}, nil)

	// One hunk of two, line by line.
	picks := p.forTest(t)
	picks.startAt(160, "apply", "-p")
	picks.answer("1 of 2: a.txt", "y\r")
	picks.answer("2 of 2: a.txt", "n\r")
	picks.answer("You are about to", "y\r")
	_, seen = picks.waitForEnd()
	check(t, p.shownText("a.txt"), seen, []string{"three"}, []string{"thirty"})

	// The other one, full screen. The renderer prints only cells that changed, so that the
	// lines are not whole in the output.
	full := p.forTest(t)
	full.startAt(100, "diff", "-i")
	full.typeKeys("hunk 1 of 1", "A")
	full.typeKeys("[y]es", "y")
	full.typeKeys("golem undo restores what was there", "q")
	full.waitForEnd()
	lines := p.shownText("a.txt")
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "thirty") {
		t.Errorf("audit show: got %q", lines)
	}
}
