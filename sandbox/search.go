package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// MaxSearch is the largest file that is searched.
const MaxSearch = 16 << 20

const (
	maxMatch = 400     // bytes of a line that a match shows
	sniffed  = 8 << 10 // a NUL in the first bytes makes a file binary

	maxPattern   = 4 << 10 // bytes of an expression
	maxProgram   = 10_000  // instructions of one, when it is compiled
	maxUnwatched = 4 << 20 // instructions between two looks at the clock
)

// A Query says what to search for, and where.
type Query struct {
	// Pattern is a regular expression in Go's syntax. It is matched line by line.
	Pattern string
	// Literal takes Pattern as it is.
	Literal bool
	// IgnoreCase takes upper and lower case for the same.
	IgnoreCase bool
	// Glob, where set, chooses the files, as in [Sandbox.Find].
	Glob string
	// Pick, where set, chooses files and the directories to enter.
	Pick Pick
	// AfterLine leaves out the lines up to this one of the file that the budget's
	// After names.
	AfterLine int
}

// Matches is what a search found, ordered by path and line. Where Cut is not
// empty there may be more: with CutResults behind the last match, otherwise
// anywhere.
type Matches struct {
	Found  []Match
	Files  int // files searched
	Binary int // files passed over because they are not text
	Large  int // files passed over because they are larger than MaxSearch
	Unread int // files and directories that could not be read
	Cut    Cut
}

// A Match is a line that matches.
type Match struct {
	Path   string
	Line   int    // from 1
	Column int    // of the first match, in bytes from 1
	Text   string // the line, or the part of a long one around the match
}

// Search looks for a pattern in the text files below a directory, in parallel.
// Like [Sandbox.Walk] it follows no links, and when the budget is used up or
// ctx ends it returns what it has, and says so.
func (s *Sandbox) Search(ctx context.Context, name string, q Query, b Budget) (Matches, error) {
	n, wrong := newMatcher(q)
	if wrong != nil {
		return Matches{}, &Error{Op: "search", Path: name, Code: ErrInvalid, Hint: wrong.Hint}
	}
	var g glob
	if q.Glob != "" {
		var err error
		if g, err = newGlob("search", name, q.Glob); err != nil {
			return Matches{}, err
		}
	}
	w := s.newWalker(ctx, b)
	searchers := make([]searcher, walkers())
	for i := range searchers {
		searchers[i].lines = newAutomaton(n.prog)
		searchers[i].found = firstN[Match]{most: w.results, order: compareMatches}
	}
	w.visit = func(id int, p location, e Entry) bool {
		h, here := &searchers[id], w.s.childOf(p, e.Name)
		if !h.found.accepts(Match{Path: here.name}) {
			return false // nor anything below it
		}
		keep, enter := true, true
		if q.Pick != nil {
			keep, enter = q.Pick(p.name, e)
		}
		if keep && e.Type.IsRegular() && here.name >= w.after && (q.Glob == "" || g.match(w.top, p.name, e.Name)) {
			h.searchFile(w, n, here, q.AfterLine)
		}
		return enter && w.hasNamesAfter(here.name)
	}
	cut, err := w.walk("search", name)
	if err != nil {
		return Matches{}, err
	}
	return mergeMatches(searchers, cut, int(w.unread.Load())), nil
}

// together returns what all searchers have found.
func mergeMatches(searchers []searcher, cut Cut, unread int) Matches {
	all := Matches{Cut: cut, Unread: unread}
	found := make([]firstN[Match], len(searchers))
	for i, one := range searchers {
		found[i] = one.found
		all.Files += one.Files
		all.Binary += one.Binary
		all.Large += one.Large
		all.Unread += one.Unread
	}
	var more bool
	if all.Found, more = mergeFirst(found); more && cut == "" {
		all.Cut = CutResults
	}
	return all
}

func compareMatches(a, b Match) int {
	return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
}

// A searcher is what one worker of a search has found, and its tools.
type searcher struct {
	Matches // its counts
	found   firstN[Match]
	buf     []byte
	lines   *automaton
}

// file searches the file at p. Of the one that the search continues in, only the
// lines after the given one count.
func (h *searcher) searchFile(w *walker, n *matcher, p location, after int) {
	if p.name != w.after {
		after = 0
	}
	f, err := w.s.open(p)
	if err != nil {
		h.Unread++
		return
	}
	data, err := h.read(f)
	f.Close()
	switch {
	case err == ErrTooLarge:
		h.Large++
		return
	case err != nil:
		h.Unread++
		return
	}
	if !w.spend(&w.bytes, int64(len(data)), CutBytes) {
		return
	}
	if bytes.IndexByte(data[:min(len(data), sniffed)], 0) >= 0 {
		h.Binary++
		return
	}
	h.Files++
	n.each(w.ctx, data, h.lines, func(line, start, end, at int) bool {
		if line <= after {
			return true
		}
		kept := h.found.add(Match{p.name, line, at - start + 1, excerpt(data[start:end], at-start)})
		return kept && w.ctx.Err() == nil
	})
}

// read reads a file into the buffer: all of it, or the start of one whose start
// shows that it is not text.
func (h *searcher) read(f File) ([]byte, error) {
	size := f.Attr().Size
	if size > MaxSearch {
		start := make([]byte, sniffed)
		if n, _ := f.ReadAt(start, 0); bytes.IndexByte(start[:n], 0) >= 0 {
			return start, nil
		}
		return nil, ErrTooLarge
	}
	if int64(len(h.buf)) <= size {
		h.buf = make([]byte, max(size+1, 64<<10))
	}
	n, err := f.ReadAt(h.buf[:size+1], 0)
	if err == io.EOF {
		err = nil
	}
	return h.buf[:n], err
}

