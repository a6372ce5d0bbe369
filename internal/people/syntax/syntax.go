// Package syntax finds the comments, strings, numbers, keywords and names in lines of
// source code, for the colours of diffs. It knows little of each language, and reads only
// the lines that a diff shows, so it is wrong at times. Nothing but a colour depends on it.
//
// The lines are untrusted. A [Scanner] looks at each character a fixed number of times,
// keeps nothing but the end of an open comment or string, and never changes a text.
package syntax

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Kind says what a part of a line is.
type Kind string

// These are the kinds. The names are also the classes on the pages of golem desk.
const (
	Plain   Kind = ""
	Comment Kind = "comment"
	String  Kind = "string"
	Number  Kind = "number"
	Keyword Kind = "keyword"
	Name    Kind = "name" // of a function, type, tag, attribute, key or variable
)

// A Span is a part of a line.
type Span struct {
	Kind Kind
	Text string
}

// MaxLine is the number of bytes of the longest line that a [Scanner] divides.
const MaxLine = 2000

// A Scanner divides the lines of a text one after the other.
type Scanner struct {
	language *language
	open     quote // the comment or string that continues on the next line
	inTag    bool  // a tag of HTML continues on the next line
}

// NewScanner returns a scanner for a file. It returns nil if the language is not known by
// the name of the file.
func NewScanner(name string) *Scanner {
	l := languageOf(name)
	if l == nil {
		return nil
	}
	return &Scanner{language: l}
}

// Reset forgets what the lines before have opened. The text is the lines that follow: if
// the first end of a comment in it has no beginning, the scanner begins in that comment.
func (s *Scanner) Reset(text string) {
	s.open, s.inTag = quote{}, false
	for _, q := range s.language.quotes {
		if q.kind != Comment || q.open == q.close {
			continue
		}
		end := strings.Index(text, q.close)
		if begin := strings.Index(text, q.open); end >= 0 && (begin < 0 || begin > end) {
			s.open = q
		}
	}
}

// Line divides the next line. The texts of the spans are the line, in order. It returns
// nil if the line is empty or too long.
func (s *Scanner) Line(line string) []Span {
	if line == "" || len(line) > MaxLine {
		return nil
	}
	r := reader{Scanner: s, line: line}
	r.read()
	r.flush()
	return r.spans
}

// A reader divides one line.
type reader struct {
	*Scanner
	line   string
	at     int  // the next byte to read
	kind   Kind // of the bytes between start and at
	start  int
	spans  []Span
	indent int // where the first word may begin
	// unclosed are the quotes that open and do not close on this line. They stand for
	// themselves, as an apostrophe does.
	unclosed []string
}

// take adds the next n bytes to the spans.
func (r *reader) take(kind Kind, n int) {
	if kind != r.kind {
		r.flush()
		r.kind = kind
	}
	r.at += n
}

// flush ends the current span.
func (r *reader) flush() {
	if r.at > r.start {
		r.spans = append(r.spans, Span{r.kind, r.line[r.start:r.at]})
	}
	r.start = r.at
}

func (r *reader) rest() string { return r.line[r.at:] }

// read reads the line to its end.
func (r *reader) read() {
	l := r.language
	r.indent = len(r.line) - len(strings.TrimLeft(r.line, " \t-"))
	if r.open.close == "" && l.begin != nil {
		l.begin(r)
	}
	for r.at < len(r.line) {
		switch {
		case r.open.close != "":
			r.takeOpen()
		case r.takeComment(), r.takeQuote():
		case l.tags && !r.inTag && !r.beginsTag():
			r.take(Plain, 1)
		case r.takeNumber(), r.takeWord(), r.takeSigil():
		default:
			if l.tags && r.rest()[0] == '>' {
				r.inTag = false
			}
			_, size := utf8.DecodeRuneInString(r.rest())
			r.take(Plain, size)
		}
	}
}

// takeOpen takes the rest of a comment or string that was opened before.
func (r *reader) takeOpen() {
	if n := r.open.end(r.rest()); n >= 0 {
		r.take(r.open.kind, n)
		r.open = quote{}
		return
	}
	r.take(r.open.kind, len(r.rest()))
}

// takeComment takes a comment to the end of the line.
func (r *reader) takeComment() bool {
	for _, mark := range r.language.comments {
		if !strings.HasPrefix(r.rest(), mark) || r.language.spaced && r.at > 0 && r.line[r.at-1] != ' ' && r.line[r.at-1] != '\t' {
			continue
		}
		r.take(Comment, len(r.rest()))
		return true
	}
	return false
}

