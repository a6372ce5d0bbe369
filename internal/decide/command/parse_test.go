package command

import (
	"strings"
	"testing"
)

// formatLine writes the parts of a line in the notation of the tests: how a part is reached,
// its variables, its words, and its special properties. Words that are not literal stand
// in ‹›.
func formatLine(l Line) string {
	var list []string
	for _, p := range l.Parts {
		var words []string
		for _, a := range p.Assigns {
			words = append(words, a.Name+"="+formatWord(a.Value))
		}
		for _, w := range p.Words {
			words = append(words, formatWord(w))
		}
		text := strings.Join(words, " ")
		if len(p.Words) == 0 {
			text = p.Text
		}
		if len(p.Via) > 0 {
			text = strings.Join(p.Via, " ") + ": " + text
		}
		switch {
		case p.Unknown != "":
			text += " (?)"
		case p.Plain:
			text += " (plain)"
		case p.Runs:
			text += " (runs)"
		}
		list = append(list, text)
	}
	for _, w := range l.Writes {
		list = append(list, "> "+formatWord(Word{Text: w.Path, Literal: w.Literal}))
	}
	return strings.Join(list, "\n")
}

func formatWord(w Word) string {
	if w.Literal {
		return w.Text
	}
	return "‹" + w.Text + "›"
}

