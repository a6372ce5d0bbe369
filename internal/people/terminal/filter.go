package terminal

import (
	"bytes"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Filter stands between a program and a terminal. It passes text and the sequences that
// programs draw with:
//
//   - CSI sequences of a list, which move the cursor, erase, scroll, set colours and modes,
//     and ask for the size, the position and the kind of the terminal;
//   - DCS for sixel pictures, and for questions about settings and capabilities;
//   - OSC, except those below, and ESC with a letter.
//
// It drops all other CSI and DCS sequences: those that read the screen back, define what a
// key types, run macros, print on paper, report titles, or pass on sequences to another
// terminal. It drops the strings that begin with APC, PM and SOS: pictures of kitty stay
// above what golem prints later, and can be read from files. It drops ENQ, which makes a
// terminal type a text. It drops OSC sequences that
//
//   - reach the clipboard: OSC 52 and OSC 5522;
//   - reach files, properties and programs of the desktop: OSC 3, 20, 46, 50, 55, 72, 440,
//     5113 and 7773, OSC 9 with 6, 7 or 8, and OSC 1337 with a key that is not known to be
//     harmless, such as Copy, ReportVariable, RequestUpload, or a File that is not shown
//     inline;
//   - make the terminal read a file: background pictures (OSC 11 with a sign before a name),
//     and ESC }, after which Terminology reads names;
//   - control the program that contains the terminal: OSC 51 and OSC 633, which are for
//     editors that show a terminal, and OSC 7 and OSC 9;9, which set the directory of the
//     next shell;
//   - link a text to anything but the web and mail (OSC 8), or begin without a number, as
//     the sequences for icons in files do.
//
// It also drops CSI 2 h, which locks the keyboard, CSI 12 l, which shows what the user types,
// and CSI b with a number of more than four digits. It drops what makes the terminal parse sequences differently from this filter, CSI ? 2
// l (VT52), CSI ? 38 h (Tektronix) and ESC % with anything but G (no UTF-8), and sequences that
// begin with more than a kilobyte that no terminal knows.
//
// The filter replaces such a sequence with ESC \, the end of a string that has no
// beginning, which does nothing. Without it, the output before and after could join into
// a new sequence.
//
// The filter holds back an incomplete sequence until it can judge it; a terminal would
// not show it yet. It is made for terminals that show UTF-8, where a byte of a character
// is not a control. All terminals with a clipboard do that.
type Filter struct {
	// Quiet makes the filter also drop what the terminal would answer: for a terminal that
	// only shows the output, or shows it once more.
	Quiet bool

	state state
	held  []byte // the start of a sequence or of a character
	value []byte // its bytes without control characters, which terminals execute at once or ignore

	used  bool // more than text has passed
	left  settings
	asked bool // an answer of the terminal may be pending
	names int  // how often the program asked what the terminal is
}

type state uint8

const (
	ground  state = iota
	letter        // in a multi-byte character
	escape        // after ESC
	control       // after CSI
	ignored       // in a CSI sequence that is dropped
	number        // after OSC
	colour        // in an OSC sequence about colours
	device        // after DCS
	dropped       // in a string sequence that is dropped
	dropEnd       // after an ESC in a dropped sequence
	coding        // after ESC %
)

const (
	bell   = 0x07
	cancel = 0x18
	sub    = 0x1a
	esc    = 0x1b
	rubout = 0x7f
	// The one-character forms of ESC and a letter are from firstC1 to lastC1.
	firstC1, dcs, sos, identify, csi, terminator, osc, pm, apc, lastC1 = 0x80, 0x90, 0x98, 0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f, 0x9f

	longest = 1 << 10
)

// Pass appends to a buffer the part of output that may reach the terminal.
func (f *Filter) Pass(to, output []byte) []byte {
	for len(output) > 0 {
		if f.state == ground {
			n := countPlain(output)
			to, output = append(to, output[:n]...), output[n:]
			if len(output) == 0 {
				break
			}
		}
		to = f.step(to, output[0])
		output = output[1:]
	}
	return to
}

// countPlain returns the number of bytes at the start of output that are only characters.
func countPlain(output []byte) int {
	for i := 0; i < len(output); {
		b := output[i]
		if b == esc || b == enquiry || b == shiftOut {
			return i
		}
		if b < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(output[i:])
		if size == 1 || r <= lastC1 {
			return i
		}
		i += size
	}
	return len(output)
}

// isControl reports whether a byte inside a sequence is a control of its own.
func isControl(b byte) bool { return b < ' ' && b != esc && b != cancel && b != sub || b == rubout }

// step handles one byte.
func (f *Filter) step(to []byte, b byte) []byte {
	if b == enquiry && f.state != ground && f.state != letter {
		return to // a terminal would execute it inside a sequence
	}
	switch f.state {
	case ground:
		return f.text(to, b)
	case letter:
		return f.letter(to, b)
	case escape:
		return f.escape(to, b)
	case control:
		return f.control(to, b)
	case number:
		return f.number(to, b)
	case colour:
		return f.colour(to, b)
	case device:
		return f.device(to, b)
	case coding:
		return f.coding(to, b)
	case ignored:
		switch {
		case b == esc:
			return f.begin(to, b)
		case b == cancel, b == sub, b >= '@' && b < rubout:
			f.state = ground
		}
	case dropped:
		switch b {
		case esc:
			f.state = dropEnd
		case bell, cancel, sub, terminator:
			f.state = ground
		}
	case dropEnd:
		if b == '\\' {
			f.state = ground
			return to
		}
		return f.escape(f.begin(to, esc), b)
	}
	return to
}

// text handles a byte outside sequences.
func (f *Filter) text(to []byte, b byte) []byte {
	switch {
	case b == esc:
		return f.begin(to, b)
	case b == enquiry:
		return append(to, esc, '\\')
	case b == shiftOut:
		f.used, f.left.letters = true, true
	case b >= utf8.RuneSelf:
		f.held, f.state = f.held[:0], letter
		return f.letter(to, b)
	}
	return append(to, b)
}

// letter handles a byte of a multi-byte character.
func (f *Filter) letter(to []byte, b byte) []byte {
	f.held = append(f.held, b)
	if !utf8.FullRune(f.held) {
		return to
	}
	r, size := utf8.DecodeRune(f.held)
	switch {
	case size > 1 && r > lastC1:
		return f.release(to)
	case size > 1:
		return f.single(to, byte(r))
	}
	// This is not a character, but some terminals would still take a byte of it as a
	// control.
	rest := slices.Clone(f.held[1:])
	first := f.held[0]
	f.held = f.held[:1]
	to = f.single(to, first)
	for _, b := range rest {
		to = f.step(to, b)
	}
	return to
}

// single handles the held bytes, which are a control in one character.
func (f *Filter) single(to []byte, c byte) []byte {
	f.used = f.used || c <= lastC1
	switch {
	case c == csi, c == osc, c == dcs:
		f.value = f.value[:0]
		f.state = map[byte]state{csi: control, osc: number, dcs: device}[c]
		return to
	case c == apc, c == pm, c == sos:
		return f.drop(to, dropped)
	case c == identify && f.Quiet:
		return f.drop(to, ground)
	case c == identify:
		f.names++
		f.asked = true
	case c >= firstC1 && c <= lastC1:
		f.asked = true
	}
	return f.release(to)
}

// begin starts a sequence with ESC.
func (f *Filter) begin(to []byte, b byte) []byte {
	f.held, f.value, f.state, f.used = append(f.held[:0], b), f.value[:0], escape, true
	return to
}

// release passes the held bytes.
func (f *Filter) release(to []byte) []byte {
	to = append(to, f.held...)
	f.held, f.state = f.held[:0], ground
	return to
}

// drop discards the held bytes.
func (f *Filter) drop(to []byte, next state) []byte {
	f.held, f.state = f.held[:0], next
	return append(to, esc, '\\')
}

// hold holds another byte of a sequence. It drops a sequence that is too long.
func (f *Filter) hold(to []byte, b byte, sequence, otherwise state) []byte {
	if f.held, f.state = append(f.held, b), sequence; len(f.held) > longest {
		return f.drop(to, otherwise)
	}
	return to
}

// escape handles a byte after ESC.
func (f *Filter) escape(to []byte, b byte) []byte {
	switch {
	case isControl(b):
		return f.hold(to, b, escape, ground)
	case b == esc:
		return f.begin(f.release(to), b)
	case b == '[':
		return f.hold(to, b, control, ignored)
	case b == ']':
		return f.hold(to, b, number, dropped)
	case b == 'P':
		return f.hold(to, b, device, dropped)
	case b == '_', b == '^', b == 'X':
		return f.drop(to, dropped)
	case b == '%':
		return f.hold(to, b, coding, ground)
	case b == '}', b == 'Z' && f.Quiet:
		return f.drop(to, ground)
	case b >= 0x80:
		return f.text(f.release(to), b)
	}
	f.noteEscape(b)
	return append(f.release(to), b)
}

// coding handles a byte after ESC %. Only G passes, which selects UTF-8.
func (f *Filter) coding(to []byte, b byte) []byte {
	switch {
	case b == esc:
		return f.begin(f.release(to), b)
	case isControl(b):
		return f.hold(to, b, coding, ground)
	case b == 'G', b == cancel, b == sub:
		return append(f.release(to), b)
	}
	to = f.drop(to, ground)
	if b >= 0x80 {
		return f.text(to, b)
	}
	return to
}

// control handles a byte of a CSI sequence.
func (f *Filter) control(to []byte, b byte) []byte {
	switch {
	case b == esc:
		return f.begin(f.release(to), b)
	case b >= 0x80:
		return f.text(f.release(to), b)
	case b == cancel, b == sub:
		return append(f.release(to), b)
	case isControl(b):
		return f.hold(to, b, control, ignored)
	}
	f.value = append(f.value, b)
	switch {
	case b < '@':
		return f.hold(to, b, control, ignored)
	case !isKnownControl(f.value), reportsTitle(f.value), leavesMode(f.value), repeatsMuch(f.value), f.Quiet && asksTerminal(f.value):
		return f.drop(to, ground)
	}
	f.noteControl(f.value)
	return append(f.release(to), b)
}

// knownControls are the CSI sequences that pass, without their numbers: a sign that may begin
// one, signs before the final letter, and that letter.
var knownControls = func() map[string]bool {
	known := map[string]bool{}
	for final := range strings.SplitSeq("@ABCDEFGHIJKLMPSTXZ`abcdefghlmnqrstu", "") {
		known[final] = true
	}
	for _, each := range strings.Fields(`?h ?l ?J ?K ?n ?m ?S ?s ?r ?u ?W ?c >c >q >m >u >n >p =c =u <u !p "p "q $p ?$p $r $t $v $x $z ${ $} $~ $| *| *x '} '~ #p #q #{ #} #P #Q #R`) {
		known[each] = true
	}
	for _, final := range []string{"q", "@", "A"} {
		known[" "+final] = true
	}
	return known
}()

// isKnownControl reports whether a CSI sequence is one of those that pass.
func isKnownControl(value []byte) bool {
	isNumber := func(c byte) bool { return c >= '0' && c <= '9' || c == ';' || c == ':' }
	var kind []byte
	for i, c := range value {
		if isNumber(c) && len(bytes.TrimLeft(kind, "<=>?")) == 0 { // no sign before the final letter yet
			continue
		}
		if i > 0 && c >= '<' && c <= '?' {
			return false
		}
		kind = append(kind, c)
	}
	return knownControls[string(kind)] && !(string(kind) == "?n" && readsMemory(value))
}

// readsMemory reports whether a question for a status is about the terminal's memory.
func readsMemory(value []byte) bool {
	what, _, _ := bytes.Cut(value[1:len(value)-1], []byte(";"))
	return numeral(what) == "62" || numeral(what) == "63"
}

// reportsTitle reports whether a CSI sequence makes the terminal type its title.
func reportsTitle(value []byte) bool {
	body, ok := bytes.CutSuffix(value, []byte("t"))
	if !ok {
		return false
	}
	first, _, _ := bytes.Cut(body, []byte(";"))
	first, _, _ = bytes.Cut(first, []byte(":"))
	what := numeral(first)
	return what == "20" || what == "21" || len(what) > mostDigits && strings.Trim(what, "0123456789") == ""
}

// leavesMode reports whether a CSI sequence makes the terminal parse sequences
// differently, locks its keyboard, or makes it show what the user types.
func leavesMode(value []byte) bool {
	final := value[len(value)-1]
	if final != 'h' && final != 'l' {
		return false
	}
	_, isPrivate := bytes.CutPrefix(value, []byte("?"))
	for what := range numbersOf(value) {
		switch {
		case len(what) > mostDigits,
			isPrivate && (final == 'l' && what == "2" || final == 'h' && what == "38"),
			!isPrivate && (final == 'h' && what == "2" || final == 'l' && what == "12"):
			return true
		}
	}
	return false
}

// repeatsMuch reports whether a CSI sequence repeats a character more often than a screen
// has room for it. Some terminals take minutes for that.
func repeatsMuch(value []byte) bool {
	const most = 4 // digits
	if value[len(value)-1] != 'b' {
		return false
	}
	for what := range numbersOf(value) {
		if len(what) > most {
			return true
		}
	}
	return false
}

// numbersOf returns the numbers of a CSI sequence.
func numbersOf(value []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for part := range bytes.FieldsFuncSeq(value[:len(value)-1], func(r rune) bool { return r < '0' || r > '9' }) {
			if !yield(numeral(part)) {
				return
			}
		}
	}
}