// excerpt returns a line as text, cut to a part around column at where it is
// long.
func excerpt(line []byte, at int) string {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) <= maxMatch {
		return strings.ToValidUTF8(string(line), string(utf8.RuneError))
	}
	start := max(0, min(at-maxMatch/4, len(line)-maxMatch))
	end := min(len(line), start+maxMatch)
	text := strings.ToValidUTF8(string(line[start:end]), string(utf8.RuneError))
	if start > 0 {
		text = "…" + text
	}
	if end < len(line) {
		text += "…"
	}
	return text
}

// A needle finds the lines that match. Most patterns hold a text that every
// match must contain: looking for that first is many times faster than running
// the expression. For the others there is an automaton.
type matcher struct {
	must  []byte // a text that every match contains, nil if none is known
	exact bool   // must is the whole pattern
	re    *regexp.Regexp
	prog  *syntax.Prog
}

func newMatcher(q Query) (*matcher, *Error) {
	pattern := q.Pattern
	if q.Literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	if q.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	if q.Pattern == "" {
		return nil, errEmptyPattern
	}
	if len(pattern) > maxPattern {
		return nil, errComplex
	}
	var prog *syntax.Prog
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err == nil {
		prog, err = syntax.Compile(tree.Simplify())
	}
	if err != nil {
		return nil, &Error{Code: ErrInvalid, Hint: brief(strings.TrimPrefix(err.Error(), "error parsing regexp: "))}
	}
	if len(prog.Inst) > maxProgram {
		return nil, errComplex
	}
	n := &matcher{must: []byte(mustContain(tree)), re: regexp.MustCompile(pattern), prog: prog}
	if bytes.IndexByte(n.must, '\n') >= 0 {
		return nil, errLineBreak
	}
	// The carriage return at the end of a line is not a part of it.
	n.exact = len(n.must) > 0 && tree.Op == syntax.OpLiteral && n.must[len(n.must)-1] != '\r'
	return n, nil
}

var (
	errEmptyPattern = &Error{Code: ErrInvalid, Hint: "an empty pattern matches everything; name a text"}
	errComplex      = &Error{Code: ErrInvalid, Hint: "the pattern is too complex; repeat less, or search for a part of it"}
	errLineBreak    = &Error{Code: ErrInvalid, Hint: "a pattern is matched line by line and has no line break"}
)

// mustContain returns the longest text that every match of the expression
// contains, as far as its form shows it.
func mustContain(tree *syntax.Regexp) string {
	switch tree.Op {
	case syntax.OpLiteral:
		if tree.Flags&syntax.FoldCase == 0 {
			return string(tree.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return mustContain(tree.Sub[0])
	case syntax.OpRepeat:
		if tree.Min > 0 {
			return mustContain(tree.Sub[0])
		}
	case syntax.OpConcat:
		longest := ""
		for _, sub := range tree.Sub {
			if text := mustContain(sub); len(text) > len(longest) {
				longest = text
			}
		}
		return longest
	}
	return ""
}

// each calls found for every line of data that matches, with its number, where
// it starts and ends, and where the first match in it starts, until found
// returns false or ctx ends.
func (n *matcher) each(ctx context.Context, data []byte, lines *automaton, found func(line, start, end, at int) bool) {
	line, counted := 1, 0
	for pos := 0; pos < len(data); {
		hit := n.next(data, pos, lines)
		if hit < 0 {
			return
		}
		start := bytes.LastIndexByte(data[:hit], '\n') + 1
		end := len(data)
		if i := bytes.IndexByte(data[hit:], '\n'); i >= 0 {
			end = hit + i
		}
		at := hit
		if !n.exact {
			at = n.match(ctx, bytes.TrimSuffix(data[start:end], []byte("\r"))) + start
		}
		if ctx.Err() != nil {
			return
		}
		if at >= start {
			line += bytes.Count(data[counted:start], []byte{'\n'})
			counted = start
			if !found(line, start, end, at) {
				return
			}
		}
		pos = end + 1
	}
}

// next returns a position in the first line from pos on that may match, or that
// of its end; -1 if there is no such line.
func (n *matcher) next(data []byte, pos int, lines *automaton) int {
	i := bytes.Index(data[pos:], n.must)
	switch {
	case i < 0:
		return -1
	case !n.exact && len(n.must) < 3: // it may be in every line
		return lines.find(data, pos)
	}
	return pos + i
}

// match returns where the first match in a line starts, and -1 if there is none
// or ctx ends. An expression can take a second for a long line, and longer.
func (n *matcher) match(ctx context.Context, line []byte) int {
	var m []int
	if every := max(1, maxUnwatched/len(n.prog.Inst)); len(line) <= every {
		m = n.re.FindIndex(line)
	} else {
		m = n.re.FindReaderIndex(&contextReader{ctx: ctx, rest: line, every: every})
	}
	if m == nil {
		return -1
	}
	return m[0]
}

// watched reads a line until ctx ends.
type contextReader struct {
	ctx   context.Context
	rest  []byte
	every int // characters between two looks
	read  int
}

// ReadRune implements io.RuneReader.
func (w *contextReader) ReadRune() (rune, int, error) {
	if w.read++; len(w.rest) == 0 || w.read%w.every == 0 && w.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	r, size := utf8.DecodeRune(w.rest)
	w.rest = w.rest[size:]
	return r, size, nil
}
