package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (r *reader) readWords(list []*syntax.Word) {
	for _, w := range list {
		r.readWord(w)
	}
}

// readWord reads a word, and the commands in it.
func (r *reader) readWord(w *syntax.Word) Word {
	if w == nil {
		return literal("")
	}
	if text, ok := simple(w); ok {
		return literal(text)
	}
	b := builder{r: r, known: true}
	for i, p := range w.Parts {
		b.addPart(p, i == 0)
	}
	if b.hasBraces() {
		b.markUnknown(true, true)
	}
	if b.known {
		return literal(b.text.String())
	}
	return Word{Text: r.text(w), begins: b.begins, many: b.many, splits: b.splits}
}

// simple returns the text of a word without special characters; most words are such.
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

// A builder builds a word from its pieces.
type builder struct {
	r            *reader
	text         strings.Builder
	bare         strings.Builder // unquoted characters that matter for brace expansion
	known        bool            // text is the whole word so far
	many, splits bool
	begins       string
}

// markUnknown records that the word is not known from here on.
func (b *builder) markUnknown(many, splits bool) {
	if b.known {
		b.known, b.begins = false, b.text.String()
	}
	b.many, b.splits = b.many || many, b.splits || splits
}

// hasBraces reports whether the shell could expand the word like a{b,c} or {1..3}.
func (b *builder) hasBraces() bool {
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

func (b *builder) addPart(p syntax.WordPart, first bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		b.addLiteral(p.Value, first)
	case *syntax.SglQuoted:
		if p.Dollar && strings.Contains(p.Value, `\`) {
			b.r.addUnknown(b.r.text(p), "shells do not agree on such quotes")
			b.markUnknown(false, false)
			return
		}
		b.text.WriteString(p.Value)
	case *syntax.DblQuoted:
		if p.Dollar {
			b.markUnknown(false, false) // a translated string
		}
		for _, in := range p.Parts {
			b.addQuoted(in)
		}
	case *syntax.ParamExp:
		b.addParam(p, false)
	case *syntax.CmdSubst:
		b.readSubstitution(p)
		b.markUnknown(true, true)
	case *syntax.ArithmExp:
		b.r.readArithmetic(p.X)
		b.markUnknown(false, false)
	case *syntax.ProcSubst:
		b.r.readSubstitution(p.Op.String()+" )", p.Stmts)
		b.text.WriteString("/dev/fd/")
		b.markUnknown(false, false)
	default:
		b.r.addUnknown(b.r.text(p), "a pattern that shells read differently")
		b.markUnknown(true, true)
	}
}

// addQuoted adds a piece inside double quotes.
func (b *builder) addQuoted(p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.Lit:
		b.checkText(p.Value, false)
		b.text.WriteString(unescape(p.Value, "$`\"\\"))
	case *syntax.ParamExp:
		b.addParam(p, true)
	case *syntax.CmdSubst:
		b.readSubstitution(p)
		b.markUnknown(false, false)
	default:
		b.addPart(p, false)
	}
}

// addLiteral adds an unquoted piece.
func (b *builder) addLiteral(text string, first bool) {
	b.checkText(text, true)
	if first && strings.HasPrefix(text, "~") {
		b.text.WriteString("~") // a home directory
		b.markUnknown(false, false)
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
			b.markUnknown(true, false) // each file name starts with the text before
		case c == '{' || c == '}' || c == ',' || c == '.':
			b.bare.WriteRune(c)
		}
		b.text.WriteRune(c)
	}
	if escaped {
		b.text.WriteByte('\\')
	}
}

// checkText looks for text that the parser took literally, but that a shell might expand.
// There the parser and a shell may read the line differently, so the word counts as not
// understood.
func (b *builder) checkText(text string, bare bool) {
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
			b.r.addUnknown(text, "shells may read it differently")
			return
		}
	}
}

// unescape removes backslashes before the special characters.
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

// readSubstitution reads the commands of a command substitution.
func (b *builder) readSubstitution(c *syntax.CmdSubst) {
	way := "$( )"
	if c.Backquotes {
		way = "` `"
		if text := b.r.text(c); strings.ContainsAny(text, "\\'\"#<") {
			b.r.addUnknown(text, "quotes and the like in backquotes: shells may read them differently")
		}
	}
	b.r.readSubstitution(way, c.Stmts)
}

// addParam reads the expansion of a variable. Some forms use the value as a name or an
// expression, or run commands in it.
func (b *builder) addParam(p *syntax.ParamExp, quoted bool) {
	r := b.r
	variable := ""
	if p.Param != nil {
		variable = p.Param.Value
	}
	odd := p.Param == nil || p.Flags != nil || p.Excl || p.Width || p.IsSet || p.Split != 0 || p.GlobSubst != 0 || p.RcExpand != 0 ||
		p.NestedParam != nil || len(p.Modifiers) > 0 || p.Names != 0 || p.Exp != nil && p.Exp.Op == syntax.OtherParamOps
	if odd {
		r.addUnknown(r.text(p), "it uses the value of a variable as a name, or runs it")
	}
	if p.Index != nil {
		r.readSubscript(p.Index)
	}
	if p.Slice != nil {
		for _, x := range []syntax.ArithmExpr{p.Slice.Offset, p.Slice.Length} {
			if x != nil {
				r.readArithmetic(x)
			}
		}
	}
	if p.Repl != nil {
		b.readOperands(p, quoted, p.Repl.Orig, p.Repl.With)
	}
	if p.Exp != nil {
		b.readOperands(p, quoted, p.Exp.Word)
		if p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull {
			r.addVariable(variable, r.text(p))
		}
	}
	all := variable == "@" || p.Index != nil || variable == "*" && !quoted
	switch {
	case isNumber(p):
		b.text.WriteString("0") // or another digit
		b.markUnknown(false, false)
	default:
		b.markUnknown(!quoted || all, !quoted || all)
	}
}

// readOperands reads the words inside an expansion. Inside double quotes, shells may disagree
// about quotes in them.
func (b *builder) readOperands(p *syntax.ParamExp, quoted bool, words ...*syntax.Word) {
	b.r.readWords(words)
	if text := b.r.text(p); quoted && strings.ContainsAny(text, "'\"\\") {
		b.r.addUnknown(text, "quotes in a variable in quotes: shells may read them differently")
	}
}

// isNumber reports whether an expansion is always a number: a length, a count, an exit code
// or a process id.
func isNumber(p *syntax.ParamExp) bool {
	if p.Length {
		return true
	}
	return p.Short && p.Param != nil && (p.Param.Value == "?" || p.Param.Value == "#" || p.Param.Value == "$")
}
