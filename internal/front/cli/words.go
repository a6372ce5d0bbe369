package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/sandbox"
)

// plain is a writer that lets only plain text through: what a terminal would
// obey, and what an eye would not see, comes out as an escape.
type plain struct {
	to     io.Writer
	failed error // the first write that did not get through
}

func (p *plain) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.to, visible(string(text))); err != nil {
		p.failed = cmp.Or(p.failed, err)
		return 0, err
	}
	return len(text), nil
}

// visible returns text with every character that is neither printable nor a
// line end or tab as an escape.
func visible(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == '\n' || r == '\t' || sandbox.Plain(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}

// printJSON prints one document. What is not plain in it is written as JSON
// writes it, so that no other escape is needed on the way.
func printJSON(w io.Writer, document any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(document); err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range text.String() {
		switch {
		case r == '\n' || sandbox.Plain(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printColumns prints rows under each other, indented. What ends a row may be
// as long as it is.
func printColumns(w io.Writer, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if strings.Join(row[i+1:], "") != "" {
				widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
			}
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString("  " + cell)
			line.WriteString(strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell))))
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// didYouMean names the word that is nearest to the one given, or all of them.
func didYouMean(word, before string, words []string) string {
	near := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return word == "" || !strings.HasPrefix(w, word) })
	if near = append(near, sandbox.Nearest(word, words)...); len(near) > 0 {
		return "did you mean " + before + near[0] + "?"
	}
	return "there is " + before + strings.Join(words, ", "+before)
}

// flagNames returns the names of the flags that a command takes.
func flagNames(cmd *cobra.Command) []string {
	var names []string
	for line := range strings.Lines(cmd.Flags().FlagUsages()) {
		if _, rest, ok := strings.Cut(line, "--"); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}
