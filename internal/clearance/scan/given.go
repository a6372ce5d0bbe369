package scan

import "bytes"

// A regular expression takes microseconds to fail, and a text may have a keyword at every
// fourth byte. The checks here fail a hundred times faster, and only where the expression
// would fail.

// assignment is the part of a rule that matches the assignment of a value to a name.
const assignment = `(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(`

// How far after a keyword an assignment may be, how many bytes may be between the sign
// and the value, and the minimum length of a value.
const (
	farthest   = 128
	between    = 10
	leastValue = 8
)

// The roles that a byte can have there, as bits.
const (
	isSign  = 1 << iota // begins an assignment
	isGlue              // may be between the sign and the value
	isValue             // may be part of the value
)

var roles = func() (table [256]byte) {
	for c := range 256 {
		b := byte(c)
		if bytes.IndexByte([]byte("=>:|?,"), b) >= 0 {
			table[c] |= isSign | isGlue
		}
		if bytes.IndexByte([]byte("`'\" \t\n\v\f\r"), b) >= 0 {
			table[c] |= isGlue
		}
		if alphabet[b] != 0 || bytes.IndexByte([]byte(".=:%\""), b) >= 0 || b >= 0x80 {
			table[c] |= isValue
		}
	}
	return table
}()

// given reports whether an assignment may follow a keyword at a position.
func (t *trial) given(at int) bool {
	if t.next <= at {
		for t.next = at; t.next < len(t.data) && !gives(t.data[t.next:]); t.next++ {
		}
	}
	return t.next < len(t.data) && t.next-at <= farthest
}

// gives reports whether a text begins with a sign and a value.
func gives(text []byte) bool {
	if roles[text[0]]&isSign == 0 {
		return false
	}
	for i := 1; i <= between && i < len(text); i++ {
		n := 0
		for n < leastValue && i+n < len(text) && roles[text[i+n]]&isValue != 0 {
			n++
		}
		if n == leastValue {
			return true
		}
		if roles[text[i]]&isGlue == 0 {
			return false
		}
	}
	return false
}

// private reports whether a rule finds private keys, whose first line contains the word.
func (r *rule) private() bool { return r.ID == "private-key" }

func (t *trial) private(at int) bool {
	return bytes.Contains(bytes.ToLower(t.data[at:min(len(t.data), at+farthest)]), []byte("private"))
}
