package sandbox

import "strconv"

// Access is how far a name may be used. The zero value is None, and the order
// is None < ReadOnly < ReadWrite: the lesser of two is always their minimum.
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

// ParseAccess reads the word that String returns, and nothing else.
func ParseAccess(word string) (Access, bool) {
	for _, a := range []Access{None, ReadOnly, ReadWrite} {
		if word == a.String() {
			return a, true
		}
	}
	return None, false
}

// A Limit allows at most Access at Path and below it, and of files only those
// that its suffixes and size admit, as in a [Mount]. See [Sandbox.Restrict].
type Limit struct {
	Path         string
	Access       Access
	Suffixes     []string
	MaxFileBytes int64
	// NoWrite and NoDelete each take one half of ReadWrite away: to make and
	// change what is there, and to remove it or move it away.
	NoWrite, NoDelete bool
}
