package detached

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/people/terminal"
	"github.com/golem-forge/golem/internal/people/visible"
)

// Limits of the last line of an output: how many bytes of the output are read for it, and
// how many characters it has.
const (
	maxTail = 16 << 10
	maxLast = 120
)

// The output of the program is between two marks. Terminals show nothing for them.
const (
	beginMark = "\x1b_golem: begin\x1b\\"
	endMark   = "\x1b_golem: end\x1b\\"
)

// lastLine returns the last line with text of the output in a directory, as visible text.
func lastLine(dir string) string {
	for _, name := range []string{outputName, olderName} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		var tail []byte
		if info, err := f.Stat(); err == nil {
			tail, _ = io.ReadAll(io.NewSectionReader(f, max(info.Size()-maxTail, 0), maxTail))
		}
		f.Close()
		if line := textOf(string(tail)); line != "" {
			return line
		}
	}
	return ""
}

// textOf returns the last line with text of a program. A sequence that may move the cursor
// ends a line.
func textOf(output string) string {
	if _, rest, ok := strings.Cut(output, beginMark); ok {
		output = rest
	}
	output, _, _ = strings.Cut(output, endMark)
	output = strings.Map(func(r rune) rune {
		if r == '\x0e' || r == '\x0f' { // they choose a character set, as golem's own reset does, and show nothing
			return -1
		}
		return r
	}, terminal.Plain(output))
	lines := strings.FieldsFunc(output, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := len(lines) - 1; i >= 0; i-- {
		if line := strings.TrimSpace(strings.ToValidUTF8(lines[i], "�")); line != "" {
			return visible.Line(line, maxLast)
		}
	}
	return ""
}
