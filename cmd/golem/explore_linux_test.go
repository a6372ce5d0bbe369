package main

import (
	"strings"
	"testing"
)

// typeKeys waits for a text on the screen, and then types keys.
func (p *pickTest) typeKeys(text, keys string) {
	p.t.Helper()
	p.screen.Until(text)
	if _, err := p.person.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// TestExplore chooses hunks with golem diff -i at a terminal. Exactly these are applied,
// and the journal says where the user answered.
func TestExplore(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": numberLines(nil)},
		`sed -i 's/^line 3$/three/;s/^line 30$/thirty/' a.txt; echo new > new.txt`)
	p.startAt(100, "diff", "-i")
	p.typeKeys("hunk 1 of 2", "y")
	p.typeKeys("[yes]", "nA")
	p.typeKeys("[y]es", "y")
	p.typeKeys("golem undo restores what was there", "q") // the renderer prints only the cells that changed
	code, seen := p.waitForEnd()
	if want := numberLines(map[int]string{3: "three"}); code != 0 || p.read("a.txt") != want || p.read("new.txt") != "" {
		t.Errorf("code %d, a.txt is %q\n%q", code, p.read("a.txt"), seen)
	}
	if out, _ := p.golem("audit", "show", "a.txt"); !strings.Contains(out, "golem diff -i, at a terminal") {
		t.Errorf("the journal does not say where the user answered:\n%s", out)
	}
}

// TestExplorePlain: without a terminal that can show a full screen, golem diff -i asks line
// by line.
func TestExplorePlain(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, `echo b > a.txt`)
	for _, c := range []struct {
		columns uint16
		term    string
		args    []string
		want    string
	}{
		{50, "xterm", []string{"diff", "-i"}, "less than 60 columns"},
		{100, "dumb", []string{"diff", "-i"}, "cannot move the cursor (TERM)"},
		{100, "xterm", []string{"diff", "-i", "--plain"}, ""},
	} {
		p := p.forTest(t)
		p.env = append(p.env, "TERM="+c.term)
		p.startAt(c.columns, c.args...)
		p.screen.Until(c.want)
		p.answer("1 of 1: a.txt", "n\r")
		if code, seen := p.waitForEnd(); code != 3 || strings.Contains(seen, "\x1b[?1049h") {
			t.Errorf("%v: code %d\n%q", c.args, code, seen)
		}
	}
}
