package scan

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	be "encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// A relic is an archive that begins in the middle of other data: of a film, a database,
// an old Office document. Nobody follows how all of these are made.
type relic struct {
	from, to int // where it ends, where that is known
	kind     string
}

// mostTries is how often it is tried whether an archive begins somewhere in a content. By
// chance it seems so twice in the largest.
const mostTries = 20_000

// endless is the kind of what there is too much of.
const endless = "endless"

// buried finds the archives that begin in the middle of binary data, in their order. An
// archive of which all is shown has none.
func buried(data []byte) []relic {
	var all []relic
	tries := 0
	each := func(mark string, found func(at int)) {
		for i := 1; i < len(data); i++ {
			next := bytes.Index(data[i:], []byte(mark))
			if next < 0 {
				return
			}
			i += next
			if tries++; tries > mostTries {
				all = append(all, relic{i, len(data), endless})
				return
			}
			found(i)
		}
	}
	var again gzip.Reader // a new one takes 40 kB
	each("\x1f\x8b\x08", func(at int) {
		if isGzip(&again, data[at:]) {
			all = append(all, relic{at, len(data), "gzip"})
		}
	})
	each("BZh", func(at int) {
		if isBzip2(data[at:]) {
			all = append(all, relic{at, len(data), "bzip2"})
		}
	})
	each("PK\x05\x06", func(at int) {
		if r, ok := buriedZip(data, at); ok {
			all = append(all, r)
		}
	})
	for _, s := range plainest {
		each(s.mark, func(at int) {
			if s.is(data[at:]) {
				all = append(all, relic{at, len(data), s.kind})
			}
		})
	}
	if len(all) == 0 || oddByte(data) < 0 || isTar(data) || isZip(data) || isBzip2(data) || isZlib(data) || bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		return nil
	}
	slices.SortFunc(all, func(a, b relic) int { return a.from - b.from })
	return all
}

// buriedZip returns the archive that ends with a record.
func buriedZip(data []byte, end int) (relic, bool) {
	list := zipDirectory(data, end)
	if list < 0 || list == end {
		return relic{}, false
	}
	from := list - int(be.LittleEndian.Uint32(data[end+16:]))
	to := end + zipEndLength + int(be.LittleEndian.Uint16(data[end+20:]))
	if from < 0 || to > len(data) || !bytes.HasPrefix(data[from:], []byte("PK\x03\x04")) {
		return relic{}, false
	}
	return relic{from, to, "zip"}, true
}

func isBuried(data []byte) bool { return len(buried(data)) > 0 }

// openBuried shows what is in such archives. What only begins like one is passed over.
func openBuried(b *box) error {
	for _, r := range buried(b.data) {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		part := b.data[r.from:r.to]
		name := fmt.Sprintf("%s at %d", r.kind, r.from)
		var err error
		switch r.kind {
		case "gzip":
			err = b.relic(name, func() (io.Reader, error) {
				g, err := gzip.NewReader(bytes.NewReader(part))
				if err == nil {
					g.Multistream(false)
				}
				return g, err
			})
		case "bzip2":
			err = b.relic(name, func() (io.Reader, error) { return &forgiving{r: bzip2.NewReader(bytes.NewReader(part))}, nil })
		case "zip":
			err = b.file(name, bytes.NewReader(part))
		case endless:
			err = limitError(fmt.Sprintf("there are more beginnings of archives inside than the limit of %d", mostTries))
		default:
			err = limitError("no way to look into the " + r.kind + " archive inside")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// relic shows what is in an archive, if it is one.
func (b *box) relic(name string, open func() (io.Reader, error)) error {
	r, err := open()
	if err != nil {
		return nil
	}
	data, err := b.read(r)
	switch err.(type) {
	case nil:
		return b.show(name, data, false)
	case limitError:
		return err
	}
	return b.ctx.Err()
}

// isGzip reports whether data begins as gzip does, and is more than that.
func isGzip(r *gzip.Reader, data []byte) bool {
	if len(data) < 18 || data[3]&0xe0 != 0 || r.Reset(bytes.NewReader(data)) != nil {
		return false
	}
	var head [256]byte
	_, err := io.ReadFull(r, head[:])
	return err == nil || err == io.EOF || err == io.ErrUnexpectedEOF || err == gzip.ErrHeader
}

// plainest are the kinds of closed archives that no other data looks like by chance.
var plainest = []sealed{
	{"7z", 0, "7z\xbc\xaf\x27\x1c", func(d []byte) bool {
		return len(d) >= 32 && crc32.ChecksumIEEE(d[12:32]) == be.LittleEndian.Uint32(d[8:])
	}},
	{"xz", 0, "\xfd7zXZ\x00", func(d []byte) bool {
		return len(d) >= 12 && crc32.ChecksumIEEE(d[6:8]) == be.LittleEndian.Uint32(d[8:])
	}},
	{"rar", 0, "Rar!\x1a\x07", func(d []byte) bool { return len(d) > 20 && (d[6] == 0 && d[9] == 0x73 || d[6] == 1 && d[7] == 0) }},
	{"cab", 0, "MSCF\x00\x00\x00\x00", func(d []byte) bool { return len(d) > 36 && string(d[24:26]) == "\x03\x01" }},
	{"lzop", 0, "\x89LZO\x00\r\n\x1a\n", func(d []byte) bool { return len(d) > 30 }},
	{"wim", 0, "MSWIM\x00\x00\x00", func(d []byte) bool { return len(d) > 200 }},
}

// plainKind is closedKind for what was decoded, which may look like anything.
func plainKind(data []byte) string {
	for _, p := range plainest {
		if bytes.HasPrefix(data, []byte(p.mark)) && p.is(data) {
			return p.kind
		}
	}
	return ""
}
