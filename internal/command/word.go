package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (r *reader) wordList(list []*syntax.Word) {
	for _, w := range list {
		r.word(w)
	}
}

// word reads a word, and the commands in it.
func (r *reader) word(w *syntax.Word) Word {
	if w == nil {
		return literal("")
	}
	if text, ok := simple(w); ok {
		return literal(text)
	}
	b := builder{r: r, known: true}
	for i, p := range w.Parts {
		b.part(p, i == 0)
	}
	if b.braces() {
		b.open(true, true)
	}
	if b.known {
		return literal(b.text.String())
	}
	return Word{Text: r.text(w), begins: b.begins, many: b.many, splits: b.splits}
}

// simple returns the text of a word in which nothing is special: most are.
func simple(w *syntax.Word) (string, bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	switch p := w.Parts[0].(type) {
	case *syntax.Lit: // a bracket alone closes nothing
		return p.Value, p.Value == "[" || !strings.ContainsAny(p.Value, "\\*?[{~$`<>")
	case *syntax.SglQuoted:
		return p.Value, !p.Dollar
	}
	return "", false
}

// A builder puts a word together from its pieces.
type builder struct {
	r            *reader
	text         strings.Builder
	bare         strings.Builder // what is not quoted, for braces
	known        bool            // so far it is the text
	many, splits bool
	begins       string
}

// open notes that from here on the word is not known.
func (b *builder) open(many, splits bool) {
	if b.known {
		b.known, b.begins = false, b.text.String()
	}
	b.many, b.splits = b.many || many, b.splits || splits
}

// braces reports whether the shell makes several words of a{b,c} or {1..3}.
func (b *builder) braces() bool {
	_, rest, ok := strings.Cut(b.bare.String(), "{")
	if !ok {
		return false
	}
	inner, _, ok := cutLast(rest, "}")
	return ok && strings.ContainsAny(inner, ",.")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func (b *builder) part(p syntax.WordPart, first bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		b.lit(p.Value, first)
	case *syntax.SglQuoted:
		if p.Dollar && strings.Contains(p.Value, `\`) {
			b.r.unknown(b.r.text(p), "shells do not agree on such quotes")
			b.open(false, false)
			return
		}
		b.text.WriteString(p.Value)
	case *syntax.DblQuoted:
		if p.Dollar {
			b.open(false, false) // a translation
		}
		for _, in := range p.Parts {
			b.quoted(in)
		}
	case *syntax.ParamExp:
		b.param(p, false)
	case *syntax.CmdSubst:
		b.substitution(p)
		b.open(true, true)
	case *syntax.ArithmExp:
		b.r.arithmetic(p.X)
		b.open(false, false)
	case *syntax.ProcSubst:
		b.r.inside(p.Op.String()+" )", p.Stmts)
		b.text.WriteString("/dev/fd/")
		b.open(false, false)
	default:
		b.r.unknown(b.r.text(p), "a pattern that shells read differently")
		b.open(true, true)
	}
}

// quoted adds a piece that stands in double quotes.
func (b *builder) quoted(p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.Lit:
		b.wary(p.Value, false)
		b.text.WriteString(unescape(p.Value, "$`\"\\"))
	case *syntax.ParamExp:
		b.param(p, true)
	case *syntax.CmdSubst:
		b.substitution(p)
		b.open(false, false)
	default:
		b.part(p, false)
	}
}

// lit adds a piece without quotes.
func (b *builder) lit(text string, first bool) {
	b.wary(text, true)
	if first && strings.HasPrefix(text, "~") {
		b.text.WriteString("~") // a directory
		b.open(false, false)
	}
	escaped := false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
			continue
		case c == '*' || c == '?' || c == '[':
			b.open(true, false) // each begins with what is before
		case c == '{' || c == '}' || c == ',' || c == '.':
			b.bare.WriteRune(c)
		}
		b.text.WriteRune(c)
	}
	if escaped {
		b.text.WriteByte('\\')
	}
}

// wary notes a piece that is taken for text and looks as if a shell would not:
// where shells and this package read a line differently, it is there.
func (b *builder) wary(text string, bare bool) {
	for i := 0; i < len(text); i++ {
		next := byte(' ')
		if i+1 < len(text) {
			next = text[i+1]
		}
		odd := false
		switch text[i] {
		case '\\':
			i++
		case '`':
			odd = true
		case '$':
			odd = strings.IndexByte("({[_@*", next) >= 0 || next|0x20 >= 'a' && next|0x20 <= 'z'
		case '<', '>':
			odd = bare && next == '('
		}
		if odd {
			b.r.unknown(text, "shells may read it differently")
			return
		}
	}
}

// unescape takes the backslashes away before certain characters.
func unescape(text, special string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte(special, text[i+1]) >= 0 {
			i++
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// substitution reads the commands whose output a word is made of.
func (b *builder) substitution(c *syntax.CmdSubst) {
	way := "$( )"
	if c.Backquotes {
		way = "` `"
		if text := b.r.text(c); strings.ContainsAny(text, "\\'\"#<") {
			b.r.unknown(text, "quotes and the like in backquotes: shells may read them differently")
		}
	}
	b.r.inside(way, c.Stmts)
}

// param reads a variable. Some forms take a value for a name or an expression,
// or run what is in it.
func (b *builder) param(p *syntax.ParamExp, quoted bool) {
	r := b.r
	variable := ""
	if p.Param != nil {
		variable = p.Param.Value
	}
	odd := p.Param == nil || p.Flags != nil || p.Excl || p.Width || p.IsSet || p.Split != 0 || p.GlobSubst != 0 || p.RcExpand != 0 ||
		p.NestedParam != nil || len(p.Modifiers) > 0 || p.Names != 0 || p.Exp != nil && p.Exp.Op == syntax.OtherParamOps
	if odd {
		r.unknown(r.text(p), "it takes what is in a variable for a name, or runs it")
	}
	if p.Index != nil {
		r.subscript(p.Index)
	}
	if p.Slice != nil {
		for _, x := range []syntax.ArithmExpr{p.Slice.Offset, p.Slice.Length} {
			if x != nil {
				r.arithmetic(x)
			}
		}
	}
	if p.Repl != nil {
		b.operands(p, quoted, p.Repl.Orig, p.Repl.With)
	}
	if p.Exp != nil {
		b.operands(p, quoted, p.Exp.Word)
		if p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull {
			r.sets(variable, r.text(p))
		}
	}
	all := variable == "@" || p.Index != nil || variable == "*" && !quoted
	switch {
	case counts(p):
		b.text.WriteString("0") // or another digit
		b.open(false, false)
	default:
		b.open(!quoted || all, !quoted || all)
	}
}

// operands reads the words in a variable. In quotes, a quote in it is a letter
// to some shells.
func (b *builder) operands(p *syntax.ParamExp, quoted bool, words ...*syntax.Word) {
	b.r.wordList(words)
	if text := b.r.text(p); quoted && strings.ContainsAny(text, "'\"\\") {
		b.r.unknown(text, "quotes in a variable in quotes: shells may read them differently")
	}
}

// counts reports whether a variable is always a number: a length, a count, a
// code.
func counts(p *syntax.ParamExp) bool {
	if p.Length {
		return true
	}
	return p.Short && p.Param != nil && (p.Param.Value == "?" || p.Param.Value == "#" || p.Param.Value == "$")
}
