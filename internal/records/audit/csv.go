package audit

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/golem-forge/golem/internal/people/visible"
)

// csvColumns are the columns of an export for spreadsheets.
var csvColumns = []string{"program", "n", "time", "session", "kind", "origin", "workers", "tool", "command", "effects", "decision", "by", "seen", "digest", "request", "code", "note", "call"}

// A CSVWriter writes records as comma-separated values, with a line of names first. A
// spreadsheet reads no cell as a formula.
type CSVWriter struct{ to *csv.Writer }

// NewCSVWriter returns a writer, and writes the names of the columns.
func NewCSVWriter(w io.Writer) (*CSVWriter, error) {
	c := &CSVWriter{csv.NewWriter(w)}
	return c, c.to.Write(csvColumns)
}

// Write writes a record of a program.
func (c *CSVWriter) Write(program string, r Record) error {
	row := []string{program, strconv.FormatUint(r.Number, 10), r.Time.UTC().Format(time.RFC3339Nano), r.Session, string(r.Kind), r.Origin,
		strings.Join(r.Workers, " > "), r.Tool, r.Command(), strings.Join(r.Effects, "; "), r.Decision, r.By, r.Seen, r.Digest, r.Request, r.Code, r.Note, r.Call}
	for i, cell := range row {
		row[i] = withoutFormula(cell)
	}
	return c.to.Write(row)
}

// Flush writes what is buffered, and returns the first error.
func (c *CSVWriter) Flush() error {
	c.to.Flush()
	return c.to.Error()
}

// withoutFormula returns a cell that a spreadsheet shows as text. Programs read a cell as
// a formula if it begins with one of a few characters, and some of them skip spaces first.
func withoutFormula(cell string) string {
	cell = visible.Text(cell)
	first := strings.TrimLeft(cell, " \t\r\n\u00a0\"'")
	if first != "" && strings.ContainsAny(first[:1], "=+-@|%") || strings.HasPrefix(cell, "\t") || strings.HasPrefix(cell, "\r") || strings.HasPrefix(cell, "\n") {
		return "'" + cell
	}
	for _, wide := range []string{"＝", "＋", "－", "＠"} {
		if strings.HasPrefix(first, wide) {
			return "'" + cell
		}
	}
	return cell
}

// Command returns the command that a call runs, as one can type it in a shell, or "". It is the
// line of a shell as it is, or the words of a program with the quotes that they need.
func (r Record) Command() string {
	switch c := r.Args["command"].(type) {
	case string:
		return c
	case []any:
		var words []string
		for _, word := range c {
			words = append(words, quoteWord(fmt.Sprint(word)))
		}
		return strings.Join(words, " ")
	}
	return ""
}

// quoteWord quotes a word for a shell. A word with line ends or unprintable characters is
// written as $'…', which bash, zsh and ksh read.
func quoteWord(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }) {
		var b strings.Builder
		b.WriteString("$'")
		for _, r := range word {
			switch {
			case r == '\n':
				b.WriteString(`\n`)
			case r == '\t':
				b.WriteString(`\t`)
			case r == '\'' || r == '\\':
				b.WriteString(`\` + string(r))
			case r == ' ' || unicode.IsPrint(r):
				b.WriteRune(r)
			case r > 0xffff:
				fmt.Fprintf(&b, `\U%08x`, r)
			default:
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		}
		return b.String() + "'"
	}
	if word == "" || strings.ContainsAny(word, " '\"\\$`*?[]{}()<>|&;~#!") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
