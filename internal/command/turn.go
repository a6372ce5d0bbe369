package command

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A turn is what makes a harmless command another one: options that have it
// run a program, or write a file.
type turn struct {
	long    []string // after two dashes, or what a program takes for it
	letters string   // after one, among others
	dashed  []string // whole words after one dash or two
	begins  []string // of any word
	infix   []string // in any word
	check   func(words []Word) string
}

// turns holds the turns of commands by their first words.
var turns = map[string]turn{
	"find": {dashed: []string{"delete", "exec", "execdir", "ok", "okdir", "fprint", "fprint0", "fprintf", "fls"}},
	"fd":   {long: []string{"exec", "exec-batch"}, letters: "xX"},
	"rg":   {long: []string{"pre", "hostname-bin", "search-zip"}, letters: "z"},
	"sort": {long: []string{"output", "compress-program"}, letters: "o"},
	"tree": {letters: "oR"},
	"file": {long: []string{"compile", "uncompress", "uncompress-noreport"}, letters: "CzZ"},
	"diff": {long: []string{"paginate"}, letters: "l"},
	"uniq": {check: oneOperand},
	"date": {check: dateSets},
	"tar": {long: []string{"to-command", "checkpoint-action", "use-compress-program", "rsh-command", "rmt-command", "info-script", "new-volume-script"},
		letters: "IF", check: tarBundle},
	"rsync":  {long: []string{"rsh", "rsync-path"}, letters: "e"},
	"yq":     {long: []string{"inplace", "in-place"}, letters: "i"},
	"sed":    {check: sedScript},
	"awk":    {check: awkProgram},
	"printf": {check: printfSets},
	"test":   {check: testWords},
	"[":      {check: testWords},
	"read":   {check: readNames},

	"git":           {long: gitLong},
	"git grep":      {long: gitLong, letters: "O"},
	"git cat-file":  {long: append([]string{"textconv", "filters"}, gitLong...)},
	"git archive":   {long: append([]string{"remote"}, gitLong...), letters: "o"},
	"git rebase":    {long: gitLong, letters: "x"},
	"git difftool":  {long: gitLong, letters: "x"},
	"git clone":     {long: append([]string{"config", "template"}, gitLong...), letters: "uc", infix: []string{"::"}},
	"git fetch":     {long: gitLong, infix: []string{"::"}},
	"git pull":      {long: gitLong, infix: []string{"::"}},
	"git push":      {long: gitLong, infix: []string{"::"}},
	"git ls-remote": {long: gitLong, infix: []string{"::"}},

	"go":     {dashed: []string{"exec", "toolexec", "vettool", "ldflags", "gccgoflags", "overlay", "modfile"}},
	"go env": {dashed: []string{"w", "u"}},
	"make":   {long: []string{"eval"}, check: makeVariables},
	"cargo":  {long: []string{"config"}},
	"npm":    {long: []string{"script-shell", "node-options", "userconfig", "globalconfig"}},
	"cmake":  {begins: []string{"-E", "-P"}},
}

// gitLong are options of git's subcommands that write a file or run a program.
var gitLong = []string{"output", "ext-diff", "show-signature", "open-files-in-pager", "extcmd", "exec", "upload-pack", "receive-pack"}

// turned says what makes a command another one than its name says, or could;
// "" if nothing does. The first words, so many, are as they should be.
func turned(words []Word, first int) string {
	key := name(words)
	t, ok := turns[alias(key)]
	own := 1
	if len(words) > 1 && words[1].Literal {
		if under, is := turns[key+" "+words[1].Text]; is {
			t, ok, own = under, true, 2
		}
	}
	if !ok {
		return ""
	}
	for _, w := range words[min(max(own, first), len(words)):] {
		if w.is("--") && t.dashed == nil {
			break
		}
		if why := t.by(w); why != "" {
			return why
		}
	}
	if t.check != nil && first <= own {
		return t.check(words)
	}
	return ""
}

// alias returns the name under which a command's turns are.
func alias(n string) string {
	switch n {
	case "gawk", "mawk", "nawk":
		return "awk"
	case "fdfind":
		return "fd"
	case "gmake":
		return "make"
	case "yarn", "pnpm":
		return "npm"
	}
	return n
}

