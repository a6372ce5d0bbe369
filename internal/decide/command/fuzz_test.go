package command

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// FuzzJudge compares verdicts with checks that are simpler than the judge. A line that
// the ready-made sets allow contains only commands of these sets, wherever a walk over
// its syntax finds one. It stays allowed when it is printed back. Its writes are
// reported. Outside quotes, none of its bytes run a command that is not among its parts.
func FuzzJudge(f *testing.F) {
	for _, file := range []string{"testdata/bypasses.txt", "testdata/ordinary.txt"} {
		for _, line := range readLines(f, file) {
			f.Add(line)
		}
	}
	for _, line := range []string{"a <<E\n$(b)\nE\n", "bash <<'E'\nls\nE\n", "ls \\\n -la", "x='a[$(b)]'; echo $\\\n{y[x]}", "((a", "`\\`a\\``", "f(){ ls;};f"} {
		f.Add(line)
	}
	rules := NewRules(policy.Shell{}.With(readySets()))
	f.Fuzz(func(t *testing.T, line string) {
		j := rules.Judge(line)
		for _, p := range Narrow(line) {
			if _, why := NewPattern(p, true); why != "" {
				t.Fatalf("%q: proposes %q: %s", line, p, why)
			}
		}
		if !passes(j) {
			return
		}
		d := simpleCheck{T: t, line: line}
		d.script(line, syntax.LangBash)
		if d.writes > 0 && len(j.Writes) == 0 {
			t.Fatalf("%q passes, and reports no writes", line)
		}
		d.bytes(line, j)
		d.checkPrinted(rules)
	})
}

// passes reports whether a line is allowed.
func passes(j Judgement) bool {
	rule, ok := j.ApprovalRule()
	return ok && rule.Approval == policy.PreApproved
}

// A simpleCheck knows no rules, only the names of allowed programs.
type simpleCheck struct {
	*testing.T
	line   string
	writes int
}

// script checks every command of a script.
func (d *simpleCheck) script(text string, lang syntax.LangVariant) {
	file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(text), "")
	if err != nil {
		d.Fatalf("%q passes, and is no script: %v", d.line, err)
	}
	for n := range syntax.Preorder(file) {
		switch n := n.(type) {
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				d.call(n)
			}
		case *syntax.Redirect:
			d.redirect(n)
		case *syntax.FuncDecl, *syntax.DeclClause, *syntax.ExtGlob, *syntax.LetClause:
			d.Fatalf("%q passes, with %T", d.line, n)
		case *syntax.ParamExp:
			if n.Excl || n.Exp != nil && n.Exp.Op == syntax.OtherParamOps {
				d.Fatalf("%q passes, with a variable that is run", d.line)
			}
		}
	}
}

// isKnown reports whether an allowed line may contain the program.
func isKnown(n string) bool {
	_, runs := runners()[n]
	for _, set := range Sets() {
		runs = runs || entries()[set][n] != nil
	}
	return runs || slices.Contains([]string{"sh", "bash", "dash", "ash", "eval", "trap", "xargs"}, n)
}

// call checks the name of one command, and the commands or scripts in its words.
func (d *simpleCheck) call(c *syntax.CallExpr) {
	var words []string
	for _, w := range c.Args {
		words = append(words, plainText(w))
	}
	n := strings.TrimPrefix(strings.TrimPrefix(words[0], "/usr"), "/bin/")
	if !isKnown(n) {
		d.Fatalf("%q passes, with %q", d.line, words)
	}
	switch n {
	case "sh", "bash", "dash", "ash":
		at, script := 1, false
		for ; at < len(words) && strings.HasPrefix(words[at], "-"); at++ {
			script = script || strings.Contains(words[at], "c")
			if strings.HasSuffix(words[at], "o") {
				at++ // the value of the option
			}
		}
		if script && at < len(words) {
			d.script(words[at], syntax.LangBash)
		}
	case "eval":
		d.script(strings.Join(words[1:], " "), syntax.LangBash)
	case "nohup", "exec", "builtin":
		d.runs(words[1:])
	case "find":
		for i, w := range words {
			if strings.HasPrefix(w, "-ok") {
				break // the rest may be the command of -ok
			}
			if w == "-exec" || w == "-execdir" {
				d.runs(words[i+1:])
				break
			}
		}
	}
}

// runs checks the name of a command that a program runs.
func (d *simpleCheck) runs(words []string) {
	if len(words) > 0 && !isKnown(strings.TrimPrefix(strings.TrimPrefix(words[0], "/usr"), "/bin/")) {
		d.Fatalf("%q passes, and runs %q", d.line, words)
	}
}

// plainText returns the text of a word without quotes.
func plainText(w *syntax.Word) string {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, in := range p.Parts {
				if l, ok := in.(*syntax.Lit); ok {
					b.WriteString(l.Value)
				}
			}
		}
	}
	return b.String()
}

func (d *simpleCheck) redirect(r *syntax.Redirect) {
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		if to := plainText(r.Word); !strings.HasPrefix(to, "/dev/") {
			d.writes++
		}
	}
}

// emptySubstitution matches substitutions that run nothing.
var emptySubstitution = regexp.MustCompile("[$<>]\\([ \t\n]*\\)|`[ \t\n]*`")

// bytes looks for substitutions outside quotes that are not among the parts.
func (d *simpleCheck) bytes(line string, j Judgement) {
	bare := unquoted(line)
	for _, none := range []string{"$((", "$$", "$(<"} {
		bare = strings.ReplaceAll(bare, none, "")
	}
	bare = emptySubstitution.ReplaceAllString(bare, "")
	reached := func(way string) bool {
		return slices.ContainsFunc(j.Parts, func(p Part) bool { return slices.Contains(p.Via, way) })
	}
	if strings.Contains(bare, "$(") && !strings.Contains(bare, "#") && !strings.Contains(bare, "<<") && !reached("$( )") {
		d.Fatalf("%q passes, and its substitution is no part", line)
	}
	if (strings.Contains(bare, "<(") || strings.Contains(bare, ">(")) && !strings.ContainsAny(line, "#\"") && !strings.Contains(bare, "<<") && !reached("<( )") && !reached(">( )") {
		d.Fatalf("%q passes, and its process is no part", line)
	}
	if strings.Contains(bare, "`") && !strings.Contains(bare, "#") && !strings.Contains(bare, "<<") && !reached("` `") {
		d.Fatalf("%q passes, and its backquotes are no part", line)
	}
}

// unquoted returns a line in which a dot replaces quotes, text in single quotes, and
// characters after a backslash.
func unquoted(line string) string {
	var b strings.Builder
	single, double := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case single:
			single = c != '\''
		case c == '\\':
			i++
			b.WriteByte('.')
		case c == '\'' && !double:
			single = true
			b.WriteByte('.')
		case c == '"':
			double = !double
			b.WriteByte('.')
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// checkPrinted judges the line as the printer of the syntax package writes it.
func (d *simpleCheck) checkPrinted(rules Rules) {
	file, err := syntax.NewParser().Parse(strings.NewReader(d.line), "")
	if err != nil {
		d.Fatal(err)
	}
	var printed bytes.Buffer
	if err := syntax.NewPrinter().Print(&printed, file); err != nil {
		return // the printer cannot print everything that the parser reads
	}
	if _, err := syntax.NewParser().Parse(bytes.NewReader(printed.Bytes()), ""); err != nil {
		return
	}
	if j := rules.Judge(printed.String()); !passes(j) && unreadable(printed.String()) == "" {
		d.Fatalf("%q passes, and printed back as %q it does not: %+v", d.line, printed.String(), j.Verdicts[max(0, j.Decides())])
	}
}
