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

// A walk shows what is inside of one content: files of archives, streams of documents,
// and data encoded in text. It counts all bytes that it reads, and stops at a limit.
type walk struct {
	ctx      context.Context
	limits   Limits
	entries  int
	expanded int64
	zlib     io.Reader // reused
	look     func(part Content, names []string)
}

// A limitError says that the content has more inside than a limit allows.
type limitError string

func (e limitError) Error() string { return string(e) }

// An opener opens one kind of container.
type opener struct {
	kind string
	is   func(data []byte) bool
	open func(b *box) error
}

// openers returns all openers. A walk tries each, because a file can be two kinds at
// once.
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

// starts returns a check for the first bytes of a content.
func starts(magic string) func([]byte) bool {
	return func(data []byte) bool { return bytes.HasPrefix(data, []byte(magic)) }
}

// A box is a content that is being opened.
type box struct {
	*walk
	Content
	kind  string
	names []string
	room  int64 // how many more bytes may come out of it
}

// open shows everything inside of a content. Names are those of the containers and of the
// content, the outermost first.
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
		return limitError(prefix(names) + "golem cannot read " + k + " archives")
	}
	for _, o := range openers() {
		if !o.is(c.data) {
			continue
		}
		archive := o.kind != "text"
		if len(names) >= w.limits.Depth {
			if archive {
				return limitError(fmt.Sprintf("it is nested deeper than the limit of %d", w.limits.Depth))
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
			// Decoded data often only looks like an archive.
		default:
			return fmt.Errorf("%s%s: %w", prefix(names), o.kind, err)
		}
	}
	return nil
}

// prefix returns the words that say where a part is.
func prefix(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "in " + strings.Join(names, ", in ") + ": "
}

// file shows a file inside of the box.
func (b *box) file(name string, r io.Reader) error {
	data, err := b.read(r)
	if err != nil {
		return err
	}
	return b.show(name, data, false)
}

// show shows a part of the box: a file, or decoded data.
func (b *box) show(name string, data []byte, text bool) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if b.entries++; b.entries > b.limits.Entries {
		return limitError(fmt.Sprintf("it has more entries than the limit of %d", b.limits.Entries))
	}
	part := of(name, data)
	part.within, part.text, part.tries = b.kind, text || b.text, b.tries
	names := append(slices.Clone(b.names), label(name))
	b.look(part, names)
	return b.open(part, names)
}

// read reads data that comes out of the box, within the limits.
func (b *box) read(r io.Reader) ([]byte, error) {
	room := min(b.limits.Size, b.room, b.limits.Expanded-b.expanded)
	data, err := io.ReadAll(io.LimitReader(&patient{b.ctx, r}, room+1))
	if limit := b.count(len(data)); limit != nil {
		return nil, limit
	}
	return data, err
}

// count counts bytes that came out of the box, and returns an error if they exceed a
// limit.
func (b *box) count(size int) error {
	b.room -= int64(size)
	b.expanded += int64(size)
	switch {
	case b.room < 0:
		return limitError(fmt.Sprintf("its content is more than %d times as large as the file", b.limits.Ratio))
	case b.expanded > b.limits.Expanded:
		return limitError(fmt.Sprintf("its content has more than the limit of %d bytes", b.limits.Expanded))
	case int64(size) > b.limits.Size:
		return limitError(fmt.Sprintf("a file inside has more than the limit of %d bytes", b.limits.Size))
	}
	return nil
}

// A patient reader stops with an error when its context ends.
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

// isZip looks for the end of an archive. ZIP readers look for the end and not for the
// beginning, so other data may come before the archive.
func isZip(data []byte) bool { return bytes.HasPrefix(data, []byte("PK\x03\x04")) || zipEnd(data) >= 0 }

// zipEnd returns the position of the last record of a ZIP archive, or -1.
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

// zipDirectory returns where the list of entries begins that the last record names, or -1
// if there is none. The position may count from the start of the archive instead of the
// file.
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
	// A large archive has its numbers elsewhere, and an empty one has no list.
	if end >= 20 && bytes.HasPrefix(data[end-20:], []byte("PK\x06\x07")) || end == 0 {
		return end
	}
	return -1
}

func openZip(b *box) error {
	// The ZIP reader needs memory for each entry, so entries are counted first.
	if n := bytes.Count(b.data, []byte("PK\x01\x02")); n > b.limits.Entries {
		return limitError(fmt.Sprintf("it has more entries than the limit of %d", b.limits.Entries))
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
		hidden = nil // it may be the last file of a tar archive, which shows the data around it
	}
	for _, f := range z.File {
		if f.Flags&1 != 0 {
			return fmt.Errorf("%s is encrypted", label(f.Name))
		}
		// The ZIP reader does not show data of a directory. Compressed emptiness has at
		// most two bytes.
		if strings.HasSuffix(f.Name, "/") && f.CompressedSize64 > 2 {
			return fmt.Errorf("%s is a directory with data", label(f.Name))
		}
		if err := b.zipFile(f); err != nil {
			return err
		}
	}
	return hidden
}

// accounted returns an error unless the entries follow one another and match the list.
// Entries that share data would be read several times. Nobody sees data between entries.
// A program that does not use the list would see something else.
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
			return errors.New("it has hidden data before one of its entries")
		}
		if !same {
			return fmt.Errorf("%s is not what the list of entries says", label(s.file.Name))
		}
		last = s.to
	}
	if !follows(data, last, "PK\x01\x02", func([]byte) bool { return true }) && (len(all) > 0 || zipEnd(data) != 0) {
		return errors.New("it has hidden data after its entries")
	}
	return nil
}

// agrees reports whether the header before an entry matches the list. Sizes may follow
// the entry instead.
func agrees(f *zip.File, header []byte) bool {
	flags, method := be.LittleEndian.Uint16(header[6:]), be.LittleEndian.Uint16(header[8:])
	packed, size := be.LittleEndian.Uint32(header[18:]), be.LittleEndian.Uint32(header[22:])
	late, large := flags&8 != 0, packed == 1<<32-1 || size == 1<<32-1
	return method == f.Method && flags&1 == f.Flags&1 && bytes.HasPrefix(header[30:], []byte(f.Name)) && int(be.LittleEndian.Uint16(header[26:])) == len(f.Name) &&
		(late || large || uint64(packed) == f.CompressedSize64 && uint64(size) == f.UncompressedSize64)
}

// zipData returns where the data of an entry begins, by the header before it.
func zipData(data, header []byte) int64 {
	if len(header) < 30 {
		return -1
	}
	return int64(len(data)-len(header)) + 30 + int64(be.LittleEndian.Uint16(header[26:])) + int64(be.LittleEndian.Uint16(header[28:]))
}

// follows reports whether a matching header begins at a position, or after the checksums
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

// isTar checks the mark of newer archives, or the checksum of the first header, which is
// all that old ones have. Some programs add signed bytes, and some do not write the
// checksum in octal digits.
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
				return errors.New("it has data after its end")
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

// isZlib reports whether data has a zlib header and can be decompressed. A text may begin
// with the same bytes.
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
		return errors.New("it has data after its end")
	}
	return nil
}

// unpacked returns the name of the file inside of a compressed file.
func unpacked(p string) string {
	base := path.Base(p)
	ext := path.Ext(base)
	if strings.EqualFold(ext, ".tgz") {
		return strings.TrimSuffix(base, ext) + ".tar"
	}
	return strings.TrimSuffix(base, ext)
}

// label returns a name from an archive for a message. It hides a name with a secret, and
// keeps only the end of a long name.
func label(name string) string {
	// Part of a secret counts as a secret too.
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