// by says what a word makes of a command.
func (t turn) by(w Word) string {
	if !w.Literal {
		if (t.long != nil || t.letters != "" || t.dashed != nil || t.begins != nil) && w.mayBeOption() {
			return w.Text + " could be an option that makes it another command"
		}
		return ""
	}
	for _, begin := range t.begins {
		if strings.HasPrefix(w.Text, begin) {
			return w.Text + " makes it another command"
		}
	}
	for _, in := range t.infix {
		if strings.Contains(w.Text, in) {
			return w.Text + " makes it another command"
		}
	}
	if len(w.Text) < 2 || w.Text[0] != '-' {
		return ""
	}
	key, _, _ := strings.Cut(w.Text, "=")
	long, isLong := strings.CutPrefix(key, "--")
	bad := slices.Contains(t.dashed, strings.TrimLeft(key, "-"))
	switch {
	case isLong && long != "":
		// Programs take the beginning of an option for it.
		bad = bad || slices.ContainsFunc(t.long, func(l string) bool { return strings.HasPrefix(l, long) })
	case !isLong:
		bad = bad || strings.ContainsAny(key[1:], t.letters)
	}
	if bad {
		return key + " makes it another command"
	}
	return ""
}

// operands returns the words that are no options, and whether all words are
// known well enough to tell.
func operands(words []Word) (list []Word, ok bool) {
	ended := false
	for _, w := range words[1:] {
		switch {
		case !ended && w.is("--"):
			ended = true
		case !w.one():
			return nil, false
		case ended || !w.mayBeOption():
			list = append(list, w)
		case !w.Literal:
			return nil, false
		}
	}
	return list, true
}

// oneOperand is for commands whose second operand is written.
func oneOperand(words []Word) string {
	if list, ok := operands(words); !ok || len(list) > 1 {
		return "a second file would be written"
	}
	return ""
}

// dateSets is for date, which sets the clock where it is given another than a
// format.
func dateSets(words []Word) string {
	shows := []string{"+", "-I", "--iso-8601", "--rfc-3339=", "--date=", "--reference="}
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case w.is("-u", "-R", "--utc", "--universal", "--rfc-email"):
		case w.is("-d", "-r", "--date", "--reference") && i+1 < len(words) && words[i+1].one():
			i++
		case w.Literal && slices.ContainsFunc(shows, func(s string) bool { return strings.HasPrefix(w.Text, s) }):
		default:
			return w.Text + " could set the clock"
		}
	}
	return ""
}

// tarBundle is for options of tar without a dash.
func tarBundle(words []Word) string {
	if len(words) > 1 && words[1].Literal && !strings.HasPrefix(words[1].Text, "-") && strings.ContainsAny(words[1].Text, "IF") {
		return words[1].Text + " makes it another command"
	}
	return ""
}

// What a script of sed may be so that it only shows: lines by number, or a
// replacement.
var (
	sedShows = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(([0-9]+|\$)(,(\+?[0-9]+|\$))?)?[pdq=]$`)
	})
	sedReplaces = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^s/([^/\\\n\[]|\\[^\n])*/([^/\\\n]|\\[^\n])*/[gpI0-9]*$`)
	})
)

// sedScript is for sed, whose scripts can run programs and write files.
func sedScript(words []Word) string {
	script, ended := false, false
	harmless := func(w Word) bool {
		if !w.Literal {
			return false
		}
		if sedReplaces().MatchString(w.Text) {
			return true
		}
		for _, c := range strings.Split(w.Text, ";") {
			if !sedShows().MatchString(strings.TrimSpace(c)) {
				return false
			}
		}
		return true
	}
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case !ended && w.is("--"):
			ended = true
		case !ended && w.is("-e", "--expression") && i+1 < len(words):
			i, script = i+1, true
			if !harmless(words[i]) {
				return words[i].Text + ": a script that may do more than show"
			}
		case !ended && w.is("--quiet", "--silent", "--regexp-extended", "--separate", "--unbuffered", "--null-data", "--posix", "--sandbox"):
		case !ended && w.Literal && len(w.Text) > 1 && w.Text[0] == '-' && strings.Trim(w.Text[1:], "nErsuz") == "":
		case !ended && w.mayBeOption():
			return w.Text + " may make sed write"
		case !script:
			script = true
			if !harmless(w) {
				return w.Text + ": a script that may do more than show"
			}
		}
	}
	return ""
}

