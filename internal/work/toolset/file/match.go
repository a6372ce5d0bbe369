package file

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
)

// This file finds the places of an edit. A caller writes LF and UTF-8 even if the file
// has CRLF or Latin-1. The edit is then converted to the form of the file, and the file
// keeps that form.

const (
	maxPlaces = 1 << 20  // places of one edit
	maxTries  = 64 << 20 // bytes compared at matches that do not count
)

// A place is a position of an edit, with the line ends and the encoding there.
type place struct {
	at, end int
	latin   bool // its bytes that are not ASCII are Latin-1
	crlf    bool // it has CRLF and the caller wrote LF
}

// A subject is the content to edit.
type subject struct {
	content []byte
	ends    lineEnds
	last    int  // position of the last LF, -1 if there is none
	utf8    bool // all of it is UTF-8; the next two are set only if not
	some    bool // it has UTF-8 characters of several bytes
	stray   bool // it has bytes that are neither UTF-8 nor Latin-1
}

// lineEnds counts the line ends of each kind.
type lineEnds struct{ crlf, lf, cr int }

// allCRLF reports whether every line ends in CRLF.
func (n lineEnds) allCRLF() bool { return n.crlf > 0 && n.lf == 0 && n.cr == 0 }

func newSubject(content []byte) *subject {
	n := bytes.Count(content, []byte("\r\n"))
	s := &subject{content: content, utf8: utf8.Valid(content), last: bytes.LastIndexByte(content, '\n'),
		ends: lineEnds{n, bytes.Count(content, newline) - n, bytes.Count(content, []byte("\r")) - n}}
	for rest := content; !s.utf8 && len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		s.some = s.some || size > 1
		s.stray = s.stray || r == utf8.RuneError && size == 1 && rest[0] < 0xa0
		rest = rest[size:]
	}
	return s
}

// findPlaces returns the places of old in the order of the file. Some may overlap.
func (s *subject) findPlaces(old string) ([]place, error) {
	spelled := []string{old}
	if other := toCRLF(old); s.ends.crlf > 0 && other != old {
		spelled = append(spelled, other)
	}
	var list []place
	for i, text := range spelled {
		more, err := s.find([]byte(text), place{crlf: i > 0})
		list = append(list, more...)
		if encoded, why := toLatin1(text); err == nil && why == "" && !s.utf8 && !isASCII(text) {
			more, err = s.find(encoded, place{crlf: i > 0, latin: true})
			list = append(list, more...)
		}
		if err != nil {
			return nil, err
		}
	}
	// sort.Slice keeps the program for browsers small: slices.SortFunc is compiled for each type.
	sort.Slice(list, func(i, j int) bool { return list[i].at < list[j].at })
	return list, nil
}

// find returns the places of the bytes. It skips places that would split a CRLF or a
// character. The places do not overlap, with one exception. If there would be only one
// place, find also returns one that overlaps it, because the edit is then ambiguous.
func (s *subject) find(old []byte, p place) (list []place, err error) {
	tried := 0
	for from := 0; ; {
		i := bytes.Index(s.content[from:], old)
		if i < 0 {
			break
		}
		p.at, p.end = from+i, from+i+len(old)
		if from = p.end; s.cutsLineEnd(p) || p.latin && s.cutsUTF8(p) {
			from = p.at + 1
			tried += len(old)
		} else {
			list = append(list, p)
		}
		if len(list) > maxPlaces || tried > maxTries {
			return nil, &sandbox.Error{Code: sandbox.ErrLimit, Hint: "old occurs too often to make the edit at once; take a longer text"}
		}
	}
	if len(list) == 1 {
		p.at = list[0].at + 1
		if i := bytes.Index(s.content[p.at:], old); i >= 0 {
			p.at, p.end = p.at+i, p.at+i+len(old)
			if !s.cutsLineEnd(p) && !(p.latin && s.cutsUTF8(p)) {
				list = append(list, p)
			}
		}
	}
	return list, nil
}

// cutsLineEnd reports whether a place begins or ends inside a CRLF.
func (s *subject) cutsLineEnd(p place) bool {
	inside := func(i int) bool {
		return i > 0 && i < len(s.content) && s.content[i-1] == '\r' && s.content[i] == '\n'
	}
	return inside(p.at) || inside(p.end)
}

