package command

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// These limits apply to the search for commands in the arguments of programs that this
// package does not know. If a line exceeds them, golem cannot judge it.
const (
	maxGuesses = 100 // scripts to parse
	maxStarts  = 64  // words of one command at which a blocked command may start
)

// inspect records what a restricting rule needs to know about a part: why its words do
// not show what it runs, and which scripts its arguments could be.
func (r *reader) inspect(p *Part) {
	if p.Plain || len(p.Words) == 0 {
		return
	}
	for _, a := range p.Assigns {
		if changesPrograms(a.Name) {
			p.opaque = cmp.Or(p.opaque, a.Name+" can change which program runs")
		}
		r.guessScripts(p, a.Value)
	}
	p.opaque = cmp.Or(p.opaque, inlineCode(p.Words))
	if p.Runs || takesText(p.words()) {
		return
	}
	for _, w := range p.Words[1:] {
		r.guessScripts(p, w)
	}
}

// guessScripts parses a word as a script, if it could be one. Only restricting rules use the
// result.
func (r *reader) guessScripts(p *Part, w Word) {
	if !w.Literal {
		return
	}
	for _, text := range commandCandidates(w.Text) {
		if !strings.ContainsAny(text, " \t\n;|&(`$") {
			continue
		}
		if *r.guesses++; *r.guesses > maxGuesses || r.depth >= maxDepth {
			p.opaque = cmp.Or(p.opaque, "it has too many arguments to check")
			return
		}
		sub := reader{depth: r.depth, guesses: r.guesses}
		sub.readScript(strings.TrimLeft(text, "!"), r.lang)
		p.guesses = append(p.guesses, sub.parts...)
	}
}

// commandCandidates returns the texts that a program could take from a word as a command: the word
// itself, or the value of an option.
func commandCandidates(text string) []string {
	list := []string{text}
	if _, value, ok := strings.Cut(text, "="); ok {
		list = append(list, value)
		if i := strings.LastIndex(value, "="); i >= 0 {
			list = append(list, value[i+1:])
		}
	}
	for i := 2; i < min(len(text), 6) && text[0] == '-' && text[i-1] >= 'A'; i++ {
		list = append(list, text[i:]) // after option letters
	}
	return list
}

// changesPrograms reports whether a variable can change which program runs.
func changesPrograms(variable string) bool {
	for _, end := range []string{"PATH", "PAGER", "EDITOR", "_COMMAND", "_ASKPASS", "_SSH", "_RSH"} {
		if strings.HasSuffix(variable, end) {
			return true
		}
	}
	for _, begin := range []string{"LD_", "BASH_", "GIT_CONFIG", "GIT_EXTERNAL", "DYLD_"} {
		if strings.HasPrefix(variable, begin) {
			return true
		}
	}
	return slices.Contains([]string{"ENV", "IFS", "SHELL", "SHELLOPTS", "BASHOPTS", "BROWSER", "VISUAL", "PS4", "LESSOPEN", "LESSCLOSE", "EXECIGNORE", "PERL5OPT", "RUBYOPT",
		"NODE_OPTIONS", "MAKEFLAGS", "TAR_OPTIONS"}, variable)
}

// textPrograms are programs that take their arguments as text or file names, and run none of
// them.
var textPrograms = sync.OnceValue(func() map[string]bool {
	set := make(map[string]bool)
	for _, name := range strings.Fields("echo printf cat tac ls dir head tail wc cut tr uniq comm join paste column fold fmt rev od hexdump strings grep egrep fgrep rg " +
		"tree diff cmp stat file du df basename dirname realpath readlink md5sum sha1sum sha256sum sha512sum b2sum cksum base64 seq expr jq date " +
		": true false test [ cd pwd mkdir rmdir touch rm chmod chown chgrp which type command whereis man info whatis apropos sleep read id whoami uname kill " +
		"set unset shift return exit break continue wait umask ulimit") {
		set[name] = true
	}
	return set
})

// takesText reports whether a command runs none of its arguments.
func takesText(words []Word) bool {
	n := name(words)
	if n == "git" && len(words) > 1 {
		return words[1].is("commit", "tag", "notes", "stash", "merge", "add", "log", "show", "diff", "status", "blame", "rm", "mv", "revert", "cherry-pick")
	}
	return textPrograms()[n]
}

// hasSubcommands reports whether the first operand of a program is a subcommand, not a
// program to run.
func hasSubcommands(words []Word) bool {
	switch n := name(words); n {
	case "docker", "podman", "kubectl", "conda", "svn", "hg", "jj", "apt-get", "dnf", "yum", "pacman", "nix", "helm", "aws", "gcloud", "az":
		return true
	default:
		return subcommands(words) > 0
	}
}

