package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"

	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// The journal's file names in the state directory.
const (
	logName = "journal"
	keyName = "journal.key"
)

const sumSize = sha256.Size

// A sum is a SHA-256, or an HMAC made with it.
type sum [sumSize]byte

// A key seals records and heads.
type key [32]byte

// readKey returns the key of a directory, and whether there is one.
func readKey(folder *state.Dir) (k key, ok bool, err error) {
	data, err := folder.Read(keyName)
	if err != nil || data == nil {
		return key{}, false, err
	}
	k, err = parseKey(data)
	return k, err == nil, err
}

func parseKey(data []byte) (k key, err error) {
	data = bytes.TrimSuffix(data, []byte("\n"))
	if len(data) == hex.EncodedLen(len(k)) {
		_, err = hex.Decode(k[:], data)
	}
	if err != nil || len(data) != hex.EncodedLen(len(k)) {
		return key{}, fmt.Errorf("%s: %w; it does not hold a key: put the right one back", keyName, sandbox.ErrInvalid)
	}
	return k, nil
}

// errNoKey is the error of a journal whose key is gone. With a new key, every record
// would look as if somebody else had sealed it.
func errNoKey() error {
	return fmt.Errorf("%s: %w; the journal cannot be checked or continued without its key: put it back, or move all %s files away to begin anew",
		keyName, sandbox.ErrNotFound, logName)
}

// makeKey returns the key of a directory, and creates it if there is no journal yet. An
// empty journal gets its head before its key. So if there is a key but no head, the head
// was removed.
func makeKey(folder *state.Dir, log state.Log) (key, error) {
	k, ok, err := readKey(folder)
	if ok || err != nil {
		return k, err
	}
	err = folder.Update(keyName, func(old []byte) ([]byte, error) {
		if old != nil { // another process was faster
			k, err = parseKey(old)
			return old, err
		}
		if t, err := log.Tail(); err != nil {
			return nil, err
		} else if t.Count > 0 || t.Lost > 0 {
			return nil, errNoKey()
		}
		rand.Read(k[:])
		err := log.Append(true, func(state.Tail) ([][]byte, []byte, error) {
			return nil, k.sealer().mark(head{}), nil
		})
		return fmt.Appendf(nil, "%x\n", k), err
	})
	return k, err
}

// A sealer makes seals, one after the other.
type sealer struct {
	mac    hash.Hash
	marked head // the head of the last mark
	last   []byte
}

func (k key) sealer() *sealer { return &sealer{mac: hmac.New(sha256.New, k[:])} }

func (s *sealer) seal(data []byte) (seal sum) {
	s.mac.Reset()
	s.mac.Write(data)
	s.mac.Sum(seal[:0])
	return seal
}

// A link is a line to which another can be chained. The first line is chained to the zero
// link.
type link struct {
	number uint64 // the number of the record
	hash   sum    // the hash of the line
}

// A head is the end of a journal: its last line and the number of lines. If records were
// lost, the number of the last record is higher than that.
type head struct {
	link
	count uint64
}

// mark encodes and seals a head. No record begins like it, so the seal of a record is
// never the seal of a head.
func (s *sealer) mark(h head) []byte {
	b := append(make([]byte, 0, 256), "head "...)
	b = append(strconv.AppendUint(b, h.count, 10), ' ')
	b = append(strconv.AppendUint(b, h.number, 10), ' ')
	b = append(hex.AppendEncode(b, h.hash[:]), ' ')
	seal := s.seal(b)
	s.marked, s.last = h, hex.AppendEncode(b, seal[:])
	return s.last
}

// head decodes a mark. ok is false if it is not a valid head.
func (s *sealer) head(mark []byte) (h head, ok bool) {
	if len(mark) > 0 && bytes.Equal(mark, s.last) {
		return s.marked, true
	}
	f := bytes.Split(mark, []byte(" "))
	if len(f) != 5 || len(f[3]) != hex.EncodedLen(sumSize) {
		return head{}, false
	}
	var err [3]error
	h.count, err[0] = strconv.ParseUint(string(f[1]), 10, 64)
	h.number, err[1] = strconv.ParseUint(string(f[2]), 10, 64)
	_, err[2] = hex.Decode(h.hash[:], f[3])
	if err != [3]error{} || !hmac.Equal(mark, s.mark(h)) {
		return head{}, false
	}
	return h, true
}