// cutsUTF8 reports whether a place overlaps a UTF-8 character of several bytes. Such a
// place is not Latin-1.
func (s *subject) cutsUTF8(p place) bool {
	for i := max(0, p.at-utf8.UTFMax+1); i < p.end; i++ {
		if r, size := utf8.DecodeRune(s.content[i:]); r != utf8.RuneError && size > 1 && i+size > p.at {
			return true
		}
	}
	return false
}

// replaceAt returns the content with new at the places, which must not overlap.
func (s *subject) replaceAt(places []place, e edit) ([]byte, error) {
	var b bytes.Buffer
	from, lineEnd := 0, -1
	for _, p := range places {
		if lineEnd < p.end { // the end of the line in which the place ends
			lineEnd = len(s.content)
			if i := bytes.IndexByte(s.content[p.end:], '\n'); i >= 0 {
				lineEnd = p.end + i
			}
		}
		text, why := s.encodeFor(e, p, lineEnd)
		if why != "" {
			return nil, &sandbox.Error{Code: sandbox.ErrInvalid, Hint: why}
		}
		b.Write(s.content[from:p.at])
		b.Write(text)
		from = p.end
		if size := b.Len() + len(s.content) - from; size > maxEdited {
			return nil, &sandbox.Error{Code: sandbox.ErrTooLarge, Hint: fmt.Sprintf(
				"the file would have more than %d MiB; edit less at a time, or split it into several files", maxEdited>>20)}
		}
	}
	b.Write(s.content[from:])
	return b.Bytes(), nil
}

// encodeFor returns new with the line ends and the encoding of a place, or the reason why
// that is impossible.
func (s *subject) encodeFor(e edit, p place, lineEnd int) (text []byte, why string) {
	new := e.New
	switch {
	case s.ends.allCRLF() && strings.Contains(strings.ReplaceAll(toCRLF(new), "\r\n", ""), "\r"):
		return nil, "every line of the file ends in CRLF, and new has a CR alone; write line ends as LF"
	case s.ends.allCRLF(), p.crlf:
		new = toCRLF(new)
	case strings.ContainsAny(e.Old, "\r\n"): // old says which line ends are meant
	case s.ends.crlf > 0 && s.endsCRLF(lineEnd):
		new = toCRLF(new)
	}
	switch {
	case s.utf8 || isASCII(new):
		return []byte(new), ""
	case strings.ContainsRune(new, utf8.RuneError):
		return nil, "the file is not UTF-8: " + noReplacement
	case s.stray:
		return nil, "the file is neither UTF-8 nor Latin-1, and new has characters that are not ASCII; use plain ones, or ask the user to convert it to UTF-8"
	case p.latin, isASCII(e.Old) && !s.some:
		return toLatin1(new)
	}
	return []byte(new), ""
}

// endsCRLF reports whether the line that ends at lineEnd ends in CRLF. If the last line
// has no line end, the line before it counts.
func (s *subject) endsCRLF(lineEnd int) bool {
	if lineEnd == len(s.content) {
		lineEnd = s.last
	}
	return lineEnd > 0 && s.content[lineEnd-1] == '\r'
}

const noReplacement = "\uFFFD stands for bytes that are no characters; it can be neither matched nor written, so leave it out of old and new"

// dropOverlaps returns the places that replace_all uses. If two places overlap, it keeps the
// first.
func dropOverlaps(places []place) []place {
	var list []place
	end := 0
	for _, p := range places {
		if p.at >= end {
			list = append(list, p)
			end = p.end
		}
	}
	return list
}

// describeLines names the lines in which the places begin.
func (s *subject) describeLines(places []place) string {
	var at []string
	line, from := 1, 0
	for _, p := range places[:min(len(places), maxMatches)] {
		line += bytes.Count(s.content[from:p.at], newline)
		from = p.at
		at = append(at, fmt.Sprint(line))
	}
	text := "old occurs at lines " + strings.Join(at, ", ")
	if more := len(places) - len(at); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + "; add context so that it occurs once, or set replace_all"
}

// toCRLF returns the text with CRLF for every line end.
func toCRLF(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
}

func isASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// toLatin1 returns the text in Latin-1, or the reason why that is impossible.
func toLatin1(text string) (encoded []byte, why string) {
	for _, r := range text {
		if r > 0xff {
			return nil, fmt.Sprintf("the file is not UTF-8 and cannot hold %s; use plain characters", sandbox.Shown(string(r)))
		}
		encoded = append(encoded, byte(r))
	}
	return encoded, ""
}
