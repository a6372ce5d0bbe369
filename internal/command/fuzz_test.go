package command

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"github.com/golem-forge/golem/internal/policy"
)

// FuzzJudge holds verdicts against checks that are dumber than the judge: a line
// that passes by the ready-made sets has only commands in it that are in them,
// wherever a walk over its whole syntax finds one; it passes printed back, too;
// what it writes is said; and outside of quotes nothing in its bytes runs a
// command or writes a file that is not among its parts.
func FuzzJudge(f *testing.F) {
	for _, file := range []string{"testdata/bypasses.txt", "testdata/ordinary.txt"} {
		for _, line := range lines(f, file) {
			f.Add(line)
		}
	}
	for _, line := range []string{"a <<E\n$(b)\nE\n", "bash <<'E'\nls\nE\n", "ls \\\n -la", "x='a[$(b)]'; echo $\\\n{y[x]}", "((a", "`\\`a\\``", "f(){ ls;};f"} {
		f.Add(line)
	}
	rules := NewRules(policy.Shell{}.With(ready()))
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
		d := dumb{T: t, line: line}
		d.script(line, syntax.LangBash)
		if d.writes > 0 && len(j.Writes) == 0 {
			t.Fatalf("%q passes, and says of no file that it writes it", line)
		}
		d.bytes(line, j)
		d.again(rules)
	})
}

// passes reports whether every part of a line is allowed.
func passes(j Judgement) bool {
	rule, ok := j.Consent()
	return ok && rule.Approval == policy.PreApproved
}

// dumb is a check that knows no rule but which programs there are.
type dumb struct {
	*testing.T
	line   string
	writes int
}

// script looks at every command of a script, wherever it is.
func (d *dumb) script(text string, lang syntax.LangVariant) {
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

// known are the programs that may be in a line that passes.
func known(n string) bool {
	_, runs := runners[n]
	for _, set := range Sets() {
		runs = runs || entries()[set][n] != nil
	}
	return runs || slices.Contains([]string{"sh", "bash", "dash", "ash", "eval", "trap", "xargs"}, n)
}

// call looks at one command: its name, and every word of it that could be one,
// where a program runs it.
func (d *dumb) call(c *syntax.CallExpr) {
	var words []string
	for _, w := range c.Args {
		words = append(words, plainText(w))
	}
	n := strings.TrimPrefix(strings.TrimPrefix(words[0], "/usr"), "/bin/")
	if !known(n) {
		d.Fatalf("%q passes, with %q", d.line, words)
	}
	switch n {
	case "sh", "bash", "dash", "ash":
		at, script := 1, false
		for ; at < len(words) && strings.HasPrefix(words[at], "-"); at++ {
			script = script || strings.Contains(words[at], "c")
			if strings.HasSuffix(words[at], "o") {
				at++ // its value
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
				break // all up to its end is of it
			}
			if w == "-exec" || w == "-execdir" {
				d.runs(words[i+1:])
				break
			}
		}
	}
}

// runs looks at the name of a command that a program runs.
func (d *dumb) runs(words []string) {
	if len(words) > 0 && !known(strings.TrimPrefix(strings.TrimPrefix(words[0], "/usr"), "/bin/")) {
		d.Fatalf("%q passes, and runs %q", d.line, words)
	}
}

// plainText returns the letters of a word, without its quotes.
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

func (d *dumb) redirect(r *syntax.Redirect) {
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		if to := plainText(r.Word); !strings.HasPrefix(to, "/dev/") {
			d.writes++
		}
	}
}

// bytes looks for what runs commands outside of quotes.
func (d *dumb) bytes(line string, j Judgement) {
	bare := unquoted(line)
	for _, none := range []string{"$((", "$$", "$()", "$(<", "<()", ">()", "``"} {
		bare = strings.ReplaceAll(bare, none, "")
	}
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

// unquoted returns a line with a dot in place of quotes and what stands in
// single ones or behind a backslash.
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

// again judges the line as a printer writes it.
func (d *dumb) again(rules Rules) {
	file, err := syntax.NewParser().Parse(strings.NewReader(d.line), "")
	if err != nil {
		d.Fatal(err)
	}
	var printed bytes.Buffer
	if err := syntax.NewPrinter().Print(&printed, file); err != nil {
		return // it cannot print all that it reads
	}
	if _, err := syntax.NewParser().Parse(bytes.NewReader(printed.Bytes()), ""); err != nil {
		return
	}
	if j := rules.Judge(printed.String()); !passes(j) && unreadable(printed.String()) == "" {
		d.Fatalf("%q passes, and printed back as %q it does not: %+v", d.line, printed.String(), j.Verdicts[max(0, j.Decides())])
	}
}