// mostDigits is the maximum length of a number. No terminal's counter overflows below it.
const mostDigits = 9

// numeral returns a number without leading zeros.
func numeral(digits []byte) string { return string(bytes.TrimLeft(digits, "0")) }

// number handles a byte after OSC: the digits, and the text after them if the digits
// require it.
func (f *Filter) number(to []byte, b byte) []byte {
	if isControl(b) && b != bell {
		return f.hold(to, b, number, dropped)
	}
	end := b == bell || b == cancel || b == sub || b == esc || b >= 0x80
	if !end {
		f.value = append(f.value, b)
	}
	switch reaches(f.value, end) {
	case yes:
		return f.step(f.drop(to, dropped), b)
	case unknown:
		return f.hold(to, b, number, dropped)
	}
	if f.Quiet && !isSilent(f.value) {
		return f.step(f.drop(to, dropped), b)
	}
	f.asked = true
	to = f.release(to)
	switch {
	case b == esc:
		return f.begin(to, b)
	case !end && setsColours(f.value):
		f.state = colour
		return f.colour(to, b)
	}
	return f.text(to, b)
}

// setsColours reports whether an OSC sequence that starts with value sets colours. The Linux
// console uses P for that.
func setsColours(value []byte) bool {
	what := numeral(bytes.TrimLeft(value[:len(value)-1], " +"))
	n, err := strconv.Atoi(what)
	return err == nil && (n == 4 || n == 5 || n >= 10 && n <= 19 || n == 21 || n == 30101) || what == "" && value[len(value)-1] == 'P'
}

