package command

import (
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// How much is looked at. What is longer or deeper is not understood.
const (
	maxLine  = 32 << 10
	maxParts = 1000
	maxDepth = 8 // of scripts in scripts
	maxWay   = 64
)

// Parse takes a command line of bash apart.
func Parse(line string) Line {
	r := reader{guesses: new(int)}
	r.script(line, syntax.LangBash)
	return Line{r.parts, r.writes}
}

// A reader collects the parts of a line.
type reader struct {
	parts  []Part
	writes []Write
	source string // of the script that is read
	lang   syntax.LangVariant
	via    []string
	given  []Assign // variables that are set for all of the script
	nested int      // substitutions around what is read
	depth  int
	// guesses counts the scripts that were found in arguments, in all of the line.
	guesses *int
}

// script reads a script in a shell's language.
func (r *reader) script(text string, lang syntax.LangVariant) {
	source, outer := r.source, r.lang
	r.source, r.lang = text, lang
	r.depth++
	defer func() { r.source, r.lang = source, outer; r.depth-- }()
	if why := unreadable(text); why != "" || r.depth > maxDepth {
		if why == "" {
			why = "scripts in scripts are too deep"
		}
		r.unknown(text, why)
		return
	}
	var stmts []*syntax.Stmt
	failed := false
	for s, err := range syntax.NewParser(syntax.Variant(lang)).StmtsSeq(strings.NewReader(text)) {
		switch { // to the end: the parser does not take a break
		case failed:
		case err != nil:
			failed = true
			r.unknown(text, "a shell could not read it: "+syntaxError(err))
		default:
			stmts = append(stmts, s)
		}
	}
	r.stmts(stmts)
}

// syntaxError returns what is wrong, without its place.
func syntaxError(err error) string {
	text := err.Error()
	if _, what, ok := strings.Cut(text, ": "); ok {
		return what
	}
	return text
}

// unreadable returns why shells may not agree on what a text says.
func unreadable(text string) string {
	switch {
	case len(text) > maxLine:
		return "it is too long to be looked at"
	case !utf8.ValidString(text):
		return "it is not UTF-8"
	case strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c == 0x7f }):
		return "it holds control characters"
	}
	// A shell takes such a line end away before it reads words, so that what is
	// before and behind it may become another word.
	for rest := text; ; {
		before, after, ok := strings.Cut(rest, "\\\n")
		if !ok {
			return ""
		}
		if !strings.HasSuffix(before, " ") && !strings.HasSuffix(before, "\t") {
			return "a line goes on in the middle of a word"
		}
		rest = after
	}
}

// under reads what is reached in a way.
func (r *reader) under(way string, read func()) {
	if len(r.via) == maxWay {
		r.unknown("…", "commands in commands are too deep")
		return
	}
	r.via = append(slices.Clip(r.via), way)
	read()
	r.via = r.via[:len(r.via)-1]
}

// inside reads what is in a substitution.
func (r *reader) inside(way string, stmts []*syntax.Stmt) {
	r.nested++
	r.under(way, func() { r.stmts(stmts) })
	r.nested--
}

// within reads a script that a part runs, with the variables of the part.
func (r *reader) within(way string, p Part, read func()) {
	given := r.given
	r.given = append(slices.Clip(given), p.Assigns...)
	r.under(way, read)
	r.given = given
}

// add adds a part.
func (r *reader) add(p Part) {
	switch {
	case len(r.parts) > maxParts:
		return
	case len(r.parts) == maxParts:
		p = Part{Text: "…", Unknown: "there are too many commands"}
	}
	p.Via = r.via
	if !p.Plain {
		p.Assigns = append(slices.Clip(r.given), p.Assigns...)
	}
	r.inspect(&p)
	r.parts = append(r.parts, p)
}

// unknown adds a part of which nothing more is known.
func (r *reader) unknown(text, why string) { r.add(Part{Text: text, Unknown: why}) }

// text returns how a node is written.
func (r *reader) text(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from >= to || to > uint(len(r.source)) {
		return ""
	}
	return r.source[from:to]
}

func (r *reader) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		r.stmt(s)
	}
}

// stmt reads a statement: its redirections, and its command.
func (r *reader) stmt(s *syntax.Stmt) {
	input := r.redirects(s.Redirs)
	switch c := s.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		r.call(c, input)
	case *syntax.BinaryCmd:
		r.stmt(c.X)
		r.under(c.Op.String(), func() { r.stmt(c.Y) })
	case *syntax.Block:
		r.stmts(c.Stmts)
	case *syntax.Subshell:
		r.under("( )", func() { r.stmts(c.Stmts) })
	case *syntax.IfClause:
		for at := c; at != nil; at = at.Else {
			r.stmts(at.Cond)
			r.stmts(at.Then)
		}
	case *syntax.WhileClause:
		r.stmts(c.Cond)
		r.stmts(c.Do)
	case *syntax.ForClause:
		r.loop(c)
	case *syntax.CaseClause:
		r.word(c.Word)
		for _, item := range c.Items {
			r.wordList(item.Patterns)
			r.stmts(item.Stmts)
		}
	case *syntax.TestClause:
		r.add(Part{Text: r.text(c), Plain: true})
		r.test(c.X)
	case *syntax.ArithmCmd:
		r.add(Part{Text: r.text(c), Plain: true})
		r.arithmetic(c.X)
	case *syntax.LetClause:
		r.add(Part{Text: r.text(c), Plain: true})
		for _, x := range c.Exprs {
			r.arithmetic(x)
		}
	case *syntax.TimeClause:
		if c.Stmt != nil {
			r.under("time", func() { r.stmt(c.Stmt) })
		}
	case *syntax.CoprocClause:
		if c.Name != nil {
			r.sets(r.word(c.Name).Text, r.text(c))
		}
		r.under("coproc", func() { r.stmt(c.Stmt) })
	case *syntax.FuncDecl:
		r.unknown(r.text(c), "a function: what a call of it does depends on how it is called")
		r.under("a function", func() { r.stmt(c.Body) })
	case *syntax.DeclClause:
		r.declare(c)
	default:
		r.unknown(r.text(s), "of a kind that is not known here")
	}
}

