package command

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A turn lists the words that turn a harmless command into another one: they make it run
// a program or write a file.
type turn struct {
	long    []string // long options, after two dashes; a prefix is enough
	letters string   // single letters, after one dash
	dashed  []string // whole words after one dash or two
	begins  []string // prefixes of any word
	infix   []string // texts anywhere in any word
	check   func(words []Word) string
}

// turns holds the turn of each command, by its first words.
var turns = sync.OnceValue(func() map[string]turn {
	return map[string]turn{
		"find": {dashed: []string{"delete", "exec", "execdir", "ok", "okdir", "fprint", "fprint0", "fprintf", "fls"}},
		"fd":   {long: []string{"exec", "exec-batch"}, letters: "xX"},
		"rg":   {long: []string{"pre", "hostname-bin", "search-zip"}, letters: "z"},
		"sort": {long: []string{"output", "compress-program"}, letters: "o"},
		"tree": {letters: "oR"},
		"file": {long: []string{"compile", "uncompress", "uncompress-noreport"}, letters: "CzZ"},
		"diff": {long: []string{"paginate"}, letters: "l"},
		"uniq": {check: checkOperands},
		"date": {check: checkDate},
		"tar": {long: []string{"to-command", "checkpoint-action", "use-compress-program", "rsh-command", "rmt-command", "info-script", "new-volume-script"},
			letters: "IF", check: checkTar},
		"rsync":  {long: []string{"rsh", "rsync-path"}, letters: "e"},
		"yq":     {long: []string{"inplace", "in-place"}, letters: "i"},
		"sed":    {check: checkSed},
		"awk":    {check: checkAwk},
		"printf": {check: checkPrintf},
		"test":   {check: checkTest},
		"[":      {check: checkTest},
		"read":   {check: checkRead},

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
		"make":   {long: []string{"eval"}, check: checkMake},
		"cargo":  {long: []string{"config"}},
		"npm":    {long: []string{"script-shell", "node-options", "userconfig", "globalconfig"}},
		"cmake":  {begins: []string{"-E", "-P"}},
	}
})

// gitLong lists options of git's subcommands that write a file or run a program.
var gitLong = []string{"output", "ext-diff", "show-signature", "open-files-in-pager", "extcmd", "exec", "upload-pack", "receive-pack"}

// findTurn explains what makes a command another one than its name says, or could make it
// so; "" if nothing does. The rule names the first words itself, so they are not checked.
func findTurn(words []Word, first int) string {
	key := name(words)
	t, ok := turns()[turnName(key)]
	own := 1
	if len(words) > 1 && words[1].Literal {
		if under, is := turns()[key+" "+words[1].Text]; is {
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
		if why := t.checkWord(w); why != "" {
			return why
		}
	}
	if t.check != nil && first <= own {
		return t.check(words)
	}
	return ""
}

// turnName returns the name under which turns holds a command.
func turnName(n string) string {
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

// checkWord explains how a word makes the command another one; "" if it does not.
func (t turn) checkWord(w Word) string {
	if !w.Literal {
		if (t.long != nil || t.letters != "" || t.dashed != nil || t.begins != nil) && w.mayBeOption() {
			return w.Text + " could be an option that changes what the command does"
		}
		return ""
	}
	for _, begin := range t.begins {
		if strings.HasPrefix(w.Text, begin) {
			return w.Text + " changes what the command does"
		}
	}
	for _, in := range t.infix {
		if strings.Contains(w.Text, in) {
			return w.Text + " changes what the command does"
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
		// Programs accept a prefix of a long option.
		bad = bad || slices.ContainsFunc(t.long, func(l string) bool { return strings.HasPrefix(l, long) })
	case !isLong:
		bad = bad || strings.ContainsAny(key[1:], t.letters)
	}
	if bad {
		return key + " changes what the command does"
	}
	return ""
}

// operands returns the words that are not options. It returns false if words that are not
// known make this unclear.
func operands(words []Word) (list []Word, ok bool) {
	ended := false
	for _, w := range words[1:] {
		switch {
		case !ended && w.is("--"):
			ended = true
		case !w.isOne():
			return nil, false
		case ended || !w.mayBeOption():
			list = append(list, w)
		case !w.Literal:
			return nil, false
		}
	}
	return list, true
}

// checkOperands checks commands that write their second operand.
func checkOperands(words []Word) string {
	if list, ok := operands(words); !ok || len(list) > 1 {
		return "a second file would be written"
	}
	return ""
}

// checkDate checks date, which sets the clock if an operand is not a format.
func checkDate(words []Word) string {
	shows := []string{"+", "-I", "--iso-8601", "--rfc-3339=", "--date=", "--reference="}
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case w.is("-u", "-R", "--utc", "--universal", "--rfc-email"):
		case w.is("-d", "-r", "--date", "--reference") && i+1 < len(words) && words[i+1].isOne():
			i++
		case w.Literal && slices.ContainsFunc(shows, func(s string) bool { return strings.HasPrefix(w.Text, s) }):
		default:
			return w.Text + " could set the clock"
		}
	}
	return ""
}

// checkTar checks the options of tar without a dash.
func checkTar(words []Word) string {
	if len(words) > 1 && words[1].Literal && !strings.HasPrefix(words[1].Text, "-") && strings.ContainsAny(words[1].Text, "IF") {
		return words[1].Text + " changes what the command does"
	}
	return ""
}

// sedShows and sedReplaces match sed scripts that only print: lines by number, or a
// replacement.
var (
	sedShows = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(([0-9]+|\$)(,(\+?[0-9]+|\$))?)?[pdq=]$`)
	})
	sedReplaces = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^s/([^/\\\n\[]|\\[^\n])*/([^/\\\n]|\\[^\n])*/[gpI0-9]*$`)
	})
)

