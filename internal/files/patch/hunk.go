package patch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// A Hunk is a part of the difference of two texts: lines of the old text with the lines
// that replace them, and some unchanged lines around them.
type Hunk struct {
	Lines []Line
	old   int // index of the first line in the old text
	new   int // index of the first line in the new text
}

// A Line is a line of a hunk. Its text ends in a newline, unless the file ends without
// one.
type Line struct {
	Mark byte // one of Context, Removed and Added
	Text string
}

// The marks of lines.
const (
	Context = ' '
	Removed = '-'
	Added   = '+'
)

// noNewline is the line of a diff that follows a line without a newline.
const noNewline = `\ No newline at end of file`

// around is the number of unchanged lines before and after a change in a hunk.
const around = 3

// Hunks returns the hunks of the difference of two texts.
func Hunks(old, new string) (hunks []Hunk) {
	if old == new {
		return nil
	}
	before, after := splitLines(old), splitLines(new)
	var h *Hunk
	at := 0 // index of the first line of the old text that h does not have yet
	keep := func(end int) {
		for ; at < min(end, len(before)); at++ {
			h.Lines = append(h.Lines, Line{Context, before[at]})
		}
	}
	for _, d := range lcs.DiffLines(before, after) {
		if h == nil || d.Start > at+2*around {
			if h != nil {
				keep(at + around)
			}
			at = max(0, d.Start-around)
			hunks = append(hunks, Hunk{old: at, new: d.ReplStart - (d.Start - at)})
			h = &hunks[len(hunks)-1]
		}
		keep(d.Start)
		for ; at < d.End; at++ {
			h.Lines = append(h.Lines, Line{Removed, before[at]})
		}
		for _, line := range after[d.ReplStart:d.ReplEnd] {
			h.Lines = append(h.Lines, Line{Added, line})
		}
	}
	if h != nil {
		keep(at + around)
	}
	return hunks
}

// Unified returns the difference of two texts in the unified format, with the names of the
// two files. It returns "" if the texts are equal. All of golem makes diffs by it, because
// udiff.Unified writes wrong line numbers after a hunk with two changes.
func Unified(from, to, old, new string) string {
	if old == new {
		return ""
	}
	var b strings.Builder
	b.Grow(len(from) + len(to) + len(old)/8 + len(new)/8 + 80)
	b.WriteString("--- " + from + "\n+++ " + to + "\n")
	switch {
	case old == "":
		writeWhole(&b, Added, new)
	case new == "":
		writeWhole(&b, Removed, old)
	default:
		for _, h := range Hunks(old, new) {
			h.write(&b)
		}
	}
	return b.String()
}

// writeWhole writes the hunk of a text that is added or removed completely. It compares
// nothing, so that a session with thousands of new files opens fast.
func writeWhole(b *strings.Builder, mark byte, text string) {
	lines := strings.Count(text, "\n")
	isCut := !strings.HasSuffix(text, "\n")
	if isCut {
		lines++
	}
	b.Grow(len(text) + lines + 80)
	old, new := lineRange(0, lines), lineRange(0, 0)
	if mark == Added {
		old, new = new, old
	}
	b.WriteString("@@ -" + old + " +" + new + " @@\n")
	for line := range strings.Lines(text) {
		b.WriteByte(mark)
		b.WriteString(line)
	}
	if isCut {
		b.WriteString("\n" + noNewline + "\n")
	}
}

