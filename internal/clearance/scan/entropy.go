package scan

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

// entropy, by name size, finds data hidden in text: long encoded runs, parts with more
// entropy than any language, invisible characters, and patterns of white space. Short
// ones are reported, long ones hold.
type entropy struct{}

func (entropy) Name() string    { return entropyName }
func (entropy) Version() string { return "2" }

// From how many bytes a region is reported, and holds, and from how many bytes all
// regions of a file together hold.
const (
	tellFrom  = 512
	holdFrom  = 8 << 10
	holdTotal = 64 << 10
)

// Encoded data uses all characters of its alphabet about equally. Words and numbers do
// not.
const (
	leastBase64 = 4.6 // bits per character, of 6
	leastHex    = 3.2 // of 4
	leastDense  = 6.0
	pane        = 1 << 10
)

func (entropy) Scan(ctx context.Context, c Content) (found []Finding, err error) {
	data, err := c.bytes()
	if err != nil || oddByte(data) >= 0 {
		return nil, err // a binary file may have any entropy
	}
	regions := encoded(data)
	slices.SortFunc(regions, func(a, b region) int { return a.from - b.from })
	known := regions
	dense, err := denseRegions(ctx, data)
	if err != nil {
		return nil, err
	}
	for _, d := range dense {
		if !touches(known, d) {
			regions = append(regions, d)
		}
	}
	total, places := 0, 0
	for _, r := range regions {
		if !r.known {
			total, places = total+r.to-r.from, places+1
		}
		if len(found) < mostFindings {
			found = append(found, Finding{Hold: !r.known && r.to-r.from >= holdFrom, Line: line(data, r.from), Offset: int64(r.from),
				What: fmt.Sprintf("%d bytes of %s", r.to-r.from, r.what)})
		}
	}
	if total >= holdTotal {
		found = append(found, Finding{Hold: true, What: fmt.Sprintf("%d bytes of data in %d places", total, places)})
	}
	found = append(found, hiddenLetters(data)...)
	return append(found, hiddenSpaces(data)...), nil
}

// A region is a part of a text that holds data.
type region struct {
	from, to int
	what     string
	known    bool // it is an image or a font, as web pages embed them
}

// touches reports whether a region overlaps one of others, which are sorted.
func touches(all []region, r region) bool {
	i, _ := slices.BinarySearchFunc(all, r.from+1, func(o region, at int) int { return o.to - at })
	return i < len(all) && all[i].from < r.to
}

// encoded finds long runs in base64 and hexadecimal digits, and uuencoded lines.
func encoded(data []byte) (all []region) {
	for r := range runs(data) {
		if r.to-r.from < tellFrom {
			continue
		}
		bits := byteEntropy(data[r.from:r.to])
		// A number may have any length.
		if r.hex && bits >= leastHex && bytes.ContainsAny(data[r.from:r.to], "abcdefABCDEF") || !r.hex && bits >= leastBase64 {
			all = append(all, region{r.from, r.to, r.kind(), picture(data, r)})
		}
	}
	return append(all, uuencoded(data)...)
}

// picture reports whether a run is an image or a font, by its data URL and its first
// bytes.
func picture(data []byte, r run) bool {
	head := string(data[r.from:min(r.to, r.from+8)])
	for _, magic := range []string{"iVBORw0K", "/9j/4", "R0lGOD", "UklGR", "d09GR", "AAEAAAA"} {
		if len(head) >= len(magic) && head[:len(magic)] == magic {
			return bytes.HasSuffix(data[:r.from], []byte(";base64,")) || bytes.Contains(data[max(0, r.from-40):r.from], []byte(`"image/`))
		}
	}
	return false
}

// uuencoded finds lines that begin with their own length.
func uuencoded(data []byte) (all []region) {
	offset, open := 0, region{from: -1, what: "uuencoded data"}
	for l := range bytes.Lines(data) {
		text := bytes.TrimRight(l, "\r\n")
		full := len(text) == 61 && text[0] == 'M' && !bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '`' })
		switch {
		case full && open.from < 0:
			open.from = offset
		case !full && open.from >= 0:
			open.to = offset
			if open.to-open.from >= tellFrom {
				all = append(all, open)
			}
			open.from = -1
		}
		offset += len(l)
	}
	if open.to = offset; open.from >= 0 && open.to-open.from >= tellFrom {
		all = append(all, open)
	}
	return all
}

// denseRegions finds parts with more entropy than text has, in steps of a pane. It skips
// characters beyond ASCII.
func denseRegions(ctx context.Context, data []byte) (all []region, err error) {
	for from := 0; from+pane <= len(data); from += pane {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var counts [256]int
		beyond := 0
		for _, c := range data[from : from+pane] {
			counts[c]++
			if c >= utf8.RuneSelf {
				beyond++
			}
		}
		if beyond > pane/10 || bitsOf(&counts, pane) < leastDense {
			continue
		}
		if n := len(all); n > 0 && all[n-1].to == from {
			all[n-1].to += pane
			continue
		}
		all = append(all, region{from: from, to: from + pane, what: "text with more entropy than language has"})
	}
	return all, nil
}

// hiddenLetters finds more invisible characters than a language needs: many in a row, or
// many between ASCII letters.
func hiddenLetters(data []byte) []Finding {
	const manyInRow, manyAlone = 8, 16
	first, row, longest, alone := -1, 0, 0, 0
	last := rune(-1)
	for i := 0; i < len(data); {
		if data[i] < utf8.RuneSelf {
			if row > 0 && last < utf8.RuneSelf {
				alone++
			}
			row, last = 0, rune(data[i])
			i++
			continue
		}
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case hidden(r) && i > 0, private(r) && (row > 0 || private(last)):
			if first < 0 {
				first = i
			}
			row++
			longest = max(longest, row)
		default:
			row, last = 0, r
		}
		i += size
	}
	if longest < manyInRow && alone < manyAlone {
		return nil
	}
	return []Finding{{Hold: true, Line: line(data, first), Offset: int64(first),
		What: fmt.Sprintf("invisible characters: %d in a row, %d between others", longest, alone)}}
}

// hidden reports whether a character is invisible. An empty braille pattern is not,
// because it occurs in pictures made of braille.
func hidden(r rune) bool {
	switch {
	case r < 0xad, r > 0x3164 && r < 0xfe00:
		return false // most
	}
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// private reports whether a character is for private use. A single one is often an icon,
// but fonts show nothing for a row of them.
func private(r rune) bool { return r >= 0xe000 && unicode.Is(unicode.Co, r) }

// hiddenSpaces finds many lines that end in both spaces and tabs. Editors leave no such
// pattern, but programs that hide data do.
func hiddenSpaces(data []byte) []Finding {
	const many, length = 3, 4
	first, count, offset := -1, 0, 0
	for l := range bytes.Lines(data) {
		text := bytes.TrimRight(l, "\r\n")
		end := text[len(bytes.TrimRight(text, " \t")):]
		if changes(end) >= 2 && len(end) >= length {
			count++
			if first < 0 {
				first = offset + len(text) - len(end)
			}
		}
		offset += len(l)
	}
	if count < many {
		return nil
	}
	return []Finding{{Hold: true, Line: line(data, first), Offset: int64(first),
		What: fmt.Sprintf("%d lines that end in a pattern of spaces and tabs", count)}}
}

// changes counts how often a byte differs from the one before.
func changes(text []byte) (n int) {
	for i := 1; i < len(text); i++ {
		if text[i] != text[i-1] {
			n++
		}
	}
	return n
}
