package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// A Version tells one state of a file from another. It holds what the host
// says (which file, how large, when changed) and, once the content was read,
// its hash. The zero Version is no state at all.
type Version struct {
	id      uint64
	size    int64
	changed int64
	sum     sum
}

// sum is the first half of a SHA-256.
type sum [16]byte

// IsZero reports whether v is no version.
func (v Version) IsZero() bool { return v == Version{} }

// With returns v with the hash of the content.
func (v Version) With(content []byte) Version {
	full := sha256.Sum256(content)
	copy(v.sum[:], full[:])
	return v
}

// Same reports whether v and w are the same state: by the content where both
// know it, otherwise by what the host says. A file that was touched but not
// changed is the same as before only to those who have read it.
func (v Version) Same(w Version) bool {
	if v.sum != (sum{}) && w.sum != (sum{}) {
		return v.sum == w.sum
	}
	return v.id == w.id && v.size == w.size && v.changed == w.changed && !v.IsZero()
}

// String returns the version as one word: the hash of the content where it is
// known, and what the host says otherwise.
func (v Version) String() string {
	switch {
	case v.IsZero():
		return ""
	case v.sum != (sum{}):
		return hex.EncodeToString(v.sum[:])
	}
	return fmt.Sprintf("%x-%x-%x", v.id, v.size, v.changed)
}

// ParseVersion reads what String returned.
func ParseVersion(word string) (Version, error) {
	var v Version
	if strings.Contains(word, "-") {
		if _, err := fmt.Sscanf(word, "%x-%x-%x", &v.id, &v.size, &v.changed); err == nil && v.String() == word {
			return v, nil
		}
	} else if s, err := hex.DecodeString(word); err == nil && len(s) == len(v.sum) && [16]byte(s) != (sum{}) {
		copy(v.sum[:], s)
		return v, nil
	}
	return Version{}, &Error{Op: "version", Code: ErrInvalid, Hint: "a version is the word that a read returned"}
}

// check returns ErrConflict unless a file with this attr and content is still
// at version v. A version that knows the content is held against the content:
// the clocks of some hosts are too coarse to show two changes in a row.
func (v Version) check(attr Attr, content func() (io.ReadCloser, error)) error {
	now := attr.version()
	if v.sum != (sum{}) {
		if attr.Size > MaxRead {
			return ErrConflict // nobody has read it whole
		}
		r, err := content()
		if err != nil {
			return err
		}
		defer r.Close()
		h := sha256.New()
		if _, err := io.Copy(h, io.LimitReader(r, attr.Size+1)); err != nil { // more is another content in any case
			return err
		}
		copy(now.sum[:], h.Sum(nil))
	}
	if !v.Same(now) {
		return ErrConflict
	}
	return nil
}