// loop reads a for or select. Its variable is set.
func (r *reader) loop(c *syntax.ForClause) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		r.wordList(l.Items)
		r.sets(l.Name.Value, r.text(l))
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			if x != nil {
				r.arithmetic(x)
			}
		}
	default:
		r.unknown(r.text(c), "a loop of a kind that is not known here")
	}
	r.stmts(c.Do)
}

// declare reads export, declare, local and their kin, which change what later
// commands are given.
func (r *reader) declare(c *syntax.DeclClause) {
	words := []Word{literal(c.Variant.Value)}
	sets := c.Variant.Value != "nameref"
	for _, a := range c.Args {
		if a.Naked && a.Value != nil {
			w := r.word(a.Value)
			sets = sets && w.Literal && strings.Trim(w.Text, "-xrgaAiul") == ""
			words = append(words, w)
			continue
		}
		words = append(words, Word{Text: r.text(a), Literal: a.Naked})
		set := r.assign(a)
		sets = sets && !steers(set.Name) && set.Name != ""
	}
	r.add(Part{Text: r.text(c), Words: words, Unknown: "it changes what the commands after it are given", sets: sets})
}

// sets notes a variable that is set for the rest of the line, where that could
// change what the rest does.
func (r *reader) sets(variable, text string) {
	if !harmless(variable) {
		r.add(Part{Text: text, Unknown: "it sets " + variable + " for all that comes after it", sets: variable != "" && !steers(variable)})
	}
}

// harmless reports whether no shell and no program looks at a variable that is
// set in a script: they are in capitals, except a few.
func harmless(variable string) bool {
	for i, c := range variable {
		if !(c == '_' || c >= 'a' && c <= 'z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return variable != "" && variable != "_" && variable != "histchars" && variable != "auto_resume" && !strings.HasSuffix(variable, "_proxy")
}

// assign reads the value of an assignment.
func (r *reader) assign(a *syntax.Assign) Assign {
	var set Assign
	if a.Name != nil {
		set.Name = a.Name.Value
	}
	if a.Index != nil {
		r.subscript(a.Index)
	}
	if a.Value != nil {
		set.Value = r.word(a.Value)
		set.Value.many, set.Value.splits = false, false // a value is one word
	} else {
		set.Value.Literal = a.Array == nil
	}
	if a.Array != nil {
		set.Value.Text = r.text(a.Array)
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				r.subscript(e.Index)
			}
			if e.Value != nil {
				r.word(e.Value)
			}
		}
	}
	return set
}

// subscript reads what stands in brackets behind a name: of a plain array an
// expression.
func (r *reader) subscript(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok {
		if lit := w.Lit(); lit == "@" || lit == "*" {
			return
		}
	}
	r.arithmetic(x)
}

// arithmetic reads an expression. A name in it stands for a value that is an
// expression again, which may run commands.
func (r *reader) arithmetic(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.BinaryArithm:
		r.arithmetic(x.X)
		r.arithmetic(x.Y)
	case *syntax.UnaryArithm:
		r.arithmetic(x.X)
	case *syntax.ParenArithm:
		r.arithmetic(x.X)
	case *syntax.Word:
		r.number(x)
	default:
		r.unknown(r.text(x), "arithmetic of a kind that is not known here")
	}
}

// number reads a word that is taken for a number.
func (r *reader) number(w *syntax.Word) {
	at := r.word(w)
	if at.Literal && at.Text != "" && strings.Trim(at.Text, "0123456789") == "" {
		return
	}
	parts := w.Parts
	if len(parts) == 1 {
		if q, ok := parts[0].(*syntax.DblQuoted); ok {
			parts = q.Parts
		}
	}
	if len(parts) == 1 {
		if p, ok := parts[0].(*syntax.ParamExp); ok && counts(p) {
			return
		}
	}
	r.unknown(at.Text, "arithmetic on a variable: its value is taken for arithmetic again, which may run commands")
}

// test reads the expression of [[ ]].
func (r *reader) test(x syntax.TestExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				if w, ok := side.(*syntax.Word); ok {
					r.number(w)
				} else {
					r.unknown(r.text(x), "arithmetic of a kind that is not known here")
				}
			}
			return
		}
		if text := r.text(x.Y); x.Op == syntax.TsReMatch && strings.ContainsAny(text, " \t\n;&|<>()") {
			r.unknown(text, "shells may read it differently")
		}
		r.test(x.X)
		r.test(x.Y)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
			r.unknown(r.text(x), "what stands in the brackets of a name may run commands")
		}
		r.test(x.X)
	case *syntax.ParenTest:
		r.test(x.X)
	case *syntax.Word:
		r.word(x)
	default:
		r.unknown(r.text(x), "a test of a kind that is not known here")
	}
}