// Apply returns the old text with some hunks applied. The hunks must fit exactly, and
// must not change the same lines. They may share unchanged lines.
func Apply(old string, hunks []Hunk) (string, error) {
	have := splitLines(old)
	var edits []edit
	for _, h := range hunks {
		list, err := h.edits(have)
		if err != nil {
			return "", err
		}
		edits = append(edits, list...)
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var lines []string
	at := 0
	for _, e := range edits {
		if e.from < at {
			return "", errors.New("two hunks change the same lines")
		}
		lines = append(append(lines, have[at:e.from]...), e.lines...)
		at = e.to
	}
	lines = append(lines, have[at:]...)
	for i, line := range lines {
		if i < len(lines)-1 && !strings.HasSuffix(line, "\n") {
			return "", errors.New("a line without a newline is not the last one")
		}
	}
	return strings.Join(lines, ""), nil
}

// Name names the chosen hunks of a difference by their numbers: "hunk 1 of 2". A hunk that
// is not among all was split or edited.
func Name(all, chosen []Hunk) string {
	var numbers []string
	for _, h := range chosen {
		i := slices.IndexFunc(all, func(other Hunk) bool { return other.old == h.old && slices.Equal(other.Lines, h.Lines) })
		if i < 0 {
			return fmt.Sprintf("a part of %d hunks, split or edited", len(all))
		}
		numbers = append(numbers, strconv.Itoa(i+1))
	}
	word := "hunk "
	if len(numbers) != 1 {
		word = "hunks "
	}
	return word + strings.Join(numbers, ", ") + " of " + strconv.Itoa(len(all))
}

// An edit replaces lines of the old text.
type edit struct {
	from, to int
	lines    []string
}

// edits returns what a hunk does to the lines of the old text.
func (h Hunk) edits(have []string) (list []edit, err error) {
	at := h.old
	for i := 0; i < len(h.Lines); {
		e := edit{from: at}
		for ; i < len(h.Lines) && h.Lines[i].Mark != Context; i++ {
			l := h.Lines[i]
			if l.Mark == Added {
				e.lines = append(e.lines, l.Text)
				continue
			}
			if err := l.matches(have, at); err != nil {
				return nil, err
			}
			at++
		}
		if e.to = at; len(e.lines) > 0 || e.to > e.from {
			list = append(list, e)
		}
		for ; i < len(h.Lines) && h.Lines[i].Mark == Context; i++ {
			if err := h.Lines[i].matches(have, at); err != nil {
				return nil, err
			}
			at++
		}
	}
	return list, nil
}

// matches returns an error if the old text has another line at an index.
func (l Line) matches(have []string, at int) error {
	switch {
	case at >= len(have):
		return fmt.Errorf("the file has only %d lines", len(have))
	case have[at] != l.Text:
		return fmt.Errorf("line %d of the file is different", at+1)
	}
	return nil
}

// Split returns the parts of a hunk between its unchanged lines. Two parts share the
// unchanged lines between them. A hunk that cannot be split is its only part.
func (h Hunk) Split() []Hunk {
	var parts []Hunk
	part := Hunk{old: h.old, new: h.new}
	changed := false // the part has a change
	old, new := h.old, h.new
	for i := 0; i < len(h.Lines); i++ {
		l := h.Lines[i]
		if l.Mark != Context {
			if changed && len(part.Lines) > 0 && part.Lines[len(part.Lines)-1].Mark == Context {
				parts = append(parts, part)
				shared := part.trailing()
				part = Hunk{Lines: slices.Clone(shared), old: old - len(shared), new: new - len(shared)}
			}
			changed = true
		}
		part.Lines = append(part.Lines, l)
		if l.Mark != Added {
			old++
		}
		if l.Mark != Removed {
			new++
		}
	}
	return append(parts, part)
}

// trailing returns the unchanged lines at the end.
func (h Hunk) trailing() []Line {
	n := len(h.Lines)
	for n > 0 && h.Lines[n-1].Mark == Context {
		n--
	}
	return h.Lines[n:]
}

// Count returns how many lines a hunk adds and removes.
func (h Hunk) Count() (added, removed int) {
	for _, l := range h.Lines {
		switch l.Mark {
		case Added:
			added++
		case Removed:
			removed++
		}
	}
	return added, removed
}

// String returns the hunk in the unified format.
func (h Hunk) String() string {
	var b strings.Builder
	h.write(&b)
	return b.String()
}

func (h Hunk) write(b *strings.Builder) {
	added, removed := h.Count()
	same := len(h.Lines) - added - removed
	fmt.Fprintf(b, "@@ -%s +%s @@\n", lineRange(h.old, same+removed), lineRange(h.new, same+added))
	for _, l := range h.Lines {
		b.WriteByte(l.Mark)
		b.WriteString(l.Text)
		if !strings.HasSuffix(l.Text, "\n") {
			b.WriteString("\n" + noNewline + "\n")
		}
	}
}

// lineRange returns a range of lines as a diff has it.
func lineRange(first, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", first)
	case 1:
		return fmt.Sprint(first + 1)
	}
	return fmt.Sprintf("%d,%d", first+1, count)
}

// Edit returns the hunk with the lines of a text in the unified format, in which a person
// has changed or deleted lines. Edit skips lines that begin with # or @@, and reads an
// empty line as an unchanged one. The result must fit the old text. It has no lines if it
// changes nothing.
func (h Hunk) Edit(text, old string) (Hunk, error) {
	edited := Hunk{old: h.old, new: h.new}
	for number, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		last := len(edited.Lines) - 1
		switch {
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, "@@"):
		case strings.HasPrefix(line, `\`) && last >= 0:
			edited.Lines[last].Text = strings.TrimSuffix(edited.Lines[last].Text, "\n")
		case line == "":
			edited.Lines = append(edited.Lines, Line{Context, "\n"})
		case line[0] == Context, line[0] == Removed, line[0] == Added:
			edited.Lines = append(edited.Lines, Line{line[0], line[1:] + "\n"})
		default:
			return Hunk{}, fmt.Errorf("line %d begins with none of space, - and +", number+1)
		}
	}
	if added, removed := edited.Count(); added+removed == 0 {
		return Hunk{}, nil
	}
	_, err := Apply(old, []Hunk{edited})
	return edited, err
}

// splitLines returns the lines of a text with their newlines.
func splitLines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
