package terminal

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

const enquiry, shiftOut = 0x05, 0x0e

// settings are the changes that a program made to a terminal and did not undo.
type settings struct {
	on, off []int // modes that are off or on by default
	ansi    []int // older (ANSI) modes that are off by default
	keys    int   // how often the program changed the encoding of keys
	keysSet bool
	flags   int // the encoding that it chose last
	others  int // how keys with modifiers are encoded, 0 for the usual way
	keypad  bool
	letters bool // another character set
	styled  bool
	region  string // the part of the screen that scrolls, "" for all of it
	cursor  bool   // another shape
	painted bool   // other colours
	moved   bool   // the cursor may be anywhere, perhaps with a saved style
}

// The modes to reset: those that are off before a program starts, and those that are on.
var (
	trackedOff = []int{1, 5, 6, 9, 45, 66, 69, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2026, 2031, 2048, 9001, 47, 1047, 1049}
	trackedOn  = []int{7, 25}
)

// noteEscape records a sequence of ESC and a letter.
func (f *Filter) noteEscape(b byte) {
	switch b {
	case 'c':
		f.left = settings{painted: f.left.painted} // not all terminals reset colours
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

// noteControl records a CSI sequence.
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
		f.asked = true // the terminal sends mouse and focus events by itself
		for _, mode := range numbers(body) {
			switch { // r restores saved modes, which are not known
			case slices.Contains(trackedOff, mode):
				f.left.on = setNumber(f.left.on, mode, final != 'l')
			case slices.Contains(trackedOn, mode):
				f.left.off = setNumber(f.left.off, mode, final != 'h')
			}
			f.left.moved = f.left.moved || mode == 1048 || otherScreen(mode)
		}
	case (final == 'h' || final == 'l') && private == 0:
		for _, mode := range numbers(body) {
			if mode == 4 || mode == 20 {
				f.left.ansi = setNumber(f.left.ansi, mode, final == 'h')
			}
		}
	case final == 'm' && private == 0:
		f.left.styled = len(numeral(body)) > 0
	case final == 'm' && private == '>':
		n := numbers(body)
		if len(n) == 0 || n[0] == 4 {
			f.left.others = 0
			if len(n) > 1 {
				f.left.others = n[1]
			}
		}
	case final == 'r' && private == 0:
		f.left.region = string(body)
	case final == 'q' && bytes.HasSuffix(body, []byte(" ")):
		f.left.cursor = true
	case final == 'u' && private != 0:
		f.keys(private, body)
	case private != 0, !strings.ContainsRune("ABCDEFGHIJKLMPSTX@Zabdefgsu`", rune(final)):
		f.asked = true
	}
}

