package scan

import (
	"bytes"
	"compress/zlib"
	be "encoding/binary"
	"fmt"
	"io"
	"math"
)

// A program can hide data in a picture by replacing the lowest bit of each colour value.
// Nobody sees the difference, but the values 2k and 2k+1 then mix: a neighbour that
// differs by one is as likely on the other side of 2k as not. Sample pairs analysis
// (Dumitrescu, Wu and Wang, 2003) estimates from such pairs in how many values the bit was
// replaced. It needs pictures that keep all values, so PNG and BMP.

// mostPixels limits how many bytes of pixels of a picture are examined.
const mostPixels = 64 << 20

// bandPairs is the number of pairs in the first band of a picture. Programs that hide
// little data often write it there.
const bandPairs = 1 << 15

// lowBits counts pairs of neighbours in the rows of a picture.
type lowBits struct {
	step, colours int // bytes of a pixel, and how many of them are colours
	band          pairCounts
	first         *pairCounts // the first band, once it is full
	whole         pairCounts
}

// A pairCounts has the counts for pairs of values u, v of neighbours in one colour.
type pairCounts struct {
	own    sampleSets
	higher sampleSets // the same without the two lowest bits
	values [3][256]int64
}

// A sampleSets has the sizes of the sets of sample pairs analysis.
type sampleSets struct {
	all, equal, mates, x, y int64 // mates differ in the lowest bit only, and count in y too
}

func (s *sampleSets) add(u, v byte) {
	s.all++
	switch {
	case u == v:
		s.equal++
	case (u < v) == (v&1 == 0):
		s.x++
	default:
		s.y++
		if u>>1 == v>>1 {
			s.mates++
		}
	}
}

func (s *sampleSets) sum(o sampleSets) {
	s.all, s.equal, s.mates, s.x, s.y = s.all+o.all, s.equal+o.equal, s.mates+o.mates, s.x+o.x, s.y+o.y
}

// rate estimates in which part of the values the lowest bit was replaced. Chance alone
// makes x and y differ a little; then it is 0.
func (s *sampleSets) rate() float64 {
	more := float64(s.y - s.x)
	if more <= 6*math.Sqrt(float64(s.x+s.y)) {
		return 0
	}
	a, b := float64(s.mates+s.equal)/2, float64(2*s.x-s.all)
	if a == 0 {
		return 0
	}
	return min(1, (-b-math.Sqrt(max(0, b*b-4*a*more)))/(2*a))
}

func (c *pairCounts) sum(o *pairCounts) {
	c.own.sum(o.own)
	c.higher.sum(o.higher)
	for colour := range c.values {
		for v, n := range o.values[colour] {
			c.values[colour][v] += n
		}
	}
}

// hidden returns in which part of the values data seems to be hidden. It is 0 for pictures
// that look so for another reason: noise is in higher bits too, and in drawings with few
// colours the values 2k and 2k+1 do not both occur.
func (c *pairCounts) hidden(least float64, mostlyUsed int) float64 {
	rate := c.own.rate()
	if rate < least || c.higher.rate() > rate/2 {
		return 0
	}
	var all, mixed int64
	used := 0
	for colour := range c.values {
		values := &c.values[colour]
		var sum int64
		for _, n := range values {
			sum += n
		}
		all += sum
		for v := 0; v < len(values); v += 2 {
			mixed += 2 * min(values[v], values[v+1])
			if values[v]+values[v+1] > sum/400 {
				used++
			}
		}
	}
	if used < mostlyUsed || rate > 1.15*float64(mixed)/float64(all)+0.02 {
		return 0
	}
	return rate
}

// row counts a row of pixels.
func (l *lowBits) row(pixels []byte) {
	for colour := range l.colours {
		values := &l.band.values[colour]
		for i := colour; i+l.step < len(pixels); i += l.step {
			u, v := pixels[i], pixels[i+l.step]
			values[u]++
			l.band.own.add(u, v)
			l.band.higher.add(u>>2, v>>2)
		}
	}
	if l.band.own.all >= bandPairs {
		l.endBand()
	}
}

func (l *lowBits) endBand() {
	if l.first == nil {
		first := l.band
		l.first = &first
	}
	l.whole.sum(&l.band)
	l.band = pairCounts{}
}

// result returns a suspicion, or nothing. Small pictures have too few values for one.
func (l *lowBits) result() string {
	l.endBand()
	if l.whole.own.all < bandPairs/8 {
		return ""
	}
	// The fewer pairs, the further the estimate may be off.
	least := 0.3 + 30/math.Sqrt(float64(l.whole.own.all))
	const suspicion = "a suspicion: data may be hidden in the lowest bits of the "
	if rate := l.whole.hidden(least, 4); rate > 0 {
		return fmt.Sprintf(suspicion+"pixels, in about %.0f %% of them (sample pairs)", 100*rate)
	}
	if rate := l.first.hidden(0.6, 8); rate > 0 {
		return fmt.Sprintf(suspicion+"first pixels (sample pairs: %.0f %% of the first %d)", 100*rate, l.first.own.all)
	}
	return ""
}

