package scan

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/bzip2"
	"compress/gzip"
	"compress/zlib"
	"context"
	be "encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// A walk shows what is inside of one content: files of archives, streams of
// documents, what is encoded in texts. It counts all that it reads, and stops at
// a limit.
type walk struct {
	ctx      context.Context
	limits   Limits
	entries  int
	expanded int64
	zlib     io.Reader // used again
	look     func(part Content, names []string)
}

// A limitError says that there is more inside than is looked at.
type limitError string

func (e limitError) Error() string { return string(e) }

// An opener knows one kind of thing that has others inside.
type opener struct {
	kind string
	is   func(data []byte) bool
	open func(b *box) error
}

// openers are tried all: a file can be two things at once.
func openers() []opener {
	return []opener{
		{"zip", isZip, openZip},
		{"tar", isTar, openTar},
		{"gzip", starts("\x1f\x8b\x08"), openGzip},
		{"bzip2", isBzip2, openBzip2},
		{"zlib", isZlib, openZlib},
		{"pdf", isPDF, openPDF},
		{"png", starts("\x89PNG\r\n\x1a\n"), openPNG},
		{"data", isBuried, openBuried},
		{"text", func([]byte) bool { return true }, openText},
	}
}

// starts makes a test for how content begins.
func starts(magic string) func([]byte) bool {
	return func(data []byte) bool { return bytes.HasPrefix(data, []byte(magic)) }
}

// A box is a content that is being opened.
type box struct {
	*walk
	Content
	kind  string
	names []string
	room  int64 // how many bytes may still come out of it
}

// open shows what is inside of a content that has these names from the outside
// in, and what is inside of that.
func (w *walk) open(c Content, names []string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it cannot be opened: %v", r)
		}
	}()
	kind := closedKind
	if c.text {
		kind = plainKind
	}
	if k := kind(c.data); k != "" {
		return limitError(prefix(names) + "no way to look into " + k + " archives")
	}
	for _, o := range openers() {
		if !o.is(c.data) {
			continue
		}
		archive := o.kind != "text"
		if len(names) >= w.limits.Depth {
			if archive {
				return limitError(fmt.Sprintf("there is more inside of each other than the limit of %d", w.limits.Depth))
			}
			continue
		}
		b := &box{walk: w, Content: c, kind: o.kind, names: names, room: w.limits.Ratio*int64(len(c.data)) + freely}
		err := o.open(b)
		var limit limitError
		switch {
		case err == nil:
		case errors.As(err, &limit) || w.ctx.Err() != nil:
			return err
		case c.text:
			// What was decoded often only looks like an archive.
		default:
			return fmt.Errorf("%s%s: %w", prefix(names), o.kind, err)
		}
	}
	return nil
}

// prefix says where something is.
func prefix(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "in " + strings.Join(names, ", in ") + ": "
}

// file shows a file that is inside.
func (b *box) file(name string, r io.Reader) error {
	data, err := b.read(r)
	if err != nil {
		return err
	}
	return b.show(name, data, false)
}

// show shows what is inside: a file, or what was decoded.
func (b *box) show(name string, data []byte, text bool) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if b.entries++; b.entries > b.limits.Entries {
		return limitError(fmt.Sprintf("there is more inside than the limit of %d entries", b.limits.Entries))
	}
	part := of(name, data)
	part.within, part.text, part.tries = b.kind, text || b.text, b.tries
	names := append(slices.Clone(b.names), label(name))
	b.look(part, names)
	return b.open(part, names)
}

// read reads what comes out of the box, within the limits.
func (b *box) read(r io.Reader) ([]byte, error) {
	room := min(b.limits.Size, b.room, b.limits.Expanded-b.expanded)
	data, err := io.ReadAll(io.LimitReader(&patient{b.ctx, r}, room+1))
	if limit := b.count(len(data)); limit != nil {
		return nil, limit
	}
	return data, err
}

// count counts bytes that came out of the box, and says which limit they exceed.
func (b *box) count(size int) error {
	b.room -= int64(size)
	b.expanded += int64(size)
	switch {
	case b.room < 0:
		return limitError(fmt.Sprintf("what is inside is more than %d times as large", b.limits.Ratio))
	case b.expanded > b.limits.Expanded:
		return limitError(fmt.Sprintf("what is inside has more than the limit of %d bytes", b.limits.Expanded))
	case int64(size) > b.limits.Size:
		return limitError(fmt.Sprintf("a file inside has more than the limit of %d bytes", b.limits.Size))
	}
	return nil
}

// A patient reader ends with its context.
type patient struct {
	ctx context.Context
	r   io.Reader
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.r.Read(b)
}

