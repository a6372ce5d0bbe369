package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/sandbox"
)

// plain is a writer that lets only plain text through: what a terminal would
// obey, and what an eye would not see, comes out as an escape.
type plain struct{ to io.Writer }

func (p plain) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.to, visible(string(text))); err != nil {
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
		case r == '\n' || r == '\t' || strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}

// printJSON prints one document.
func printJSON(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document)
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
