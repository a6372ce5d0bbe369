package file

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of reading.
const (
	maxPage  = 256 << 10 // bytes of text in a page, with line numbers
	maxLines = 2000      // lines of a page, unless the call asks for more
	maxLine  = 2000      // characters to show of one line
	maxWhole = 4 << 20   // bytes of a file to read whole; golem reads only parts of a larger one
	maxScan  = 64 << 20  // bytes of such a file to scan in one call
	chunk    = 1 << 20   // bytes of it in memory at a time
)

// errSpent means that a call has scanned maxScan bytes.
var errSpent = errors.New("looked at enough")

// A spot is a position in a text: a line number, and the byte at which to start reading.
// That byte is the first of the line, except in a long line. Negative numbers count from
// the end, as offsets do.
type spot struct{ line, at int64 }

// String returns the spot as a cursor.
func (s spot) String() string {
	return strconv.FormatInt(s.line, 10) + "@" + strconv.FormatInt(s.at, 10)
}

// parseSpot parses the result of String. An empty cursor is the zero spot.
func parseSpot(cursor string) (spot, bool) {
	if cursor == "" {
		return spot{}, true
	}
	line, at, _ := strings.Cut(cursor, "@")
	var s spot
	var err [2]error
	s.line, err[0] = strconv.ParseInt(line, 10, 64)
	s.at, err[1] = strconv.ParseInt(at, 10, 64)
	return s, err == [2]error{} && s.line != 0 && s.at >= 0
}

// A text is a file to take pages from. A small file is in memory. Of a large file one
// chunk is in memory, and golem reads other chunks when it needs them.
type text struct {
	ctx  context.Context
	size int64
	file io.ReaderAt // nil if buf has the whole file
	step int         // the least number of bytes to read at a time
	buf  []byte
	at   int64 // the position of buf in the file
	left int64 // bytes that this call may still read
}

// wholeText returns a text that is in memory.
func wholeText(data []byte) *text { return &text{size: int64(len(data)), buf: data} }

// largeText returns a text that golem reads in chunks.
func largeText(ctx context.Context, file io.ReaderAt, size int64) *text {
	return &text{ctx: ctx, size: size, file: file, step: chunk, left: maxScan}
}

// bytesFrom returns at least n bytes from pos, or fewer if the text ends before.
func (t *text) bytesFrom(pos int64, n int) ([]byte, error) {
	end := t.at + int64(len(t.buf))
	if pos >= t.at && (t.file == nil || pos <= end && (end-pos >= int64(n) || end >= t.size)) {
		return t.buf[min(pos, end)-t.at:], nil
	}
	if err := t.ctx.Err(); err != nil {
		return nil, err
	}
	if t.left <= 0 {
		return nil, errSpent
	}
	n = int(max(0, min(int64(max(n, t.step)), t.size-pos)))
	if cap(t.buf) < n {
		t.buf = make([]byte, n)
	}
	got, err := t.file.ReadAt(t.buf[:n], pos)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if err == io.EOF {
		t.size = min(t.size, pos+int64(got)) // the file may have shrunk
	}
	t.buf, t.at = t.buf[:got], pos
	t.left -= int64(got)
	return t.buf, nil
}

// skip advances n lines from s and returns the new position. It advances less if the text
// ends or the call has scanned enough.
func (t *text) skip(s spot, n int64) (spot, error) {
	for n > 0 && s.at < t.size {
		b, err := t.bytesFrom(s.at, 1)
		if err != nil {
			return s, err
		}
		if ends := int64(bytes.Count(b, newline)); ends < n {
			s.line, s.at, n = s.line+ends, s.at+int64(len(b)), n-ends
			continue
		}
		for ; n > 0; n-- {
			i := bytes.IndexByte(b, '\n') + 1
			s.line, s.at, b = s.line+1, s.at+int64(i), b[i:]
		}
	}
	return s, nil
}

var newline = []byte{'\n'}

// countLines returns the number of lines of a text in memory. Text after the last line end
// counts as a line.
func (t *text) countLines() int64 {
	n := int64(bytes.Count(t.buf, newline))
	if len(t.buf) > 0 && t.buf[len(t.buf)-1] != '\n' {
		n++
	}
	return n
}

// findTail returns the start of the last n lines of a large text, numbered from the end. The
// start is nearer to the end if the call has scanned enough.
func (t *text) findTail(n int64) (spot, error) {
	s := spot{line: 0, at: t.size}
	for end := t.size; end > 0; {
		start := max(0, end-int64(t.step))
		b, err := t.bytesFrom(start, int(end-start))
		if err == errSpent {
			break
		}
		if err != nil {
			return s, err
		}
		b = b[:min(end-start, int64(len(b)))]
		if end == t.size && len(b) > 0 && b[len(b)-1] == '\n' {
			b = b[:len(b)-1] // it ends the last line and begins none
		}
		for i := len(b); i > 0; {
			if i = bytes.LastIndexByte(b[:i], '\n'); i < 0 {
				break
			}
			s.line, s.at = s.line-1, start+int64(i)+1
			if s.line == -n {
				return s, nil
			}
		}
		end = start
		if end == 0 || t.left <= 0 && s.line == 0 {
			s.line, s.at = s.line-1, end
		}
	}
	return s, nil
}

