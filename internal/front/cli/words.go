package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// printJSON prints a document as JSON.
func printJSON(w io.Writer, document any) error {
	text, err := visible.JSON(document)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// printOr prints a document with --json. Otherwise print prints it for a person.
func printOr(cmd *cobra.Command, document any, print func(w io.Writer)) error {
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), document)
	}
	print(cmd.OutOrStdout())
	return nil
}

// printLineOr prints a document with --json, and otherwise one line.
func printLineOr(cmd *cobra.Command, document any, format string, args ...any) error {
	return printOr(cmd, document, func(w io.Writer) { fmt.Fprintf(w, format+"\n", args...) })
}

// printTableOr prints a document with --json, and otherwise a table. If it has no rows below
// its head, it prints the text none instead.
func printTableOr(cmd *cobra.Command, document any, none string, head []string, rows [][]string) error {
	return printOr(cmd, document, func(w io.Writer) {
		switch {
		case len(rows) == 0:
			fmt.Fprintln(w, none)
		case head != nil:
			printColumns(w, append([][]string{head}, rows...))
		default:
			printColumns(w, rows)
		}
	})
}

// exitIf returns an exit code if a condition holds.
func exitIf(holds bool, code exit) error {
	if holds {
		return code
	}
	return nil
}

// note prints messages of golem about itself to standard error.
func note(cmd *cobra.Command, texts ...string) {
	for _, text := range texts {
		fmt.Fprintln(cmd.ErrOrStderr(), messagePrefix+text)
	}
}

// printColumns prints rows as indented columns. The last non-empty cell of a row does not
// widen its column. At a terminal it continues in its column if it is too long.
func printColumns(w io.Writer, rows [][]string) {
	columns, _ := newScreen(w).size()
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
	if isNarrow(rows, widths, columns) {
		for _, row := range rows {
			fmt.Fprintln(w, strings.Join(wrapCells(row, columns), "\n"))
		}
		return
	}
	for _, row := range rows {
		var line strings.Builder
		used := 0
		for i, cell := range row {
			used += 2
			if room := columns - used - 1; room >= minCell && strings.Join(row[i+1:], "") == "" {
				cell = strings.Join(visible.Broken(cell, room), "\n"+strings.Repeat(" ", used))
			}
			line.WriteString("  " + cell)
			line.WriteString(strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell))))
			used += widths[i]
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// printLine prints a line that begins with front. At a terminal it continues below the end
// of front, or with a small indent if there is too little room.
func printLine(w io.Writer, front, text string) {
	columns, _ := newScreen(w).size()
	line := front + text
	if columns == 0 || cells(line) < columns {
		fmt.Fprintln(w, line)
		return
	}
	indent := utf8.RuneCountInString(front)
	if columns-indent-1 < minCell {
		indent = 4
	}
	first := visible.Broken(line, columns-1)[0]
	fmt.Fprintln(w, strings.TrimRight(first, " "))
	for _, piece := range visible.Broken(line[len(first):], max(1, columns-indent-1)) {
		fmt.Fprintln(w, strings.Repeat(" ", indent)+strings.TrimRight(piece, " "))
	}
}

// isNarrow reports whether a row does not fit on the terminal, not even if its last cell
// continues in its column.
func isNarrow(rows [][]string, widths []int, columns int) bool {
	return columns > 0 && slices.ContainsFunc(rows, func(row []string) bool {
		used, last := 0, ""
		for i, cell := range row {
			if cell == "" {
				continue
			}
			used, last = 2*(i+1), cell
			for _, width := range widths[:i] {
				used += width
			}
		}
		return columns-used-1 < minCell && used+utf8.RuneCountInString(last) >= columns
	})
}

// wrapCells returns a row as lines of a narrow terminal. It breaks between cells if it can.
func wrapCells(row []string, columns int) []string {
	const indent = "    "
	lines := []string{" "}
	for _, cell := range row {
		last := &lines[len(lines)-1]
		switch {
		case cell == "":
		case cells(*last)+1+cells(cell) < columns:
			*last += " " + cell + " "
		default:
			for _, piece := range visible.Broken(cell, columns-len(indent)-1) {
				lines = append(lines, indent+strings.TrimRight(piece, " "))
			}
			lines[len(lines)-1] += " "
		}
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// printNext prints the commands to type next in one line. If they do not fit on the
// terminal, each has its own line, which is never broken, so that the user can copy it.
func printNext(w io.Writer, commands ...string) {
	const head = "next: "
	text := head + strings.Join(commands, ", ")
	if columns, _ := newScreen(w).size(); columns > 0 && utf8.RuneCountInString(text) >= columns {
		text = head + strings.Join(commands, "\n"+strings.Repeat(" ", len(head)))
	}
	fmt.Fprintln(w, text)
}

// minCell is the fewest columns in which printColumns continues a cell.
const minCell = 30

// didYouMean suggests the word nearest to the given one, or lists all words.
func didYouMean(word, before string, words []string) string {
	if near := nearest(word, words); near != "" {
		return "did you mean " + before + near + "?"
	}
	return "there is " + before + strings.Join(words, ", "+before)
}

// nearest returns a word that begins with the given one or is most like it, or "".
func nearest(word string, words []string) string {
	for _, w := range words {
		if word != "" && strings.HasPrefix(w, word) {
			return w
		}
		if strings.HasPrefix(word, w+"-") {
			return w
		}
	}
	if near := sandbox.Nearest(word, words); len(near) > 0 {
		return near[0]
	}
	return ""
}

// flagNames returns the names of the flags of a command.
func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}
