package terminal

import (
	"bytes"
	"slices"
)

// Replay returns the output that makes another terminal show what the terminal of a program
// shows, as far as that is known. The filter has passed all output of the program, and
// recent is the end of that output. A program that draws on the alternate screen gets an
// empty one: it draws again when its terminal changes its size. Replay repeats no question
// to the terminal, because its answer would reach the program as keys.
func (f *Filter) Replay(recent []byte) []byte {
	var out []byte
	if !f.left.isFullScreen() {
		quiet := Filter{Quiet: true}
		out = quiet.Pass(nil, recent)
		quiet.left.styled, quiet.left.moved = false, false // the program continues where it is
		out = append(out, quiet.Undo()...)
	}
	return append(append(out, f.left.again()...), f.held...)
}

// asksTerminal reports whether the terminal answers a CSI sequence that passes.
func asksTerminal(value []byte) bool {
	final := value[len(value)-1]
	private := value[0] == '>' || value[0] == '?' || value[0] == '='
	switch final {
	case 'c':
		return true
	case 'n':
		return value[0] != '>'
	case 'p':
		return bytes.HasSuffix(value, []byte("$p"))
	case 'q':
		return value[0] == '>'
	case 'u', 'S', 'm':
		return value[0] == '?'
	case 'R':
		return true
	case 't':
		for what := range numbersOf(value) { // the first number says what to do
			return !private && !bytes.Contains(value, []byte("$")) && slices.Contains([]string{"11", "13", "14", "15", "16", "18", "19"}, what)
		}
	}
	return false
}

// isSilent reports whether the terminal does not answer an OSC sequence that starts with
// value: a title, a link or a mark.
func isSilent(value []byte) bool {
	digits, _, _ := bytes.Cut(bytes.TrimLeft(value, " +"), []byte(";"))
	return len(digits) > 0 && slices.Contains([]string{"", "1", "2", "8", "133"}, numeral(digits))
}
