package review

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// Lines describes the change of a file: A, M or D for a created, changed or deleted file,
// and how much changes. A mode, a symlink and a submodule have lines of their own. The
// lines are safe for a terminal.
func Lines(c FileChange) []string {
	name := shown(c.Path)
	var lines []string
	switch {
	case c.Operation == remove:
		lines = []string{"D " + name + " (" + Amount(c) + ")"}
	case c.Mode == link:
		lines = []string{letter(c) + " SYMLINK " + name + " " + leads(c)}
	case c.Mode == submodule:
		lines = []string{letter(c) + " SUBMODULE " + name + " " + visible.Line(strings.TrimSpace(string(c.New[:min(len(c.New), 100)])), 100)}
	case c.Operation == update && c.Diff == "" && c.Encoding == "" && !c.Binary && !c.Cut && modeLine(c) != "":
	default:
		lines = []string{letter(c) + " " + name + " (" + Amount(c) + ")"}
	}
	if text := modeLine(c); text != "" {
		lines = append(lines, text+" "+name)
	}
	return lines
}

func letter(c FileChange) string {
	if c.Operation == create {
		return "A"
	}
	return "M"
}

// Amount describes how much of a file changes.
func Amount(c FileChange) string {
	if c.Binary {
		return about(c)
	}
	if c.Cut {
		return about(c) + ", too large to be compared"
	}
	converted := ""
	if c.Encoding != "" {
		converted = ", " + visible.Line(c.Encoding, 100)
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
	case more == 0 && less == 0 && converted != "" && c.Operation == update:
		return "the same lines" + converted
	case more == 0 && less == 0:
		return "empty" + converted
	case less == 0:
		return fmt.Sprintf("+%d", more) + converted
	case more == 0:
		return fmt.Sprintf("-%d", less) + converted
	}
	return fmt.Sprintf("+%d -%d", more, less) + converted
}

// maxShown limits how many bytes of one line are shown.
const maxShown = 2000

// How says how to show a diff.
type How struct {
	Page visible.Page
	Most int    // limit on lines, and only the two ends of a long line; 0 shows everything
	More string // how to see the rest
	// Whole opens the new content. If the file is too large to compare, Text shows it
	// instead of a diff. It may be nil.
	Whole func() (io.ReadCloser, error)
}

// Text prints the description and the diff of a change, safe for a terminal.
func Text(w io.Writer, c FileChange, how How) error {
	b := bufio.NewWriter(w)
	for _, line := range Lines(c) {
		how.Page.Line(b, line)
	}
	show := func(mark, text string) { how.Page.Row(b, visible.Row{Mark: mark, Text: text}) } // b keeps the error
	more := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if how.More != "" {
			text += "; " + how.More
		}
		show(visible.Hidden, text)
	}
	count, parts := 0, 0
	for r := range visible.Diff(bare(c)) {
		count++
		switch {
		case how.Most == 0:
			show(r.Mark, visible.Text(r.Text))
		case count <= how.Most:
			text := cut(r.Text)
			if len(r.Text) > maxShown {
				parts++
			}
			show(r.Mark, text)
		}
	}
	switch {
	case c.Cut && !c.Binary && c.Operation != remove && how.Whole != nil:
		show(visible.Hidden, "not compared: "+Amount(c)+"; all that it becomes:")
		if err := whole(c.Path, c.Size, how.Whole, show); err != nil {
			return err
		}
	case c.Binary:
		show(visible.Hidden, "not shown, because it is binary") // the line above says more
	case c.Cut:
		more("not shown: %s", Amount(c))
	case how.Most != 0 && count > how.Most:
		more("%d of %d lines shown", max(0, how.Most), count)
	case parts > 0:
		more("long lines: %d shown in part", parts)
	}
	return b.Flush()
}

// whole shows all lines of a content of the given size. It shows a very long line in
// pieces.
func whole(name string, size int64, open func() (io.ReadCloser, error), show func(mark, text string)) error {
	content, err := open()
	if err != nil {
		return err
	}
	defer content.Close()
	r := bufio.NewReaderSize(content, 64<<10)
	for prefix := ""; ; {
		line, err := r.ReadSlice('\n')
		size -= int64(len(line))
		if len(line) > 0 {
			show(visible.Added, prefix+visible.Text(strings.TrimSuffix(string(line), "\n")))
		}
		switch {
		case err == nil:
			prefix = ""
		case errors.Is(err, bufio.ErrBufferFull):
			prefix = "…"
		case errors.Is(err, io.EOF) && size == 0:
			return nil
		case errors.Is(err, io.EOF):
			return &sandbox.Error{Op: "review", Path: name, Code: sandbox.ErrInternal, Hint: "it was cut off while it was read; look again"}
		default:
			return err
		}
	}
}

// bare returns the diff of a change without its header, or "" for a diff that is not
// shown.
func bare(c FileChange) string {
	if c.Binary || c.Cut {
		return ""
	}
	return body(c)
}

// cut escapes a line for a terminal, without the middle of a very long one. It does not
// read the middle.
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
	return fmt.Sprintf("%s…(%d bytes omitted)…%s", visible.Text(text[:head]), tail-head, visible.Text(text[tail:]))
}
