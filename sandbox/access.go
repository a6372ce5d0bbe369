package sandbox

import "strconv"

// Access says what a caller may do with a name. The zero value is None, and the order is
// None < ReadOnly < ReadWrite, so min returns the lower of two.
type Access uint8

// The levels of access.
const (
	None      Access = iota // the name does not exist for the caller
	ReadOnly                // it may be read, listed and searched
	ReadWrite               // it may also be written, moved and deleted
)

// String returns the word used in configuration: none, ro or rw.
func (a Access) String() string {
	switch a {
	case None:
		return "none"
	case ReadOnly:
		return "ro"
	case ReadWrite:
		return "rw"
	}
	return "access(" + strconv.Itoa(int(a)) + ")"
}

// ParseAccess parses the words that String returns for the three levels: none, ro and rw.
func ParseAccess(word string) (Access, bool) {
	for _, a := range []Access{None, ReadOnly, ReadWrite} {
		if word == a.String() {
			return a, true
		}
	}
	return None, false
}

// A Limit allows at most Access at Path and below it. Suffixes and MaxFileBytes limit the
// files there, as in a [Mount]. See [Sandbox.Restrict].
type Limit struct {
	Path         string
	Access       Access
	Suffixes     []string
	MaxFileBytes int64
	// NoWrite and NoDelete each remove one half of ReadWrite. NoWrite forbids making and
	// changing files, NoDelete forbids deleting them and moving them away.
	NoWrite, NoDelete bool
}
