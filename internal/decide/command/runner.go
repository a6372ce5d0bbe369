package command

import (
	"slices"
	"strings"
	"sync"
)

// A runner describes the command line of a program that only runs another one: which
// words are its own.
type runner struct {
	flags    string   // letters of options without a value
	values   string   // letters of options with a value
	long     []string // long options without a value
	longer   []string // long options with a value
	operands int      // number of its own operands before the command
	assigns  bool     // NAME=VALUE before the command sets a variable
	number   bool     // -10 is an option
}

var runners = sync.OnceValue(func() map[string]runner {
	return map[string]runner{
		"env": {flags: "i0v", values: "uC", long: []string{"ignore-environment", "null", "debug"}, longer: []string{"unset", "chdir"}, assigns: true},
		"timeout": {flags: "v", values: "ks", long: []string{"foreground", "preserve-status", "verbose"}, longer: []string{"kill-after", "signal"},
			operands: 1},
		"nohup":   {},
		"nice":    {values: "n", longer: []string{"adjustment"}, number: true},
		"ionice":  {flags: "t", values: "cn", long: []string{"ignore"}, longer: []string{"class", "classdata"}},
		"stdbuf":  {values: "ioe", longer: []string{"input", "output", "error"}},
		"setsid":  {flags: "cfw", long: []string{"ctty", "fork", "wait"}},
		"time":    {flags: "pv", long: []string{"portability", "verbose"}},
		"exec":    {},
		"command": {flags: "p"},
		"builtin": {},
		"busybox": {},
		"toybox":  {},
	}
})

// An option is an option of a runner, before the command.
type option struct {
	name  string // a letter or a long name
	value Word
}

// readRunner reads the command that a runner runs.
func (r *reader) readRunner(p Part, own runner) {
	n := name(p.Words)
	if n == "command" && len(p.Words) > 1 && p.Words[1].is("-v", "-V", "-pv", "-pV") {
		r.add(p) // it only looks up a program
		return
	}
	options, at, why := own.findCommand(p.Words)
	if why != "" {
		r.addUnknownOption(p, at, why)
		return
	}
	var assigns []Assign
	if own.assigns {
		assigns, at = envAssigns(options, p.Words, at)
	}
	switch {
	case at < len(p.Words):
		p.Runs = true
		r.add(p)
		r.readInner(n, p, p.Words[at:], assigns)
	default: // it runs no command
		p.Plain = n == "exec"
		r.add(p)
	}
}

// addUnknownOption adds a program with an option that is not known. It still reads the command after
// it, because restricting rules apply to that.
func (r *reader) addUnknownOption(p Part, at int, why string) {
	p.Unknown = why
	r.add(p)
	for i := max(at, 1); i < len(p.Words); i++ {
		if w := p.Words[i]; w.Literal && w.Text != "" && w.Text[0] != '-' {
			r.readInner(name(p.Words), p, p.Words[i:], nil)
			return
		}
	}
}

// findCommand returns the options of a runner and the index of the word where the command
// starts, or why that is not known.
func (o runner) findCommand(words []Word) (options []option, at int, why string) {
	at = 1
	for at < len(words) {
		w := words[at]
		if !w.Literal {
			if w.mayBeOption() {
				return options, at, w.Text + " could be an option of " + name(words)
			}
			break
		}
		if w.Text == "--" {
			at++
			break
		}
		if len(w.Text) < 2 || w.Text[0] != '-' {
			break
		}
		found, n := o.readOption(w.Text, words[at+1:])
		if n == 0 {
			return options, at, name(words) + " " + w.Text + ": an option that is not known here"
		}
		options = append(options, found...)
		at += n
	}
	for range o.operands {
		if at < len(words) && !words[at].Literal {
			return options, at, words[at].Text + " could be more than one word"
		}
		at = min(at+1, len(words))
	}
	return options, at, ""
}

// readOption reads one word with options. It returns how many words the options take, 0 if
// one is not known.
func (o runner) readOption(text string, next []Word) ([]option, int) {
	if long, ok := strings.CutPrefix(text, "--"); ok {
		key, value, attached := strings.Cut(long, "=")
		switch {
		case slices.Contains(o.long, key) && !attached:
			return []option{{key, literal("")}}, 1
		case slices.Contains(o.longer, key) && attached:
			return []option{{key, literal(value)}}, 1
		case slices.Contains(o.longer, key) && len(next) > 0 && next[0].isOne():
			return []option{{key, next[0]}}, 2
		}
		return nil, 0
	}
	if o.number && strings.Trim(text[1:], "0123456789") == "" {
		return []option{{text[1:], literal("")}}, 1
	}
	var list []option
	for i := 1; i < len(text); i++ {
		letter := text[i : i+1]
		switch {
		case strings.Contains(o.flags, letter):
			list = append(list, option{letter, literal("")})
			continue
		case !strings.Contains(o.values, letter):
			return nil, 0
		case i+1 < len(text):
			return append(list, option{letter, literal(text[i+1:])}), 1
		case len(next) > 0 && next[0].isOne():
			return append(list, option{letter, next[0]}), 2
		}
		return nil, 0
	}
	return list, 1
}

// envAssigns returns the variables and options that env sets for the command, and the
// index of the word where the command starts.
func envAssigns(options []option, words []Word, at int) ([]Assign, int) {
	var assigns []Assign
	for _, o := range options {
		assigns = append(assigns, Assign{Name: "env -" + o.name, Value: o.value})
	}
	for at < len(words) {
		w := words[at]
		if w.is("-") {
			assigns = append(assigns, Assign{Name: "env -", Value: literal("")})
			at++
			continue
		}
		begins := w.begins
		if w.Literal {
			begins = w.Text
		}
		variable, value, ok := strings.Cut(begins, "=")
		if !ok || w.many {
			break
		}
		set := Word{Text: w.Text}
		if w.Literal {
			set = literal(value)
		}
		assigns = append(assigns, Assign{variable, set})
		at++
	}
	return assigns, at
}

// readXargs reads the command that xargs runs. The words that xargs reads are appended to the
// command, or replace the placeholder of -I.
func (r *reader) readXargs(p Part) {
	own := runner{flags: "0rtx", values: "IndLPsaE", long: []string{"null", "no-run-if-empty", "verbose", "exit"},
		longer: []string{"max-args", "max-procs", "max-lines", "delimiter", "arg-file", "eof", "max-chars"}}
	options, at, why := own.findCommand(p.Words)
	if why != "" {
		r.addUnknownOption(p, at, why)
		return
	}
	p.Runs = true
	r.add(p)
	words := slices.Clone(p.Words[at:])
	if len(words) == 0 {
		words = []Word{literal("echo")}
	}
	appends, counts := true, false
	for _, o := range options {
		switch o.name {
		case "I":
			appends = false
			for i, w := range words {
				words[i] = w.withPlaceholder(o.value, "")
			}
		case "n", "L", "max-args", "max-lines":
			counts = true // the last of these options and -I wins
		}
	}
	if appends || counts {
		words = append(words, Word{Text: "…", many: true, splits: true})
	}
	r.readInner("xargs", p, words, nil)
}

// withPlaceholder returns a word in which the placeholder mark stands for unknown text. If the
// mark comes first, the word starts with instead.
func (w Word) withPlaceholder(mark Word, instead string) Word {
	before, _, ok := strings.Cut(w.Text, mark.Text)
	if mark.Literal && !ok {
		return w
	}
	if !w.Literal || !mark.Literal {
		before = "" // the text is not the word
	}
	if before == "" {
		before = instead
	}
	return Word{Text: w.Text, begins: before, many: w.many, splits: w.splits}
}
