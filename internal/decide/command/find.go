package command

import (
	"slices"
	"strings"
)

// readFind reads the commands that find runs on its results.
func (r *reader) readFind(p Part) {
	var inner [][]Word
	var ways []string
	own := p.Words[:1:1]
	for i := 1; i < len(p.Words); i++ {
		w := p.Words[i]
		if !w.is("-exec", "-execdir", "-ok", "-okdir") {
			own = append(own, w)
			continue
		}
		end := i + 1
		plus := w.is("-exec", "-execdir")
		for end < len(p.Words) && !p.Words[end].is(";") && !(plus && p.Words[end].is("+") && p.Words[end-1].is("{}")) {
			end++
		}
		if slices.ContainsFunc(p.Words, func(w Word) bool { return w.splits }) || end == len(p.Words) || end == i+1 {
			p.Unknown = "golem cannot tell where the command of " + w.Text + " ends"
		}
		words := slices.Clone(p.Words[i+1 : end])
		for k, w := range words {
			words[k] = w.withPlaceholder(literal("{}"), "./") // the path starts with ./, so it never looks like an option
		}
		if len(words) > 0 {
			inner, ways = append(inner, words), append(ways, "find "+w.Text)
		}
		i = end
	}
	if len(own) < len(p.Words) {
		p.own = own
	}
	r.add(p)
	for i, words := range inner {
		r.readInner(ways[i], p, words, nil)
	}
}

// readGit removes the options before git's subcommand. With some of these options git can run
// other programs; then the part counts as not understood.
func (r *reader) readGit(p Part) {
	own := p.Words[:1:1]
	at := 1
	for ; at < len(p.Words); at++ {
		w := p.Words[at]
		if !w.mayBeOption() {
			break
		}
		key, _, attached := strings.Cut(w.Text, "=")
		switch {
		case !w.Literal:
			p.Unknown = w.Text + " could be an option of git"
		case w.is("--no-pager", "-P", "--no-optional-locks", "--no-replace-objects", "--literal-pathspecs", "--no-literal-pathspecs",
			"--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs", "--no-lazy-fetch", "--no-advice"):
			continue
		case w.is("-C") && at+1 < len(p.Words) && p.Words[at+1].isOne():
			at++
			continue
		case w.is("--version", "--help", "-v", "-h", "--html-path", "--man-path", "--info-path"):
			p.own = append(own, p.Words[at:]...)
			r.add(p)
			return
		default:
			p.Unknown = "git " + key + ": an option that can make git run something else"
			if !attached && (key == "-c" || key == "--git-dir" || key == "--work-tree" || key == "--namespace" || key == "--config-env" ||
				key == "--exec-path" || key == "--super-prefix" || key == "--attr-source") {
				at++
			}
		}
	}
	if at > 1 {
		p.own = append(own, p.Words[min(at, len(p.Words)):]...)
	}
	if mayBeAlias(p.words()) {
		p.opaque = p.words()[1].Text + " may be an alias of git's configuration"
	}
	r.add(p)
}
