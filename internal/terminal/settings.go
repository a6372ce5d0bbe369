package terminal

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

const enquiry, shiftOut = 0x05, 0x0e

// settings are what a program has set in a terminal, and not set back.
type settings struct {
	on, off []int // modes that were off and on
	ansi    []int // those of the older kind, that were off
	keys    int   // how often keys were told to be sent in another way
	keysSet bool
	others  bool // keys with modifiers are sent in another way
	keypad  bool
	letters bool // other characters
	styled  bool
	region  bool // only a part of the screen scrolls
	cursor  bool // has another form
	painted bool // colours are others
	moved   bool // the cursor is anywhere, and perhaps with a style that was kept
}

// tracked are the modes that are put back: those that are off before a program
// begins, and those that are on.
var (
	trackedOff = []int{1, 5, 6, 9, 45, 66, 69, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2026, 2031, 2048, 9001, 47, 1047, 1049}
	trackedOn  = []int{7, 25}
)

// note notes a sequence of ESC and a letter.
func (f *Filter) note(b byte) {
	switch b {
	case 'c':
		f.left = settings{painted: f.left.painted} // not everywhere
	case '=':
		f.left.keypad = true
	case '>':
		f.left.keypad = false
	case '(', ')', '*', '+', 'n', 'o':
		f.left.letters = true
	case '8', 'M':
		f.left.moved = true
	case 'Z':
		f.names++
		f.asked = true
	case 'X', '^', '_':
		f.asked = true
	}
}

// noteControl notes a CSI sequence.
func (f *Filter) noteControl(value []byte) {
	final := value[len(value)-1]
	body := value[:len(value)-1]
	var private byte
	if len(body) > 0 && body[0] >= '<' && body[0] <= '?' {
		private, body = body[0], body[1:]
	}
	f.left.moved = f.left.moved || private == 0 && strings.ContainsRune("AFHdfu}", rune(final)) || final == 'q' && bytes.HasSuffix(body, []byte("#"))
	switch {
	case final == 'c':
		if private == 0 {
			f.names++
		}
		f.asked = true
	case (final == 'h' || final == 'l' || final == 'r') && private == '?':
		f.asked = true // mouse and focus tell of themselves
		for _, mode := range numbers(body) {
			switch { // r is what was kept, whatever that is
			case slices.Contains(trackedOff, mode):
				f.left.on = with(f.left.on, mode, final != 'l')
			case slices.Contains(trackedOn, mode):
				f.left.off = with(f.left.off, mode, final != 'h')
			}
			f.left.moved = f.left.moved || mode == 1048 || otherScreen(mode)
		}
	case (final == 'h' || final == 'l') && private == 0:
		for _, mode := range numbers(body) {
			if mode == 4 || mode == 20 {
				f.left.ansi = with(f.left.ansi, mode, final == 'h')
			}
		}
	case final == 'm' && private == 0:
		f.left.styled = len(numeral(body)) > 0
	case final == 'm' && private == '>':
		n := numbers(body)
		if len(n) == 0 || n[0] == 4 {
			f.left.others = len(n) > 1 && n[1] != 0
		}
	case final == 'r' && private == 0:
		f.left.region = len(body) > 0
	case final == 'q' && bytes.HasSuffix(body, []byte(" ")):
		f.left.cursor = true
	case final == 'u' && private != 0:
		f.keys(private, body)
	case private != 0, !strings.ContainsRune("ABCDEFGHIJKLMPSTX@Zabdefgsu`", rune(final)):
		f.asked = true
	}
}

// keys notes how keys are to be sent.
func (f *Filter) keys(private byte, body []byte) {
	f.asked = true
	n := 1
	if list := numbers(body); len(list) > 0 {
		n = list[0]
	}
	switch private {
	case '>':
		f.left.keys++
	case '<':
		f.left.keys = max(0, f.left.keys-max(n, 1))
	case '=':
		f.left.keysSet = len(body) > 0 && n != 0
	}
}

// numbers returns the numbers of a sequence; what is none is left out.
func numbers(body []byte) []int {
	var list []int
	for part := range bytes.SplitSeq(body, []byte(";")) {
		if n, err := strconv.Atoi(string(part)); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// with returns a list with or without a number, which is last then.
func with(list []int, n int, there bool) []int {
	list = slices.DeleteFunc(list, func(m int) bool { return m == n })
	if there {
		list = append(list, n)
	}
	return list
}

func (s settings) undo() []byte {
	var out []byte
	say := func(when bool, text string) {
		if when {
			out = append(out, text...)
		}
	}
	say(s.styled, "\x1b[m")
	say(s.letters, "\x1b(B\x0f")
	say(s.keypad, "\x1b>")
	say(s.cursor, "\x1b[0 q")
	for _, n := range s.ansi {
		say(true, "\x1b["+strconv.Itoa(n)+"l")
	}
	say(s.others, "\x1b[>4m")
	say(s.keysSet, "\x1b[=0u")
	say(s.keys > 0, "\x1b[<"+strconv.Itoa(s.keys)+"u")
	for _, n := range trackedOn {
		say(slices.Contains(s.off, n), "\x1b[?"+strconv.Itoa(n)+"h")
	}
	say(s.region, "\x1b7\x1b[r\x1b8") // which would move the cursor
	for _, n := range trackedOff {    // the other screen last
		say(slices.Contains(s.on, n), "\x1b[?"+strconv.Itoa(n)+"l")
	}
	say(s.painted, "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\\x1b]117\x1b\\\x1b]119\x1b\\\x1b]R\x1b\\")
	say(s.keys > 0 && slices.ContainsFunc(s.on, otherScreen), "\x1b[<"+strconv.Itoa(s.keys)+"u") // each has its own
	say(s.moved, "\x1b[m\x1b(B\x0f\x1b[J")                                                       // what stands below would stand beside what others print
	return out
}

func otherScreen(mode int) bool { return mode == 47 || mode == 1047 || mode == 1049 }