// isZip looks for the end of an archive, which may stand behind anything else: readers
// go by it, and not by how a file begins.
func isZip(data []byte) bool { return bytes.HasPrefix(data, []byte("PK\x03\x04")) || zipEnd(data) >= 0 }

// zipEnd is where the last record of a ZIP archive stands, or -1.
func zipEnd(data []byte) int {
	const comment = 1<<16 - 1
	from := max(0, len(data)-zipEndLength-comment)
	for end := len(data); ; {
		i := bytes.LastIndex(data[from:end], []byte("PK\x05\x06"))
		if i < 0 {
			return -1
		}
		if end = from + i; zipDirectory(data, end) >= 0 {
			return end
		}
	}
}

// zipEndLength is the length of the last record, without a comment.
const zipEndLength = 22

// zipDirectory is where the list of entries begins that a last record names, or -1 where
// there is none. It may count from the start of the archive, and not of the file.
func zipDirectory(data []byte, end int) int {
	if end+zipEndLength > len(data) {
		return -1
	}
	size, from := int(be.LittleEndian.Uint32(data[end+12:])), int(be.LittleEndian.Uint32(data[end+16:]))
	for _, at := range []int{end - size, from} {
		if at >= 0 && at < end && bytes.HasPrefix(data[at:], []byte("PK\x01\x02")) {
			return at
		}
	}
	// A large archive has its numbers elsewhere, and an empty one nothing.
	if end >= 20 && bytes.HasPrefix(data[end-20:], []byte("PK\x06\x07")) || end == 0 {
		return end
	}
	return -1
}