// takeQuote takes a string, or a comment that has an end.
func (r *reader) takeQuote() bool {
	for _, q := range r.language.quotes {
		if !strings.HasPrefix(r.rest(), q.open) || slices.Contains(r.unclosed, q.open) || q.inTag && !r.inTag {
			continue
		}
		text := r.rest()[len(q.open):]
		if q.char {
			text = text[:min(len(text), maxChar)]
		}
		n := q.end(text)
		switch {
		case n >= 0 && (!q.char || isChar(text[:n-len(q.close)])):
			n += len(q.open)
			kind := q.kind
			if r.language.keys == ':' && r.language.isKey(r.rest()[n:]) {
				kind = Name
			}
			r.take(kind, n)
		case n < 0 && q.long:
			r.take(q.kind, len(r.rest()))
			r.open = q
		default:
			if n < 0 && !q.char {
				r.unclosed = append(r.unclosed, q.open)
			}
			continue
		}
		return true
	}
	return false
}

// maxChar is the number of bytes of the longest character between quotes, with an escape.
const maxChar = 14

// isChar reports whether the text between two quotes is one character or an escape.
func isChar(text string) bool {
	return strings.HasPrefix(text, `\`) || utf8.RuneCountInString(text) == 1
}

// isKey reports whether a text begins, after spaces, with the sign that follows a key.
func (l *language) isKey(text string) bool {
	text = strings.TrimLeft(text, " ")
	if text == "" || text[0] != l.keys {
		return false
	}
	return !l.spaced || l.keys != ':' || len(text) == 1 || text[1] == ' '
}

// takeNumber takes a number.
func (r *reader) takeNumber() bool {
	text := r.rest()
	if text[0] < '0' || text[0] > '9' || r.inTag {
		return false
	}
	n := 1
	for n < len(text) && (text[n] < utf8.RuneSelf && isWord(rune(text[n])) || text[n] == '.' || (text[n] == '-' || text[n] == '+') && (text[n-1] == 'e' || text[n-1] == 'E') && text[1] != 'x') {
		n++
	}
	r.take(Number, n)
	return true
}

// isWord reports whether a character is part of a word.
func isWord(c rune) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c))
}

// wordEnd returns the length of the word at the beginning of a text.
func (r *reader) wordEnd(text string) int {
	for i, c := range text {
		if !isWord(c) && (i == 0 || !strings.ContainsRune(r.language.inWords, c)) {
			return i
		}
	}
	return len(text)
}

// takeWord takes a word, which may be a keyword or a name.
func (r *reader) takeWord() bool {
	l, text := r.language, r.rest()
	n := r.wordEnd(text)
	if n == 0 {
		return false
	}
	word, kind := text[:n], Plain
	if l.fold {
		word = strings.ToLower(word)
	}
	isFirst := r.at == r.indent
	switch {
	case l.tags:
		kind = Name
		if r.at > 0 && (r.line[r.at-1] == '<' || r.line[r.at-1] == '/') {
			kind = Keyword
		}
	case l.keys != 0 && (isFirst || l.inner) && l.isKey(text[n:]):
		kind = Name
	case l.isKeyword(word) && (!l.first || isFirst):
		kind = Keyword
	case l.calls && n < len(text) && text[n] == '(':
		kind = Name
	}
	r.take(kind, n)
	return true
}

// takeSigil takes a variable, an annotation or a directive, with its sign.
func (r *reader) takeSigil() bool {
	l, text := r.language, r.rest()
	if strings.IndexByte(l.sigils, text[0]) < 0 {
		return false
	}
	kind := Name
	if text[0] == '#' || text[0] == '!' {
		kind = Keyword
	}
	n := r.wordEnd(text[1:])
	if n == 0 && text[0] == '$' && len(text) > 2 && (text[1] == '{' || text[1] == '(') {
		n = 1 + r.wordEnd(text[2:])
	}
	if n == 0 {
		return false
	}
	r.take(kind, 1+n)
	return true
}

// beginsTag reports whether a tag begins here.
func (r *reader) beginsTag() bool {
	if r.rest()[0] != '<' {
		return false
	}
	text := strings.TrimLeft(r.rest()[1:], "/!?")
	r.inTag = text != "" && text[0] < utf8.RuneSelf && isWord(rune(text[0]))
	return r.inTag
}