// awkProgram is for awk, whose programs can run others and write files.
func awkProgram(words []Word) string {
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case !w.Literal:
			return w.Text + ": a program that is not known before it runs"
		case w.is("-F", "-v") && i+1 < len(words) && words[i+1].one():
			i++
		case strings.HasPrefix(w.Text, "-F") || strings.HasPrefix(w.Text, "-v"):
		case strings.HasPrefix(w.Text, "-"):
			return w.Text + " may make awk run something else"
		default:
			for _, bad := range []string{"system", "getline", "|", ">", "@", "close", "fflush"} {
				if strings.Contains(w.Text, bad) {
					return w.Text + ": a program that may do more than print"
				}
			}
			return "" // what follows are files
		}
	}
	return ""
}

// printfSets is for printf, which can set a variable.
func printfSets(words []Word) string {
	if len(words) > 1 && words[1].mayBeOption() && !words[1].is("--") {
		return words[1].Text + " could set a variable"
	}
	return ""
}

// testWords is for test, where the name of a variable may run commands.
func testWords(words []Word) string {
	rest := words[1:]
	if words[0].is("[") {
		if len(rest) == 0 || !rest[len(rest)-1].is("]") {
			return "a test without an end"
		}
		rest = rest[:len(rest)-1]
	}
	for _, w := range rest {
		if !w.one() {
			return w.Text + " could become several words, and another test"
		}
	}
	if len(rest) > 4 || len(rest) == 4 && !rest[0].is("!") {
		for _, w := range rest {
			if !w.Literal {
				return w.Text + " could make it another test"
			}
		}
	}
	for len(rest) > 0 {
		for len(rest) > 1 && rest[0].is("!") {
			rest = rest[1:]
		}
		n := operand(rest)
		if n == 0 {
			return join(rest) + ": a test that is not known here"
		}
		rest = rest[n:]
		if len(rest) > 0 {
			if !rest[0].is("-a", "-o") || len(rest) == 1 {
				return join(rest) + ": a test that is not known here"
			}
			rest = rest[1:]
		}
	}
	return ""
}

// operand returns how many words a single test is, 0 if it is not known.
func operand(rest []Word) int {
	switch {
	case len(rest) > 2 && rest[1].is("=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"):
		return 3
	case len(rest) > 1 && rest[0].is("-e", "-f", "-d", "-L", "-h", "-r", "-w", "-x", "-s", "-z", "-n", "-p", "-S", "-b", "-c", "-g", "-u", "-k", "-t", "-O", "-G", "-N"):
		return 2
	case len(rest) == 1 || len(rest) > 1 && rest[1].is("-a", "-o"):
		return 1
	}
	return 0
}

// readNames is for read, which sets variables.
func readNames(words []Word) string {
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case !w.Literal:
			return w.Text + " could be any variable"
		case w.is("-r", "-s", "-e"):
		case w.is("-d", "-n", "-N", "-p", "-t", "-u") && i+1 < len(words) && words[i+1].one():
			i++
		case !harmless(w.Text):
			return "it sets " + w.Text
		}
	}
	return ""
}

// makeVariables is for make, which takes variables from its words.
func makeVariables(words []Word) string {
	for _, w := range words[1:] {
		variable, value, ok := strings.Cut(w.Text, "=")
		if !w.Literal {
			return w.Text + " could be anything that make takes"
		}
		if ok && (strings.ContainsAny(value, "$`") || strings.Contains(variable, "SHELL") || strings.HasSuffix(strings.TrimRight(variable, ":?+!"), "FLAGS")) {
			return w.Text + " may make it run something else"
		}
	}
	return ""
}