// A page is a range of lines of a text.
type page struct {
	first, last int64  // line numbers; 0 if there are no lines
	shown       []byte // the lines with their numbers
	content     []byte // the lines as they are in the file, without the parts that were cut
	copied      bool   // content is not a slice of the text
	cut         []spot // the rest of each long line
	next        spot   // the start of the next page
	more        bool   // there is a next page
	spent       bool   // the call has scanned enough
	crlf, lf    int    // counts of line ends
	bom         bool   // the text begins with a byte order mark
}

// isOpen reports whether the page shows the last line of the text and that line has no line
// end.
func (p *page) isOpen() bool {
	return !p.more && len(p.content) > 0 && p.content[len(p.content)-1] != '\n'
}

// readPage returns up to limit lines from s, in at most most bytes.
func (t *text) readPage(s spot, limit int64, most int) (*page, error) {
	p := &page{next: s}
	room := min(int64(most), t.size-min(s.at, t.size)) + 256
	p.shown = make([]byte, 0, room+room/4)
	if p.copied = t.file != nil; !p.copied {
		p.content = t.buf[min(s.at, t.size):][:0]
	}
	for n := int64(0); p.next.at < t.size; n++ {
		if n == limit {
			p.more = true
			break
		}
		full, err := t.addLine(p, most)
		if err == errSpent {
			p.spent, p.more = true, true
			break
		}
		if err != nil {
			return nil, err
		}
		if full {
			p.more = true
			break
		}
	}
	return p, nil
}

// addLine adds the next line to p, unless p is full.
func (t *text) addLine(p *page, most int) (full bool, err error) {
	const enough = maxLine*utf8.UTFMax + len("\r\n")
	s := p.next
	b, err := t.bytesFrom(s.at, enough)
	if err != nil {
		return false, err
	}
	end := bytes.IndexByte(b, '\n')
	ended := end >= 0
	if !ended {
		end = len(b)
	}
	// If the line continues after b, it has more characters than golem shows.
	line, lineEnd := b[:end], b[end:min(end+1, len(b))]
	if ended && end > 0 && b[end-1] == '\r' {
		line, lineEnd = b[:end-1], b[end-1:end+1]
	}
	visible := line[:prefix(line, maxLine)]
	if len(p.shown) > 0 && len(p.shown)+len(visible)+64 > most {
		return true, nil
	}
	if s.at == 0 && bytes.HasPrefix(visible, bom) {
		p.bom = true
	}
	if p.first == 0 {
		p.first = s.line
	}
	p.last = s.line
	p.add(s, visible, lineEnd, len(visible) < len(line))
	next := spot{s.line + 1, s.at + int64(end) + 1}
	if !ended {
		if next, err = t.skip(spot{s.line, s.at + int64(end)}, 1); err != nil && err != errSpent {
			return false, err
		}
		if next.line > s.line {
			p.content = append(p.content, '\n')
		}
	}
	p.next = next
	return false, err
}

var bom = []byte("\xef\xbb\xbf")

// add appends one line to the page.
func (p *page) add(s spot, visible, lineEnd []byte, cut bool) {
	if cut && !p.copied {
		p.content, p.copied = bytes.Clone(p.content), true
	}
	if p.copied {
		p.content = append(append(p.content, visible...), lineEnd...)
	} else {
		p.content = p.content[:len(p.content)+len(visible)+len(lineEnd)]
	}
	switch len(lineEnd) {
	case 1:
		p.lf++
	case 2:
		p.crlf++
	}
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], s.line, 10)
	for range max(0, 6-len(number)) {
		p.shown = append(p.shown, ' ')
	}
	p.shown = append(append(p.shown, number...), '\t')
	rest := spot{s.line, s.at + int64(len(visible))}
	if p.bom && s.at == 0 {
		visible = visible[len(bom):]
	}
	p.shown = append(p.shown, visible...)
	if cut {
		p.cut = append(p.cut, rest)
		p.shown = append(p.shown, "… [long line cut; cursor "+rest.String()+" continues in it]"...)
	}
	p.shown = append(p.shown, '\n')
}

// prefix returns how many bytes the first n characters have. An invalid byte counts as a
// character.
func prefix(b []byte, n int) int {
	if len(b) <= n {
		return len(b)
	}
	at := 0
	for ; n > 0 && at < len(b); n-- {
		_, size := utf8.DecodeRune(b[at:])
		at += size
	}
	return at
}

// window returns at most most characters of a content from the character offset on, and
// the positions of their start and end. It limits offsets and counts that are out of
// range.
func window(content []byte, offset, most int64) (part []byte, first, last int64) {
	clamp := func(n int64) int { return int(max(0, min(n, math.MaxInt32))) }
	start := prefix(content, clamp(offset))
	end := start + prefix(content[start:], clamp(most))
	first = int64(utf8.RuneCount(content[:start]))
	return content[start:end], first, first + int64(utf8.RuneCount(content[start:end]))
}

// toValidText returns a content as text. Each byte that is not UTF-8 becomes a replacement
// character.
func toValidText(content []byte) string {
	if utf8.Valid(content) {
		return string(content)
	}
	return string(bytes.Runes(content))
}