// inlineCode explains why the words of a command do not show what it runs. The command
// may contain code in a language that this package does not read, or may read commands
// from stdin.
func inlineCode(words []Word) string {
	if !words[0].Literal {
		return ""
	}
	base := path.Base(words[0].Text)
	language := strings.TrimRight(base, "0123456789.")
	cannot := "golem cannot read the code that " + base + " runs"
	if isShell(base) && base != name(words) {
		return cannot
	}
	switch language {
	case "python", "pypy":
		return codeOption(words, "c", cannot)
	case "perl", "ruby", "lua", "luajit", "Rscript", "julia", "osascript":
		return codeOption(words, "eE", cannot)
	case "node", "nodejs":
		return codeOption(words, "ep", cannot)
	case "php":
		return codeOption(words, "rBRE", cannot)
	case "bun", "deno":
		if len(words) == 1 || slices.ContainsFunc(words[1:], func(w Word) bool { return !w.Literal || w.is("eval", "repl", "-e", "-p", "--eval", "--print", "-") }) {
			return cannot
		}
	case "awk", "gawk", "mawk", "nawk":
		if checkAwk(words) != "" {
			return cannot
		}
	case "sed", "gsed":
		if slices.ContainsFunc(words[1:], func(w Word) bool { return sedRuns().MatchString(w.Text) }) {
			return cannot
		}
	case "make", "gmake":
		if slices.ContainsFunc(words[1:], func(w Word) bool {
			return !w.Literal || w.is("-f-", "-") || strings.HasPrefix(w.Text, "--ev") || strings.HasPrefix(w.Text, "-E") || strings.Contains(w.Text, "SHELL")
		}) {
			return cannot
		}
	case "ed", "ex", "vi", "vim", "nvim", "emacs", "gdb", "lldb", "expect", "tclsh", "wish", "m", "dc", "at", "batch", "crontab", "parallel", "tmux", "screen",
		"fc", "socat", "ncat", "nc", "sqlite", "psql", "mysql", "irb", "ghci", "guile", "mapfile", "readarray", "compgen":
		return cannot
	}
	return ""
}

// sedRuns matches the sed commands that run a program.
var sedRuns = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|[;{\n])\s*([0-9$,~+]|/[^/]*/)*\s*e(\s|$|;)|[^\w\s][gpIMm0-9]*e[gpIMm0-9]*\s*($|[;}\n])`)
})

// codeOption returns why if an interpreter gets code after one of the letters, or gets no
// file to run.
func codeOption(words []Word, letters, why string) string {
	for _, w := range words[1:] {
		switch {
		case w.is("--version", "--help", "-h", "-V", "-v"):
			return ""
		case !w.Literal || w.is("-"):
			return why
		case w.Text == "" || w.Text[0] != '-':
			return ""
		case strings.HasPrefix(w.Text, "--"):
			if key, _, _ := strings.Cut(w.Text[2:], "="); key == "eval" || key == "print" || key == "run" || key == "execute" {
				return why
			}
		case w.is("-m"):
			return ""
		case strings.ContainsAny(w.Text[1:], letters):
			return why
		}
	}
	return why
}

// gitCommands lists the subcommands of git and of its usual extensions. Any other word
// may be an alias, and an alias can stand for any command.
var gitCommands = sync.OnceValue(func() []string {
	return strings.Fields("add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap " +
		"check-ref-format checkout checkout-index cherry cherry-pick citool clean clone column commit commit-graph commit-tree config count-objects credential " +
		"credential-cache credential-store daemon describe diagnose diff diff-files diff-index diff-pairs diff-tree difftool fast-export fast-import fetch fetch-pack " +
		"filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck gc get-tar-commit-id grep gui gitk hash-object help history hook http-backend http-fetch " +
		"http-push imap-send index-pack init init-db instaweb interpret-trailers last-modified lfs log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base " +
		"merge-file merge-index merge-one-file merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes pack-objects pack-redundant pack-refs patch-id " +
		"prune prune-packed pull push quiltimport range-diff read-tree rebase receive-pack reflog refs remote repack replace replay request-pull rerere reset restore " +
		"rev-list rev-parse revert rm send-email send-pack shell shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace " +
		"submodule subtree svn switch symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info upload-archive upload-pack var " +
		"verify-commit verify-pack verify-tag version whatchanged worktree write-tree")
})

// mayBeAlias reports whether git could take the subcommand as an alias.
func mayBeAlias(words []Word) bool {
	return len(words) > 1 && words[1].Literal && words[1].Text != "" && words[1].Text[0] != '-' && !slices.Contains(gitCommands(), words[1].Text)
}

// normalizeGit returns words with programs of git in their usual spelling: git-push becomes
// git push, and so does git send-pack, which push runs.
func normalizeGit(words []Word) []Word {
	base := path.Base(words[0].Text)
	if sub, ok := strings.CutPrefix(base, "git-"); ok && sub != "" {
		words = append([]Word{literal("git"), literal(sub)}, words[1:]...)
	}
	if len(words) > 1 && path.Base(words[0].Text) == "git" && words[1].is("send-pack", "http-push") {
		words = append([]Word{words[0], literal("push")}, words[2:]...)
	}
	return words
}
