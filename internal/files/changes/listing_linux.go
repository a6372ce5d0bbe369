package changes

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// A listing is a list of changes in a file. Each field is a number, or a length and the
// bytes.

// The first byte of a listing. No list in JSON begins with it. A timed listing has the times of
// changes, too. Only one golem reads it, and deletes it then.
const (
	listingMark      = 1
	timedListingMark = 2
)

// Flags of a change in a listing.
const (
	conflictFlag = 1 << iota
	forcedFlag
)

// writeListing writes a list of changes to a file in the directory of an overlay.
func writeListing(l overlay.Overlay, name string, mark byte, list []overlay.PathChange) error {
	data := binary.AppendUvarint([]byte{mark}, uint64(len(list)))
	for _, c := range list {
		for _, text := range []string{c.Path, string(c.Op), string(c.Kind), string([]rune(c.LinkTarget)), c.NewDir, string(c.OldKind), c.Digest} {
			data = append(binary.AppendUvarint(data, uint64(len(text))), text...)
		}
		flags := uint64(0)
		if c.Conflict {
			flags |= conflictFlag
		}
		if c.Forced {
			flags |= forcedFlag
		}
		for _, n := range []uint64{uint64(c.Mode), uint64(c.Size), uint64(c.OldMode), uint64(c.Since), flags} {
			data = binary.AppendUvarint(data, n)
		}
		if mark == timedListingMark {
			data = binary.AppendUvarint(data, uint64(c.Ctime))
		}
	}
	return os.WriteFile(filepath.Join(l.Store, name), data, 0o600)
}

// readListing reads a list of changes.
func readListing(l overlay.Overlay, name string) ([]overlay.PathChange, error) {
	data, err := os.ReadFile(filepath.Join(l.Store, name))
	if err != nil {
		return nil, err
	}
	if len(data) == 0 || data[0] != listingMark && data[0] != timedListingMark {
		return nil, errCut
	}
	r := fields{data: data, text: string(data), at: 1}
	count := r.number()
	if count > uint64(len(data)) {
		return nil, errCut
	}
	list := make([]overlay.PathChange, count)
	for i := range list {
		list[i] = overlay.PathChange{Path: r.string(), Op: overlay.Op(r.string()), Kind: overlay.Kind(r.string()), LinkTarget: r.string(), NewDir: r.string(), OldKind: overlay.Kind(r.string()), Digest: r.string(),
			Mode: uint32(r.number()), Size: int64(r.number()), OldMode: uint32(r.number()), Since: int64(r.number())}
		flags := r.number()
		list[i].Conflict, list[i].Forced = flags&conflictFlag != 0, flags&forcedFlag != 0
		if data[0] == timedListingMark {
			list[i].Ctime = int64(r.number())
		}
	}
	if r.cut || r.at != len(data) {
		return nil, errCut
	}
	return list, nil
}

// errCut is the error for a damaged list.
var errCut = errors.New("the list of changes is not as it was written")

// A fields reads fields one after the other.
type fields struct {
	data []byte
	text string // the same as data
	at   int
	cut  bool
}

func (f *fields) number() uint64 {
	n, size := binary.Uvarint(f.data[f.at:])
	if size <= 0 {
		f.cut = true
		return 0
	}
	f.at += size
	return n
}

func (f *fields) string() string {
	n := f.number()
	if n > uint64(len(f.data)-f.at) {
		f.cut = true
		return ""
	}
	f.at += int(n)
	return f.text[f.at-int(n) : f.at]
}