// keys records a change in the encoding of keys.
func (f *Filter) keys(private byte, body []byte) {
	f.asked = true
	n, flags := 1, 0
	if list := numbers(body); len(list) > 0 {
		n, flags = list[0], list[0]
	}
	if private == '>' || private == '=' {
		f.left.flags = flags
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

// numbers returns the numbers of a sequence, and skips everything else.
func numbers(body []byte) []int {
	var list []int
	for part := range bytes.SplitSeq(body, []byte(";")) {
		if n, err := strconv.Atoi(string(part)); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// setNumber returns a list with or without a number. It puts an added number last.
func setNumber(list []int, n int, there bool) []int {
	list = slices.DeleteFunc(list, func(m int) bool { return m == n })
	if there {
		list = append(list, n)
	}
	return list
}

func (s settings) undo() []byte {
	var out []byte
	add := func(when bool, text string) {
		if when {
			out = append(out, text...)
		}
	}
	add(s.styled, "\x1b[m")
	add(s.letters, "\x1b(B\x0f")
	add(s.keypad, "\x1b>")
	add(s.cursor, "\x1b[0 q")
	for _, n := range s.ansi {
		add(true, "\x1b["+strconv.Itoa(n)+"l")
	}
	add(s.others != 0, "\x1b[>4m")
	add(s.keysSet, "\x1b[=0u")
	add(s.keys > 0, "\x1b[<"+strconv.Itoa(s.keys)+"u")
	for _, n := range trackedOn {
		add(slices.Contains(s.off, n), "\x1b[?"+strconv.Itoa(n)+"h")
	}
	add(s.region != "", "\x1b7\x1b[r\x1b8") // resetting the region moves the cursor
	for _, n := range trackedOff {          // the alternate screen last
		add(slices.Contains(s.on, n), "\x1b[?"+strconv.Itoa(n)+"l")
	}
	add(s.painted, "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\\x1b]117\x1b\\\x1b]119\x1b\\\x1b]R\x1b\\")
	add(s.keys > 0 && slices.ContainsFunc(s.on, otherScreen), "\x1b[<"+strconv.Itoa(s.keys)+"u") // each screen has its own
	add(s.moved, "\x1b[m\x1b(B\x0f\x1b[J")                                                       // text below the cursor would mix with later output
	return out
}

// pause returns the output that prepares the terminal for golem while the program keeps
// its screen: the alternate screen, empty, without the program's settings.
func (s settings) pause() []byte {
	out := []byte("\x1b\\") // ends an incomplete sequence
	if !s.isFullScreen() {
		out = append(out, "\x1b[?1049h"...) // saves the cursor with its style
	}
	s.on = slices.DeleteFunc(slices.Clone(s.on), otherScreen)
	s.keys, s.keysSet, s.cursor, s.painted, s.moved = 0, false, false, false, false
	out = append(out, "\x1b[>0u"...) // the usual encoding of keys, until resume
	return append(append(out, s.undo()...), "\x1b[m\x1b[H\x1b[2J"...)
}

// resume returns the output that undoes pause.
func (s settings) resume() []byte {
	out := s.set([]byte("\x1b[m\x1b[H\x1b[2J\x1b[<1u"))
	if !s.isFullScreen() {
		out = append(out, "\x1b[?1049l"...)
	}
	return out
}

// set appends the output that makes the settings again, except those of the screen, the
// colours and the encoding of keys.
func (s settings) set(out []byte) []byte {
	add := func(when bool, text string) {
		if when {
			out = append(out, text...)
		}
	}
	add(s.keypad, "\x1b=")
	for _, n := range s.ansi {
		add(true, "\x1b["+strconv.Itoa(n)+"h")
	}
	add(s.others != 0, "\x1b[>4;"+strconv.Itoa(s.others)+"m")
	add(s.region != "", "\x1b["+s.region+"r")
	for _, n := range s.off {
		add(true, "\x1b[?"+strconv.Itoa(n)+"l")
	}
	for _, n := range s.on {
		add(!otherScreen(n) && n != synchronized, "\x1b[?"+strconv.Itoa(n)+"h")
	}
	return out
}

// again returns the output that makes the settings on another terminal. It shows an empty
// screen if the program uses the alternate screen.
func (s settings) again() []byte {
	var out []byte
	for _, n := range s.on {
		if otherScreen(n) {
			out = append(out, "\x1b[?"+strconv.Itoa(n)+"h\x1b[m\x1b[H\x1b[2J"...)
		}
	}
	flags := strconv.Itoa(s.flags)
	out = append(out, strings.Repeat("\x1b[>"+flags+"u", min(s.keys, mostPushed))...)
	if s.keysSet {
		out = append(out, "\x1b[="+flags+"u"...)
	}
	return s.set(out)
}

// mostPushed is how many encodings of keys a terminal stores at least.
const mostPushed = 8

// isFullScreen reports whether the program uses the alternate screen.
func (s settings) isFullScreen() bool { return slices.ContainsFunc(s.on, otherScreen) }

// synchronized is the mode in which the terminal does not draw.
const synchronized = 2026

func otherScreen(mode int) bool { return mode == 47 || mode == 1047 || mode == 1049 }

// answers counts, in the input from a terminal, its answers to the question of what it
// is: ESC [ ? numbers c.
type answers struct {
	names int
	at    int
}

func (a *answers) read(input []byte) {
	const begin = "\x1b[?"
	for _, b := range input {
		switch {
		case a.at < len(begin) && b == begin[a.at]:
			a.at++
		case a.at == len(begin) && (b >= '0' && b <= '9' || b == ';'):
		case a.at == len(begin) && b == 'c':
			a.names++
			a.at = 0
		case b == esc:
			a.at = 1
		default:
			a.at = 0
		}
	}
}