// checkSed checks sed, whose scripts can run programs and write files.
func checkSed(words []Word) string {
	script, ended := false, false
	isHarmless := func(w Word) bool {
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
			if !isHarmless(words[i]) {
				return words[i].Text + ": a script that may do more than show"
			}
		case !ended && w.is("--quiet", "--silent", "--regexp-extended", "--separate", "--unbuffered", "--null-data", "--posix", "--sandbox"):
		case !ended && w.Literal && len(w.Text) > 1 && w.Text[0] == '-' && strings.Trim(w.Text[1:], "nErsuz") == "":
		case !ended && w.mayBeOption():
			return w.Text + " may make sed write"
		case !script:
			script = true
			if !isHarmless(w) {
				return w.Text + ": a script that may do more than show"
			}
		}
	}
	return ""
}

// checkAwk checks awk, whose programs can run others and write files.
func checkAwk(words []Word) string {
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case !w.Literal:
			return w.Text + ": a program that is not known before it runs"
		case w.is("-F", "-v") && i+1 < len(words) && words[i+1].isOne():
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
			return "" // the words after the program are files
		}
	}
	return ""
}

// checkPrintf checks printf, which can set a variable.
func checkPrintf(words []Word) string {
	if len(words) > 1 && words[1].mayBeOption() && !words[1].is("--") {
		return words[1].Text + " could set a variable"
	}
	return ""
}

// checkTest checks test, where the name of a variable may run commands.
func checkTest(words []Word) string {
	rest := words[1:]
	if words[0].is("[") {
		if len(rest) == 0 || !rest[len(rest)-1].is("]") {
			return "a test without an end"
		}
		rest = rest[:len(rest)-1]
	}
	for _, w := range rest {
		if !w.isOne() {
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
		n := testLength(rest)
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

// testLength returns the number of words of a single test, 0 if the test is not known.
func testLength(rest []Word) int {
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

// checkRead checks read, which sets variables.
func checkRead(words []Word) string {
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case !w.Literal:
			return w.Text + " could be any variable"
		case w.is("-r", "-s", "-e"):
		case w.is("-d", "-n", "-N", "-p", "-t", "-u") && i+1 < len(words) && words[i+1].isOne():
			i++
		case !isHarmless(w.Text):
			return "it sets " + w.Text
		}
	}
	return ""
}

// checkMake checks make, which takes variables from its words.
func checkMake(words []Word) string {
	for _, w := range words[1:] {
		variable, value, ok := strings.Cut(w.Text, "=")
		if !w.Literal {
			return w.Text + " could be any option or variable of make"
		}
		if ok && (strings.ContainsAny(value, "$`") || strings.Contains(variable, "SHELL") || strings.HasSuffix(strings.TrimRight(variable, ":?+!"), "FLAGS")) {
			return w.Text + " may make it run something else"
		}
	}
	return ""
}