func openZip(b *box) error {
	// The reader takes memory for each entry: they are counted before.
	if n := bytes.Count(b.data, []byte("PK\x01\x02")); n > b.limits.Entries {
		return limitError(fmt.Sprintf("there is more inside than the limit of %d entries", b.limits.Entries))
	}
	z, err := zip.NewReader(bytes.NewReader(b.data), int64(len(b.data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return err
	}
	hidden := accounted(b.data, z.File)
	if limit := limitError(""); errors.As(hidden, &limit) {
		return hidden
	}
	if isTar(b.data) {
		hidden = nil // it may be the last file of a tar, which shows what is around it
	}
	for _, f := range z.File {
		if f.Flags&1 != 0 {
			return fmt.Errorf("%s is encrypted", label(f.Name))
		}
		// The reader shows nothing of a directory. Nothing takes two bytes at most.
		if strings.HasSuffix(f.Name, "/") && f.CompressedSize64 > 2 {
			return fmt.Errorf("%s is a folder with data", label(f.Name))
		}
		if err := b.zipFile(f); err != nil {
			return err
		}
	}
	return hidden
}

// accounted holds that entries lie one behind the other, each as the list has it: what
// several share would be read several times, what is between them is seen by nobody, and
// who does not go by the list would see something else.
func accounted(data []byte, files []*zip.File) error {
	type span struct {
		from, to int64
		file     *zip.File
	}
	var all []span
	for _, f := range files {
		from, err := f.DataOffset()
		if err != nil {
			return fmt.Errorf("%s: %w", label(f.Name), err)
		}
		all = append(all, span{from, from + int64(min(f.CompressedSize64, 1<<40)), f})
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	last := int64(0)
	for _, s := range all {
		if s.from < last {
			return limitError("its entries overlap")
		}
		same := true
		if !follows(data, last, "PK\x03\x04", func(header []byte) bool {
			same = zipData(data, header) != s.from || agrees(s.file, header)
			return zipData(data, header) == s.from
		}) {
			return errors.New("there is data before one of its entries that nobody sees")
		}
		if !same {
			return fmt.Errorf("%s is not what the list of entries says", label(s.file.Name))
		}
		last = s.to
	}
	if !follows(data, last, "PK\x01\x02", func([]byte) bool { return true }) && (len(all) > 0 || zipEnd(data) != 0) {
		return errors.New("there is data behind its entries that nobody sees")
	}
	return nil
}

// agrees reports whether the header before an entry says of it what the list does. Sizes
// may follow the entry.
func agrees(f *zip.File, header []byte) bool {
	flags, method := be.LittleEndian.Uint16(header[6:]), be.LittleEndian.Uint16(header[8:])
	packed, size := be.LittleEndian.Uint32(header[18:]), be.LittleEndian.Uint32(header[22:])
	late, large := flags&8 != 0, packed == 1<<32-1 || size == 1<<32-1
	return method == f.Method && flags&1 == f.Flags&1 && bytes.HasPrefix(header[30:], []byte(f.Name)) && int(be.LittleEndian.Uint16(header[26:])) == len(f.Name) &&
		(late || large || uint64(packed) == f.CompressedSize64 && uint64(size) == f.UncompressedSize64)
}

// zipData is where the data of an entry begins, by the header before it.
func zipData(data, header []byte) int64 {
	if len(header) < 30 {
		return -1
	}
	return int64(len(data)-len(header)) + 30 + int64(be.LittleEndian.Uint16(header[26:])) + int64(be.LittleEndian.Uint16(header[28:]))
}

// follows reports whether a header that fits begins here, or behind the sums
// that may follow an entry.
func follows(data []byte, from int64, mark string, fits func(header []byte) bool) bool {
	const sums = 24
	for at := from; at <= from+sums && at <= int64(len(data)); at++ {
		if header := data[at:]; bytes.HasPrefix(header, []byte(mark)) && fits(header) {
			return true
		}
	}
	return false
}

func (b *box) zipFile(f *zip.File) error {
	r, err := f.Open()
	if err != nil {
		return fmt.Errorf("%s: %w", label(f.Name), err)
	}
	defer r.Close()
	return b.file(f.Name, r)
}

// isTar looks at the mark of newer archives, and at the checksum that every header has:
// old ones have no other. Some have added its bytes as signed numbers, and some write
// the sum in another way than in octal digits.
func isTar(data []byte) bool {
	if len(data) < 512 {
		return false
	}
	if string(data[257:262]) == "ustar" {
		return true
	}
	var sum, signed, want int64
	for i, c := range data[:512] {
		if i >= 148 && i < 156 {
			c = ' '
		}
		sum, signed = sum+int64(c), signed+int64(int8(c))
	}
	if data[148] == 0x80 {
		want = int64(be.BigEndian.Uint32(data[152:]))
	} else if n, err := fmt.Sscanf(strings.Trim(string(data[148:156]), " \x00"), "%o", &want); n != 1 || err != nil {
		return false
	}
	return sum == want || signed == want
}

func openTar(b *box) error {
	rest := bytes.NewReader(b.data)
	r := tar.NewReader(rest)
	for {
		h, err := r.Next()
		if err == io.EOF {
			if end := b.data[len(b.data)-rest.Len():]; len(bytes.Trim(end, "\x00")) > 0 {
				return errors.New("it goes on behind its end")
			}
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return err
		}
		if err := b.file(h.Name, r); err != nil {
			return err
		}
	}
}

func openGzip(b *box) error {
	r, err := gzip.NewReader(bytes.NewReader(b.data))
	if err != nil {
		return err
	}
	return b.file(unpacked(b.Path), r)
}

func isBzip2(data []byte) bool {
	return len(data) >= 10 && string(data[:3]) == "BZh" && data[3] >= '1' && data[3] <= '9' &&
		(string(data[4:10]) == "1AY&SY" || string(data[4:10]) == "\x17\x72\x45\x38\x50\x90")
}

func openBzip2(b *box) error {
	return b.file(unpacked(b.Path), bzip2.NewReader(bytes.NewReader(b.data)))
}

// isZlib reports whether data begins as zlib does, which a text may, and is more than that.
func isZlib(data []byte) bool {
	if len(data) < 8 || data[0]&0x8f != 8 || data[1]&0x20 != 0 || be.BigEndian.Uint16(data)%31 != 0 {
		return false
	}
	r, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return false
	}
	var head [32]byte
	n, err := io.ReadFull(r, head[:])
	return err == nil || err == io.EOF || err == io.ErrUnexpectedEOF && n > 0 && oddByte(data) >= 0
}

func openZlib(b *box) error {
	rest := bytes.NewReader(b.data)
	r, err := zlib.NewReader(rest)
	if err != nil {
		return err
	}
	if err := b.file(unpacked(b.Path), r); err != nil {
		return err
	}
	if rest.Len() > 0 {
		return errors.New("it goes on behind its end")
	}
	return nil
}

// unpacked is the name of what is inside of a compressed file.
func unpacked(p string) string {
	base := path.Base(p)
	ext := path.Ext(base)
	if strings.EqualFold(ext, ".tgz") {
		return strings.TrimSuffix(base, ext) + ".tar"
	}
	return strings.TrimSuffix(base, ext)
}

// label is how a name from an archive is told: without a secret, and with its
// end if it is long.
func label(name string) string {
	// A secret of which only a part would be shown is one too.
	const near = 1 << 10
	end := name[max(0, len(name)-near):]
	few := &tries{used: fewTries - 50}
	if found, err := search(context.Background(), few, "", []byte(end)); len(found) > 0 || err != nil {
		return "a file with a secret in its name"
	}
	if runes := []rune(end); len(runes) > 80 {
		return "…" + string(runes[len(runes)-80:])
	}
	return name
}
