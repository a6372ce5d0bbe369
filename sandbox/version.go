package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Version identifies one state of a file. It has what the host reports (which file, its
// size, when it changed) and, after the content was read, the hash of the content. The
// zero Version is no state.
type Version struct {
	id      uint64
	size    int64
	changed int64
	sum     sum
}

// sum is the first half of a SHA-256.
type sum [16]byte

// IsZero reports whether v is the zero Version.
func (v Version) IsZero() bool { return v == Version{} }

// With returns v with the hash of the content.
func (v Version) With(content []byte) Version {
	full := sha256.Sum256(content)
	copy(v.sum[:], full[:])
	return v
}

// Same reports whether v and w are the same state. If both have the hash of the content,
// only the hash counts. Otherwise what the host reports counts. So a file that was
// touched without a change of its content is the same only for callers that have read it.
func (v Version) Same(w Version) bool {
	if v.sum != (sum{}) && w.sum != (sum{}) {
		return v.sum == w.sum
	}
	return v.id == w.id && v.size == w.size && v.changed == w.changed && !v.IsZero()
}

// String returns the version as one word: the hash of the content if it is known,
// otherwise what the host reports.
func (v Version) String() string {
	switch {
	case v.IsZero():
		return ""
	case v.sum != (sum{}):
		return hex.EncodeToString(v.sum[:])
	}
	return fmt.Sprintf("%x-%x-%x", v.id, v.size, v.changed)
}

// ParseVersion parses a word that String returned.
func ParseVersion(word string) (Version, error) {
	var v Version
	if parts := strings.SplitN(word, "-", 3); len(parts) == 3 {
		var wrong [3]error
		v.id, wrong[0] = strconv.ParseUint(parts[0], 16, 64)
		v.size, wrong[1] = strconv.ParseInt(parts[1], 16, 64)
		v.changed, wrong[2] = strconv.ParseInt(parts[2], 16, 64)
		if wrong == [3]error{} && v.String() == word {
			return v, nil
		}
	} else if s, err := hex.DecodeString(word); err == nil && len(s) == len(v.sum) && [16]byte(s) != (sum{}) {
		copy(v.sum[:], s)
		return v, nil
	}
	return Version{}, &Error{Op: "version", Code: ErrInvalid, Hint: "a version is the word that a read returned"}
}

// check returns ErrConflict unless a file with this attr and content still has version v.
// If v has the hash of the content, check reads the content, because the clocks of some
// hosts are too coarse to show two changes in a row.
func (v Version) check(attr Attr, content func() (io.ReadCloser, error)) error {
	now := attr.version()
	if v.sum != (sum{}) {
		if attr.Size > MaxRead {
			return ErrConflict // nobody can have read all of it
		}
		r, err := content()
		if err != nil {
			return err
		}
		defer r.Close()
		h := sha256.New()
		if _, err := io.Copy(h, io.LimitReader(r, attr.Size+1)); err != nil { // a longer content differs in any case
			return err
		}
		copy(now.sum[:], h.Sum(nil))
	}
	if !v.Same(now) {
		return ErrConflict
	}
	return nil
}
