package command

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Limits of parsing. Parts beyond them count as not understood.
const (
	maxLine  = 32 << 10
	maxParts = 1000
	maxDepth = 8 // scripts inside scripts
	maxWay   = 64
)

// Parse splits a bash command line into the commands that it runs.
func Parse(line string) Line {
	r := reader{guesses: new(int)}
	r.readScript(line, syntax.LangBash)
	if why := findLeaving(r.parts); why != "" {
		for i := range r.parts {
			r.parts[i].leaves = why
		}
	}
	return Line{r.parts, r.writes}
}

// Words returns the pieces of a line that may be names of files: the words of its commands,
// and the text between blanks, quotes and operators, which includes the words of scripts in
// the line, files of redirections, and values of options.
func Words(line string) []string {
	isQuote := func(r rune) bool { return r == '\'' || r == '"' }
	list := append(strings.FieldsFunc(line, isQuote), strings.FieldsFunc(line, func(r rune) bool {
		return isQuote(r) || unicode.IsSpace(r) || strings.ContainsRune("`;&|<>(){}$=,:\\", r)
	})...)
	for _, p := range Parse(line).Parts {
		for _, w := range p.Words {
			list = append(list, w.Text)
			if _, value, ok := strings.Cut(w.Text, "="); ok {
				list = append(list, value)
			}
		}
	}
	for _, w := range list {
		if len(w) > 2 && w[0] == '-' { // -fNAME
			list = append(list, w[2:])
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// A reader collects the parts of a line.
type reader struct {
	parts  []Part
	writes []Write
	source string // the script being read
	lang   syntax.LangVariant
	via    []string
	given  []Assign // variables that are set for the whole script
	nested int      // number of enclosing substitutions
	depth  int
	// guesses counts the scripts found in arguments of the whole line.
	guesses *int
}

// readScript reads a script in the language of a shell.
func (r *reader) readScript(text string, lang syntax.LangVariant) {
	source, outer := r.source, r.lang
	r.source, r.lang = text, lang
	r.depth++
	defer func() { r.source, r.lang = source, outer; r.depth-- }()
	if why := unreadable(text); why != "" || r.depth > maxDepth {
		if why == "" {
			why = "scripts in scripts are too deep"
		}
		r.addUnknown(text, why)
		return
	}
	var stmts []*syntax.Stmt
	failed := false
	for s, err := range syntax.NewParser(syntax.Variant(lang)).StmtsSeq(strings.NewReader(text)) {
		switch { // no break: the parser does not support it
		case failed:
		case err != nil:
			failed = true
			r.addUnknown(text, "a shell could not read it: "+syntaxError(err))
		default:
			stmts = append(stmts, s)
		}
	}
	r.readStmts(stmts)
}

// syntaxError returns the message of err without the position.
func syntaxError(err error) string {
	text := err.Error()
	if _, what, ok := strings.Cut(text, ": "); ok {
		return what
	}
	return text
}

// unreadable explains why shells may disagree about a text; "" if it finds no reason.
func unreadable(text string) string {
	switch {
	case len(text) > maxLine:
		return "it is too long to check"
	case !utf8.ValidString(text):
		return "it is not UTF-8"
	case strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c == 0x7f }):
		return "it holds control characters"
	}
	// A shell removes a backslash and newline before it splits words. The text before and
	// after it may join into another word.
	for rest := text; ; {
		before, after, ok := strings.Cut(rest, "\\\n")
		if !ok {
			return ""
		}
		if !strings.HasSuffix(before, " ") && !strings.HasSuffix(before, "\t") {
			return "a line break splits a word"
		}
		rest = after
	}
}

// readVia calls read for commands that are reached in the given way.
func (r *reader) readVia(way string, read func()) {
	if len(r.via) == maxWay {
		r.addUnknown("…", "commands in commands are too deep")
		return
	}
	r.via = append(slices.Clip(r.via), way)
	read()
	r.via = r.via[:len(r.via)-1]
}

// readSubstitution reads the statements of a substitution.
func (r *reader) readSubstitution(way string, stmts []*syntax.Stmt) {
	r.nested++
	r.readVia(way, func() { r.readStmts(stmts) })
	r.nested--
}

// readWithVariables reads a script that a part runs, with the variables of that part.
func (r *reader) readWithVariables(way string, p Part, read func()) {
	given := r.given
	r.given = append(slices.Clip(given), p.Assigns...)
	r.readVia(way, read)
	r.given = given
}

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
	if r.parts == nil {
		r.parts = make([]Part, 0, 8) // few lines have more
	}
	r.parts = append(r.parts, p)
}

