package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// printJSON prints one document.
func printJSON(w io.Writer, document any) error {
	text, err := visible.JSON(document)
	if err == nil {
		_, err = w.Write(text)
	}
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

// commandLine returns words as they are typed in a shell, so that a line that is told can be
// copied. What a terminal would obey is shown, and cannot be typed.
func commandLine(words ...string) string {
	var line []string
	for _, w := range words {
		plain := strings.IndexFunc(w, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./:=@%+,", r)
		}) < 0
		if shown := sandbox.Shown(w); shown != w {
			w = shown
		} else if !plain || w == "" {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		line = append(line, w)
	}
	return strings.Join(line, " ")
}

// didYouMean names the word that is nearest to the one given, or all of them.
func didYouMean(word, before string, words []string) string {
	if near := nearest(word, words); near != "" {
		return "did you mean " + before + near + "?"
	}
	return "there is " + before + strings.Join(words, ", "+before)
}

// nearest returns the word that begins with the one given or is most like it, "" for none.
func nearest(word string, words []string) string {
	for _, w := range words {
		if word != "" && strings.HasPrefix(w, word) {
			return w
		}
	}
	if near := sandbox.Nearest(word, words); len(near) > 0 {
		return near[0]
	}
	return ""
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