// colour passes a byte of a colour sequence. A query contains no letters.
func (f *Filter) colour(to []byte, b byte) []byte {
	switch {
	case b == esc:
		return f.begin(to, b)
	case b >= 0x80:
		f.left.painted, f.state = true, ground // assume that colours have changed
		return f.text(to, b)
	case b == bell, b == cancel, b == sub:
		f.state = ground
	case !isControl(b) && !strings.ContainsRune("0123456789;:?", rune(b)):
		f.left.painted = true
	}
	return append(to, b)
}

// device handles a byte after DCS: numbers and signs, and the letter after them, which
// selects the function.
func (f *Filter) device(to []byte, b byte) []byte {
	if isControl(b) {
		return f.hold(to, b, device, dropped)
	}
	if b != esc && b != cancel && b != sub && b < 0x80 {
		f.value = append(f.value, b)
		switch {
		case b < '@':
			return f.hold(to, b, device, dropped)
		case !isKnownDevice(f.value), f.Quiet && bytes.ContainsAny(f.value, "$+"):
			return f.drop(to, dropped)
		}
	}
	f.asked = true
	to = f.release(to)
	if b == esc {
		return f.begin(to, b)
	}
	return f.text(to, b)
}

// isKnownDevice reports whether a DCS sequence that starts with value draws a sixel picture,
// asks for a setting or a capability, or begins or ends an update.
func isKnownDevice(value []byte) bool {
	kind := strings.TrimLeft(string(value), "0123456789;")
	number, isUpdate := strings.CutPrefix(string(value), "=")
	return slices.Contains([]string{"q", "$q", "+q"}, kind) || isUpdate && (number == "1s" || number == "2s")
}

// Undo returns the output that resets the terminal to its usual state. It returns nothing
// if only text has passed since the last call.
func (f *Filter) Undo() []byte {
	if !f.used {
		return nil
	}
	left := f.left
	f.used, f.left = f.state != ground, settings{}
	return append([]byte{esc, '\\'}, left.undo()...) // ends an incomplete sequence
}

// Asked reports whether answers of the terminal may be pending, and how often the program
// asked what the terminal is.
func (f *Filter) Asked() (something bool, names int) { return f.asked, f.names }
