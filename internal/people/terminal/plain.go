package terminal

import "strings"

// Plain returns the text of an output, without the sequences for a terminal. A sequence that
// moves the cursor to another line becomes the end of a line.
func Plain(output string) string {
	var text strings.Builder
	for len(output) > 0 {
		start := strings.IndexByte(output, esc)
		if start < 0 || start+1 >= len(output) {
			text.WriteString(strings.TrimSuffix(output, "\x1b"))
			break
		}
		text.WriteString(output[:start])
		kind := output[start+1]
		output = output[start+2:]
		switch kind {
		case '[':
			end := strings.IndexFunc(output, func(r rune) bool { return r < ' ' || r >= '@' && r != rubout })
			if end < 0 {
				return text.String()
			}
			switch final := output[end]; {
			case final < ' ': // it is incomplete
				end--
			case strings.IndexByte("ABEFHfdJ", final) >= 0:
				text.WriteByte('\n')
			case strings.IndexByte("CG`a", final) >= 0:
				text.WriteByte(' ')
			}
			output = output[end+1:]
		case ']', 'P', '_', '^', 'X':
			end := strings.IndexAny(output, "\a\x1b\x18\x1a")
			if end < 0 {
				return text.String()
			}
			if output[end] == esc {
				end++ // and the sign after it
			}
			output = output[min(end+1, len(output)):]
		default:
			for kind >= ' ' && kind < '0' && len(output) > 0 { // signs before the final letter
				kind, output = output[0], output[1:]
			}
		}
	}
	return text.String()
}
