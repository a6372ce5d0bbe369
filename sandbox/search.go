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

// MaxSearch is the size of the largest file that Search reads.
const MaxSearch = 16 << 20

const (
	maxMatch = 400     // bytes of a line that a Match has at most
	sniffed  = 8 << 10 // a file with a NUL in this many first bytes is binary

	maxPattern   = 4 << 10 // bytes of an expression
	maxProgram   = 10_000  // instructions of a compiled expression
	maxUnwatched = 4 << 20 // instructions between two checks of the context
)

// A Query says what to search for, and in which files.
type Query struct {
	// Pattern is a regular expression in Go's syntax. It is matched line by line.
	Pattern string
	// Literal means that Pattern is plain text.
	Literal bool
	// IgnoreCase ignores upper and lower case.
	IgnoreCase bool
	// Glob selects the files, if set, as in [Sandbox.Find].
	Glob string
	// Pick selects the files to search and the directories to enter, if set.
	Pick Pick
	// AfterLine skips the lines up to this one, in the file that After of the Budget
	// names.
	AfterLine int
}

// Matches is the result of a search, ordered by path and line. If Cut is not empty, there
// may be more matches. With CutResults they come after the last match, otherwise they may
// be anywhere.
type Matches struct {
	Found  []Match
	Files  int // files searched
	Binary int // files skipped because they are not text
	Large  int // files skipped because they are larger than MaxSearch
	Unread int // files and directories that could not be read
	Cut    Cut
}

// A Match is a line that matches.
type Match struct {
	Path   string
	Line   int    // from 1
	Column int    // column of the first match, in bytes from 1
	Text   string // the line, or the part of a long line around the match
}

// Search searches the text files below a directory for a pattern, in parallel. Like
// [Sandbox.Walk] it does not follow symlinks. If the budget is used up or ctx ends, it
// returns the matches so far and sets Cut.
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
			return false // nothing below it is accepted either
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

// mergeMatches returns the matches of all searchers.
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

// A searcher has the matches of one goroutine of a search, and its buffers.
type searcher struct {
	Matches // only the counts are used
	found   firstN[Match]
	buf     []byte
	lines   *automaton
}

// searchFile searches the file at p. In the file in which the search continues, it skips
// the lines up to after.
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

// read reads a file into the buffer. If a large file is binary, it returns only the
// start.
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

// excerpt returns a line as text. It shortens a long line to the part around column at.
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

// A matcher finds the lines that match. Most patterns have a text that every match must
// contain. To look for that text first is many times faster than to run the expression.
// For other patterns there is an automaton.
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
	// The carriage return at the end of a line does not belong to the line.
	n.exact = len(n.must) > 0 && tree.Op == syntax.OpLiteral && n.must[len(n.must)-1] != '\r'
	return n, nil
}

var (
	errEmptyPattern = &Error{Code: ErrInvalid, Hint: "an empty pattern matches everything; name a text"}
	errComplex      = &Error{Code: ErrInvalid, Hint: "the pattern is too complex; repeat less, or search for a part of it"}
	errLineBreak    = &Error{Code: ErrInvalid, Hint: "a pattern is matched line by line and has no line break"}
)

// mustContain returns the longest text that every match of the expression contains, as
// far as the parsed expression shows it.
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

// each calls found for every line of data that matches, until found returns false or ctx
// ends. It passes the line number, the start and end of the line, and the start of the
// first match.
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

// next returns a position in the first line from pos on that may match, or the position
// of its end. It returns -1 if there is no such line.
func (n *matcher) next(data []byte, pos int, lines *automaton) int {
	i := bytes.Index(data[pos:], n.must)
	switch {
	case i < 0:
		return -1
	case !n.exact && len(n.must) < 3: // a short text may be in every line
		return lines.find(data, pos)
	}
	return pos + i
}

// match returns the start of the first match in a line, -1 if there is none or ctx ends.
// On a long line, an expression can take a second or more.
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

// contextReader reads a line until ctx ends.
type contextReader struct {
	ctx   context.Context
	rest  []byte
	every int // characters between two checks of ctx
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
