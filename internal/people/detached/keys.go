package detached

import "bytes"

// LeaveKeys is what a person presses to leave, in words.
const LeaveKeys = "Ctrl-] d"

// A leaver finds the keys to leave among the keys that a person presses: Ctrl-], and then d.
// Ctrl-] twice is one Ctrl-] for the program.
type leaver struct {
	held []byte // Ctrl-] as it was sent, until the next key
}

// The forms in which terminals send the keys: the usual one, and those that programs can
// ask for.
var (
	bracketForms = [][]byte{{0x1d}, []byte("\x1b[93;5u"), []byte("\x1b[93;5:1u"), []byte("\x1b[27;5;93~")}
	leaveForms   = [][]byte{{'d'}, {0x04}, []byte("\x1b[100u"), []byte("\x1b[100;1:1u"), []byte("\x1b[100;1u"), []byte("\x1b[100;5u"), []byte("\x1b[100;5:1u"), []byte("\x1b[27;5;100~")}
)

// pass returns the keys for the program, and whether the person leaves.
func (l *leaver) pass(keys []byte) (out []byte, leaves bool) {
	for len(keys) > 0 {
		bracket := formAt(keys, bracketForms)
		switch {
		case len(l.held) == 0 && bracket > 0:
			l.held = append(l.held, keys[:bracket]...)
			keys = keys[bracket:]
		case len(l.held) == 0:
			out = append(out, keys[0])
			keys = keys[1:]
		case bracket > 0:
			out = append(out, keys[:bracket]...)
			keys, l.held = keys[bracket:], nil
		case formAt(keys, leaveForms) > 0:
			return out, true
		case releaseAt(keys) > 0:
			keys = keys[releaseAt(keys):]
		default:
			out = append(out, l.held...)
			l.held = nil
		}
	}
	return out, false
}

// formAt returns the length of the form that keys start with, 0 for none.
func formAt(keys []byte, forms [][]byte) int {
	for _, form := range forms {
		if bytes.HasPrefix(keys, form) {
			return len(form)
		}
	}
	return 0
}

// releaseAt returns the length of a message, at the start of keys, that a key was released:
// ESC [ numbers : 3 u. It is 0 if there is none.
func releaseAt(keys []byte) int {
	rest, is := bytes.CutPrefix(keys, []byte("\x1b["))
	end := bytes.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != ';' && r != ':' })
	if !is || end < 0 || !bytes.HasSuffix(rest[:end], []byte(":3")) {
		return 0
	}
	return len("\x1b[") + end + 1
}
