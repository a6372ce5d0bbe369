package review

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/visible"
)

// Summary prints what becomes of each file, a line each: A, M or D for what is
// created, changed or deleted, and how much of it. A mode, a link and a submodule
// have lines of their own. All of it is fit for a terminal.
func Summary(w io.Writer, changes []Change) error {
	b := bufio.NewWriter(w)
	for _, c := range changes {
		for _, line := range Lines(c) {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.Flush()
}

// Lines returns the lines of a summary about one file.
func Lines(c Change) []string {
	name := shown(c.Path)
	var lines []string
	switch {
	case c.Operation == remove:
		lines = []string{"D " + name + " (" + Amount(c) + ")"}
	case c.Mode == link:
		lines = []string{letter(c) + " LINK " + name + " " + leads(c)}
	case c.Mode == submodule:
		lines = []string{letter(c) + " SUBMODULE " + name + " " + visible.Line(strings.TrimSpace(string(c.New[:min(len(c.New), 100)])), 100)}
	case c.Operation == update && c.Diff == "" && !c.Binary && !c.Cut && modeLine(c) != "":
	default:
		lines = []string{letter(c) + " " + name + " (" + Amount(c) + ")"}
	}
	if text := modeLine(c); text != "" {
		lines = append(lines, text+" "+name)
	}
	return lines
}

func letter(c Change) string {
	if c.Operation == create {
		return "A"
	}
	return "M"
}

// Amount says how much of a file changes.
func Amount(c Change) string {
	if c.Binary {
		return about(c)
	}
	if c.Cut {
		return about(c) + ", too large to be compared"
	}
	more, less := 0, 0
	for r := range visible.Diff(bare(c)) {
		switch r.Mark {
		case visible.Added:
			more++
		case visible.Removed:
			less++
		}
	}
	switch {
	case more == 0 && less == 0:
		return "empty"
	case less == 0:
		return fmt.Sprintf("+%d", more)
	case more == 0:
		return fmt.Sprintf("-%d", less)
	}
	return fmt.Sprintf("+%d -%d", more, less)
}

// maxShown is how many bytes of one line are shown.
const maxShown = 2000

// Text prints the diff of a change with at most so many lines of it, and how many
// that are. Every byte of it is fit for a terminal.
func Text(w io.Writer, c Change, colours bool, most int) error {
	b := bufio.NewWriter(w)
	for _, line := range Lines(c) {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	show := func(r visible.Row) {
		for _, line := range r.Lines(0, colours) {
			b.WriteString(line)
		}
	}
	count := 0
	for r := range visible.Diff(bare(c)) {
		if count++; count <= most {
			show(visible.Row{Mark: r.Mark, Text: cut(r.Text)})
		}
	}
	switch {
	case c.Binary || c.Cut:
		show(visible.Row{Mark: visible.Hidden, Text: "not shown: " + Amount(c)})
	case count > most:
		show(visible.Row{Mark: visible.Hidden, Text: fmt.Sprintf("%d of %d lines shown", max(0, most), count)})
	}
	return b.Flush()
}

// bare returns the diff of a change without its names, if it is to be shown.
func bare(c Change) string {
	if c.Binary || c.Cut {
		return ""
	}
	return body(c)
}

// cut makes a line visible, without its middle where it is very long. What is left
// out is not looked at, whatever its length.
func cut(text string) string {
	if len(text) <= maxShown {
		return visible.Text(text)
	}
	head, tail := maxShown*2/3, len(text)-maxShown/3
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return fmt.Sprintf("%s…(%d bytes left out)…%s", visible.Text(text[:head]), tail-head, visible.Text(text[tail:]))
}