// TestParse checks the parts that Parse finds in a line.
func TestParse(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"git status", "git status"},
		{`g"i"t 'sta'tus\ x`, "git status x"},
		{"ls; pwd\nid &", "ls\npwd\nid"},
		{"a | b && c || d", "a\n|: b\n&&: c\n||: d"},
		{"a |& b", "a\n|&: b"},
		{"(a; b) && { c; }", "( ): a\n( ): b\n&&: c"},
		{"! a; time b; time -p c; coproc d", "a\ntime: b\ntime: c\ncoproc: d"},
		{"# only a word", ""},

		// Words that are not literal.
		{`a $x "$x" b$x "b$x" $(c) "$(c)" *.go src/* ~ ~/x {a,b} {1..3} HEAD@{1} {} [ab] $((1+1))`,
			"$( ): c\n$( ): c\na ‹$x› ‹\"$x\"› ‹b$x› ‹\"b$x\"› ‹$(c)› ‹\"$(c)\"› ‹*.go› ‹src/*› ‹~› ‹~/x› ‹{a,b}› ‹{1..3}› HEAD@{1} {} ‹[ab]› ‹$((1+1))›"},
		{`a \* '*' "*" \$x '$x' "\$x" \~ $'plain' a\{b,c}`, "a * * * $x $x $x ~ plain a{b,c}"},
		{"a `b`", "` `: b\na ‹`b`›"},
		{"a <(b) >(c)", "<( ): b\n>( ): c\na ‹<(b)› ‹>(c)›"},
		{"a ${x:-$(b)} ${x/$(c)/$(d)} ${#x} ${x%y}", "$( ): b\n$( ): c\n$( ): d\na ‹${x:-$(b)}› ‹${x/$(c)/$(d)}› ‹${#x}› ‹${x%y}›"},

		// Variables.
		{"x=1 y=$(a) b", "$( ): a\nx=1 y=‹$(a)› b"},
		{"x=1; y=$(a)", "x=1 (plain)\n$( ): a\ny=$(a) (plain)"},
		{"PATH=.; ls", "PATH=. (?)\nPATH=. (plain)\nls"},
		{"x=(a $(b)); x[0]=c", "$( ): b\nx=(a $(b)) (plain)\nx[0]=c (plain)"},
		{"export X=1", "export ‹X=1› (?)"},
		{"for x in a $(b); do c $x; done", "$( ): b\nc ‹$x›"},
		{"for PATH in .; do c; done", "PATH in . (?)\nc"},
		{"${PATH:=x}", "${PATH:=x} (?)\n‹${PATH:=x}› (?)"},

		// Expansions that run the value of a variable.
		{"a $((x))", "x (?)\na ‹$((x))›"},
		{"a $((1 + $# + ${#x}))", "a ‹$((1 + $# + ${#x}))›"},
		{"[[ $x -gt 1 ]]", "[[ $x -gt 1 ]] (plain)\n$x (?)"},
		{"[[ $# -gt 1 && -f $x && a == $(b) ]]", "[[ $# -gt 1 && -f $x && a == $(b) ]] (plain)\n$( ): b"},
		{"[[ -v x ]]", "[[ -v x ]] (plain)\n-v x (?)"},
		{"a ${!x}", "${!x} (?)\na ‹${!x}›"},
		{"a ${x@P}", "${x@P} (?)\na ‹${x@P}›"},
		{"a ${x:y}", "y (?)\na ‹${x:y}›"},
		{"a ${x[y]} ${x[1]} ${x[@]}", "y (?)\na ‹${x[y]}› ‹${x[1]}› ‹${x[@]}›"},
		{"(( x++ ))", "(( x++ )) (plain)\nx (?)"},
		{"let x=1", "let x=1 (plain)\nx (?)"},

		// Control flow.
		{"if a; then b; elif c; then d; else e; fi", "a\nb\nc\nd\ne"},
		{"while a; do b; done; until c; do d; done", "a\nb\nc\nd"},
		{"case $(a) in b|$(c)) d;; esac", "$( ): a\n$( ): c\nd"},
		{"for ((i=0; i<3; i++)); do a; done", "i (?)\ni (?)\ni (?)\na"},
		{"f() { a; }; f", "f() { a; } (?)\na function: a\nf"},
		{"function f { a; }", "function f { a; } (?)\na function: a"},

		// Redirections.
		{"a >b 2>&1 >>c &>d >|e 2>/dev/null <f", "a\n> b\n> c\n> d\n> e"},
		{`a >"$x" >&b <>c >/dev/fd/3 {fd}>e`, ">\"$x\" (?)\na\n> ‹\"$x\"›\n> b\n> c\n> e"},
		{"a {PATH}>b", "{PATH}>b (?)\na\n> b"},
		{"> b", "> b"},
		{"{ a; b; } >c", "a\nb\n> c"},
		{"a </dev/tcp/h/1", "</dev/tcp/h/1 (?)\na"},
		{"a <<E\n$(b) `c`\nE\n", "$( ): b\n` `: c\na"},
		{"a <<'E'\n$(b)\nE\n", "a"},
		{"a <<<$(b)", "$( ): b\na"},

		// Programs that run others.
		{"env a b", "env a b (runs)\nenv: a b"},
		{"env -i X=1 Y=$z a", "env -i X=1 ‹Y=$z› a (runs)\nenv: env -i= X=1 ‹Y=$z› a (?)"},
		{`env -i X=1 Y="$z" a`, "env -i X=1 ‹Y=\"$z\"› a (runs)\nenv: env -i= X=1 Y=‹Y=\"$z\"› a"},
		{"env -u X -C d a", "env -u X -C d a (runs)\nenv: env -u=X env -C=d a"},
		{"env -S 'a b'", "env -S a b (?)\nenv: a b"},
		{"env", "env"},
		{"timeout -k 1 --signal=9 5 a b", "timeout -k 1 --signal=9 5 a b (runs)\ntimeout: a b"},
		{"timeout -x 5 a", "timeout -x 5 a (?)\ntimeout: 5 a"},
		{"timeout $n a", "timeout ‹$n› a (?)\ntimeout: a"},
		{"nice -n 5 nohup stdbuf -oL setsid a", "nice -n 5 nohup stdbuf -oL setsid a (runs)\nnice: nohup stdbuf -oL setsid a (runs)\n" +
			"nice nohup: stdbuf -oL setsid a (runs)\nnice nohup stdbuf: setsid a (runs)\nnice nohup stdbuf setsid: a"},
		{"nice -10 a", "nice -10 a (runs)\nnice: a"},
		{"command a; command -v b; builtin c; exec d; exec >e", "command a (runs)\ncommand: a\ncommand -v b\nbuiltin c (runs)\nbuiltin: c\n" +
			"exec d (runs)\nexec: d\nexec (plain)\n> e"},
		{"X=1 nohup a", "X=1 nohup a (runs)\nnohup: X=1 a"},
		{"busybox sh -c a", "busybox sh -c a (runs)\nbusybox: sh -c a (runs)\nbusybox sh: a"},
		{"xargs a b", "xargs a b (runs)\nxargs: a b ‹…›"},
		{"xargs -0 -n 1 -I{} a {} x{}y", "xargs -0 -n 1 -I{} a {} x{}y (runs)\nxargs: a ‹{}› ‹x{}y› ‹…›"},
		{"xargs -I % a % b", "xargs -I % a % b (runs)\nxargs: a ‹%› b"},
		{"xargs -EFI a", "xargs -EFI a (runs)\nxargs: a ‹…›"},
		{"xargs -i a", "xargs -i a (?)\nxargs: a"},
		{"xargs", "xargs (runs)\nxargs: echo ‹…›"},
		{`find . -name x -exec a {} \; -execdir b -c{} + -o`, "find . -name x -exec a {} ; -execdir b -c{} + -o (?)\nfind -exec: a ‹{}›\nfind -execdir: b ‹-c{}› + -o"},
		{`find . -exec a {} + -print`, "find . -exec a {} + -print\nfind -exec: a ‹{}›"},
		{`find . -exec \; a \;`, "find . -exec ; a ; (?)"},
		{"sudo -u x a b", "sudo -u x a b (?)\nsudo: x a b\nsudo: a b"},
		{"sudo X=1 a", "sudo X=1 a (?)\nsudo: a"},

		// Scripts.
		{"bash -c 'a; b' x", "bash -c a; b x (runs)\nbash: a\nbash: b"},
		{"bash -euo pipefail -c 'a'", "bash -euo pipefail -c a (runs)\nbash: a"},
		{"sh -c 'a | b >c'", "sh -c a | b >c (runs)\nsh: a\nsh |: b\n> c"},
		{"sh -c '((a b))'", "sh -c ((a b)) (runs)\nsh ( ) ( ): a b\nsh: ((a b)) (?)"},
		{`bash -c "$x"`, "bash -c ‹\"$x\"› (?)"},
		{"bash -lc a", "bash -lc a (?)\nbash: a"},
		{"zsh -c a", "zsh -c a (?)\nzsh: a"},
		{"X=1 bash -c a", "X=1 bash -c a (?)\nbash: X=1 a"},
		{"bash x.sh", "bash x.sh"},
		{"a | bash", "a\n|: bash (?)"},
		{"bash <<E\na\nb $x\nE\n", "bash (?)"},
		{"bash <<'E'\na\nb $x\nE\n", "bash (runs)\nbash: a\nbash: b ‹$x›"},
		{"bash -s <<<'a b'", "bash -s (?)"},
		{"bash <<<'a b'", "bash (runs)\nbash: a b"},
		{"eval a 'b; c'", "eval a b; c (runs)\neval: a b\neval: c"},
		{"eval $x", "eval ‹$x› (?)"},
		{"trap 'a' EXIT; trap - INT; trap", "trap a EXIT (runs)\ntrap: a\ntrap - INT (plain)\ntrap (plain)"},
		{". x; source y", ". x (?)\nsource y (?)"},
		{"alias a=b", "alias a=b (?)"},

		// Options of git.
		{"git -C d --no-pager log -p", "git -C d --no-pager log -p"},
		{"git -c a.b=c log", "git -c a.b=c log (?)"},
		{"git --git-dir=d log", "git --git-dir=d log (?)"},
		{"git $x log", "git ‹$x› log (?)"},

		// Text that is not a line, or that shells read differently.
		{"a; (", "a; ( (?)\na"},
		{"a\rb", "a\rb (?)"},
		{"a \x00", "a \x00 (?)"},
		{"a \xff", "a \xff (?)"},
		{"a \\\n  b", "a b"},
		{"a $\\\n{x@P}", "a $\\\n{x@P} (?)"},
		{"a\\\nb", "a\\\nb (?)"},
		{"a \\\\\nb", "a \\\\\nb (?)"},
		{`a $'\x41'`, "$'\\x41' (?)\na ‹$'\\x41'›"},
		{"a @(b|c)", "@(b|c) (?)\na ‹@(b|c)›"},
		{"a $(b <<'E'\nE; c )\nE\n)", "$( ): 'E' (?)\n$( ): b\na ‹$(b <<'E'\nE; c )\nE\n)›"},
		{"a <<E\n${x:-'$(b)'}\nE\n", "${x:-'$(b)'} (?)\na"},
		{"$x a", "‹$x› a (?)"},
		{"a* b", "‹a*› b (?)"},
	} {
		if got := formatLine(Parse(test.line)); got != test.want {
			t.Errorf("%q: got\n%s\nwant\n%s\n", test.line, got, test.want)
		}
	}
	if got := formatLine(Parse("a `b \\`c\\``")); !strings.Contains(got, "(?)") {
		t.Errorf("backslashes in backquotes: got\n%s", got)
	}
}

// TestParseBounds checks that lines beyond the limits count as not understood, and that
// parsing them is fast.
func TestParseBounds(t *testing.T) {
	deep := "a"
	for range maxDepth + 1 {
		deep = "eval " + literal(deep).String()
	}
	for what, line := range map[string]string{
		"long": "echo " + strings.Repeat("x", maxLine), "many": strings.Repeat("a;", maxParts+10), "deep": deep,
		"nested": strings.Repeat("$(", 10000) + strings.Repeat(")", 10000), "open": strings.Repeat("(", maxLine),
	} {
		found := false
		l := Parse(line)
		for _, p := range l.Parts {
			found = found || p.Unknown != ""
		}
		if !found || len(l.Parts) > maxParts+1 {
			t.Errorf("%s: %d parts, not understood: %v", what, len(l.Parts), found)
		}
	}
}
