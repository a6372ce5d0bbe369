package file

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxScanned   = 8 << 20 // bytes of a file to search for something similar
	maxCandidate = 200_000 // lines of a file to search
	maxWanted    = 500     // lines of the wanted text
	maxRepeats   = 8       // repeats of one line in the wanted text
	maxShown     = 10      // lines to show
	maxChars     = 200     // characters to show of each line
)

// describeClosest shows the part of the file that is most like old. If only one kind of thing
// differs, it names that. It searches a limited part of the file.
func describeClosest(content []byte, old string) string {
	have := split(content[:min(len(content), maxScanned)], maxCandidate)
	wanted := split([]byte(strings.Trim(old, "\r\n")), maxWanted)
	start, ok := findByLines(have, wanted)
	if !ok {
		start, ok = findByTrigrams(have, wanted)
	}
	switch {
	case !ok && len(content) > maxScanned:
		return fmt.Sprintf("nothing in its first %d MiB is like that; read the part again", maxScanned>>20)
	case !ok:
		return "nothing in it is like that; read the file again"
	}
	window := have[start:min(len(have), start+len(wanted))]
	var b strings.Builder
	b.WriteString("the closest is this")
	if what := describeDifference(strings.Join(window, "\n"), strings.Join(wanted, "\n")); what != "" {
		b.WriteString(", where only " + what)
	}
	b.WriteString(":")
	for i, line := range window[:min(len(window), maxShown)] {
		fmt.Fprintf(&b, "\n%6d\t%s", start+i+1, shortenLine(line))
	}
	if more := len(window) - maxShown; more > 0 {
		fmt.Fprintf(&b, "\n… %d more lines", more)
	}
	return b.String()
}

// split returns the first lines of a text, without their LF.
func split(text []byte, most int) []string {
	var list []string
	for line := range bytes.Lines(text) {
		if len(list) == most {
			break
		}
		list = append(list, strings.TrimSuffix(string(line), "\n"))
	}
	return list
}

// shortenLine shortens a line.
func shortenLine(line string) string {
	line = strings.ToValidUTF8(strings.TrimSuffix(line, "\r"), "\uFFFD")
	n := 0
	for i := range line {
		if n == maxChars {
			return line[:i] + "…"
		}
		n++
	}
	return line
}

// findByLines finds the position with the most of the wanted lines. It ignores white space and
// kinds of quotes. Long lines count for more than short ones.
func findByLines(have, wanted []string) (start int, ok bool) {
	at := map[string][]int{}
	for i, line := range wanted {
		if key := stripLine(line); key != "" && len(at[key]) < maxRepeats {
			at[key] = append(at[key], i)
		}
	}
	votes := map[int]int{}
	best := 0
	for i, line := range have {
		if len(line) > maxScanned/8 {
			continue
		}
		key := stripLine(line)
		for _, j := range at[key] {
			place := max(0, i-j)
			if votes[place] += min(len(key), 40); votes[place] > best {
				best, start = votes[place], place
			}
		}
	}
	return start, best > 0
}

// findByTrigrams finds the line that shares the most runs of three bytes with the longest wanted
// line.
func findByTrigrams(have, wanted []string) (start int, ok bool) {
	longest, offset := "", 0
	for i, line := range wanted {
		if key := stripLine(line); len(key) > len(longest) {
			longest, offset = key, i
		}
	}
	longest = longest[:min(len(longest), 2*maxChars)]
	runs := map[string]bool{}
	for i := range max(0, len(longest)-2) {
		runs[longest[i:i+3]] = true
	}
	best := len(runs) / 3 // fewer shared runs are chance
	for i, line := range have {
		key := stripLine(line[:min(len(line), 4*maxChars)])
		shared := map[string]bool{}
		for k := range max(0, len(key)-2) {
			if run := key[k : k+3]; runs[run] {
				shared[run] = true
			}
		}
		if len(shared) > best {
			best, start, ok = len(shared), max(0, i-offset), true
		}
	}
	return start, ok
}

// describeDifference names the one kind of thing in which the file differs from a text. It
// returns "" if no single kind explains the difference.
func describeDifference(have, want string) string {
	for _, d := range []struct {
		what string
		same func(string) string
	}{
		{"the line ends differ", func(s string) string { return strings.ReplaceAll(s, "\r", "") }},
		{"tabs and spaces differ", collapseBlanks},
		{"white space differs", func(s string) string { return strings.Map(dropSpace, s) }},
		{"quotes differ", func(s string) string { return strings.Map(unifyQuote, s) }},
		{"white space and quotes differ", stripLine},
		{"upper and lower case differ", strings.ToLower},
		{"the line numbers differ: leave them out", stripLineNumbers},
	} {
		if strings.Contains(d.same(have), d.same(want)) {
			return d.what
		}
	}
	return ""
}

// stripLine returns a line without white space and with one kind of quotes.
func stripLine(line string) string { return strings.Map(unifyQuote, strings.Map(dropSpace, line)) }

func dropSpace(r rune) rune {
	if unicode.IsSpace(r) || r == '\u200b' || r == '\ufeff' {
		return -1
	}
	return r
}

func unifyQuote(r rune) rune {
	switch r {
	case '"', '`', '´', '‘', '’', '‚', '“', '”', '„', '«', '»':
		return '\''
	}
	return r
}

// collapseBlanks replaces each run of tabs and spaces with one space and removes those at both
// ends of lines.
func collapseBlanks(text string) string {
	list := strings.Split(text, "\n")
	for i, line := range list {
		list[i] = strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' }), " ")
	}
	return strings.Join(list, "\n")
}

// stripLineNumbers removes the line numbers that read_file puts before lines.
func stripLineNumbers(text string) string {
	list := strings.Split(text, "\n")
	for i, line := range list {
		rest := strings.TrimLeft(strings.TrimLeft(line, " "), "0123456789")
		if r, size := utf8.DecodeRuneInString(rest); len(rest) < len(line) && (r == '\t' || r == '→') {
			list[i] = rest[size:]
		}
	}
	return strings.Join(list, "\n")
}
