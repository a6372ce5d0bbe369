package terminal

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Filter stands between a program and a terminal. Everything passes as it is but
// for control sequences that
//
//   - reach the clipboard: OSC 52 and OSC 5522;
//   - reach files, properties and programs of the desktop: OSC 3, 20, 46, 50, 55, 72, 440,
//     5113 and 7773, OSC 9 with 6, 7 or 8, and OSC 1337 with a key that is not known to be
//     harmless, such as Copy, ReportVariable, RequestUpload, or a File that is not shown
//     inline;
//   - have the terminal read a file or shared memory: pictures of kitty (APC G) that are not
//     sent themselves (t=d), pictures as a background (OSC 11 with a sign before a name), and
//     ESC }, after which Terminology takes names;
//   - command what the terminal is part of: DCS @kitty-cmd, and OSC 51, which is for
//     editors that show a terminal;
//   - have the terminal type back what the program has set before: CSI 20 t and 21 t,
//     which report titles;
//   - define what a key types, a macro does, or a character looks like: DCS with the final
//     |, z, {, or + p;
//   - print on paper: CSI with the final i;
//   - have the terminal read sequences in another way than this filter: CSI ? 2 l (VT52),
//     CSI ? 38 h (Tektronix), and ESC % with anything but G (no UTF-8);
//   - begin with more than a kilobyte of what no terminal knows.
//
// In place of such a one the terminal gets an end of a string that has no beginning,
// ESC \, which does nothing: what stands before and after must not become one.
//
// A sequence that is not complete is held back until it is known what it is; nobody
// would see anything of it. It is for terminals that show UTF-8, as all do that have
// a clipboard: there a byte of a character is no control.
type Filter struct {
	state state
	held  []byte // the beginning of a sequence, or of a character
	value []byte // of it, without control characters: they are obeyed at once or not at all

	used  bool // by more than text
	left  settings
	asked bool // an answer of the terminal may be on its way
	names int  // so often it was asked what it is
}

type state uint8

const (
	ground  state = iota
	letter        // in a character of several bytes
	escape        // after ESC
	control       // after CSI
	ignored       // in a CSI sequence that does not pass
	number        // after OSC
	colour        // in an OSC sequence about colours
	device        // after DCS
	dropped       // in an OSC sequence that does not pass
	dropEnd       // after an ESC there
	coding        // after ESC %
	picture       // after APC
)

const (
	bell   = 0x07
	cancel = 0x18
	sub    = 0x1a
	esc    = 0x1b
	rubout = 0x7f
	// The same as ESC and a letter, in one character, from firstC1 to lastC1.
	firstC1, dcs, identify, csi, terminator, osc, apc, lastC1 = 0x80, 0x90, 0x9a, 0x9b, 0x9c, 0x9d, 0x9f, 0x9f

	longest = 1 << 10
)