// addUnknown adds a part that is not understood, without words.
func (r *reader) addUnknown(text, why string) { r.add(Part{Text: text, Unknown: why}) }

// text returns the source text of a node.
func (r *reader) text(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from >= to || to > uint(len(r.source)) {
		return ""
	}
	return r.source[from:to]
}

func (r *reader) readStmts(list []*syntax.Stmt) {
	for _, s := range list {
		r.readStmt(s)
	}
}

// readStmt reads the redirections and the command of a statement.
func (r *reader) readStmt(s *syntax.Stmt) {
	input := r.readRedirects(s.Redirs)
	switch c := s.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		r.readCall(c, input)
	case *syntax.BinaryCmd:
		r.readStmt(c.X)
		r.readVia(c.Op.String(), func() { r.readStmt(c.Y) })
	case *syntax.Block:
		r.readStmts(c.Stmts)
	case *syntax.Subshell:
		r.readVia("( )", func() { r.readStmts(c.Stmts) })
	case *syntax.IfClause:
		for at := c; at != nil; at = at.Else {
			r.readStmts(at.Cond)
			r.readStmts(at.Then)
		}
	case *syntax.WhileClause:
		r.readStmts(c.Cond)
		r.readStmts(c.Do)
	case *syntax.ForClause:
		r.readLoop(c)
	case *syntax.CaseClause:
		r.readWord(c.Word)
		for _, item := range c.Items {
			r.readWords(item.Patterns)
			r.readStmts(item.Stmts)
		}
	case *syntax.TestClause:
		r.add(Part{Text: r.text(c), Plain: true})
		r.readTest(c.X)
	case *syntax.ArithmCmd:
		r.add(Part{Text: r.text(c), Plain: true})
		r.readArithmetic(c.X)
	case *syntax.LetClause:
		r.add(Part{Text: r.text(c), Plain: true})
		for _, x := range c.Exprs {
			r.readArithmetic(x)
		}
	case *syntax.TimeClause:
		if c.Stmt != nil {
			r.readVia("time", func() { r.readStmt(c.Stmt) })
		}
	case *syntax.CoprocClause:
		if c.Name != nil {
			r.addVariable(r.readWord(c.Name).Text, r.text(c))
		}
		r.readVia("coproc", func() { r.readStmt(c.Stmt) })
	case *syntax.FuncDecl:
		r.addUnknown(r.text(c), "a function: its effect depends on the call")
		r.readVia("a function", func() { r.readStmt(c.Body) })
	case *syntax.DeclClause:
		r.readDeclaration(c)
	default:
		r.addUnknown(r.text(s), "of a kind that is not known here")
	}
}

// readLoop reads a for or select loop, and records its variable.
func (r *reader) readLoop(c *syntax.ForClause) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		r.readWords(l.Items)
		r.addVariable(l.Name.Value, r.text(l))
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			if x != nil {
				r.readArithmetic(x)
			}
		}
	default:
		r.addUnknown(r.text(c), "a loop of a kind that is not known here")
	}
	r.readStmts(c.Do)
}