// hiddenInPixels returns a suspicion about a picture, or nothing.
func hiddenInPixels(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return lowBitsPNG(data)
	case bytes.HasPrefix(data, []byte("BM")):
		return lowBitsBMP(data)
	}
	return ""
}

// lowBitsPNG examines PNG pictures with eight bits for each colour and no palette. Of an
// interlaced one it examines the last pass, which has every second row.
func lowBitsPNG(data []byte) string {
	var header []byte
	var packed []io.Reader
	pngChunks(data, func(kind string, body []byte) error {
		switch {
		case kind == "IHDR" && header == nil && len(body) == 13:
			header = body
		case kind == "IDAT":
			packed = append(packed, bytes.NewReader(body))
		}
		return nil
	})
	if header == nil || header[8] != 8 || header[10] != 0 || header[11] != 0 {
		return ""
	}
	var l lowBits
	switch header[9] {
	case 0:
		l.step, l.colours = 1, 1
	case 2:
		l.step, l.colours = 3, 3
	case 4:
		l.step, l.colours = 2, 1
	case 6:
		l.step, l.colours = 4, 3
	default:
		return ""
	}
	width, height := int64(be.BigEndian.Uint32(header)), int64(be.BigEndian.Uint32(header[4:]))
	if width == 0 || height == 0 || width*int64(l.step) > mostPixels/2 {
		return ""
	}
	pixels, err := zlib.NewReader(io.MultiReader(packed...))
	if err != nil {
		return ""
	}
	before, rows := int64(0), height
	if header[12] == 1 {
		for _, p := range [][4]int64{{0, 8, 0, 8}, {4, 8, 0, 8}, {0, 4, 4, 8}, {2, 4, 0, 4}, {0, 2, 2, 4}, {1, 2, 0, 2}} {
			if w, h := (width-p[0]+p[1]-1)/p[1], (height-p[2]+p[3]-1)/p[3]; w > 0 && h > 0 {
				before += h * (1 + w*int64(l.step))
			}
		}
		rows = height / 2
	}
	room := min(rows*(1+width*int64(l.step)), mostPixels)
	if before > mostPixels {
		return ""
	}
	if _, err := io.CopyN(io.Discard, pixels, before); err != nil {
		return ""
	}
	last, row := make([]byte, width*int64(l.step)), make([]byte, width*int64(l.step)+1)
	for ; room >= int64(len(row)); room -= int64(len(row)) {
		if _, err := io.ReadFull(pixels, row); err != nil {
			return "" // damaged: lookPNG and readers of pictures say so
		}
		unfilter(row[0], row[1:], last, l.step)
		l.row(row[1:])
		copy(last, row[1:])
	}
	return l.result()
}

// unfilter computes a row of pixels of a PNG picture from its differences to the pixels
// before it and above.
func unfilter(filter byte, row, above []byte, step int) {
	for i := range row {
		var left, corner byte
		if i >= step {
			left, corner = row[i-step], above[i-step]
		}
		switch filter {
		case 1:
			row[i] += left
		case 2:
			row[i] += above[i]
		case 3:
			row[i] += byte((int(left) + int(above[i])) / 2)
		case 4:
			row[i] += paeth(int(left), int(above[i]), int(corner))
		}
	}
}

// paeth returns the neighbour that is nearest to left+up-corner.
func paeth(left, up, corner int) byte {
	near := func(n int) int { return max(n, -n) }
	a, b, c := near(up-corner), near(left-corner), near(left+up-2*corner)
	switch {
	case a <= b && a <= c:
		return byte(left)
	case b <= c:
		return byte(up)
	}
	return byte(corner)
}

// lowBitsBMP examines BMP pictures with 24 or 32 bits for each pixel.
func lowBitsBMP(data []byte) string {
	if len(data) < 54 {
		return ""
	}
	at, header := int64(be.LittleEndian.Uint32(data[10:])), be.LittleEndian.Uint32(data[14:])
	width, height := int64(int32(be.LittleEndian.Uint32(data[18:]))), int64(int32(be.LittleEndian.Uint32(data[22:])))
	bits, packing := int64(be.LittleEndian.Uint16(data[28:])), be.LittleEndian.Uint32(data[30:])
	if header < 40 || bits != 24 && bits != 32 || packing != 0 && packing != 3 || width <= 0 || at < 54 {
		return ""
	}
	l := lowBits{step: int(bits / 8), colours: 3}
	length := (width*bits + 31) / 32 * 4
	for range min(max(height, -height), mostPixels/length) {
		if at+length > int64(len(data)) {
			return ""
		}
		l.row(data[at : at+width*bits/8])
		at += length
	}
	return l.result()
}
