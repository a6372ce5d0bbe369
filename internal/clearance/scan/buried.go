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

// A relic is an archive that begins in the middle of other data, such as a film, a
// database or an old Office document. Package scan does not parse these formats.
type relic struct {
	from, to int // to is the end of the data if the end is not known
	kind     string
}

// mostTries limits how often golem tries to open an archive in the middle of a content.
// By chance even the largest content has only about two such places.
const mostTries = 20_000

// endless is the kind for a content with too many beginnings of archives.
const endless = "endless"

// buried returns the archives that begin in the middle of binary data, in order. It
// returns none for an archive, which is opened as a whole.
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

// buriedZip returns the archive that ends with the record at a position.
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

// openBuried shows the contents of buried archives. It skips data that only begins like
// an archive.
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
			err = limitError("golem cannot read the " + r.kind + " archive inside")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// relic shows the content of an archive, if the data is one.
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

// isGzip reports whether data begins with a gzip header and with data that can be
// decompressed.
func isGzip(r *gzip.Reader, data []byte) bool {
	if len(data) < 18 || data[3]&0xe0 != 0 || r.Reset(bytes.NewReader(data)) != nil {
		return false
	}
	var head [256]byte
	_, err := io.ReadFull(r, head[:])
	return err == nil || err == io.EOF || err == io.ErrUnexpectedEOF || err == gzip.ErrHeader
}

// plainest are the closed archives that other data does not look like by chance.
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

// plainKind is closedKind for decoded data, which may look like anything.
func plainKind(data []byte) string {
	for _, p := range plainest {
		if bytes.HasPrefix(data, []byte(p.mark)) && p.is(data) {
			return p.kind
		}
	}
	return ""
}