// readDeclaration reads export, declare, local and similar builtins, which change the variables
// of later commands.
func (r *reader) readDeclaration(c *syntax.DeclClause) {
	words := []Word{literal(c.Variant.Value)}
	sets := c.Variant.Value != "nameref"
	for _, a := range c.Args {
		if a.Naked && a.Value != nil {
			w := r.readWord(a.Value)
			sets = sets && w.Literal && strings.Trim(w.Text, "-xrgaAiul") == ""
			words = append(words, w)
			continue
		}
		words = append(words, Word{Text: r.text(a), Literal: a.Naked})
		set := r.readAssign(a)
		sets = sets && !changesPrograms(set.Name) && set.Name != ""
	}
	r.add(Part{Text: r.text(c), Words: words, Unknown: "it changes the variables of later commands", sets: sets})
}

// addVariable adds a part for a variable that stays set for the rest of the line, if it could
// change later commands.
func (r *reader) addVariable(variable, text string) {
	if !isHarmless(variable) {
		r.add(Part{Text: text, Unknown: "it sets " + variable + " for all later commands", sets: variable != "" && !changesPrograms(variable)})
	}
}

// isHarmless reports whether shells and programs ignore a variable with this name. The
// variables they use are in capitals, with a few exceptions.
func isHarmless(variable string) bool {
	for i, c := range variable {
		if !(c == '_' || c >= 'a' && c <= 'z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return variable != "" && variable != "_" && variable != "histchars" && variable != "auto_resume" && !strings.HasSuffix(variable, "_proxy")
}

// readAssign reads the value of an assignment.
func (r *reader) readAssign(a *syntax.Assign) Assign {
	var set Assign
	if a.Name != nil {
		set.Name = a.Name.Value
	}
	if a.Index != nil {
		r.readSubscript(a.Index)
	}
	if a.Value != nil {
		set.Value = r.readWord(a.Value)
		set.Value.many, set.Value.splits = false, false // a value is one word
	} else {
		set.Value.Literal = a.Array == nil
	}
	if a.Array != nil {
		set.Value.Text = r.text(a.Array)
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				r.readSubscript(e.Index)
			}
			if e.Value != nil {
				r.readWord(e.Value)
			}
		}
	}
	return set
}

// readSubscript reads the brackets after a name. In an indexed array they contain an
// expression.
func (r *reader) readSubscript(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok {
		if lit := w.Lit(); lit == "@" || lit == "*" {
			return
		}
	}
	r.readArithmetic(x)
}

// readArithmetic reads an arithmetic expression. The shell evaluates the value of a variable
// in it as an expression again, which may run commands.
func (r *reader) readArithmetic(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.BinaryArithm:
		r.readArithmetic(x.X)
		r.readArithmetic(x.Y)
	case *syntax.UnaryArithm:
		r.readArithmetic(x.X)
	case *syntax.ParenArithm:
		r.readArithmetic(x.X)
	case *syntax.Word:
		r.readNumber(x)
	default:
		r.addUnknown(r.text(x), "arithmetic of a kind that is not known here")
	}
}

// readNumber reads a word that the shell evaluates as a number.
func (r *reader) readNumber(w *syntax.Word) {
	at := r.readWord(w)
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
		if p, ok := parts[0].(*syntax.ParamExp); ok && isNumber(p) {
			return
		}
	}
	r.addUnknown(at.Text, "arithmetic on a variable: the shell evaluates its value again, which may run commands")
}

// readTest reads the expression of [[ ]].
func (r *reader) readTest(x syntax.TestExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				if w, ok := side.(*syntax.Word); ok {
					r.readNumber(w)
				} else {
					r.addUnknown(r.text(x), "arithmetic of a kind that is not known here")
				}
			}
			return
		}
		if text := r.text(x.Y); x.Op == syntax.TsReMatch && strings.ContainsAny(text, " \t\n;&|<>()") {
			r.addUnknown(text, "shells may read it differently")
		}
		r.readTest(x.X)
		r.readTest(x.Y)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
			r.addUnknown(r.text(x), "the brackets after a name may run commands")
		}
		r.readTest(x.X)
	case *syntax.ParenTest:
		r.readTest(x.X)
	case *syntax.Word:
		r.readWord(x)
	default:
		r.addUnknown(r.text(x), "a test of a kind that is not known here")
	}
}