// Pass appends to a buffer what passes of some output.
func (f *Filter) Pass(to, output []byte) []byte {
	for len(output) > 0 {
		if f.state == ground {
			n := plain(output)
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

// plain returns how many bytes are characters and nothing else.
func plain(output []byte) int {
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

// executed reports whether a byte within a sequence is no part of it.
func executed(b byte) bool { return b < ' ' && b != esc && b != cancel && b != sub || b == rubout }

// step judges one byte.
func (f *Filter) step(to []byte, b byte) []byte {
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
	case picture:
		return f.picture(to, b)
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

// text judges a byte outside of sequences.
func (f *Filter) text(to []byte, b byte) []byte {
	switch {
	case b == esc:
		return f.begin(to, b)
	case b == enquiry:
		f.asked = true
	case b == shiftOut:
		f.used, f.left.letters = true, true
	case b >= utf8.RuneSelf:
		f.held, f.state = f.held[:0], letter
		return f.letter(to, b)
	}
	return append(to, b)
}

// letter judges a byte of a character of several.
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
	// No character: some terminals take a byte for a control even so.
	rest := slices.Clone(f.held[1:])
	first := f.held[0]
	f.held = f.held[:1]
	to = f.single(to, first)
	for _, b := range rest {
		to = f.step(to, b)
	}
	return to
}

// single judges what is held, which is a control in one character.
func (f *Filter) single(to []byte, c byte) []byte {
	f.used = f.used || c <= lastC1
	switch {
	case c == csi, c == osc, c == dcs, c == apc:
		f.value = f.value[:0]
		f.state = map[byte]state{csi: control, osc: number, dcs: device, apc: picture}[c]
		return to
	case c == identify:
		f.names++
		f.asked = true
	case c >= firstC1 && c <= lastC1:
		f.asked = true
	}
	return f.release(to)
}

// begin begins a sequence with ESC.
func (f *Filter) begin(to []byte, b byte) []byte {
	f.held, f.value, f.state, f.used = append(f.held[:0], b), f.value[:0], escape, true
	return to
}

// release lets pass what was held.
func (f *Filter) release(to []byte) []byte {
	to = append(to, f.held...)
	f.held, f.state = f.held[:0], ground
	return to
}

// drop forgets it.
func (f *Filter) drop(to []byte, next state) []byte {
	f.held, f.state = f.held[:0], next
	return append(to, esc, '\\')
}

// hold holds another byte of a sequence. One that is too long is dropped.
func (f *Filter) hold(to []byte, b byte, sequence, otherwise state) []byte {
	if f.held, f.state = append(f.held, b), sequence; len(f.held) > longest {
		return f.drop(to, otherwise)
	}
	return to
}

// escape judges a byte after ESC.
func (f *Filter) escape(to []byte, b byte) []byte {
	switch {
	case executed(b):
		return f.hold(to, b, escape, ground)
	case b == esc:
		return f.begin(f.release(to), b)
	case b == '[':
		return f.hold(to, b, control, ignored)
	case b == ']':
		return f.hold(to, b, number, dropped)
	case b == 'P':
		return f.hold(to, b, device, dropped)
	case b == '_':
		return f.hold(to, b, picture, dropped)
	case b == '%':
		return f.hold(to, b, coding, ground)
	case b == '}':
		return f.drop(to, ground)
	case b >= 0x80:
		return f.text(f.release(to), b)
	}
	f.note(b)
	return append(f.release(to), b)
}

// coding judges a byte after ESC %. Only G passes, which chooses UTF-8.
func (f *Filter) coding(to []byte, b byte) []byte {
	switch {
	case b == esc:
		return f.begin(f.release(to), b)
	case executed(b):
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

// control judges a byte of a CSI sequence.
func (f *Filter) control(to []byte, b byte) []byte {
	switch {
	case b == esc:
		return f.begin(f.release(to), b)
	case b >= 0x80:
		return f.text(f.release(to), b)
	case b == cancel, b == sub:
		return append(f.release(to), b)
	case executed(b):
		return f.hold(to, b, control, ignored)
	}
	f.value = append(f.value, b)
	switch {
	case b < '@':
		return f.hold(to, b, control, ignored)
	case b == 'i', reportsTitle(f.value), leavesMode(f.value):
		return f.drop(to, ground)
	}
	f.noteControl(f.value)
	return append(f.release(to), b)
}

// reportsTitle reports whether a CSI sequence makes the terminal type a title.
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

// leavesMode reports whether a CSI sequence has the terminal read sequences in another way.
func leavesMode(value []byte) bool {
	final := value[len(value)-1]
	if value[0] != '?' || final != 'h' && final != 'l' {
		return false
	}
	for part := range bytes.FieldsFuncSeq(value[1:len(value)-1], func(r rune) bool { return r == ';' || r == ':' }) {
		what := numeral(part)
		if final == 'l' && what == "2" || final == 'h' && what == "38" || len(what) > mostDigits {
			return true
		}
	}
	return false
}

// mostDigits have a number that no terminal counts round to another.
const mostDigits = 9

// numeral returns a number without zeros before it.
func numeral(digits []byte) string { return string(bytes.TrimLeft(digits, "0")) }

// number judges a byte after OSC: digits, and where they say so what follows.
func (f *Filter) number(to []byte, b byte) []byte {
	if executed(b) && b != bell {
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
	f.asked = true
	to = f.release(to)
	switch {
	case b == esc:
		return f.begin(to, b)
	case !end && colours(f.value):
		f.state = colour
		return f.colour(to, b)
	}
	return f.text(to, b)
}

// colours reports whether an OSC sequence that begins like this is about colours. P is
// what the console of Linux has for it.
func colours(value []byte) bool {
	what := numeral(bytes.TrimLeft(value[:len(value)-1], " +"))
	n, err := strconv.Atoi(what)
	return err == nil && (n == 4 || n == 5 || n >= 10 && n <= 19 || n == 21 || n == 30101) || what == "" && value[len(value)-1] == 'P'
}

// colour passes a byte of such a sequence on. One that asks has no letters.
func (f *Filter) colour(to []byte, b byte) []byte {
	switch {
	case b == esc:
		return f.begin(to, b)
	case b >= 0x80:
		f.left.painted, f.state = true, ground // who knows
		return f.text(to, b)
	case b == bell, b == cancel, b == sub:
		f.state = ground
	case !executed(b) && !strings.ContainsRune("0123456789;:?", rune(b)):
		f.left.painted = true
	}
	return append(to, b)
}

// device judges a byte after DCS: numbers and signs, and the letter behind them, which says
// what it is.
func (f *Filter) device(to []byte, b byte) []byte {
	const word = "@kitty-cmd"
	if executed(b) {
		return f.hold(to, b, device, dropped)
	}
	if b != esc && b != cancel && b != sub && b < 0x80 {
		f.value = append(f.value, b)
		at := bytes.IndexFunc(f.value, func(r rune) bool { return r >= '@' })
		switch {
		case at < 0:
			return f.hold(to, b, device, dropped)
		case at == len(f.value)-1 && defines(f.value), string(f.value[at:]) == word:
			return f.drop(to, dropped)
		case strings.HasPrefix(word, string(f.value[at:])):
			return f.hold(to, b, device, dropped)
		}
	}
	f.asked = true
	to = f.release(to)
	if b == esc {
		return f.begin(to, b)
	}
	return f.text(to, b)
}

// defines reports whether a DCS sequence that begins like this defines keys, macros,
// characters or properties of the terminal.
func defines(value []byte) bool {
	switch value[len(value)-1] {
	case '|', 'z', '{':
		return true
	case 'p':
		return bytes.Contains(value, []byte("+"))
	}
	return false
}

// picture judges a byte after APC. What begins with G is a picture, with keys up to a
// semicolon; one that says where its data is must say that it follows.
func (f *Filter) picture(to []byte, b byte) []byte {
	ends := b == esc || b == cancel || b == sub || b >= 0x80
	switch {
	case executed(b):
		return f.hold(to, b, picture, dropped)
	case !ends:
		f.value = append(f.value, b)
	}
	f.asked = true
	switch {
	case len(f.value) == 0 || f.value[0] != 'G': // of another kind
	case b != ';' && !ends:
		return f.hold(to, b, picture, dropped)
	case ends && b != esc, !sent(string(f.value[1:])): // not every terminal ends it there
		return f.step(f.drop(to, dropped), b)
	}
	to = f.release(to)
	if b == esc {
		return f.begin(to, b)
	}
	return f.text(to, b)
}

// sent reports whether the keys of a picture say that its data is sent with it, and nothing
// that one terminal may read in another way than this.
func sent(keys string) bool {
	keys = strings.TrimSuffix(keys, ";")
	if keys == "" {
		return true
	}
	for key := range strings.SplitSeq(keys, ",") {
		name, value, _ := strings.Cut(key, "=")
		odd := strings.Trim(value, "0123456789+-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != ""
		if len(name) != 1 || odd || name == "t" && value != "d" {
			return false
		}
	}
	return true
}

// Undo returns what puts the terminal back to how programs find it; nothing, where
// nothing has passed but text since it was called before.
func (f *Filter) Undo() []byte {
	if !f.used {
		return nil
	}
	left := f.left
	f.used, f.left = f.state != ground, settings{}
	return append([]byte{esc, '\\'}, left.undo()...) // what was not completed ends
}

// Asked reports whether the terminal may still have to answer something, and how
// often it was asked what it is.
func (f *Filter) Asked() (something bool, names int) { return f.asked, f.names }
